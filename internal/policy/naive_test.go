package policy_test

import (
	"encoding/base64"
	"encoding/json"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/policy"
)

// A naive evaluator: it parses the JSON for every question, matches by regular expressions, has no third truth value,
// and shares no code with the package. It is slow and simple, so that the two are wrong in different ways.
type naive struct {
	req policy.Request
}

// texts are policies as JSON.
type texts struct {
	identity, session, resource, endpoint []string
	boundary, trust                       string
	sessioned, required                   bool
}

func (n naive) decide(p texts) string {
	type said struct{ allow, deny, account, role, direct bool }
	ask := func(docs []string, named bool) (out said) {
		for _, doc := range docs {
			for _, st := range statements(doc) {
				if !n.applies(doc, st) {
					continue
				}
				grant := ""
				if named {
					if grant = n.grant(st); grant == "" {
						continue
					}
				}
				if st["Effect"] == "Deny" {
					out.deny = true
					continue
				}
				out.allow = true
				out.account = out.account || grant == "account"
				out.role = out.role || grant == "role"
				out.direct = out.direct || grant == "direct"
			}
		}
		return out
	}
	one := func(doc string) []string {
		if doc == "" {
			return nil
		}
		return []string{doc}
	}
	identity, boundary, session := ask(p.identity, false), ask(one(p.boundary), false), said{}
	if p.sessioned {
		session = ask(p.session, false)
	}
	resource, trust, endpoint := ask(p.resource, true), ask(one(p.trust), true), ask(p.endpoint, true)

	if identity.deny || boundary.deny || session.deny || resource.deny || trust.deny || endpoint.deny {
		return explicit
	}
	if len(p.endpoint) > 0 && !endpoint.allow || p.trust != "" && !trust.allow || p.required && !resource.allow {
		return implicit
	}
	who := n.req.Principal
	granted := resource.allow || trust.allow
	if who.Account == "" { // a service, a federated identity, nobody
		if granted || len(p.identity) > 0 && identity.allow && (p.boundary == "" || boundary.allow) && (!p.sessioned || session.allow) {
			return allowed
		}
		direct := resource.direct || trust.direct
		if direct {
			return allowed
		}
		return implicit
	}
	root := who.ARN == "arn:aws:iam::"+who.Account+":root"
	limits := (p.boundary == "" || boundary.allow) && (!p.sessioned || session.allow)
	own := (identity.allow || root) && limits
	var ok bool
	if n.req.ResourceAccount != who.Account {
		ok = own && granted
	} else {
		ok = own || (resource.role || trust.role) && limits || resource.direct || trust.direct
	}
	if ok {
		return allowed
	}
	return implicit
}

func statements(doc string) (out []map[string]any) {
	var d map[string]any
	if err := json.Unmarshal([]byte(doc), &d); err != nil {
		panic(err)
	}
	switch s := d["Statement"].(type) {
	case map[string]any:
		return []map[string]any{s}
	case []any:
		for _, e := range s {
			out = append(out, e.(map[string]any))
		}
	}
	return out
}

func strs(v any) (out []string) {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return []string{v}
	case bool:
		return []string{strconv.FormatBool(v)}
	case float64:
		return []string{strconv.FormatFloat(v, 'f', -1, 64)}
	case []any:
		for _, e := range v {
			out = append(out, strs(e)...)
		}
	}
	return out
}

func (n naive) applies(doc string, st map[string]any) bool {
	modern := strings.Contains(doc, `"Version":"2012-10-17"`)
	matchAction := func(key string) bool {
		return slices.ContainsFunc(strs(st[key]), func(p string) bool {
			return wildcard(strings.ToLower(p), false, nil).MatchString(strings.ToLower(n.req.Action))
		})
	}
	matchResource := func(key string) bool {
		return slices.ContainsFunc(strs(st[key]), func(p string) bool {
			return strings.Trim(p, "*") == "" || n.arnMatches(p, n.req.Resource, modern)
		})
	}
	if _, ok := st["Action"]; ok && !matchAction("Action") {
		return false
	}
	if _, ok := st["NotAction"]; ok && matchAction("NotAction") {
		return false
	}
	if _, ok := st["Resource"]; ok && !matchResource("Resource") {
		return false
	}
	if _, ok := st["NotResource"]; ok && matchResource("NotResource") {
		return false
	}
	conditions, _ := st["Condition"].(map[string]any)
	for op, keys := range conditions {
		for key, want := range keys.(map[string]any) {
			if !n.holds(op, n.req.Context.Values[strings.ToLower(key)], strs(want), modern) {
				return false
			}
		}
	}
	return true
}

