package policy

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// A Suggestion is a set of changes that would, together, allow a request.
type Suggestion struct {
	Changes []Change `json:"changes"`
}

// A ChangeKind says what a Change changes.
type ChangeKind string

// The kinds of changes.
const (
	// AddStatement adds Statement to a policy of Type.
	AddStatement ChangeKind = "add statement"
	// RemoveStatement removes the statement Match from its policy, or exempts the request from it.
	RemoveStatement ChangeKind = "remove statement"
	// SetKey sets the condition key Key of the request to Values, or removes the key if there are none, to satisfy or
	// escape the condition of Match.
	SetKey ChangeKind = "set condition key"
)

// A Change is one change of the policies or of the request.
type Change struct {
	Kind ChangeKind `json:"kind"`
	Type PolicyType `json:"type"`
	// Statement is the JSON of the statement to add.
	Statement string `json:"statement,omitempty"`
	// Match is the statement to remove, or whose condition the key is to satisfy or to escape.
	Match *Match `json:"match,omitempty"`
	// Key is a condition key as the policy writes it. Values would work for it; they may be just one example.
	// Operator and Wanted are the condition.
	Key      string   `json:"key,omitempty"`
	Values   []string `json:"values,omitempty"`
	Operator string   `json:"operator,omitempty"`
	Wanted   []string `json:"wanted,omitempty"`
	// Text describes the change for people.
	Text string `json:"text"`
}

// maxChanges bounds how many changes Suggest combines.
const maxChanges = 16

// Suggest returns the smallest changes, the smallest first, each of which would allow a denied request: one that
// changes only the policies and, if a statement comes close, one that changes what the request carries. Each has been
// tried. It returns nothing for a request that is allowed.
func Suggest(req Request, p Policies) []Suggestion {
	req.Context = req.Context.bounded() // shared by all trials
	if d := Evaluate(req, p); d.organization() {
		return nil // only the organization's management account can change its policies
	}
	var out []Suggestion
	for _, byRequest := range []bool{true, false} {
		s, ok := suggest(req, p, byRequest)
		if ok && !slices.ContainsFunc(out, s.same) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Suggestion) int { return len(a.Changes) - len(b.Changes) })
	return out
}

// Apply returns the request and the policies with the suggestion applied. It does not change its arguments.
func (s Suggestion) Apply(req Request, p Policies) (Request, Policies) {
	for _, c := range s.Changes {
		c.apply(&req, &p)
	}
	return req, p
}

// String describes the suggestion for people, one line per change.
func (s Suggestion) String() string {
	lines := make([]string, len(s.Changes))
	for i, c := range s.Changes {
		lines[i] = c.Text
	}
	return strings.Join(lines, "\n")
}

func (s Suggestion) same(o Suggestion) bool {
	return slices.EqualFunc(s.Changes, o.Changes, func(a, b Change) bool { return a.Text == b.Text })
}

// suggest removes one obstacle after another until the request is allowed. byRequest prefers changing what the
// request carries.
func suggest(req Request, p Policies, byRequest bool) (Suggestion, bool) {
	var s Suggestion
	for range maxChanges {
		d := Evaluate(req, p)
		if d.Allowed {
			return s, len(s.Changes) > 0
		}
		changes := obstacle(&req, &p, &d, byRequest)
		if len(changes) == 0 {
			return s, false
		}
		for i := range changes {
			changes[i].apply(&req, &p)
		}
		s.Changes = append(s.Changes, changes...)
	}
	return s, false
}

// obstacle returns the changes that remove the first obstacle to the request.
func obstacle(req *Request, p *Policies, d *Decision, byRequest bool) []Change {
	if d.ExplicitDeny {
		m := d.Matched[0]
		if byRequest {
			if c, ok := escape(req, p.statement(m), m); ok {
				return []Change{c}
			}
		}
		return []Change{removal(m)}
	}
	kind := d.Missing[0]
	if byRequest {
		if c, ok := satisfy(req, p, kind); ok {
			return c
		}
	}
	if _, ok := federated(req); kind == RoleTrust && req.Principal.Federated != "" && !ok {
		return nil // do not suggest a statement that lets in everyone the provider authenticates
	}
	return []Change{addition(req, kind)}
}

