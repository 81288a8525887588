package wire

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// Validate checks in, a pointer to the SDK's input struct of op, against the constraints of the model: required
// members, lengths, ranges, patterns and enumerations. The error uses the service's words; deviations lists known
// differences from the model. members are those that the request carried (nil means those that are not zero).
func Validate(op *model.Operation, in any, members awsapi.Members) error {
	if op.Input == nil {
		return nil
	}
	v := reflect.ValueOf(in).Elem()
	p := planFor(op.Input, v.Type())
	if p == nil {
		return fmt.Errorf("wire: validate %s: %T cannot hold a %s", op.Name, in, op.Input.Type)
	}
	c := checker{op: op, words: validation(op.Service), members: members}
	c.structure(p, v)
	if len(c.found) == 0 {
		return nil
	}
	return c.words.violated(c.found)
}

// A violation is a constraint that a value does not satisfy.
type violation struct {
	path  string // in Coral's notation: tags.1.member.key
	param string // the query parameter's name
	kind  constraint
	value string // quoted or masked; "null" if there is none
	text  string // the constraint in words
}

// A constraint is a kind of violation.
type constraint string

const (
	required constraint = "required"
	length   constraint = "length"
	bounds   constraint = "range"
	pattern  constraint = "pattern"
	enum     constraint = "enum"
)

// A step is one level of the path to a value: a member, and the position or key within
// it.
type step struct {
	f     *field
	index int // -1 if none
	key   string
}

// A checker collects the violations of one request.
type checker struct {
	op      *model.Operation
	words   validator
	members awsapi.Members
	at      []step
	found   []violation
}

func (c *checker) structure(p *plan, v reflect.Value) {
	if p.kind == kindUnion {
		if f, v := p.union(v); f != nil {
			c.member(f, v)
		}
		return
	}
	for _, f := range p.fields {
		if f.plan != nil {
			c.member(f, v.Field(f.index))
		}
	}
	for _, f := range p.fields {
		if !f.m.Required || f.plan == nil {
			continue
		}
		c.at = append(c.at, step{f: f, index: -1})
		if _, ok := c.present(f.plan, v.Field(f.index)); !ok {
			c.violated(f.m, required, "null", "Member must not be null")
		}
		c.at = c.at[:len(c.at)-1]
	}
}

func (c *checker) member(f *field, v reflect.Value) {
	c.at = append(c.at, step{f: f, index: -1})
	if v, ok := c.present(f.plan, v); ok {
		c.value(f.m, f.plan, v)
	}
	c.at = c.at[:len(c.at)-1]
}

// present is plan.present, except that it uses members to distinguish zero values that were sent from values that
// were not. It cannot do so inside lists, because members does not distinguish a list's elements.
func (c *checker) present(p *plan, v reflect.Value) (reflect.Value, bool) {
	if p.ptr || !v.IsZero() {
		return p.present(v)
	}
	switch p.kind {
	case kindStruct:
		return v, true
	case kindString:
		// The query protocols treat an enumeration's empty value as absent: Terraform sends CreateTargetGroup with an
		// empty ProtocolVersion.
		if p.shape.Enum != nil && (c.op.Service.Protocol == model.ProtocolQuery || c.op.Service.Protocol == model.ProtocolEC2) || slices.ContainsFunc(c.at, func(s step) bool { return s.index >= 0 }) {
			return v, false
		}
		fallthrough
	case kindBool, kindInt, kindFloat:
		return v, c.members.Has(c.memberPath())
	}
	return v, false
}

func (c *checker) memberPath() string {
	names := make([]string, len(c.at))
	for i, s := range c.at {
		names[i] = s.f.m.Name
	}
	return strings.Join(names, ".")
}