// wildcard turns a pattern into a regular expression with its variables replaced and quoted. It returns nil if one
// has no value.
func wildcard(pattern string, modern bool, ctx map[string][]string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); {
		if modern && strings.HasPrefix(pattern[i:], "${") && strings.Contains(pattern[i:], "}") {
			end := i + strings.Index(pattern[i:], "}")
			value, ok := variable(pattern[i+2:end], ctx)
			if !ok {
				return nil
			}
			b.WriteString(regexp.QuoteMeta(value))
			i = end + 1
			continue
		}
		switch pattern[i] {
		case '*':
			b.WriteString(`.*`)
		case '?':
			b.WriteString(`.`)
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
		i++
	}
	return regexp.MustCompile(b.String() + `\z`)
}

func variable(inner string, ctx map[string][]string) (string, bool) {
	if inner == "*" || inner == "?" || inner == "$" {
		return inner, true
	}
	key, fallback, defaulted := strings.Cut(inner, ", ")
	switch values := ctx[strings.ToLower(key)]; {
	case len(values) == 1:
		return values[0], true
	case len(values) > 1:
		return "", false
	}
	return strings.Trim(fallback, "'"), defaulted
}

func (n naive) arnMatches(pattern, arn string, modern bool) bool {
	p, a := strings.SplitN(pattern, ":", 6), strings.SplitN(arn, ":", 6)
	if len(p) > len(a) {
		return false
	}
	for i := range p {
		if re := wildcard(p[i], modern, n.req.Context.Values); re == nil || !re.MatchString(a[i]) {
			return false
		}
	}
	return true
}

func (n naive) holds(op string, have, want []string, modern bool) bool {
	name, ifExists := strings.CutSuffix(op, "IfExists")
	set, base, found := strings.Cut(name, ":")
	if !found {
		set, base = "", name
	}
	if set != "" {
		empty := !slices.ContainsFunc(have, func(s string) bool { return s != "" })
		if empty {
			have = nil
		}
	}
	positive, negated := base, false
	for _, family := range [][2]string{
		{"StringNotEqualsIgnoreCase", "StringEqualsIgnoreCase"}, {"StringNotEquals", "StringEquals"}, {"StringNotLike", "StringLike"},
		{"NumericNotEquals", "NumericEquals"}, {"DateNotEquals", "DateEquals"}, {"NotIpAddress", "IpAddress"},
		{"ArnNotEquals", "ArnEquals"}, {"ArnNotLike", "ArnLike"},
	} {
		if base == family[0] {
			positive, negated = family[1], true
		}
	}
	if base == "Null" {
		return slices.ContainsFunc(want, func(w string) bool { return (w == "true") == (len(have) == 0) })
	}
	if len(have) == 0 {
		switch {
		case ifExists || set == "ForAllValues":
			return true
		case set == "ForAnyValue":
			return false
		}
		return negated
	}
	count := 0 // of the request's values that satisfy the operator
	for _, h := range have {
		if slices.ContainsFunc(want, func(w string) bool { return n.compare(positive, w, h, modern) }) != negated {
			count++
		}
	}
	if set == "ForAllValues" || set == "" && negated {
		return count == len(have)
	}
	return count > 0
}

