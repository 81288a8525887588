package policy

import (
	"fmt"
	"strings"
)

// A Kind says where a policy is used, which determines what it may contain.
type Kind int

// The kinds of policy.
const (
	Identity Kind = iota // inline or managed policy of a user, group or role
	Session              // passed to AssumeRole and similar operations; same grammar as Identity
	Trust                // a role's trust policy
	Boundary             // permissions boundary; same grammar as Identity
	Resource             // policy of a resource other than a role
	Endpoint             // policy of a VPC endpoint
	Key                  // policy of a KMS key; same grammar as Resource, but statement IDs may repeat
)

// Versions of the policy language.
const (
	Version2008 = "2008-10-17"
	Version2012 = "2012-10-17"
)

// Limits on what is parsed at all. IAM's quotas are smaller, and IAM reports them itself; these only keep hostile
// input cheap.
const (
	maxBytes = 1 << 18 // the API takes 131072; the largest AWS-managed policy is 140 kB
	maxDepth = 12      // a valid document nests 6 deep
)

// A MalformedError says what is wrong with a document in IAM's words: the message of MalformedPolicyDocument.
type MalformedError struct{ Message string }

func (e *MalformedError) Error() string { return e.Message }

func malformed(format string, args ...any) error {
	return &MalformedError{fmt.Sprintf(format, args...)}
}

// Parse reads a policy document. Its error is a *MalformedError.
func Parse(kind Kind, text string) (*Document, error) {
	p := parser{kind: kind}
	root, err := readJSON(text)
	if err != nil {
		return nil, p.notJSON()
	}
	doc, err := p.document(root)
	if err != nil {
		return nil, err
	}
	if err := check(kind, doc); err != nil {
		return nil, err
	}
	locate(text, root, doc)
	doc.prepare()
	return doc, nil
}

// A parser turns JSON into a Document by the grammar of
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html. IAM checks trust policies with
// another validator, which has its own texts.
type parser struct{ kind Kind }

func (p parser) notJSON() error {
	if p.kind == Trust {
		return malformed("This policy contains invalid Json")
	}
	return malformed("Syntax errors in policy.")
}

func (p parser) syntax() error { return malformed("Syntax errors in policy.") }

func (p parser) unknownField(name string) error {
	if p.kind == Trust {
		return malformed("Unknown field %s", name)
	}
	return p.syntax()
}

func (p parser) missingField(name string) error {
	if p.kind == Trust {
		return malformed("Missing required field %s", name)
	}
	return p.syntax()
}

func (p parser) document(n node) (*Document, error) {
	if n.kind != isObject {
		return nil, p.syntax()
	}
	doc := &Document{Version: Version2008}
	var statements *node
	for i := range n.fields {
		f := &n.fields[i]
		switch f.name {
		case "Version":
			if f.value.kind != isString || f.value.text != Version2008 && f.value.text != Version2012 {
				return nil, p.syntax()
			}
			doc.Version = f.value.text
		case "Id":
			if f.value.kind != isString {
				return nil, p.syntax()
			}
			doc.ID = f.value.text
		case "Statement":
			statements = &f.value
		default:
			return nil, p.unknownField(f.name)
		}
	}
	if statements == nil {
		return nil, p.missingField("Statement")
	}
	list := []node{*statements}
	if statements.kind == isArray {
		list = statements.items
	}
	if len(list) == 0 {
		return nil, p.syntax()
	}
	for _, n := range list {
		s, err := p.statement(n)
		if err != nil {
			return nil, err
		}
		doc.Statements = append(doc.Statements, s)
	}
	return doc, nil
}