// escape finds a value for a condition key with which a denying statement does not apply.
func escape(req *Request, s *Statement, m Match) (Change, bool) {
	for i := range s.tests {
		if vouched(req, s.tests[i].key) {
			continue
		}
		if values, ok := s.tests[i].valuesFor(&req.Context, no); ok {
			return setKey(m, &s.Conditions[i], values, false), true
		}
	}
	return Change{}, false
}

// satisfy finds the layer's Allow with the fewest unmet conditions, and values for their keys.
func satisfy(req *Request, p *Policies, kind PolicyType) (best []Change, found bool) {
	q := ask(req)
	for _, l := range p.layers(req) {
		if l.kind != kind {
			continue
		}
		for _, src := range l.sources {
			doc := src.Document.ready()
			for i := range doc.Statements {
				s := &doc.Statements[i]
				if s.Deny || !s.action(&q) || s.resource(&q) != yes {
					continue
				}
				if l.names() {
					if _, named := s.grants(&req.Principal); named != yes {
						continue
					}
				}
				c, ok := s.satisfy(req, l.match(src.Name, s, i))
				if ok && (!found || len(c) < len(best)) {
					best, found = c, true
				}
			}
		}
	}
	return best, found
}

func (s *Statement) satisfy(req *Request, m Match) ([]Change, bool) {
	var out []Change
	changed := *req
	changed.Context = req.Context.clone()
	for i := range s.tests {
		t := &s.tests[i]
		if t.holds(&changed.Context) == yes {
			continue
		}
		values, ok := t.valuesFor(&changed.Context, yes)
		if !ok || vouched(req, t.key) {
			return nil, false
		}
		changed.Context.Values[t.key] = values
		out = append(out, setKey(m, &s.Conditions[i], values, true))
	}
	for i := range s.tests { // two conditions may need different values of one key
		if s.tests[i].holds(&changed.Context) != yes {
			return nil, false
		}
	}
	return out, len(out) > 0
}

// valuesFor finds values of the key for which the condition evaluates to v.
func (t *test) valuesFor(ctx *Context, v verdict) ([]string, bool) {
	var candidates [][]string
	for i := range t.wants {
		for _, e := range t.wants[i].examples(t.operator, ctx) {
			candidates = append(candidates, []string{e})
		}
	}
	candidates = append(candidates, nil, []string{"other"})
	trial := ctx.clone()
	for _, c := range candidates {
		trial.Values[t.key] = c
		if t.holds(&trial) == v {
			return c, true
		}
	}
	return nil, false
}

// examples returns values that w may match, or narrowly fail to match.
func (w *want) examples(op *operator, ctx *Context) []string {
	text := w.text
	if !ctx.spend(w.work("")) {
		return nil
	}
	if len(w.vars) > 0 {
		resolved, _, ok := w.resolve(ctx)
		if ok != yes || !ctx.spend(16*len(resolved)) {
			return nil
		}
		text = resolved
	}
	out := []string{text}
	switch {
	case strings.HasPrefix(op.name, "Numeric"):
		if n, ok := parseNumber(text); ok {
			out = append(out, addTo(n, -1), addTo(n, 1))
		}
	case strings.HasPrefix(op.name, "Date"):
		if t, ok := parseDate(text); ok {
			out = append(out, addSecond(t, -1), addSecond(t, 1))
		}
	case strings.HasSuffix(op.name, "IpAddress"):
		if r, err := parseRange(text); err == nil {
			out = []string{r.Addr().String(), "192.0.2.1", "2001:db8::1"}
		}
	case op.name == "Bool":
		out = append(out, "true", "false")
	case strings.HasSuffix(op.name, "Like"), strings.HasPrefix(op.name, "Arn"):
		example := strings.ReplaceAll(strings.ReplaceAll(text, "*", ""), "?", "x")
		if example == "" {
			example = "x"
		}
		out = []string{example, text}
	}
	return out
}