func (n naive) compare(op, want, have string, modern bool) bool {
	ctx := n.req.Context.Values
	switch op {
	case "StringEquals", "StringEqualsIgnoreCase", "Bool":
		re := wildcard(strings.NewReplacer("*", "${*}", "?", "${?}", "${*}", "${*}", "${?}", "${?}").Replace(want), true, ctx)
		if !modern {
			re = regexp.MustCompile(`\A` + regexp.QuoteMeta(want) + `\z`)
		}
		if re == nil {
			return false
		}
		if op == "StringEquals" {
			return re.MatchString(have)
		}
		return regexp.MustCompile(`(?i)` + re.String()).MatchString(have)
	case "StringLike":
		re := wildcard(want, modern, ctx)
		return re != nil && re.MatchString(have)
	case "ArnEquals", "ArnLike":
		return n.arnMatches(want, have, modern)
	case "BinaryEquals":
		a, errA := base64.StdEncoding.DecodeString(want)
		b, errB := base64.StdEncoding.DecodeString(have)
		return errA == nil && errB == nil && string(a) == string(b)
	case "IpAddress":
		if !strings.Contains(want, "/") {
			return net.ParseIP(want) != nil && net.ParseIP(want).Equal(net.ParseIP(have))
		}
		_, r, err := net.ParseCIDR(want)
		return err == nil && net.ParseIP(have) != nil && r.Contains(net.ParseIP(have))
	}
	var w, h float64
	var okW, okH bool
	kind, relation := "Numeric", strings.TrimPrefix(op, "Numeric")
	if strings.HasPrefix(op, "Date") {
		kind, relation = "Date", strings.TrimPrefix(op, "Date")
	}
	if kind == "Numeric" {
		w, okW = number(want)
		h, okH = number(have)
	} else {
		w, okW = seconds(want)
		h, okH = seconds(have)
	}
	if !okW || !okH {
		return false
	}
	return map[string]bool{
		"Equals": h == w, "LessThan": h < w, "LessThanEquals": h <= w, "GreaterThan": h > w, "GreaterThanEquals": h >= w,
	}[relation]
}

func number(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil
}

func seconds(s string) (float64, bool) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return float64(t.UnixMilli()) / 1000, true
		}
	}
	f, err := strconv.ParseInt(s, 10, 64)
	return float64(f), err == nil
}

// grant says how a statement names the caller: direct, role, account or not at all.
func (n naive) grant(st map[string]any) string {
	if not, ok := st["NotPrincipal"]; ok {
		if n.excepted(not, st["Effect"] == "Deny") {
			return ""
		}
		return "direct"
	}
	best := ""
	for _, name := range n.namedBy(st["Principal"]) {
		if best == "" || name == "direct" || name == "role" && best == "account" {
			best = name
		}
	}
	return best
}

func (n naive) excepted(not any, deny bool) bool {
	found := n.namedBy(not)
	who := n.req.Principal
	if names := strs(not); !deny || who.Account == "" || slices.Contains(names, "*") || everyone(not) {
		return len(found) > 0
	}
	if who.ARN == "arn:aws:iam::"+who.Account+":root" {
		return len(found) > 0
	}
	needed := []string{"direct", "account"}
	if who.RoleARN != "" || who.UserARN != "" {
		needed = append(needed, "role")
	}
	for _, want := range needed {
		if !slices.Contains(found, want) {
			return false
		}
	}
	return true
}

func everyone(principal any) bool {
	m, ok := principal.(map[string]any)
	return principal == "*" || ok && slices.Contains(strs(m["AWS"]), "*")
}

func (n naive) namedBy(principal any) (out []string) {
	if everyone(principal) {
		return []string{"direct"}
	}
	m, _ := principal.(map[string]any)
	who := n.req.Principal
	switch {
	case who.Service != "":
		if slices.Contains(strs(m["Service"]), who.Service) {
			out = append(out, "direct")
		}
		return out
	case who.Federated != "":
		if slices.Contains(strs(m["Federated"]), who.Federated) {
			out = append(out, "direct")
		}
		return out
	case who.Account == "":
		return nil
	}
	id, _, inSession := strings.Cut(who.ID, ":")
	for _, name := range strs(m["AWS"]) {
		switch {
		case name == who.ARN, name == id && !inSession && name != who.Account:
			out = append(out, "direct")
		case name == who.RoleARN, name == who.UserARN, name == id && inSession && name != who.Account:
			out = append(out, "role")
		case name == who.Account, name == "arn:aws:iam::"+who.Account+":root":
			out = append(out, "account")
		}
	}
	return out
}