func (p parser) statement(n node) (Statement, error) {
	var s Statement
	if n.kind != isObject {
		return s, p.syntax()
	}
	effect := ""
	for _, f := range n.fields {
		var err error
		switch f.name {
		case "Sid":
			if f.value.kind != isString {
				err = p.syntax()
			}
			s.SID = f.value.text
		case "Effect":
			if f.value.kind != isString {
				err = p.syntax()
			}
			effect = f.value.text
		case "Action":
			s.Actions, err = p.list(f.value)
		case "NotAction":
			s.NotActions, err = p.list(f.value)
		case "Resource":
			s.Resources, err = p.list(f.value)
		case "NotResource":
			s.NotResources, err = p.list(f.value)
		case "Principal":
			s.Principals, err = p.principals(f.value)
		case "NotPrincipal":
			s.NotPrincipals, err = p.principals(f.value)
		case "Condition":
			s.Conditions, err = p.conditions(f.value)
		default:
			err = p.unknownField(f.name)
		}
		if err != nil {
			return s, err
		}
	}
	if n.has("Action") && n.has("NotAction") || n.has("Resource") && n.has("NotResource") ||
		n.has("Principal") && n.has("NotPrincipal") {
		return s, p.syntax()
	}
	switch {
	case effect == "Allow":
	case effect == "Deny":
		s.Deny = true
	case effect == "":
		return s, p.missingField("Effect")
	case strings.EqualFold(effect, "Allow") || strings.EqualFold(effect, "Deny"):
		return s, malformed("The policy failed legacy parsing")
	default:
		return s, p.syntax()
	}
	return s, nil
}

// list reads a string or a list of strings. It returns nil for an absent element and an empty, non-nil slice for an
// empty list.
func (p parser) list(n node) ([]string, error) {
	switch n.kind {
	case isString:
		return []string{n.text}, nil
	case isArray:
		out := make([]string, 0, len(n.items))
		for _, item := range n.items {
			if item.kind != isString {
				return nil, p.syntax()
			}
			out = append(out, item.text)
		}
		return out, nil
	}
	return nil, p.syntax()
}

func (p parser) principals(n node) (*Principals, error) {
	ps := &Principals{}
	if n.kind == isString {
		if n.text != "*" {
			return nil, malformed("Invalid principal in policy: %q", n.text)
		}
		ps.All = true
		return ps, nil
	}
	if n.kind != isObject || len(n.fields) == 0 {
		return nil, p.syntax()
	}
	for _, f := range n.fields {
		values, err := p.list(f.value)
		if err != nil {
			return nil, err
		}
		switch f.name {
		case "AWS":
			for _, v := range values {
				if v == "*" {
					ps.All = true
				} else {
					ps.AWS = append(ps.AWS, v)
				}
			}
		case "Service":
			ps.Service = values
		case "Federated":
			ps.Federated = values
			ps.AnyFederated = p.kind == Endpoint && contains(values, "*")
		case "CanonicalUser":
			ps.Canonical = values
		default:
			return nil, p.unknownField(f.name)
		}
	}
	return ps, nil
}

func (p parser) conditions(n node) ([]Condition, error) {
	if n.kind != isObject {
		return nil, p.syntax()
	}
	var out []Condition
	for _, op := range n.fields {
		if op.value.kind != isObject {
			return nil, p.syntax()
		}
		if _, _, _, ok := parseOperator(op.name); !ok {
			if p.kind == Trust {
				return nil, malformed("Invalid Condition type : %s.", op.name)
			}
			return nil, p.syntax()
		}
		for _, key := range op.value.fields {
			values, err := p.conditionValues(key.value)
			if err != nil {
				return nil, err
			}
			out = append(out, Condition{Operator: op.name, Key: key.name, Values: values})
		}
	}
	return out, nil
}

// conditionValues reads a condition's values. Booleans and numbers may be unquoted; they are kept as text.
func (p parser) conditionValues(n node) ([]string, error) {
	items := []node{n}
	if n.kind == isArray {
		items = n.items
	}
	out := make([]string, 0, len(items))
	for _, item := range items {
		if item.kind != isString && item.kind != isScalar {
			return nil, p.syntax()
		}
		out = append(out, item.text)
	}
	return out, nil
}