func (c Context) clone() Context {
	out := Context{Values: make(map[string][]string, len(c.Values)+1), Unknown: c.Unknown, left: c.left}
	for k, v := range c.Values {
		out.Values[k] = v
	}
	return out
}

func (c *Change) apply(req *Request, p *Policies) {
	switch c.Kind {
	case SetKey:
		req.Context = req.Context.clone()
		req.Context.Values[strings.ToLower(c.Key)] = c.Values
	case RemoveStatement:
		// Keep a statement without actions, which applies to nothing, so that the other statements keep their index.
		p.edit(*c.Match, func(d *Document) {
			d.Statements = slices.Clone(d.Statements)
			d.Statements[c.Match.Index] = Statement{SID: c.Match.SID, Deny: c.Match.Deny}
		})
	case AddStatement:
		doc, err := Parse(kindOf(c.Type), `{"Version":"2012-10-17","Statement":[`+c.Statement+`]}`)
		if err != nil {
			return // Suggest will notice that this change did not help
		}
		p.add(c.Type, Source{Name: "suggestion", Document: doc})
	}
}

func kindOf(t PolicyType) Kind {
	switch t {
	case RoleTrust:
		return Trust
	case ResourceBased, KMSGrant:
		return Resource
	case VPCEndpoint:
		return Endpoint
	}
	return Identity
}

// of returns the sources of a type, except types with a single document.
func (p *Policies) of(t PolicyType) *[]Source {
	switch t {
	case IdentityBased:
		return &p.Identity
	case SessionPolicy:
		return &p.Session
	case ResourceBased:
		return &p.Resource
	case KMSGrant:
		return &p.Grants
	}
	return &p.Endpoint
}

// add adds a policy. There is only one boundary and one trust policy, so for those it adds the statements.
func (p *Policies) add(t PolicyType, src Source) {
	one := &p.Boundary
	switch t {
	case RoleTrust:
		one = &p.Trust
	case PermissionsBoundary:
	default:
		list := p.of(t)
		*list = append(slices.Clip(*list), src)
		return
	}
	merged := *(*one).Document.ready()
	merged.Statements = slices.Concat(merged.Statements, src.Document.Statements)
	merged.index()
	*one = &Source{Name: (*one).Name, Document: &merged}
}

// statement returns the statement that m identifies.
func (p *Policies) statement(m Match) *Statement {
	var s *Statement
	p.edit(m, func(d *Document) { s = &d.Statements[m.Index] })
	return s
}

// edit lets change modify a copy of the document that contains m.
func (p *Policies) edit(m Match, change func(*Document)) {
	edited := func(src Source) Source {
		doc := *src.Document.ready()
		change(&doc)
		src.Document = &doc
		return src
	}
	switch m.Type {
	case PermissionsBoundary:
		src := edited(*p.Boundary)
		p.Boundary = &src
	case RoleTrust:
		src := edited(*p.Trust)
		p.Trust = &src
	default:
		list := p.of(m.Type)
		*list = slices.Clone(*list)
		for i, src := range *list {
			if src.Name == m.Source && m.Index < len(src.Document.Statements) {
				if s := &src.Document.Statements[m.Index]; s.SID == m.SID && s.Deny == m.Deny {
					(*list)[i] = edited(src)
					return
				}
			}
		}
	}
}

// statementJSON is the JSON form of a suggested statement.
type statementJSON struct {
	Effect    string                       `json:"Effect"`
	Principal map[string]string            `json:"Principal,omitempty"`
	Action    string                       `json:"Action"`
	Resource  string                       `json:"Resource,omitempty"`
	Condition map[string]map[string]string `json:"Condition,omitempty"`
}