// value checks a value that is present. m is the member, list element or map value that holds it.
func (c *checker) value(m *model.Member, p *plan, v reflect.Value) {
	for _, b := range broken(p, v) {
		c.violated(m, b.kind, c.quoted(m, p, v), b.text)
	}
	here := len(c.at) - 1
	switch p.kind {
	case kindStruct, kindUnion:
		c.structure(p, v)
	case kindList:
		elems := elements(v)
		if p.elem.scalar() {
			c.scalars(m, p, v, "Member", p.shape.Elem, p.elem, elems)
			return
		}
		for i, e := range elems {
			c.at[here].index = i
			c.value(p.shape.Elem, p.elem, deref(p.elem, e))
		}
		c.at[here].index = -1
	case kindMap:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		c.scalars(m, p, v, "Map keys", p.shape.Key, p.key, keys)
		var values []reflect.Value
		for _, k := range keys {
			values = append(values, v.MapIndex(k))
		}
		if p.elem.scalar() {
			c.scalars(m, p, v, "Map value", p.shape.Value, p.elem, values)
			return
		}
		for i, k := range keys {
			c.at[here].key = clip(k.String())
			c.value(p.shape.Value, p.elem, deref(p.elem, values[i]))
		}
		c.at[here].key = ""
	}
}

func elements(list reflect.Value) (out []reflect.Value) {
	for i := range list.Len() {
		out = append(out, list.Index(i))
	}
	return out
}

// deref returns an element's value, or the zero value for a null.
func deref(p *plan, v reflect.Value) reflect.Value {
	switch {
	case !p.ptr:
		return v
	case v.IsNil():
		return reflect.Zero(p.typ)
	}
	return v.Elem()
}

// scalars checks the elements of a list, or the keys or values of a map. They are reported together, with all
// constraints on them. [seen] in reports about many services: "Value '[GET]' at 'x' failed to satisfy constraint:
// Member must satisfy constraint: [Member must have length less than or equal to 6, …]".
func (c *checker) scalars(m *model.Member, p *plan, v reflect.Value, subject string, em *model.Member, ep *plan, values []reflect.Value) {
	for _, e := range values {
		for _, b := range broken(ep, deref(ep, e)) {
			if c.deviates(em, b.kind) == nil {
				c.violated(m, b.kind, c.quoted(m, p, v), subject+" must satisfy constraint: ["+strings.Join(allAsked(ep), ", ")+"]")
				return
			}
		}
	}
}

func (p *plan) scalar() bool { return p.kind < kindList }

// A demand is one constraint of a shape, in words.
type demand struct {
	kind constraint
	text string
}

func atLeast(n float64) string { return "greater than or equal to " + number(n) }
func atMost(n float64) string  { return "less than or equal to " + number(n) }

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// broken returns the constraints that a value does not satisfy.
func broken(p *plan, v reflect.Value) []demand {
	s := p.shape
	if s.Min == nil && s.Max == nil && s.Pattern == "" && s.Enum == nil {
		return nil
	}
	var out []demand
	size, kind, what := 0.0, length, "Member must have length "
	switch p.kind {
	case kindString:
		size = float64(utf8.RuneCountInString(v.String()))
	case kindBlob, kindList, kindMap:
		size = float64(v.Len())
	case kindInt:
		size, kind, what = float64(v.Int()), bounds, "Member must have value "
	case kindFloat:
		size, kind, what = v.Float(), bounds, "Member must have value "
	default:
		return nil
	}
	switch {
	case s.Min != nil && !(size >= *s.Min): // NaN fails both comparisons
		out = append(out, demand{kind, what + atLeast(*s.Min)})
	case s.Max != nil && !(size <= *s.Max):
		out = append(out, demand{kind, what + atMost(*s.Max)})
	}
	if p.kind != kindString {
		return out
	}
	if s.Pattern != "" {
		if re := javaPattern(s.Pattern); re != nil && !re.MatchString(v.String()) {
			out = append(out, demand{pattern, "Member must satisfy regular expression pattern: " + s.Pattern})
		}
	}
	if s.Enum != nil && !slices.Contains(s.Enum, v.String()) {
		out = append(out, demand{enum, "Member must satisfy enum value set: [" + strings.Join(s.Enum, ", ") + "]"})
	}
	return out
}

