package authz

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fieldIndex finds the fields of the SDK's input structs by their names in lower case. It has one entry per type, so
// the SDK bounds its size.
var fieldIndex sync.Map // reflect.Type → map[string]int

func fieldsOf(t reflect.Type) map[string]int {
	if m, ok := fieldIndex.Load(t); ok {
		return m.(map[string]int)
	}
	m := map[string]int{}
	for i := range t.NumField() {
		if f := t.Field(i); f.IsExported() {
			m[strings.ToLower(f.Name)] = i
		}
	}
	fieldIndex.Store(t, m)
	return m
}

// member returns the members of in at a dotted path of names, ignoring case and descending into lists. Absent ones
// are left out.
func member(in any, path string) []reflect.Value {
	return descend(nil, reflect.ValueOf(in), strings.ToLower(path))
}

func descend(out []reflect.Value, v reflect.Value, path string) []reflect.Value {
	switch v.Kind() {
	case reflect.Invalid:
		return out
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return out
		}
		return descend(out, v.Elem(), path)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			out = descend(out, v.Index(i), path)
		}
		return out
	}
	if path == "" {
		return append(out, v)
	}
	if v.Kind() != reflect.Struct {
		return out
	}
	name, rest, _ := strings.Cut(path, ".")
	i, ok := fieldsOf(v.Type())[name]
	if !ok {
		return out
	}
	return descend(out, v.Field(i), rest)
}

// hasMember reports whether in's type has a member of that name.
func hasMember(in any, name string) bool {
	t := reflect.TypeOf(in)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return false
	}
	_, ok := fieldsOf(t.Elem())[strings.ToLower(name)]
	return ok
}

// texts returns the scalars at path as condition keys show them, without empty ones: for policies, an empty text is
// the same as an absent member.
func texts(in any, path string) []string {
	var out []string
	for _, v := range member(in, path) {
		if s := text(v); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func text(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	}
	if t, ok := v.Interface().(time.Time); ok {
		return t.UTC().Format(time.RFC3339)
	}
	return ""
}

// first returns the first text at any of paths, or "".
func first(in any, paths ...string) string {
	for _, p := range paths {
		if t := texts(in, p); len(t) > 0 {
			return t[0]
		}
	}
	return ""
}

// Named returns the first non-empty text among the given members of in, or "". ok is false if in's type has none of
// them.
func Named(in any, members ...string) (name string, ok bool) {
	return first(in, members...), slices.ContainsFunc(members, func(m string) bool { return hasMember(in, m) })
}

// RequestTags returns the tags that in adds to or removes from a resource, and their keys.
func RequestTags(in any) (tags map[string]string, keys []string) { return requestTags(in, "") }

// requestTags returns the tags that in gives a new or existing resource of a type, and their keys. EC2's requests
// list tags per resource type.
func requestTags(in any, kind string) (tags map[string]string, keys []string) {
	collect := func(list []reflect.Value) {
		for _, v := range list {
			switch v.Kind() {
			case reflect.Map:
				for it := v.MapRange(); it.Next(); {
					tags = addTag(tags, it.Key().String(), fmt.Sprint(it.Value()))
				}
			case reflect.Struct:
				if k := first(v.Interface(), "Key", "TagKey"); k != "" {
					tags = addTag(tags, k, first(v.Interface(), "Value", "TagValue"))
				}
			}
		}
	}
	for _, spec := range member(in, "TagSpecifications") {
		if first(spec.Interface(), "ResourceType") == kind {
			collect(member(spec.Interface(), "Tags"))
		}
	}
	collect(member(in, "Tags"))
	for k := range tags {
		keys = append(keys, k)
	}
	return tags, append(keys, texts(in, "TagKeys")...)
}

func addTag(tags map[string]string, key, value string) map[string]string {
	if tags == nil {
		tags = map[string]string{}
	}
	tags[key] = value
	return tags
}
