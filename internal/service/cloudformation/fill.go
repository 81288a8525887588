package cloudformation

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// fill writes the properties of a resource into the members of an SDK input that have the
// same names. other lists properties that the handler deals with itself. If any other
// property has no member, the resource fails, so that nothing is silently left out.
func (r *request) fill(in any, other string) error {
	return r.fillWith(in, r.props, strings.Fields(other), "")
}

// create fills an input as fill does and calls its operation.
func create[Out any](r *request, in any, other string) (*Out, error) {
	if err := r.fill(in, other); err != nil {
		return nil, err
	}
	return call[Out](r, in)
}

// fillIn writes one property, which is a map, into an SDK struct.
func (r *request) fillIn(into any, property string, other string) error {
	m, ok := r.props.Get(property).(*template.Map)
	if !ok {
		return nil
	}
	return r.fillWith(into, m, strings.Fields(other), property+".")
}

func (r *request) fillWith(into any, m *template.Map, other []string, path string) error {
	return r.structure(reflect.ValueOf(into).Elem(), m, other, path)
}

func (r *request) structure(into reflect.Value, m *template.Map, other []string, path string) error {
	for _, k := range m.Keys() {
		if slices.Contains(other, k) {
			continue
		}
		field := into.FieldByName(k)
		if !field.IsValid() {
			field = into.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, k) })
		}
		if !field.IsValid() || !field.CanSet() {
			return r.notHonoured(path + k)
		}
		if err := r.set(field, m.Get(k), path+k); err != nil {
			return err
		}
	}
	return nil
}

// set sets a member to a template value, which it converts to the member's type.
func (r *request) set(into reflect.Value, v any, path string) error {
	text, scalar := template.Text(v)
	list, isList := v.([]any)
	m, isMap := v.(*template.Map)
	switch into.Kind() {
	case reflect.Pointer:
		target := reflect.New(into.Type().Elem())
		if err := r.set(target.Elem(), v, path); err != nil {
			return err
		}
		into.Set(target)
		return nil
	case reflect.String:
		if !scalar {
			text = template.JSON(v) // policy documents are written as maps
		}
		into.SetString(text)
		return nil
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if !scalar || err != nil {
			return r.wrongType(path, "Boolean")
		}
		into.SetBool(b)
		return nil
	case reflect.Int32, reflect.Int64, reflect.Int:
		n, err := strconv.ParseInt(text, 10, 64)
		if !scalar || err != nil {
			return r.wrongType(path, "Integer")
		}
		into.SetInt(n)
		return nil
	case reflect.Float64, reflect.Float32:
		n, err := strconv.ParseFloat(text, 64)
		if !scalar || err != nil {
			return r.wrongType(path, "Number")
		}
		into.SetFloat(n)
		return nil
	case reflect.Slice:
		if into.Type().Elem().Kind() == reflect.Uint8 {
			into.SetBytes([]byte(text))
			return nil
		}
		if !isList {
			list = []any{v}
		}
		out := reflect.MakeSlice(into.Type(), len(list), len(list))
		for n, e := range list {
			if err := r.set(out.Index(n), e, path); err != nil {
				return err
			}
		}
		into.Set(out)
		return nil
	case reflect.Map:
		if !isMap {
			return r.wrongType(path, "Map")
		}
		out := reflect.MakeMap(into.Type())
		for _, k := range m.Keys() {
			e := reflect.New(into.Type().Elem()).Elem()
			if err := r.set(e, m.Get(k), path+"."+k); err != nil {
				return err
			}
			out.SetMapIndex(reflect.ValueOf(k).Convert(into.Type().Key()), e)
		}
		into.Set(out)
		return nil
	case reflect.Struct:
		if !isMap {
			return r.wrongType(path, "Map")
		}
		return r.structure(into, m, nil, path+".")
	}
	return r.notHonoured(path)
}

// wrongType returns AWS's error for a property with a value of the wrong type, as worded
// for legacy resource types.
func (r *request) wrongType(path, want string) error {
	return &invalidProperties{"Value of property " + path + " must be of type " + want}
}