// allAsked returns all constraints on a list's elements, in AWS's order.
func allAsked(p *plan) (out []string) {
	s, what := p.shape, "Member must have length "
	if p.kind == kindInt || p.kind == kindFloat {
		what = "Member must have value "
	}
	if s.Max != nil {
		out = append(out, what+atMost(*s.Max))
	}
	if s.Min != nil {
		out = append(out, what+atLeast(*s.Min))
	}
	if s.Pattern != "" {
		out = append(out, "Member must satisfy regular expression pattern: "+s.Pattern)
	}
	if s.Enum != nil {
		out = append(out, "Member must satisfy enum value set: ["+strings.Join(s.Enum, ", ")+"]")
	}
	return out
}

// violated records a violation by the current member, unless the service is known to accept it.
func (c *checker) violated(m *model.Member, kind constraint, value, text string) {
	if c.words.own && kind != required || len(c.found) >= maxFound {
		return
	}
	if d := c.deviates(m, kind); d != nil {
		if d.answer == nil {
			return
		}
		c.found = append(c.found, violation{path: c.path(), kind: ownWords, text: d.answer(c.path())})
		return
	}
	c.found = append(c.found, violation{path: c.path(), param: c.param(), kind: kind, value: value, text: text})
}

func (c *checker) path() string {
	var b strings.Builder
	for i, s := range c.at {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(lowerFirst(s.f.m.Name))
		if s.index >= 0 {
			b.WriteString("." + strconv.Itoa(s.index+1) + ".member")
		}
		if s.key != "" {
			b.WriteString("." + s.key + ".member")
		}
	}
	return b.String()
}

func (c *checker) param() string {
	var names []string
	for _, s := range c.at {
		names = append(names, s.f.ec2Name)
		if s.index >= 0 {
			names = append(names, strconv.Itoa(s.index+1))
		}
	}
	return strings.Join(names, ".")
}

// quoted returns a value as the message shows it. Secrets are not repeated, nor are bytes and structures, which AWS
// prints in Java's notation.
func (c *checker) quoted(m *model.Member, p *plan, v reflect.Value) string {
	text, ok := printed(m, p, v)
	switch {
	case ok:
		return "'" + text + "'"
	case m.Sensitive && c.words.masked:
		return "'***'"
	}
	return ""
}

func printed(m *model.Member, p *plan, v reflect.Value) (string, bool) {
	if m.Sensitive {
		return "", false
	}
	switch p.kind {
	case kindString:
		return v.String(), true
	case kindInt:
		return strconv.FormatInt(v.Int(), 10), true
	case kindFloat:
		return number(v.Float()), true
	case kindList:
		var parts []string
		for _, e := range elements(v) {
			text, ok := printed(p.shape.Elem, p.elem, deref(p.elem, e))
			if !ok {
				return "", false
			}
			parts = append(parts, text)
		}
		return "[" + strings.Join(parts, ", ") + "]", true
	case kindMap:
		var parts []string
		for _, k := range v.MapKeys() {
			text, ok := printed(p.shape.Value, p.elem, deref(p.elem, v.MapIndex(k)))
			if !ok || p.shape.Key.Sensitive {
				return "", false
			}
			parts = append(parts, k.String()+"="+text)
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}", true
	}
	return "", false
}

// coral returns errors with the text of AWS's service framework, e.g. from IAM: "1 validation error detected: Value
// null at 'roleName' failed to satisfy constraint: Member must not be null".
func coral(code string) func([]violation) *awserr.Error {
	return func(found []violation) *awserr.Error {
		// Errors with a service's own text come from checks that run after the framework's.
		modelled := slices.DeleteFunc(slices.Clone(found), func(v violation) bool { return v.kind == ownWords })
		if len(modelled) == 0 {
			return awserr.New(code, found[0].text)
		}
		var b strings.Builder
		s := ""
		if len(modelled) > 1 {
			s = "s"
		}
		fmt.Fprintf(&b, "%d validation error%s detected: ", len(modelled), s)
		for i, v := range modelled {
			if i > 0 {
				b.WriteString("; ")
			}
			b.WriteString("Value ")
			if v.value != "" {
				b.WriteString(v.value + " ")
			}
			b.WriteString("at '" + v.path + "' failed to satisfy constraint: " + v.text)
		}
		return awserr.New(code, b.String())
	}
}
