package addons

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// types returns the schemas of settings.
func types() map[string]map[string]any {
	text := map[string]any{"type": "string"}
	quantities := map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{"cpu": text, "memory": text},
	}
	return map[string]map[string]any{
		"string":  text,
		"integer": {"type": "integer", "minimum": 0},
		"object":  {"type": []any{"object", "null"}},
		"objects": {"type": "array", "items": map[string]any{"type": "object"}},
		"strings": {"type": "object", "additionalProperties": text},
		"flag":    {"type": "string", "enum": []any{"true", "false"}},
		"resources": {
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{"limits": quantities, "requests": quantities},
		},
	}
}

// Schema returns the JSON schema of the add-on's configuration values. It has
// exactly what Configure honours: on AWS some add-ons have more.
func (a *AddOn) Schema() string { return schemas()[a.Name].text }

type schema struct {
	text     string
	compiled *jsonschema.Schema
}

var schemas = sync.OnceValue(func() map[string]schema {
	out := map[string]schema{}
	for _, a := range All() {
		s, err := a.schema()
		if err != nil {
			panic(fmt.Sprintf("addons: schema of %s: %v", a.Name, err)) // a broken build
		}
		out[a.Name] = s
	}
	return out
})

func (a *AddOn) schema() (schema, error) {
	root := map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
		"description": "Configurable parameters of " + a.Name, "additionalProperties": false, "properties": map[string]any{},
	}
	known := types()
	for _, s := range a.Settings {
		t, ok := known[s.Type]
		if !ok {
			return schema{}, fmt.Errorf("%s has no type %q", s.Value, s.Type)
		}
		at := root
		names := strings.Split(s.Value, ".")
		for i, name := range names {
			properties, _ := at["properties"].(map[string]any)
			if i == len(names)-1 {
				properties[name] = t
				break
			}
			next, ok := properties[name].(map[string]any)
			if !ok {
				next = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
				properties[name] = next
			}
			at = next
		}
	}
	text, err := json.Marshal(root)
	if err != nil {
		return schema{}, err
	}
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(text)))
	if err != nil {
		return schema{}, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(a.Name, doc); err != nil {
		return schema{}, err
	}
	compiled, err := c.Compile(a.Name)
	return schema{string(text), compiled}, err
}

// Parse reads configuration values, JSON or YAML.
func Parse(values string) (any, error) {
	raw, err := yaml.YAMLToJSONStrict([]byte(values))
	if err != nil {
		return nil, err
	}
	var out any
	return out, utiljson.Unmarshal(raw, &out) // whole numbers are int64, as in objects
}

// Validate returns what is wrong with configuration values, in the words of the
// validator that EKS uses (networknt/json-schema-validator).
func (a *AddOn) Validate(values any) []string {
	err := schemas()[a.Name].compiled.Validate(values)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	var out []string
	violations(values, invalid, &out)
	slices.Sort(out)
	return out
}

func violations(values any, e *jsonschema.ValidationError, out *[]string) {
	for _, c := range e.Causes {
		violations(values, c, out)
	}
	if len(e.Causes) > 0 {
		return
	}
	at, value := "$", values
	for _, p := range e.InstanceLocation {
		switch v := value.(type) {
		case []any:
			at += "[" + p + "]"
			if i, err := strconv.Atoi(p); err == nil && i < len(v) {
				value = v[i]
			}
		case map[string]any:
			at += "." + p
			value = v[p]
		}
	}
	// The first two are quoted in public issues (containers-roadmap#2216,
	// cookpad/terraform-aws-eks#331), the others are the validator's.
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, p := range k.Properties {
			*out = append(*out, at+"."+p+": is not defined in the schema and the schema does not allow additional properties")
		}
	case *kind.Type:
		want := strings.Join(k.Want, ", ")
		if len(k.Want) > 1 {
			want = "[" + want + "]"
		}
		got := k.Got
		if _, whole := value.(int64); whole {
			got = "integer"
		}
		*out = append(*out, fmt.Sprintf("%s: %s found, %s expected", at, got, want))
	case *kind.Enum:
		*out = append(*out, fmt.Sprintf("%s: does not have a value in the enumeration %s", at, strings.Join(strings.Fields(fmt.Sprint(k.Want)), ", ")))
	case *kind.Minimum:
		*out = append(*out, fmt.Sprintf("%s: must have a minimum value of %s", at, k.Want.RatString()))
	default:
		*out = append(*out, fmt.Sprintf("%s: does not match the schema", at)) // no other kind is in a schema of ours
	}
}
