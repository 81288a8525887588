package template

import "slices"

// transform is the function that applies a transform to a part of a template.
const transform = "Fn::Transform"

// A TransformError is the failure of a transform. AWS reports it after the call returns, unlike other template
// errors.
type TransformError string

func (e TransformError) Error() string { return string(e) }

// nameOf returns the name of the transform in a declaration.
func nameOf(v any) string {
	if m, ok := v.(*Map); ok {
		v = m.Get("Name")
	}
	return textOf(v)
}

// Includes reports whether the template includes parts from elsewhere.
func (t *Template) Includes() bool { return slices.Contains(t.Transforms, Include) || includes(t.root) }

func includes(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, includes)
	case *Map:
		return slices.ContainsFunc(v.Keys(), func(k string) bool {
			return k == transform && nameOf(v.Get(k)) == Include || includes(v.Get(k))
		})
	}
	return false
}

// Include inserts the parts that the template includes, and returns the result as text. values has the values of the
// parameters, and fetch returns the text at a location.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/transform-aws-include.html
func (t *Template) Include(env Environment, values map[string]string, fetch func(location string) (string, error)) (string, error) {
	params := map[string]any{}
	for name, v := range values {
		params[name] = v
	}
	x := includer{i: &Instance{t: t, env: env, params: params}, fetch: fetch}
	v, err := x.value(t.root)
	if err != nil {
		return "", err
	}
	root, ok := v.(*Map)
	if !ok {
		return "", x.failed(notText)
	}
	root = root.Clone()
	declared := root.Get("Transform")
	list, ok := declared.([]any)
	if declared != nil && !ok {
		list = []any{declared}
	}
	var left []any
	for _, e := range list {
		if nameOf(e) != Include {
			left = append(left, e)
			continue
		}
		part, err := x.part(e)
		if err != nil {
			return "", err
		}
		m, ok := part.(*Map)
		if !ok {
			return "", x.failed(notText)
		}
		for _, section := range m.Keys() {
			mine, isMap := root.Get(section).(*Map)
			theirs, both := m.Get(section).(*Map)
			switch {
			case !root.Has(section):
				root.Set(section, m.Get(section))
			case isMap && both:
				root.Set(section, merged(mine, theirs))
			}
		}
	}
	root.Delete("Transform")
	if len(left) > 0 {
		root.Set("Transform", left)
	}
	return JSON(root), nil
}

// merged returns a map with the members of both. If both have a member, it is a's.
func merged(a, b *Map) *Map {
	out := a.Clone()
	for _, k := range b.Keys() {
		if !out.Has(k) {
			out.Set(k, b.Get(k))
		}
	}
	return out
}

type includer struct {
	i     *Instance
	fetch func(location string) (string, error)
	// parts, size and values count what has been included so far.
	parts, size, values int
}

// A message of AWS that third parties recorded; see also https://github.com/awsdocs/aws-cloudformation-user-guide/pull/232.
const notText = "The specified S3 object's content should be valid Yaml/JSON"

// maxParts limits how many parts a template may include, and maxIncluded limits their total size. AWS limits only the
// size of the result, to the same value.
const (
	maxParts    = 100
	maxIncluded = 1_000_000
)

func (x *includer) failed(why string) error {
	return TransformError("Transform AWS::Include failed with: " + why)
}

// value returns a value with all the parts that it includes inserted.
func (x *includer) value(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for n, e := range v {
			var err error
			if out[n], err = x.value(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *Map:
		out := &Map{}
		var part any
		for _, k := range v.Keys() {
			var err error
			if k == transform && nameOf(v.Get(k)) == Include {
				part, err = x.part(v.Get(k))
			} else {
				var e any
				e, err = x.value(v.Get(k))
				out.Set(k, e)
			}
			if err != nil {
				return nil, err
			}
		}
		switch m, isMap := part.(*Map); {
		case part == nil:
		case isMap:
			return merged(out, m), nil
		case len(out.Keys()) == 0:
			return part, nil
		default:
			return nil, x.failed(notText)
		}
		return out, nil
	}
	return v, nil
}

// part returns what a declaration includes.
func (x *includer) part(v any) (any, error) {
	if x.parts++; x.parts > maxParts {
		return nil, x.failed("too many parts are included")
	}
	var location any
	if m, ok := v.(*Map); ok {
		if p, ok := m.Get("Parameters").(*Map); ok {
			location = p.Get("Location")
		}
	}
	resolved, err := x.i.Value(location, nil)
	if err != nil {
		return nil, x.failed(err.Error())
	}
	text, err := x.fetch(textOf(resolved))
	if err != nil {
		if why, ok := err.(Error); ok { //nolint:errorlint // fetch does not wrap it
			return nil, x.failed(string(why))
		}
		return nil, err
	}
	if x.size += len(text); x.size > maxIncluded {
		return nil, x.failed("the included parts are too long")
	}
	part, err := readPlain(text)
	if err != nil || includes(part) {
		return nil, x.failed(notText) // AWS's answer also if a part includes another one
	}
	if x.values += count(part); x.values > maxValues {
		return nil, x.failed("the included parts have too many values")
	}
	return part, nil
}

// count returns the number of values in a value after the expansion of aliases.
func count(v any) int {
	n := 1
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			n += count(e)
		}
	case *Map:
		for _, k := range v.Keys() {
			n += count(v.Get(k))
		}
	}
	return n
}
