// Package shapetype creates Go types for shapes of API models at run time, in the form that the SDK uses. It is for
// tests of package wire that have no SDK type (the protocol-test corpus) or should not link the SDK (fuzzing).
package shapetype

import (
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// Of returns the struct type that the SDK would have for a structure. Recursive shapes are unrolled; members below
// depth are left out.
func Of(s *model.Shape, depth int) reflect.Type {
	var fields []reflect.StructField
	for _, m := range s.Members {
		if t := memberType(m, depth-1); t != nil {
			fields = append(fields, reflect.StructField{Name: strings.ToUpper(m.Name[:1]) + m.Name[1:], Type: t})
		}
	}
	return reflect.StructOf(fields)
}

func memberType(m *model.Member, depth int) reflect.Type {
	switch m.Shape.Type {
	case model.Structure:
		if depth <= 0 {
			return nil
		}
		return reflect.PointerTo(Of(m.Shape, depth))
	case model.List, model.Map:
		e := m.Shape.Elem
		if m.Shape.Type == model.Map {
			e = m.Shape.Value
		}
		if depth <= 0 {
			return nil
		}
		t := memberType(e, depth-1)
		if t == nil {
			return nil
		}
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if m.Shape.Type == model.Map {
			return reflect.MapOf(reflect.TypeFor[string](), t)
		}
		return reflect.SliceOf(t)
	case model.String:
		return reflect.TypeFor[*string]()
	case model.Boolean:
		return reflect.TypeFor[*bool]()
	case model.Integer:
		return reflect.TypeFor[*int32]()
	case model.Long:
		return reflect.TypeFor[*int64]()
	case model.Float:
		return reflect.TypeFor[*float32]()
	case model.Double:
		return reflect.TypeFor[*float64]()
	case model.Timestamp:
		return reflect.TypeFor[*time.Time]()
	case model.Document:
		return reflect.TypeFor[any]()
	case model.Blob:
		if m.Streaming {
			return reflect.TypeFor[io.Reader]()
		}
		return reflect.TypeFor[[]byte]()
	}
	return nil
}
