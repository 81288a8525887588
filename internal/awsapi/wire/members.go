package wire

import (
	"reflect"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// MembersOf returns the members that in, the SDK's input struct of op, carries: what Decode would return for a
// request that a client makes from in.
func MembersOf(op *model.Operation, in any) awsapi.Members {
	return membersOf(op, in, func(f *field, v reflect.Value) bool {
		switch v.Kind() {
		case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
			return v.IsZero() && !f.m.Required // clients send required members even if they are zero
		}
		return v.IsZero()
	})
}

// Filled returns the members of in that are not empty: not false, 0 or "", nor lists and structures that contain only
// such values.
func Filled(op *model.Operation, in any) awsapi.Members {
	return membersOf(op, in, func(_ *field, v reflect.Value) bool { return empty(v) })
}

func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil() || empty(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !empty(v.Field(i)) {
				return false
			}
		}
		return v.NumField() > 0 && v.Type().Field(0).IsExported() || v.IsZero() // do not descend into time.Time
	case reflect.Slice:
		for i := range v.Len() {
			if !empty(v.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return v.Len() == 0
	}
	return v.IsZero()
}

func membersOf(op *model.Operation, in any, absent func(*field, reflect.Value) bool) awsapi.Members {
	members := awsapi.Members{}
	v := reflect.ValueOf(in)
	if op.Input != nil && v.Kind() == reflect.Pointer && !v.IsNil() {
		addMembers(members, absent, "", planFor(op.Input, v.Type()), v.Elem(), 0)
	}
	return members
}

func addMembers(members awsapi.Members, absent func(*field, reflect.Value) bool, path string, p *plan, v reflect.Value, depth int) {
	if p == nil || depth > maxDepth {
		return
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch p.kind {
	case kindStruct:
		for _, f := range p.fields {
			if f.plan == nil || f.index < 0 || absent(f, v.Field(f.index)) {
				continue
			}
			name := join(path, f.m.Name)
			members.Add(name)
			addMembers(members, absent, name, f.plan, v.Field(f.index), depth+1)
		}
	case kindUnion:
		if f := p.variants[reflect.Indirect(v.Elem()).Type()]; f != nil {
			name := join(path, f.m.Name)
			members.Add(name)
			addMembers(members, absent, name, f.plan, reflect.Indirect(v.Elem()).Field(0), depth+1)
		}
	case kindList:
		for i := range v.Len() {
			addMembers(members, absent, path, p.elem, v.Index(i), depth+1)
		}
	case kindMap:
		for it := v.MapRange(); it.Next(); {
			addMembers(members, absent, path, p.elem, it.Value(), depth+1)
		}
	}
}
