package policy

import "strings"

// A verdict is the answer to "does this statement apply", which may be that it
// cannot be told from what is known of the request.
type verdict int8

const (
	no verdict = iota
	unknown
	yes
)

func both(a, b verdict) verdict { return min(a, b) }

func is(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// applies weighs every element of s against req. Elements that certainly do not
// match win over those that cannot be decided.
func (s *Statement) applies(req *Request, version string) verdict {
	v := s.action(req)
	if v == no {
		return no
	}
	if v = both(v, s.resource(req, version)); v == no {
		return no
	}
	for i := range s.Conditions {
		if v = both(v, s.Conditions[i].holds(req, version)); v == no {
			return no
		}
	}
	return v
}

func (s *Statement) action(req *Request) verdict {
	patterns := s.Actions
	if s.NotActions != nil {
		patterns = s.NotActions
	}
	found := false
	if s.byVendor != nil {
		vendor, _, _ := strings.Cut(req.Action, ":")
		found = anyAction(s.byVendor[strings.ToLower(vendor)], req.Action) || anyAction(s.byVendor[""], req.Action)
	} else {
		found = anyAction(patterns, req.Action)
	}
	return is(found == (s.NotActions == nil))
}

func anyAction(patterns []string, action string) bool {
	for _, p := range patterns {
		if globFold(p, action) {
			return true
		}
	}
	return false
}

// index fills byVendor if that is worth while.
func (s *Statement) index() {
	patterns := s.Actions
	if s.NotActions != nil {
		patterns = s.NotActions
	}
	if len(patterns) < 16 {
		return
	}
	s.byVendor = map[string][]string{}
	for _, p := range patterns {
		vendor, _, _ := strings.Cut(p, ":")
		if strings.ContainsAny(vendor, "*?") {
			vendor = ""
		}
		vendor = strings.ToLower(vendor)
		s.byVendor[vendor] = append(s.byVendor[vendor], p)
	}
}

// resource decides Resource and NotResource. Statements without either (trust
// policies) speak of the resource they are attached to.
func (s *Statement) resource(req *Request, version string) verdict {
	switch {
	case s.NotResources != nil:
		return yes - anyResource(s.NotResources, req.Resource, version)
	case s.Resources != nil:
		return anyResource(s.Resources, req.Resource, version)
	}
	return yes
}

func anyResource(patterns []string, resource, version string) verdict {
	v := no
	for _, p := range patterns {
		v = max(v, matchResource(p, resource, version))
	}
	return v
}

// matchResource matches one Resource pattern. An empty resource is one that is
// not known; "*" is that of an action which has none.
func matchResource(pattern, resource, version string) verdict {
	if strings.Trim(pattern, "*") == "" {
		return yes
	}
	if resource == "" {
		return unknown
	}
	loose, variables := looseVariables(pattern, version)
	if !matchARN(loose, resource) {
		return no
	}
	if variables {
		return unknown
	}
	return yes
}

// looseVariables replaces the policy variables of a pattern by "*". The language
// of 2008 has none.
func looseVariables(pattern, version string) (loose string, found bool) {
	if version != Version2012 || !strings.Contains(pattern, "${") {
		return pattern, false
	}
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(pattern, "${")
		b.WriteString(before)
		if !ok {
			return b.String(), true
		}
		b.WriteByte('*')
		_, pattern, _ = strings.Cut(rest, "}")
	}
}

// matchARN matches an ARN against a pattern as IAM does: wildcards do not cross
// the first five colons, and a pattern with fewer fields ends in wildcards.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
func matchARN(pattern, arn string) bool {
	for range 5 {
		p, prest, pmore := strings.Cut(pattern, ":")
		a, arest, amore := strings.Cut(arn, ":")
		if !amore {
			return !pmore && glob(p, a)
		}
		if !glob(p, a) {
			return false
		}
		if !pmore {
			return true
		}
		pattern, arn = prest, arest
	}
	return glob(pattern, arn)
}

// glob matches s against a pattern of literal bytes, "*" and "?". It takes at
// most len(pattern)*len(s) steps, whatever the pattern.
func glob(pattern, s string) bool { return match(pattern, s, false) }

// globFold is glob without regard to the case of ASCII letters.
func globFold(pattern, s string) bool { return match(pattern, s, true) }

func match(pattern, s string, fold bool) bool {
	p, i := 0, 0
	star, mark := -1, 0 // the last "*" and where in s its match ends
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == s[i] || fold && lower(pattern[p]) == lower(s[i])):
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func lower(b byte) byte {
	if 'A' <= b && b <= 'Z' {
		return b + 'a' - 'A'
	}
	return b
}

// A comparison is what a condition operator does with one value of the policy
// and one of the request. A negated operator holds if no pair compares.
type comparison struct {
	matches func(pattern, value string) bool
	negated bool
}

// comparisons are the operators that are decided, in lower case.
var comparisons = map[string]comparison{
	"stringequals":              {matches: equal},
	"stringnotequals":           {matches: equal, negated: true},
	"stringequalsignorecase":    {matches: strings.EqualFold},
	"stringnotequalsignorecase": {matches: strings.EqualFold, negated: true},
	"stringlike":                {matches: glob},
	"stringnotlike":             {matches: glob, negated: true},
	"arnequals":                 {matches: matchARN},
	"arnlike":                   {matches: matchARN},
	"arnnotequals":              {matches: matchARN, negated: true},
	"arnnotlike":                {matches: matchARN, negated: true},
	"bool":                      {matches: strings.EqualFold},
}

func equal(a, b string) bool { return a == b }

// holds decides a condition on a key whose value is known, for the operators
// that compare strings. Everything else cannot be told.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
func (c *Condition) holds(req *Request, version string) verdict {
	values, known := req.Context[strings.ToLower(c.Key)]
	base := operatorBase(c.Operator)
	compare, decidable := comparisons[strings.ToLower(base)]
	ifExists := strings.EqualFold(c.Operator, base+"IfExists")
	switch {
	case !known || !decidable:
		return unknown
	case base != c.Operator && !ifExists:
		return unknown // ForAllValues:, ForAnyValue:
	case len(values) == 0:
		return is(ifExists || compare.negated)
	}
	v := no
	for _, pattern := range c.Values {
		loose, variables := looseVariables(pattern, version)
		if variables {
			v = max(v, unknown)
			continue
		}
		for _, value := range values {
			v = max(v, is(compare.matches(loose, value)))
		}
	}
	if compare.negated {
		return yes - v
	}
	return v
}
