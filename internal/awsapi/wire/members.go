package wire

import (
	"reflect"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// MembersOf returns the members that in, the SDK's input struct of op, carries. It is
// what Decode returns for a request that a client makes of in, without the wire.
func MembersOf(op *model.Operation, in any) awsapi.Members {
	members := awsapi.Members{}
	v := reflect.ValueOf(in)
	if op.Input != nil && v.Kind() == reflect.Pointer && !v.IsNil() {
		addMembers(members, "", planFor(op.Input, v.Type()), v.Elem(), 0)
	}
	return members
}

func addMembers(members awsapi.Members, path string, p *plan, v reflect.Value, depth int) {
	if p == nil || depth > maxDepth {
		return
	}
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch p.kind {
	case kindStruct:
		for _, f := range p.fields {
			if f.plan == nil || f.index < 0 || v.Field(f.index).IsZero() {
				continue
			}
			name := join(path, f.m.Name)
			members.Add(name)
			addMembers(members, name, f.plan, v.Field(f.index), depth+1)
		}
	case kindUnion:
		if f := p.variants[reflect.Indirect(v.Elem()).Type()]; f != nil {
			name := join(path, f.m.Name)
			members.Add(name)
			addMembers(members, name, f.plan, reflect.Indirect(v.Elem()).Field(0), depth+1)
		}
	case kindList:
		for i := range v.Len() {
			addMembers(members, path, p.elem, v.Index(i), depth+1)
		}
	case kindMap:
		for it := v.MapRange(); it.Next(); {
			addMembers(members, path, p.elem, it.Value(), depth+1)
		}
	}
}
