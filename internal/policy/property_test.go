package policy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/policy"
)

// TestAgainstNaive lets the evaluator and a naive one decide random policies. A failure prints its seed, which
// FuzzAgainstNaive also accepts. After a change of the evaluator, run more:
//
//	DRYDOCK_POLICY_SEEDS=100000 go test -run TestAgainstNaive ./internal/policy
//	go test -fuzz FuzzAgainstNaive ./internal/policy
func TestAgainstNaive(t *testing.T) {
	rounds := uint64(1_200)
	if s := os.Getenv("DRYDOCK_POLICY_SEEDS"); s != "" {
		n, err := strconv.ParseUint(s, 10, 32)
		if err != nil || n < rounds {
			t.Fatalf("DRYDOCK_POLICY_SEEDS is %q, not a number of at least %d", s, rounds)
		}
		rounds = n
	}
	outcomes := map[string]int{}
	for seed := range rounds {
		outcomes[checkSeed(t, seed)]++
	}
	t.Logf("%v", outcomes)
	for _, o := range []string{allowed, implicit, explicit} {
		if outcomes[o] < int(rounds)/20 {
			t.Errorf("only %d of %d random requests came out as %s: they say little", outcomes[o], rounds, o)
		}
	}
}

// FuzzAgainstNaive is TestAgainstNaive for any seed.
func FuzzAgainstNaive(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkSeed(t, seed) })
}

func checkSeed(t *testing.T, seed uint64) string {
	t.Helper()
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	req := g.request()
	text := g.policies(req.Action)
	p := parseAll(t, text)
	d := policy.Evaluate(req, p)
	want := naive{req}.decide(text)
	e := policy.Explain(req, p)
	if got := outcome(d); got != want {
		t.Fatalf("seed %d: got %s, naively %s\n%+v\n%+v\n%s", seed, got, want, req, text, e)
	}
	checkExplanation(t, seed, d, e)
	checkSuggestions(t, seed, req, p, d)
	checkUnknown(t, seed, g, req, p, text)
	return want
}

// checkExplanation compares the reasoning with the decision that it explains.
func checkExplanation(t *testing.T, seed uint64, d policy.Decision, e policy.Explanation) {
	t.Helper()
	if outcome(e.Decision) != outcome(d) || e.String() == "" {
		t.Fatalf("seed %d: the explanation is of another decision", seed)
	}
	var denies, allows, missing []string
	for _, l := range e.Layers {
		if l.Required && !l.Allows {
			missing = append(missing, string(l.Type))
		}
		for _, s := range l.Statements {
			if (s.Outcome == policy.Applies) != (len(s.Mismatches) == 0) {
				t.Fatalf("seed %d: %s %s with %v", seed, s.Match, s.Outcome, s.Mismatches)
			}
			switch {
			case s.Outcome == policy.DoesNotApply:
			case s.Deny:
				denies = append(denies, s.String())
			case s.Outcome == policy.Applies:
				allows = append(allows, s.String())
			}
		}
	}
	var matched, types []string
	for _, m := range d.Matched {
		matched = append(matched, m.String())
	}
	for _, m := range d.Missing {
		types = append(types, string(m))
	}
	want := allows
	if d.ExplicitDeny {
		want = denies
	}
	if (d.Allowed || d.ExplicitDeny) && !slices.Equal(matched, want) {
		t.Fatalf("seed %d: matched %v, explained %v", seed, matched, want)
	}
	if !d.ExplicitDeny && !slices.Equal(types, missing) {
		t.Fatalf("seed %d: missing %v, explained %v", seed, types, missing)
	}
}

