package template

import (
	"encoding/base64"
	"errors"
	"math/big"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// maxResolved limits the total size of the texts that functions produce while one value
	// is resolved: nested functions can double a text at each level.
	maxResolved = 4 << 20
)

// noValue is the value of AWS::NoValue. Lists and maps drop it.
type noValue struct{}

// A resolver computes values.
type resolver struct {
	i    *Instance
	rt   Runtime
	made int
	// attribute is set only while rules are evaluated.
	attribute Attribute
}

func (i *Instance) resolver(rt Runtime) *resolver { return &resolver{i: i, rt: rt} }

// Properties resolves the properties of a resource. Dynamic references are resolved last, because functions may have
// composed them.
func (i *Instance) Properties(r *Resource, rt Runtime) (*Map, error) {
	v, err := i.Value(r.Properties, rt)
	if err != nil {
		return nil, err
	}
	if v, err = Resolve(v, rt.Dynamic); err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, formatErr("[/Resources/%s] 'Properties' must be an object.", r.ID)
	}
	return m, nil
}

// Value resolves a value of the template. It returns nil for AWS::NoValue.
func (i *Instance) Value(v any, rt Runtime) (any, error) {
	out, err := i.resolver(rt).value(v, 0)
	if _, none := out.(noValue); none {
		return nil, err
	}
	return out, err
}

var errTooLarge = templateErr("a value of the template becomes larger than %d bytes", maxResolved) // our own wording

func (r *resolver) text(s string) (any, error) {
	if r.made += len(s) + 16; r.made > maxResolved {
		return nil, errTooLarge
	}
	return s, nil
}

func (r *resolver) value(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errUnsupported()
	}
	switch v := v.(type) {
	case string:
		return r.dynamic(v)
	case []any:
		out := []any{}
		for _, e := range v {
			e, err := r.value(e, depth+1)
			if err != nil {
				return nil, err
			}
			if _, none := e.(noValue); !none {
				out = append(out, e)
			}
		}
		return out, nil
	case *Map:
		if name, arg, ok := function(v); ok {
			return r.function(name, arg, depth)
		}
		out := &Map{}
		for _, k := range v.Keys() {
			e, err := r.value(v.Get(k), depth+1)
			if err != nil {
				return nil, err
			}
			if _, none := e.(noValue); !none {
				out.Set(k, e)
			}
		}
		return out, nil
	}
	return v, nil
}

// dynamic replaces {{resolve:…}} in a text.
func (r *resolver) dynamic(text string) (any, error) {
	if r.rt == nil {
		return r.text(text)
	}
	text, err := replace(text, r.rt.Dynamic)
	if err != nil {
		return nil, err
	}
	return r.text(text)
}

var errNoRuntime = errors.New("the value is known only when the stack is")

func (r *resolver) ref(name string) (any, error) {
	if v, ok := r.i.params[name]; ok {
		return v, nil
	}
	switch name {
	case "AWS::AccountId":
		return r.i.env.AccountID, nil
	case "AWS::NoValue":
		return noValue{}, nil
	case "AWS::NotificationARNs":
		out := []any{}
		for _, a := range r.i.env.NotificationARNs {
			out = append(out, a)
		}
		return out, nil
	case "AWS::Partition":
		return "aws", nil
	case "AWS::Region":
		return r.i.env.Region, nil
	case "AWS::StackId":
		return r.i.env.StackID, nil
	case "AWS::StackName":
		return r.i.env.StackName, nil
	case "AWS::URLSuffix":
		return "amazonaws.com", nil
	}
	if r.rt == nil {
		return nil, errNoRuntime
	}
	return r.rt.Ref(name)
}

func (r *resolver) args(arg any, depth int) ([]any, error) {
	list, ok := arg.([]any)
	if !ok {
		return nil, errUnsupported()
	}
	out := make([]any, len(list))
	for n, e := range list {
		v, err := r.value(e, depth+1)
		if err != nil {
			return nil, err
		}
		out[n] = v
	}
	return out, nil
}

