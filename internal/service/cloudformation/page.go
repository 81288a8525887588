package cloudformation

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A TypeSupport says what of a resource type is handled.
type TypeSupport struct {
	Type string
	// Handled are the properties that can be given, and Refused those that fail the resource, some
	// of them dotted paths.
	Handled, Refused []string
	// InPlace are the properties that an update can change without a new resource.
	InPlace []string
	// Values are values that the call which creates the resource refuses.
	Values string
}

// TypesSupported returns what of each resource type is handled. refused returns the members and
// the values that the operation of an SDK input refuses.
func TypesSupported(refused func(input any) (members []string, values string)) []TypeSupport {
	var out []TypeSupport
	for _, typ := range Types() {
		h, s := handlers[typ], schemas()[typ]
		if s == nil {
			s = &schema{}
		}
		members, values := refused(h.input)
		t := TypeSupport{Type: typ, InPlace: strings.Fields(h.inPlace), Values: values}
		slices.Sort(t.InPlace)
		for _, p := range slices.Sorted(maps.Keys(s.Properties)) {
			switch {
			case slices.Contains(s.ReadOnly, p):
			case slices.Contains(strings.Fields(h.own), p):
				// Some are members of a structure of the call, such as Placement.
				if slices.ContainsFunc(members, func(m string) bool { _, last, deep := strings.Cut(m, "."); return deep && last == p }) {
					t.Refused = append(t.Refused, p)
					continue
				}
				t.Handled = append(t.Handled, p)
			default:
				missing, ok := s.unhandled(p, s.Properties[p], reflect.TypeOf(h.input), members, 0)
				if ok {
					t.Handled = append(t.Handled, p)
				}
				t.Refused = append(t.Refused, missing...)
			}
		}
		out = append(out, t)
	}
	return out
}

// unhandled returns the paths below a property that a member of a struct has no place for, or
// that the operation refuses, and whether there is a place for the property itself.
func (s *schema) unhandled(path string, want *valueOf, in reflect.Type, members []string, depth int) ([]string, bool) {
	for in != nil && (in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice) {
		in = in.Elem()
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	if in == nil || in.Kind() != reflect.Struct {
		return nil, in != nil // a text, or the members of a map
	}
	field, ok := in.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, name) })
	if !ok || slices.ContainsFunc(members, func(m string) bool { return strings.EqualFold(m, path) }) {
		return []string{path}, false
	}
	for want != nil && want.Ref != "" {
		want = s.Definitions[strings.TrimPrefix(want.Ref, "#/definitions/")]
	}
	for want != nil && want.Items != nil {
		want = want.Items
		for want != nil && want.Ref != "" {
			want = s.Definitions[strings.TrimPrefix(want.Ref, "#/definitions/")]
		}
	}
	var missing []string
	if want != nil && depth < 6 {
		for _, p := range slices.Sorted(maps.Keys(want.Properties)) {
			more, _ := s.unhandled(path+"."+p, want.Properties[p], field.Type, members, depth+1)
			missing = append(missing, more...)
		}
	}
	return missing, true
}
