package ec2

import (
	"reflect"
	"strings"
	"testing"
)

func TestOperationsHonourOnlyMembersThatExist(t *testing.T) {
	svc := New(Config{}).AWS()
	handler := reflect.TypeOf(svc.Handler)
	for _, op := range svc.Operations {
		m, ok := handler.MethodByName(op.Name)
		if !ok {
			t.Errorf("%s has no handler", op.Name)
			continue
		}
		in := m.Type.In(2).Elem()
		for member := range strings.FieldsSeq(op.Members) {
			at := in
			for part := range strings.SplitSeq(member, ".") {
				for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
					at = at.Elem()
				}
				f, ok := at.FieldByName(part)
				if !ok {
					t.Errorf("%s has no member %s", op.Name, member)
					break
				}
				at = f.Type
			}
		}
	}
}