// checkSuggestions tries the suggestions for a denial.
func checkSuggestions(t *testing.T, seed uint64, req policy.Request, p policy.Policies, d policy.Decision) {
	t.Helper()
	suggestions := policy.Suggest(req, p)
	if d.Allowed != (len(suggestions) == 0) {
		t.Fatalf("seed %d: allowed %v, %d suggestions", seed, d.Allowed, len(suggestions))
	}
	for _, s := range suggestions {
		changedReq, changed := s.Apply(req, p)
		if got := policy.Evaluate(changedReq, changed); !got.Allowed {
			t.Fatalf("seed %d: %s\ndoes not help: %+v", seed, s, got)
		}
	}
	if again := policy.Evaluate(req, p); outcome(again) != outcome(d) {
		t.Fatalf("seed %d: suggesting changed the policies", seed)
	}
}

// checkUnknown makes some keys unknown: what is still allowed must be allowed whatever their values, and what is
// denied without an undecided statement must be denied.
func checkUnknown(t *testing.T, seed uint64, g generator, req policy.Request, p policy.Policies, text texts) {
	t.Helper()
	forgotten := map[string]bool{}
	known := maps.Clone(req.Context.Values)
	for _, k := range contextKeys {
		if g.IntN(4) == 0 {
			forgotten[strings.ToLower(k)] = true
			delete(known, strings.ToLower(k))
		}
	}
	vague := req
	vague.Context = policy.Context{Values: known, Unknown: func(key string) bool { return forgotten[key] }}
	d := policy.Evaluate(vague, p)
	if !d.Allowed && len(d.Undecided) > 0 {
		if len(d.UnknownKeys) == 0 {
			t.Fatalf("seed %d: undecided without a key that is not known", seed)
		}
		return
	}
	for range 2 {
		filled := req
		filled.Context = policy.Context{Values: maps.Clone(known)}
		for k := range forgotten {
			if v := g.contextValues(k); v != nil {
				filled.Context.Values[k] = v
			}
		}
		if got := (naive{filled}).decide(text); got != outcome(d) && (d.Allowed || len(d.Undecided) == 0) {
			t.Fatalf("seed %d: %s while %v is not known, but %s with %v", seed, outcome(d), forgotten, got, filled.Context.Values)
		}
	}
}

func parseAll(t *testing.T, text texts) policy.Policies {
	t.Helper()
	parse := func(kind policy.Kind, name string, docs ...string) (out []policy.Source) {
		for i, doc := range docs {
			if doc == "" {
				continue
			}
			d, err := policy.Parse(kind, doc)
			if err != nil {
				t.Fatalf("%s: %v", doc, err)
			}
			out = append(out, policy.Source{Name: fmt.Sprintf("%s%d", name, i), Document: d})
		}
		return out
	}
	return policy.Policies{
		Identity: parse(policy.Identity, "identity", text.identity...), Boundary: first(parse(policy.Boundary, "boundary", text.boundary)),
		Session: parse(policy.Session, "session", text.session...), Sessioned: text.sessioned,
		Resource: parse(policy.Resource, "resource", text.resource...), ResourceRequired: text.required,
		Trust: first(parse(policy.Trust, "trust", text.trust)), Endpoint: parse(policy.Endpoint, "endpoint", text.endpoint...),
	}
}

// A generator creates requests and policies that are related.
type generator struct{ *rand.Rand }

func pick[T any](g generator, from []T) T { return from[g.IntN(len(from))] }

// some picks one to three.
func some[T any](g generator, from []T) any {
	if g.IntN(3) > 0 {
		return pick(g, from)
	}
	out := make([]T, 1+g.IntN(3))
	for i := range out {
		out[i] = pick(g, from)
	}
	return out
}