func (r *resolver) function(name string, arg any, depth int) (any, error) {
	switch name {
	case "Ref":
		id, _ := arg.(string)
		return r.ref(id)
	case "Fn::If":
		list, _ := arg.([]any)
		if len(list) != 3 {
			return nil, templateErr(formIf)
		}
		on, err := r.i.condition(textOf(list[0]))
		if err != nil {
			return nil, err
		}
		if on {
			return r.value(list[1], depth+1)
		}
		return r.value(list[2], depth+1)
	case "Fn::Sub":
		return r.sub(arg, depth)
	case "Fn::GetAZs", "Fn::Base64", "Fn::ImportValue", "Fn::Length", "Fn::ToJsonString":
		v, err := r.value(arg, depth+1)
		if err != nil {
			return nil, err
		}
		return r.unary(name, v)
	case "Fn::GetAtt":
		if text, ok := arg.(string); ok {
			id, attr, _ := strings.Cut(text, ".")
			arg = []any{id, attr}
		}
	case "Fn::Equals", "Fn::And", "Fn::Or", "Fn::Not":
		m := &Map{}
		m.Set(name, arg)
		return r.boolean(m, depth)
	case "Fn::RefAll", "Fn::ValueOf", "Fn::ValueOfAll":
		if r.attribute == nil {
			return nil, templateErrUnsupported(name)
		}
		return r.ofParameters(name, arg)
	case "Fn::FindInMap":
		list, _ := arg.([]any)
		if len(list) == 4 { // the default is resolved only if it is needed
			args, err := r.args(list[:3], depth)
			if err != nil {
				return nil, err
			}
			if v, err := r.find(args); err == nil {
				return v, nil
			}
			m, ok := list[3].(*Map)
			if !ok || !m.Has("DefaultValue") {
				return nil, templateErr(formFindInMap)
			}
			return r.value(m.Get("DefaultValue"), depth+1)
		}
	}
	args, err := r.args(arg, depth)
	if err != nil {
		return nil, err
	}
	return r.call(name, args)
}

func (r *resolver) unary(name string, v any) (any, error) {
	text, scalar := Text(v)
	switch name {
	case "Fn::GetAZs":
		if !scalar || r.rt == nil {
			return nil, errNoRuntime
		}
		if text == "" {
			text = r.i.env.Region
		}
		zones, err := r.rt.Zones(text)
		out := []any{}
		for _, z := range zones {
			out = append(out, z)
		}
		return out, err
	case "Fn::Base64":
		if !scalar {
			return nil, templateErr(formBase64)
		}
		return r.text(base64.StdEncoding.EncodeToString([]byte(text)))
	case "Fn::ImportValue":
		if !scalar || r.rt == nil {
			return nil, errNoRuntime
		}
		return r.rt.Import(text)
	case "Fn::Length":
		list, ok := v.([]any)
		if !ok {
			return nil, TransformError("Transform AWS::LanguageExtensions failed with: Fn::Length layout is incorrect")
		}
		return Number(strconv.Itoa(len(list))), nil
	}
	return r.text(JSON(v)) // Fn::ToJsonString
}

func (r *resolver) call(name string, args []any) (any, error) {
	switch name {
	case "Fn::GetAtt":
		if len(args) != 2 || r.rt == nil {
			return nil, errNoRuntime
		}
		return r.rt.GetAtt(textOf(args[0]), textOf(args[1]))
	case "Fn::FindInMap":
		return r.find(args)
	case "Fn::Join":
		return r.join(args)
	case "Fn::Split":
		if len(args) != 2 {
			return nil, templateErr(formSplit)
		}
		text, ok := Text(args[1])
		delimiter, _ := Text(args[0])
		if !ok || delimiter == "" {
			return nil, templateErr(formSplit)
		}
		out := []any{}
		for s := range strings.SplitSeq(text, delimiter) {
			if _, err := r.text(s); err != nil {
				return nil, err
			}
			out = append(out, s)
		}
		return out, nil
	case "Fn::Select":
		if len(args) != 2 {
			return nil, templateErr(formSelect)
		}
		n, err := strconv.Atoi(textOf(args[0]))
		list, ok := args[1].([]any)
		if err != nil || !ok {
			return nil, templateErr(formSelect)
		}
		if n < 0 || n >= len(list) {
			return nil, templateErr("Fn::Select cannot select nonexistent value at index %d", n)
		}
		return list[n], nil
	case "Fn::Cidr":
		return r.cidr(args)
	}
	return nil, templateErrUnsupported(name)
}

func (r *resolver) find(args []any) (any, error) {
	if len(args) != 3 {
		return nil, templateErr(formFindInMap)
	}
	name, first, second := textOf(args[0]), textOf(args[1]), textOf(args[2])
	m, ok := r.i.t.mappings.Get(name).(*Map)
	if !ok {
		return nil, templateErr("Mapping named '%s' is not present in the 'Mappings' section of template.", name)
	}
	row, ok := m.Get(first).(*Map)
	if !ok || !row.Has(second) {
		return nil, templateErr("Unable to get mapping for %s::%s::%s", name, first, second)
	}
	return row.Get(second), nil
}

func (r *resolver) join(args []any) (any, error) {
	if len(args) != 2 {
		return nil, templateErr(formJoin)
	}
	list, ok := args[1].([]any)
	if !ok {
		return nil, templateErr(formJoin)
	}
	parts := make([]string, len(list))
	size := 0
	for n, e := range list {
		text, ok := Text(e)
		if !ok {
			return nil, templateErr(formJoin)
		}
		parts[n] = text
		if size += len(text) + len(textOf(args[0])); size > maxResolved {
			return nil, errTooLarge
		}
	}
	return r.text(strings.Join(parts, textOf(args[0])))
}