// federated returns the claims of a web identity's token that a trust policy must check. Without them everyone whom
// the provider authenticates could assume the role.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create_for-idp_oidc.html#idp_oidc_Create_GitHub
func federated(req *Request) (condition map[string]map[string]string, ok bool) {
	_, provider, ok := strings.Cut(req.Principal.Federated, ":oidc-provider/")
	if !ok {
		return nil, false
	}
	claims := map[string]string{}
	for _, claim := range []string{"aud", "sub"} {
		values := req.Context.Values[strings.ToLower(provider)+":"+claim]
		if len(values) != 1 || strings.ContainsAny(values[0], "*?$") {
			return nil, false
		}
		claims[provider+":"+claim] = values[0]
	}
	return map[string]map[string]string{"StringEquals": claims}, true
}

// vouched reports whether an identity provider sets the value of a key, so that a request cannot carry another value.
func vouched(req *Request, key string) bool {
	_, provider, ok := strings.Cut(req.Principal.Federated, ":oidc-provider/")
	return ok && strings.HasPrefix(strings.ToLower(key), strings.ToLower(provider)+":") || req.Principal.Federated != "" && strings.EqualFold(key, "aws:FederatedProvider")
}

func addition(req *Request, t PolicyType) Change {
	s := statementJSON{Effect: "Allow", Action: req.Action, Resource: "*"}
	if req.Resource != "" {
		s.Resource = strings.ReplaceAll(req.Resource, "${", "${$}{")
	}
	who := req.Principal.names()
	switch t {
	case RoleTrust:
		s.Resource = ""
		s.Condition, _ = federated(req)
		fallthrough
	case ResourceBased, VPCEndpoint:
		s.Principal = req.Principal.element()
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // strings always encode
	c := Change{Kind: AddStatement, Type: t, Statement: strings.TrimSpace(b.String())}
	c.Text = "add to "
	switch {
	case t == IdentityBased && len(who) > 0:
		c.Text += "an identity-based policy of " + cmp.Or(req.Principal.RoleARN, who[0]) // sessions have none of their own
	case t == IdentityBased:
		c.Text += "an identity-based policy"
	default:
		c.Text += "the " + string(t)
	}
	c.Text += ": " + c.Statement
	return c
}

// element returns the Principal element that names p: the role rather than its session.
func (p *Principal) element() map[string]string {
	switch {
	case p.Service != "":
		return map[string]string{"Service": p.Service}
	case p.Federated != "":
		return map[string]string{"Federated": p.Federated}
	case p.RoleARN != "":
		return map[string]string{"AWS": p.RoleARN}
	case p.ARN != "":
		return map[string]string{"AWS": p.ARN}
	}
	return map[string]string{"AWS": "*"}
}

func removal(m Match) Change {
	return Change{
		Kind: RemoveStatement, Type: m.Type, Match: &m,
		Text: "remove the deny " + m.String() + " from the " + string(m.Type) + ", or exclude this request from it",
	}
}

func setKey(m Match, c *Condition, values []string, satisfies bool) Change {
	out := Change{Kind: SetKey, Type: m.Type, Match: &m, Key: c.Key, Values: values, Operator: c.Operator, Wanted: c.Values}
	why := "which " + m.String() + " asks for"
	if !satisfies {
		why = "which " + m.String() + " does not deny"
	}
	out.Text = carry(c.Key, values) + ", " + why + " (" + c.Operator + " " + list(c.Values) + ")"
	return out
}

// carry says where the value of a key comes from, if its prefix shows that.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
func carry(key string, values []string) string {
	prefix, tag, tagged := strings.Cut(key, "/")
	_, prefix, _ = strings.Cut(strings.ToLower(prefix), ":")
	what := map[string]string{"resourcetag": "the resource", "requesttag": "the request", "principaltag": "the principal"}[prefix]
	switch {
	case tagged && what != "" && len(values) == 0:
		return "have " + what + " without the tag " + tag
	case tagged && what != "":
		return "have " + what + " with the tag " + tag + " = " + list(values)
	case len(values) == 0:
		return "make the request without " + key
	}
	return "make the request with " + key + " = " + list(values)
}