var (
	principals  = []policy.Principal{ann, ann, root, session, session, federated, stranger, foreign, service, anonymous}
	actions     = []string{"s3:GetObject", "s3:PutObject", "ec2:RunInstances", "sts:AssumeRole"}
	resources   = []string{"arn:aws:s3:::bucket/ann/x", "arn:aws:s3:::bucket/*", "arn:aws:ec2:us-east-1:111122223333:instance/i-1", "*", "arn:aws:s3:::bucket/a:b:c"}
	contextKeys = []string{"aws:username", "aws:TagKeys", "aws:RequestTag/a", "k:n", "k:d", "k:ip", "k:arn", "k:b", "k:bin"}

	actionPatterns   = []string{"*", "s3:*", "S3:get*", "s3:GetObject", "ec2:*", "ec2:Run?nstances", "*:*", "s3:*Object*", "sts:*", "s3:?utObject"}
	resourcePatterns = []string{
		"*", "arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket/${aws:username}/*", "arn:aws:s3", "arn:aws:ec2:*:*:instance/i-?", "arn:aws:s3:::bucket/${*}",
		"arn:aws:s3:::bucket/a*c", "arn:aws:*:*:*:*", "arn:aws:s3:::bucket/${aws:RequestTag/a, 'ann'}/x", "arn:aws:s3:::*x", "arn:aws:ec2:eu-*:*:*",
	}
	principalNames = []string{
		"111122223333", "arn:aws:iam::111122223333:root", ann.ARN, session.ARN, session.RoleARN, federated.ARN, "AIDAANN", "AROAROLE",
		"444455556666", stranger.ARN, foreign.ARN, foreign.RoleARN, "*",
	}
	values = map[string][]string{
		"aws:username": {"ann", "bob", "Ann", ""}, "aws:tagkeys": {"a", "b", "team-x", ""}, "aws:requesttag/a": {"ann", "a*", "*", "1"},
		"k:n": {"1", "1.0", "2", "10", "x"}, "k:d": {"2020-01-01T00:00:00Z", "1577836800", "2020-01-01", "2021-06-01T12:00:00+02:00"},
		"k:ip":  {"203.0.113.9", "198.51.100.1", "2001:db8::1", "nowhere"},
		"k:arn": {"arn:aws:sns:us-east-1:111122223333:t", "arn:aws:sns:us-east-1:111122223333:t:ann", "ann"},
		"k:b":   {"true", "false", "TRUE"}, "k:bin": {"QQ==", "Qg==", "!"},
	}
	operators = map[string][]string{
		"aws:username":     {"StringEquals", "StringNotEquals", "StringLike", "StringNotLike", "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase"},
		"aws:tagkeys":      {"StringEquals", "StringNotEquals", "StringLike", "StringNotLike"},
		"aws:requesttag/a": {"StringEquals", "StringNotEquals", "StringLike"},
		"k:n":              {"NumericEquals", "NumericNotEquals", "NumericLessThan", "NumericLessThanEquals", "NumericGreaterThan", "NumericGreaterThanEquals"},
		"k:d":              {"DateEquals", "DateNotEquals", "DateLessThan", "DateLessThanEquals", "DateGreaterThan", "DateGreaterThanEquals"},
		"k:ip":             {"IpAddress", "NotIpAddress"}, "k:arn": {"ArnLike", "ArnNotLike", "ArnEquals", "ArnNotEquals"},
		"k:b": {"Bool"}, "k:bin": {"BinaryEquals"},
	}
	wanted = map[string][]string{
		"aws:username": {"a*", "${aws:RequestTag/a}", "${aws:TagKeys}", "b?b", "${*}", "${aws:username, 'x'}"}, "aws:tagkeys": {"team-*", "*", "?"},
		"aws:requesttag/a": {"${aws:username}", "a${*}", "*"}, "k:n": {"1.00", "9"}, "k:d": {"1600000000"},
		"k:ip":  {"203.0.113.0/24", "0.0.0.0/0", "2001:db8::/32", "203.0.113.9/32"},
		"k:arn": {"arn:aws:sns:*:*:t", "arn:aws:sns:*:*:*", "arn:aws:sns", "arn:*:t", "arn:aws:sns:*:*:t:${aws:username}"},
	}
)

