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

// Validate checks in, a pointer to the SDK's input struct of op, against the constraints of the model as corrected by
// own, which may be nil: required members, lengths, ranges, patterns and enumerations. The error uses the service's
// words. members are those that the request carried (nil means those that are not zero).
func Validate(op *model.Operation, own *Constraints, in any, members awsapi.Members) error {
	if op.Input == nil {
		return nil
	}
	v := reflect.ValueOf(in).Elem()
	p := planFor(op.Input, v.Type())
	if p == nil {
		return fmt.Errorf("wire: validate %s: %T cannot hold a %s", op.Name, in, op.Input.Type)
	}
	c := checker{op: op, own: own, words: validation(op.Service), members: members}
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
	value string // quoted or masked; "null" if there is none
	text  string // the constraint in words
	own   bool   // text is the service's own message, not its framework's
}

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
	own     *Constraints
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
		if !c.own.required(f.m) || f.plan == nil {
			continue
		}
		c.at = append(c.at, step{f: f, index: -1})
		if _, ok := c.present(f, v.Field(f.index)); !ok {
			c.violated("null", "Member must not be null", false)
		}
		c.at = c.at[:len(c.at)-1]
	}
}

func (c *checker) member(f *field, v reflect.Value) {
	c.at = append(c.at, step{f: f, index: -1})
	if v, ok := c.present(f, v); ok {
		c.value(f.m, f.plan, v)
	}
	c.at = c.at[:len(c.at)-1]
}

// present is plan.present, except that it uses members to distinguish zero values that were sent from values that
// were not. It cannot do so inside lists, because members does not distinguish a list's elements.
func (c *checker) present(f *field, v reflect.Value) (reflect.Value, bool) {
	p := f.plan
	if p.ptr || !v.IsZero() {
		v, ok := p.present(v)
		return v, ok && !(p.kind == kindString && v.Len() == 0 && c.ignoresEmpty(f.m))
	}
	switch p.kind {
	case kindStruct:
		return v, true
	case kindString:
		if c.ignoresEmpty(f.m) || slices.ContainsFunc(c.at, func(s step) bool { return s.index >= 0 }) {
			return v, false
		}
		fallthrough
	case kindBool, kindInt, kindFloat:
		return v, c.members.Has(c.memberPath())
	}
	return v, false
}

// ignoresEmpty reports whether an empty text counts as absent: the query protocols treat an enumeration's empty value
// so. Terraform sends CreateTargetGroup with an empty ProtocolVersion.
func (c *checker) ignoresEmpty(m *model.Member) bool {
	return (c.op.Service.Protocol == model.ProtocolQuery || c.op.Service.Protocol == model.ProtocolEC2) && c.own.limits(m).enum != nil
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
	if !c.words.own {
		c.limited(m, p, v)
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

// limited checks a value against the limits of its member.
func (c *checker) limited(m *model.Member, p *plan, v reflect.Value) {
	l := c.own.limits(m)
	for _, text := range l.broken(p, v) {
		if strings.HasPrefix(text, patternWords) && l.patternText != nil {
			c.violated("", l.patternText(c.path()), true)
			continue
		}
		c.violated(c.quoted(m, p, v), text, false)
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
	if c.words.own {
		return
	}
	l := c.own.limits(em)
	for _, e := range values {
		if l.broken(ep, deref(ep, e)) != nil {
			c.violated(c.quoted(m, p, v), subject+" must satisfy constraint: ["+strings.Join(l.all(ep), ", ")+"]", false)
			return
		}
	}
}

func (p *plan) scalar() bool { return p.kind < kindList }

func atLeast(n float64) string { return "greater than or equal to " + number(n) }
func atMost(n float64) string  { return "less than or equal to " + number(n) }

func number(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

const patternWords = "Member must satisfy regular expression pattern: "

func (l limits) enumWords() string {
	return "Member must satisfy enum value set: [" + strings.Join(l.enum, ", ") + "]"
}

// sizeWords returns how a bound of a value's length or value begins.
func sizeWords(p *plan) string {
	if p.kind == kindInt || p.kind == kindFloat {
		return "Member must have value "
	}
	return "Member must have length "
}

// broken returns, in words, the constraints that a value does not satisfy.
func (l limits) broken(p *plan, v reflect.Value) (out []string) {
	if l.min == nil && l.max == nil && l.pattern == "" && l.enum == nil {
		return nil
	}
	var size float64
	switch p.kind {
	case kindString:
		size = float64(utf8.RuneCountInString(v.String()))
	case kindBlob, kindList, kindMap:
		size = float64(v.Len())
	case kindInt:
		size = float64(v.Int())
	case kindFloat:
		size = v.Float()
	default:
		return nil
	}
	switch {
	case l.min != nil && !(size >= *l.min): // NaN fails both comparisons
		out = append(out, sizeWords(p)+atLeast(*l.min))
	case l.max != nil && !(size <= *l.max):
		out = append(out, sizeWords(p)+atMost(*l.max))
	}
	var text string
	switch p.kind {
	case kindString:
		text = v.String()
	case kindInt:
		text = strconv.FormatInt(v.Int(), 10)
	default:
		return out
	}
	if l.pattern != "" && p.kind == kindString {
		if re := javaPattern(l.pattern); re != nil && !re.MatchString(text) {
			out = append(out, patternWords+l.pattern)
		}
	}
	if l.enum != nil && !slices.Contains(l.enum, text) {
		out = append(out, l.enumWords())
	}
	return out
}

// all returns all constraints on a list's elements in words, in AWS's order.
func (l limits) all(p *plan) (out []string) {
	if l.max != nil {
		out = append(out, sizeWords(p)+atMost(*l.max))
	}
	if l.min != nil {
		out = append(out, sizeWords(p)+atLeast(*l.min))
	}
	if l.pattern != "" {
		out = append(out, patternWords+l.pattern)
	}
	if l.enum != nil {
		out = append(out, l.enumWords())
	}
	return out
}

// violated records a violation by the current member. own says that text is the service's own message.
func (c *checker) violated(value, text string, own bool) {
	if len(c.found) < maxFound {
		c.found = append(c.found, violation{path: c.path(), param: c.param(), value: value, text: text, own: own})
	}
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
		modelled := slices.DeleteFunc(slices.Clone(found), func(v violation) bool { return v.own })
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
