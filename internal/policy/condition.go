package policy

import "strings"

// A test is a Condition prepared for evaluation.
type test struct {
	*operator
	quantifier quantifier
	ifExists   bool
	key        string // in lower case
	wants      []want
}

// A quantifier is a set operator of a condition.
type quantifier int8

const (
	single    quantifier = iota
	forAll               // ForAllValues:
	forAnyOne            // ForAnyValue:
)

// A want is one value of a condition. It is prepared when the policy is read, unless it has variables.
type want struct {
	template
	match func(value string) bool
}

func newTest(c *Condition, version string) test {
	op, q, ifExists, _ := parseOperator(c.Operator)
	t := test{operator: op, quantifier: q, ifExists: ifExists, key: strings.ToLower(c.Key)}
	for _, v := range c.Values {
		w := want{template: plain(v)}
		if op.variables {
			w.template = newTemplate(v, version)
		}
		if len(w.vars) == 0 {
			w.match = op.prepare(v, nil)
		}
		t.wants = append(t.wants, w)
	}
	return t
}

// parseOperator splits a condition operator into its parts: ForAnyValue:StringLikeIfExists.
func parseOperator(name string) (op *operator, q quantifier, ifExists, ok bool) {
	if set, rest, found := strings.Cut(name, ":"); found {
		switch {
		case strings.EqualFold(set, "ForAllValues"):
			q, name = forAll, rest
		case strings.EqualFold(set, "ForAnyValue"):
			q, name = forAnyOne, rest
		}
	}
	if n := len(name) - len("IfExists"); n > 0 && strings.EqualFold(name[n:], "IfExists") {
		name, ifExists = name[:n], true
	}
	for i := range operators {
		if strings.EqualFold(operators[i].name, name) {
			op = &operators[i]
			return op, q, ifExists, !(op.null && ifExists)
		}
	}
	return &operator{name: name, prepare: never}, q, ifExists, false
}

// holds evaluates the condition. If the request has no value for the key, nothing matches, so the condition holds
// only if it is negated.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html
func (t *test) holds(ctx *Context) verdict {
	values, known := ctx.get(t.key)
	if !known {
		return unknown
	}
	if t.quantifier != single && nullSet(values) {
		values = nil
	}
	switch {
	case t.null:
		return is(t.wantsNull(len(values) == 0))
	case len(values) > 0:
		return t.compare(values, ctx)
	case t.ifExists, t.quantifier == forAll:
		return yes
	case t.quantifier == forAnyOne:
		return no
	}
	return is(t.negated)
}

// compare compares the request's values with the policy's. A value satisfies the operator if it matches any of the
// policy's values, or none of them if the operator is negated. Without a quantifier one matching value is enough, and
// for a negated operator all must satisfy it: AWS does not document what it does with several values there, and this
// follows from the meaning of "matches" and its negation.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html
func (t *test) compare(values []string, ctx *Context) verdict {
	every := t.quantifier == forAll || t.quantifier == single && t.negated
	out := is(every)
	for _, value := range values {
		v := t.satisfies(value, ctx)
		if every {
			out = min(out, v)
		} else {
			out = max(out, v)
		}
	}
	return out
}

func (t *test) satisfies(value string, ctx *Context) verdict {
	v := no
	for i := range t.wants {
		w := &t.wants[i]
		if !ctx.spend(w.work(value)) {
			return unknown
		}
		if w.match != nil {
			v = max(v, is(w.match(value)))
			continue
		}
		text, literal, ok := w.resolve(ctx)
		switch {
		case ok != no && !ctx.spend(resolved(text, value)):
			return unknown
		case ok == yes:
			v = max(v, is(t.prepare(text, literal)(value)))
		case ok == unknown:
			v = max(v, unknown)
		}
	}
	if t.negated {
		return not(v)
	}
	return v
}

// wantsNull reports whether the condition's values include this answer to "is the key absent".
func (t *test) wantsNull(absent bool) bool {
	for i := range t.wants {
		if strings.EqualFold(t.wants[i].text, "true") && absent || strings.EqualFold(t.wants[i].text, "false") && !absent {
			return true
		}
	}
	return false
}

// nullSet reports whether values "resolve to a null data set, such as an empty string".
func nullSet(values []string) bool {
	for _, v := range values {
		if v != "" {
			return false
		}
	}
	return true
}