func (g generator) request() policy.Request {
	req := policy.Request{
		Action: pick(g, actions), Resource: pick(g, resources), ResourceAccount: "111122223333", Principal: pick(g, principals),
		Context: policy.Context{Values: map[string][]string{}},
	}
	for _, k := range contextKeys {
		if v := g.contextValues(strings.ToLower(k)); v != nil {
			req.Context.Values[strings.ToLower(k)] = v
		}
	}
	return req
}

func (g generator) contextValues(key string) []string {
	if g.IntN(3) == 0 {
		return nil
	}
	out := []string{pick(g, values[key])}
	for g.IntN(3) == 0 {
		out = append(out, pick(g, values[key]))
	}
	return out
}

func (g generator) policies(action string) texts {
	several := func(kind policy.Kind, most int) (out []string) {
		for range g.IntN(most + 1) {
			out = append(out, g.document(kind))
		}
		return out
	}
	text := texts{identity: several(policy.Identity, 3)}
	if g.IntN(3) == 0 {
		text.boundary = g.document(policy.Boundary)
	}
	if g.IntN(3) == 0 {
		text.sessioned, text.session = true, several(policy.Session, 2)
	}
	if g.IntN(2) == 0 {
		text.resource = several(policy.Resource, 2)
		text.required = g.IntN(4) == 0
	}
	if action == "sts:AssumeRole" && g.IntN(2) == 0 {
		text.trust = g.document(policy.Trust)
	}
	if g.IntN(5) == 0 {
		text.endpoint = several(policy.Endpoint, 1)
	}
	return text
}

func (g generator) document(kind policy.Kind) string {
	var list []map[string]any
	for range 1 + g.IntN(4) {
		list = append(list, g.statement(kind))
	}
	doc := map[string]any{"Version": "2012-10-17", "Statement": list}
	if g.IntN(6) == 0 {
		doc["Version"] = "2008-10-17"
	}
	if len(list) == 1 && g.IntN(2) == 0 {
		doc["Statement"] = list[0]
	}
	out, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return string(out)
}

func (g generator) statement(kind policy.Kind) map[string]any {
	s := map[string]any{"Effect": "Allow"}
	if g.IntN(6) == 0 {
		s["Effect"] = "Deny"
	}
	not := func(name string) string {
		if g.IntN(6) == 0 {
			return "Not" + name
		}
		return name
	}
	if kind == policy.Trust {
		s["Action"] = some(g, []string{"sts:AssumeRole", "sts:*", "sts:TagSession"})
	} else {
		s[not("Action")] = some(g, actionPatterns)
		s[not("Resource")] = some(g, resourcePatterns)
	}
	switch kind {
	case policy.Trust:
		s["Principal"] = g.principal()
	case policy.Resource, policy.Endpoint:
		s[not("Principal")] = g.principal()
	}
	if g.IntN(2) == 0 {
		s["Condition"] = g.condition()
	}
	return s
}

func (g generator) principal() any {
	switch g.IntN(6) {
	case 0:
		return "*"
	case 1:
		return map[string]any{"Service": some(g, []string{"eks.amazonaws.com", "ec2.amazonaws.com"}), "AWS": some(g, principalNames)}
	}
	return map[string]any{"AWS": some(g, principalNames)}
}

func (g generator) condition() map[string]any {
	out := map[string]any{}
	for range 1 + g.IntN(2) {
		key := pick(g, contextKeys)
		low := strings.ToLower(key)
		op, want := pick(g, operators[low]), some(g, slices.Concat(values[low], wanted[low]))
		if strings.HasPrefix(op, "Date") {
			want = some(g, values[low])
		}
		switch g.IntN(8) {
		case 0:
			op, want = "Null", pick(g, []any{"true", "false", true, false})
		case 1:
			op = "ForAllValues:" + op
		case 2:
			op = "ForAnyValue:" + op
		}
		if op != "Null" && g.IntN(5) == 0 {
			op += "IfExists"
		}
		out[op] = map[string]any{key: want}
	}
	return out
}