func (r *resolver) sub(arg any, depth int) (any, error) {
	text, _ := arg.(string)
	var vars *Map
	if list, ok := arg.([]any); ok && len(list) == 2 {
		text, _ = list[0].(string)
		m, ok := list[1].(*Map)
		if !ok {
			return nil, templateErr(formSub)
		}
		vars = m
	}
	values := map[string]string{}
	var b strings.Builder
	for _, p := range pieces(text) {
		if !p.variable {
			b.WriteString(p.text)
		} else {
			s, ok := values[p.text]
			if !ok {
				v, err := r.variable(p.text, vars, depth)
				if err != nil {
					return nil, err
				}
				list, isList := v.([]any)
				if s, ok = Text(v); !ok && isList {
					s, ok = joined(list), true
				}
				if !ok {
					return nil, templateErr("Fn::Sub expression does not resolve to a string") // [?]
				}
				values[p.text] = s
			}
			b.WriteString(s)
		}
		if b.Len() > maxResolved {
			return nil, errTooLarge
		}
	}
	return r.dynamic(b.String())
}

func (r *resolver) variable(name string, vars *Map, depth int) (any, error) {
	if vars.Has(name) {
		return r.value(vars.Get(name), depth+1)
	}
	if id, attr, ok := strings.Cut(name, "."); ok {
		if r.rt == nil {
			return nil, errNoRuntime
		}
		return r.rt.GetAtt(id, attr)
	}
	return r.ref(name)
}

// cidr returns consecutive blocks of one size from the beginning of another block.
func (r *resolver) cidr(args []any) (any, error) {
	block, err := netip.ParsePrefix(textOf(args[0]))
	if err != nil {
		return nil, templateErr("Fn::Cidr: %q is not a CIDR block", textOf(args[0])) // our own wording
	}
	bits := 0
	if len(args) == 3 {
		if bits, err = strconv.Atoi(textOf(args[2])); err != nil {
			return nil, templateErr(formCidr)
		}
	}
	count, err := strconv.Atoi(textOf(args[1]))
	if err != nil || count < 1 || count > 256 {
		return nil, templateErr("Fn::Cidr: the count must be a number from 1 to 256") // our own wording
	}
	size := block.Addr().BitLen() - bits
	if len(args) < 3 {
		size = min(block.Bits()+8, block.Addr().BitLen())
	}
	room := new(big.Int).Lsh(big.NewInt(1), uint(max(size-block.Bits(), 0)))
	if bits < 0 || size < block.Bits() || size > block.Addr().BitLen() || room.Cmp(big.NewInt(int64(count))) < 0 {
		return nil, templateErr("Fn::Cidr: %s does not have room for %d blocks of /%d", block, count, size) // our own wording
	}
	at := new(big.Int).SetBytes(block.Masked().Addr().AsSlice())
	step := new(big.Int).Lsh(big.NewInt(1), uint(block.Addr().BitLen()-size))
	out := []any{}
	for range count {
		raw := at.FillBytes(make([]byte, block.Addr().BitLen()/8))
		addr, _ := netip.AddrFromSlice(raw)
		out = append(out, netip.PrefixFrom(addr, size).String())
		at.Add(at, step)
	}
	return out, nil
}

// boolean evaluates an expression that must be true or false.
func (r *resolver) boolean(v any, depth int) (bool, error) {
	if depth > maxDepth {
		return false, errUnsupported()
	}
	m, ok := v.(*Map)
	if !ok || len(m.Keys()) != 1 {
		if b, ok := v.(bool); ok {
			return b, nil
		}
		return false, formatErr("Conditions can only be boolean operations on parameters and other conditions")
	}
	name := m.Keys()[0]
	if name == "Condition" {
		return r.i.condition(textOf(m.Get(name)))
	}
	list, _ := m.Get(name).([]any)
	switch name {
	case "Fn::Equals":
		args, err := r.args(list, depth)
		if err != nil {
			return false, err
		}
		if len(args) != 2 {
			return false, templateErr(formEquals)
		}
		return Equal(args[0], args[1]), nil
	case "Fn::Not":
		if len(list) != 1 {
			return false, templateErr("every Fn::Not object requires one boolean parameter.")
		}
		b, err := r.boolean(list[0], depth+1)
		return !b, err
	case "Fn::And", "Fn::Or":
		for _, e := range list {
			b, err := r.boolean(e, depth+1)
			if err != nil || b == (name == "Fn::Or") {
				return b, err
			}
		}
		return name == "Fn::And", nil
	}
	return r.rule(name, list, depth)
}
