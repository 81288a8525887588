package server

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// missingMember returns the path of the first required member that in, decoded
// from shape, lacks, or "". It keeps handlers from meeting nil where the SDK's
// clients never leave one.
func missingMember(shape *model.Shape, in any) string {
	if shape == nil {
		return ""
	}
	return missingIn(shape, reflect.ValueOf(in), "", 0)
}

func missingIn(shape *model.Shape, v reflect.Value, path string, depth int) string {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return ""
		}
		v = v.Elem()
	}
	switch {
	case depth > 32: // shapes may refer to themselves
	case shape.Type == model.Structure && v.Kind() == reflect.Struct && !shape.Union:
		for _, m := range shape.Members {
			f := v.FieldByName(fieldName(m.Name))
			if !f.IsValid() {
				continue
			}
			p := path + m.Name
			if m.Required && !m.IdempotencyToken && isAbsent(f) {
				return p
			}
			if missing := missingIn(m.Shape, f, p+".", depth+1); missing != "" {
				return missing
			}
		}
	case shape.Type == model.List && v.Kind() == reflect.Slice && structure(shape) != nil:
		for i := range v.Len() {
			if missing := missingIn(shape.Elem.Shape, v.Index(i), fmt.Sprintf("%s%d.member.", path, i+1), depth+1); missing != "" {
				return missing
			}
		}
	case shape.Type == model.Map && v.Kind() == reflect.Map && structure(shape) != nil:
		for it := v.MapRange(); it.Next(); {
			if missing := missingIn(shape.Value.Shape, it.Value(), fmt.Sprintf("%s%v.member.", path, it.Key()), depth+1); missing != "" {
				return missing
			}
		}
	}
	return ""
}

// isAbsent: numbers and booleans that the SDK holds by value cannot be absent.
func isAbsent(f reflect.Value) bool {
	switch f.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return f.IsNil()
	case reflect.String: // enumerations
		return f.Len() == 0
	}
	return false
}

func fieldName(member string) string { return strings.ToUpper(member[:1]) + member[1:] }
