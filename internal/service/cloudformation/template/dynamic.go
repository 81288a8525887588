package template

import (
	"encoding/base64"
	"strings"
)

// A dynamic reference is {{resolve:SERVICE:REFERENCE}}.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/dynamic-references.html
const (
	beginReference = "{{resolve:"
	endReference   = "}}"
)

// MakeReference returns the dynamic reference with a text between "{{resolve:" and "}}".
func MakeReference(reference string) string { return beginReference + reference + endReference }

// Refers reports whether a text contains the beginning of a dynamic reference, or ends with a part of it that another text
// could complete. Like Resolve, it also looks into text that is encoded as Base64.
func Refers(text string) bool {
	if clear, err := base64.StdEncoding.DecodeString(text); err == nil && strings.Contains(string(clear), beginReference) {
		return true
	}
	for n := 1; n < len(beginReference); n++ {
		if strings.HasSuffix(text, beginReference[:n]) {
			return true
		}
	}
	return strings.Contains(text, beginReference)
}

// replace replaces the dynamic references in a text.
func replace(text string, resolve func(reference string) (string, error)) (string, error) {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(text, beginReference)
		reference, after, ends := strings.Cut(rest, endReference)
		if !ok || !ends {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(before)
		v, err := resolve(reference)
		if err != nil {
			return "", err
		}
		b.WriteString(v)
		text = after
	}
}

// Resolve returns a copy of a value with its dynamic references replaced, including those in texts that Fn::Base64 has
// encoded.
func Resolve(v any, resolve func(reference string) (string, error)) (any, error) {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, beginReference) {
			return replace(v, resolve)
		}
		// A text that contains no reference stays exactly as it is.
		if clear, err := base64.StdEncoding.DecodeString(v); err == nil && strings.Contains(string(clear), beginReference) {
			text, err := replace(string(clear), resolve)
			return base64.StdEncoding.EncodeToString([]byte(text)), err
		}
	case []any:
		out := make([]any, len(v))
		for n, e := range v {
			var err error
			if out[n], err = Resolve(e, resolve); err != nil {
				return nil, err
			}
		}
		return out, nil
	case *Map:
		out := &Map{}
		for _, k := range v.Keys() {
			e, err := Resolve(v.Get(k), resolve)
			if err != nil {
				return nil, err
			}
			out.Set(k, e)
		}
		return out, nil
	}
	return v, nil
}

// A DynamicReference is a dynamic reference in the properties of a resource.
type DynamicReference struct {
	// Text is the text between "{{resolve:" and "}}". It may contain variables of Fn::Sub.
	Text string
	// Path is TYPE/Properties followed by the names of the properties that lead to the reference, up to the first list
	// of objects.
	Path string
}

// DynamicReferences returns the dynamic references that the properties of a resource contain literally.
func (r *Resource) DynamicReferences() (out []DynamicReference) {
	var visit func(v any, path string)
	visit = func(v any, path string) {
		switch v := v.(type) {
		case string:
			_, _ = replace(v, func(reference string) (string, error) { // only the function could fail
				out = append(out, DynamicReference{reference, path})
				return "", nil
			})
		case []any:
			for _, e := range v {
				if _, isMap := e.(*Map); isMap && !strings.Contains(path, "\x00") {
					visit(e, path+"\x00") // the names after this are left out
					continue
				}
				visit(e, path)
			}
		case *Map:
			_, _, isFunction := function(v)
			for _, k := range v.Keys() {
				if isFunction {
					visit(v.Get(k), path)
				} else {
					visit(v.Get(k), path+"/"+k)
				}
			}
		}
	}
	visit(r.Properties, r.Type+"/Properties")
	for i := range out {
		out[i].Path, _, _ = strings.Cut(out[i].Path, "\x00")
	}
	return out
}
