package filter

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/glob"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// Fields maps the filter names that an operation documents to functions that return a resource's
// values. A resource without values never matches.
type Fields[T any] map[string]func(T) []string

// Compile returns a predicate that reports whether a resource matches all filters. If tags is not
// nil, the filters tag:KEY and tag-key are supported as well. As on AWS, an unknown filter name is
// an error.
func Compile[T any](filters []ec2types.Filter, known Fields[T], tags func(T) tag.Set) (func(T) bool, error) {
	type test struct {
		get    func(T) []string
		values []*glob.Pattern
	}
	tests := make([]test, 0, len(filters))
	total := 0
	for _, f := range filters {
		name := aws.ToString(f.Name)
		if f.Name == nil {
			name = "null"
		}
		get := known[name]
		if get == nil && tags != nil {
			get = tagField(name, tags)
		}
		if get == nil {
			return nil, ec2err.InvalidFilter(name)
		}
		t := test{get: get, values: make([]*glob.Pattern, len(f.Values))}
		for i, v := range f.Values {
			t.values[i] = CompilePattern(v)
		}
		if total += len(f.Values); total > ec2err.MaxFilterValues {
			return nil, ec2err.FilterLimit()
		}
		tests = append(tests, t)
	}
	return func(v T) bool {
		for _, t := range tests {
			if !anyMatch(t.get(v), t.values) {
				return false
			}
		}
		return true
	}, nil
}

func tagField[T any](name string, tags func(T) tag.Set) func(T) []string {
	if name == "tag-key" {
		return func(v T) []string { return tags(v).Keys() }
	}
	if key, ok := strings.CutPrefix(name, "tag:"); ok {
		return func(v T) []string {
			if value, ok := tags(v)[key]; ok {
				return []string{value}
			}
			return nil
		}
	}
	return nil
}

func anyMatch(have []string, want []*glob.Pattern) bool {
	for _, h := range have {
		for _, w := range want {
			if w.Match(h) {
				return true
			}
		}
	}
	return false
}

// One returns a field with a single value. An empty value counts as none.
func One[T any](get func(T) string) func(T) []string {
	return func(v T) []string {
		if s := get(v); s != "" {
			return []string{s}
		}
		return nil
	}
}

// Flag returns a boolean field.
func Flag[T any](get func(T) bool) func(T) []string {
	return func(v T) []string {
		if get(v) {
			return []string{"true"}
		}
		return []string{"false"}
	}
}

// Never is for documented filters on attributes that no resource in Drydock has.
func Never[T any](T) []string { return nil }

// CompilePattern reads a filter value: * stands for any characters, ? for one, and a
// backslash takes the next character as it is. Case matters.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Filtering.html
func CompilePattern(s string) *glob.Pattern {
	text, literal := make([]byte, 0, len(s)), make([]bool, 0, len(s))
	for i := 0; i < len(s); i++ {
		escaped := s[i] == '\\' && i+1 < len(s)
		if escaped {
			i++
		}
		text, literal = append(text, s[i]), append(literal, escaped)
	}
	p := glob.New(string(text), literal)
	return &p
}
