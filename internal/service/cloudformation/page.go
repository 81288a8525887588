package cloudformation

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// A TypeSupport describes how far a resource type is supported.
type TypeSupport struct {
	Type string
	// Handled are the properties that can be set, and Refused those that fail the resource. Some of
	// them are dotted paths.
	Handled, Refused []string
	// InPlace are the properties that an update can change without a new resource.
	InPlace []string
	// Values are the values that the call that creates the resource refuses.
	Values string
}

// TypesSupported returns how far each resource type is supported. refused returns the members and
// the values that the operation of an SDK input refuses.
func TypesSupported(refused func(input any) (members []string, values string)) []TypeSupport {
	var out []TypeSupport
	for _, typ := range Types() {
		h, s := handlers[typ], schemas()[typ]
		if h.inPlace == anyProperty || typ == customResource {
			continue // see CustomResources
		}
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
				// Some of these set members of a structure in the call, such as Placement.
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

// unhandled returns the paths at or below a property for which a struct has no member, or whose
// members the operation refuses, and reports whether the property itself has a member.
func (s *schema) unhandled(path string, want *valueOf, in reflect.Type, members []string, depth int) ([]string, bool) {
	for in != nil && (in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice) {
		in = in.Elem()
	}
	name := path[strings.LastIndexByte(path, '.')+1:]
	if in == nil || in.Kind() != reflect.Struct {
		return nil, in != nil // a string, or the members of a map
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
