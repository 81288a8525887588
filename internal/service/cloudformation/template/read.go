package template

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

const (
	// maxDepth is how deeply values may be nested.
	maxDepth = 256
	// maxValues is how many values a template may have, including those that aliases and
	// loops expand to.
	maxValues = 200_000
)

func errUnsupported() error { return formatErr("unsupported structure.") }

// read parses a template's text, which is JSON if it begins with a brace, and YAML otherwise.
func read(body string) (*Map, error) {
	var v any
	var err error
	if isJSON(body) {
		v, err = readJSON(body)
	} else {
		v, err = readYAML(body, yamlReader{})
	}
	if err != nil {
		return nil, err
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, errUnsupported()
	}
	return m, nil
}

func isJSON(body string) bool { return strings.HasPrefix(strings.TrimSpace(body), "{") }

// readPlain parses a part of a template, in which AWS does not allow the short forms of functions.
func readPlain(body string) (any, error) {
	if isJSON(body) {
		return readJSON(body)
	}
	return readYAML(body, yamlReader{plain: true})
}

// ReadJSON parses JSON text into a value.
func ReadJSON(text string) (any, error) { return readJSON(text) }

func readJSON(text string) (any, error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	r := jsonReader{dec: dec}
	v, err := r.value("", 0)
	if err == nil {
		if _, end := dec.Token(); !errors.Is(end, io.EOF) {
			err = errNotJSON
		}
	}
	var mine Error
	switch {
	case errors.As(err, &mine):
		return nil, err
	case err != nil:
		at := dec.InputOffset()
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		before := text[:min(int(at), len(text))]
		line := strings.Count(before, "\n")
		return nil, formatErr("JSON not well-formed. (line %d, column %d)", line+1, len(before)-strings.LastIndexByte(before, '\n'))
	}
	return v, nil
}

var errNotJSON = errors.New("not JSON")

type jsonReader struct {
	dec *json.Decoder
}

func (r jsonReader) value(path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errUnsupported()
	}
	t, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		return nil, errNull(path)
	case json.Number:
		return Number(t), nil
	case json.Delim:
		if t == '[' {
			out := []any{}
			for r.dec.More() {
				v, err := r.value(path+"/"+strconv.Itoa(len(out)), depth+1)
				if err != nil {
					return nil, err
				}
				out = append(out, v)
			}
			_, err := r.dec.Token()
			return out, err
		}
		out := &Map{}
		for r.dec.More() {
			k, err := r.dec.Token()
			if err != nil {
				return nil, err
			}
			key, ok := k.(string)
			if !ok {
				return nil, errNotJSON
			}
			v, err := r.value(path+"/"+key, depth+1)
			if err != nil {
				return nil, err
			}
			out.Set(key, v)
		}
		_, err := r.dec.Token()
		return out, err
	}
	return t, nil // string, bool
}

func errNull(path string) error {
	return errorf("[%s] 'null' values are not allowed in templates", path)
}

func readYAML(body string, r yamlReader) (any, error) {
	root, err := yamlsafe.Parse([]byte(body))
	if err != nil {
		return nil, formatErr("YAML not well-formed.")
	}
	if root.Kind != yamlv3.DocumentNode || len(root.Content) == 0 {
		return nil, errUnsupported()
	}
	return r.value(root.Content[0], "", 0)
}

type yamlReader struct {
	values int
	plain  bool // without short forms
}

// shortForms maps YAML tags to the functions that they stand for.
var shortForms = func() map[string]string {
	out := map[string]string{"!Ref": "Ref", "!Condition": "Condition"}
	for name := range strings.FieldsSeq("GetAtt Sub Join Split Select FindInMap If Equals And Or Not Base64 Cidr GetAZs ImportValue Transform Length ToJsonString") {
		out["!"+name] = "Fn::" + name
	}
	return out
}()

func (r *yamlReader) value(n *yamlv3.Node, path string, depth int) (any, error) {
	if r.values++; depth > maxDepth || r.values > maxValues {
		return nil, errUnsupported()
	}
	if n.Kind == yamlv3.AliasNode {
		return r.value(n.Alias, path, depth+1)
	}
	if strings.HasPrefix(n.Tag, "!") && !strings.HasPrefix(n.Tag, "!!") {
		name, ok := shortForms[n.Tag]
		if !ok || r.plain {
			return nil, templateErrUnsupported("Fn::" + strings.TrimPrefix(n.Tag, "!"))
		}
		plain := *n
		plain.Tag = ""
		if n.Kind == yamlv3.ScalarNode {
			plain.Tag = "!!str"
		}
		v, err := r.value(&plain, path+"/"+name, depth+1)
		if err != nil {
			return nil, err
		}
		if s, ok := v.(string); ok && name == "Fn::GetAtt" {
			if id, attr, ok := strings.Cut(s, "."); ok {
				v = []any{id, attr}
			}
		}
		out := &Map{}
		out.Set(name, v)
		return out, nil
	}
	switch n.Kind {
	case yamlv3.MappingNode:
		out := &Map{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind == yamlv3.AliasNode {
				k = k.Alias
			}
			if k.Kind != yamlv3.ScalarNode {
				return nil, errUnsupported()
			}
			v, err := r.value(n.Content[i+1], path+"/"+k.Value, depth+1)
			if err != nil {
				return nil, err
			}
			out.Set(k.Value, v)
		}
		return out, nil
	case yamlv3.SequenceNode:
		out := []any{}
		for i, c := range n.Content {
			v, err := r.value(c, path+"/"+strconv.Itoa(i), depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yamlv3.ScalarNode:
		return scalar(n, path)
	}
	return nil, errUnsupported()
}

// scalar converts a scalar as AWS reads YAML 1.1: only true, false, null and plain numbers
// have types. Dates, octal numbers, yes and no remain strings.
func scalar(n *yamlv3.Node, path string) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return nil, errNull(path)
	case "!!bool":
		switch strings.ToLower(n.Value) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	case "!!int", "!!float":
		if number.MatchString(n.Value) {
			return Number(n.Value), nil
		}
	}
	return n.Value, nil
}
