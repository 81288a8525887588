// Package template implements the language of CloudFormation's templates: it parses them,
// makes the checks that AWS makes during a call, and resolves them for the parameters of a
// stack. It does no I/O: values that only a running stack knows come from a [Runtime].
//
// Values of a template are string, [Number], bool, []any and *[Map]. There is no null.
//
// Only package cloudformation imports it.
package template

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// An Error is an error in a template or its parameters, in AWS's words.
type Error string

func (e Error) Error() string { return string(e) }

func errorf(format string, args ...any) error { return Error(fmt.Sprintf(format, args...)) }

// formatErr and templateErr are the two families of AWS's texts.
func formatErr(format string, args ...any) error {
	return errorf("Template format error: "+format, args...)
}

func templateErr(format string, args ...any) error {
	return errorf("Template error: "+format, args...)
}

// A Number is a number as written in the template.
type Number string

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

var number = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)

// A Map keeps the order of its keys. The zero Map is empty.
type Map struct {
	keys   []string
	values map[string]any
}

// Set adds or replaces a value.
func (m *Map) Set(key string, v any) {
	if _, ok := m.values[key]; !ok {
		m.keys = append(m.keys, key)
	}
	if m.values == nil {
		m.values = map[string]any{}
	}
	m.values[key] = v
}

// Delete removes a key.
func (m *Map) Delete(key string) {
	if _, ok := m.values[key]; ok {
		delete(m.values, key)
		m.keys = slices.DeleteFunc(m.keys, func(k string) bool { return k == key })
	}
}

// Get returns the value of a key, or nil. A nil Map has none.
func (m *Map) Get(key string) any {
	if m == nil {
		return nil
	}
	return m.values[key]
}

// Has reports whether the key is present.
func (m *Map) Has(key string) bool { return m.Get(key) != nil }

// Keys returns the keys in the order of the template.
func (m *Map) Keys() []string {
	if m == nil {
		return nil
	}
	return m.keys
}

// Clone returns a copy of the top level.
func (m *Map) Clone() *Map {
	out := &Map{}
	for _, k := range m.Keys() {
		out.Set(k, m.values[k])
	}
	return out
}

// MarshalJSON implements json.Marshaler; the keys are in order.
func (m *Map) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range m.Keys() {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := marshal(k)
		if err != nil {
			return nil, err
		}
		value, err := marshal(m.values[k])
		if err != nil {
			return nil, err
		}
		b.WriteString(key + ":" + value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

func marshal(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// JSON returns a value as JSON text.
func JSON(v any) string {
	text, err := marshal(v)
	if err != nil {
		return "" // these values always encode
	}
	return text
}

// Text returns a scalar as text, and false for lists and maps.
func Text(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Number:
		return string(v), true
	case bool:
		if v {
			return "true", true
		}
		return "false", true
	}
	return "", false
}

// Equal reports whether two values are equal, regardless of the order of keys.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case *Map:
		b, ok := b.(*Map)
		if !ok || len(a.Keys()) != len(b.Keys()) {
			return false
		}
		for _, k := range a.Keys() {
			if !b.Has(k) || !Equal(a.values[k], b.values[k]) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, Equal)
	}
	at, aok := Text(a)
	bt, bok := Text(b)
	return aok && bok && at == bt
}
