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

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// types returns the schemas of settings.
func types() map[string]map[string]any {
	text := map[string]any{"type": "string"}
	quantities := map[string]any{
		"type": "object", "additionalProperties": false,
		"properties": map[string]any{"cpu": text, "memory": text},
	}
	limit := map[string]any{"anyOf": []any{map[string]any{"type": "string", "pattern": ".*%$"}, map[string]any{"type": "integer"}}}
	return map[string]map[string]any{
		"string":  text,
		"integer": {"type": "integer"},
		"count":   {"type": []any{"integer", "null"}},
		"boolean": {"type": "boolean"},
		"object":  {"type": []any{"object", "null"}},
		"objects": {"type": "array", "items": map[string]any{"type": "object"}},
		"texts":   {"type": "array", "items": text},
		"strings": {"type": "object", "additionalProperties": text},
		// This is EKS's name for strings that must be true or false, or a number. Its validator does not know the
		// format and accepts every string.
		"flag":   {"type": "string", "format": "boolean"},
		"number": {"type": "string", "format": "integer"},
		"budget": {
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{"enabled": map[string]any{"type": "boolean", "default": true}, "maxUnavailable": limit, "minAvailable": limit},
		},
		"resources": {
			"type": "object", "additionalProperties": false,
			"properties": map[string]any{"limits": quantities, "requests": quantities},
		},
		"resizePolicy": {"type": "array", "items": map[string]any{
			"type": "object", "additionalProperties": false, "required": []any{"resourceName", "restartPolicy"},
			"properties": map[string]any{
				"resourceName":  map[string]any{"type": "string", "enum": []any{"cpu", "memory"}},
				"restartPolicy": map[string]any{"type": "string", "enum": []any{"NotRequired", "RestartContainer"}},
			},
		}},
	}
}

// Schema returns the JSON schema of a version's configuration values: those that Configure applies, and those of
// EKS's schema that [AddOn.Unsupported] names.
func (a *AddOn) Schema(v *Version) string { return schemas()[a.Name+" "+v.Version].text }

type schema struct {
	text     string
	compiled *jsonschema.Schema
}

var schemas = sync.OnceValue(func() map[string]schema {
	out := map[string]schema{}
	for i := range All() {
		a := &All()[i]
		same := map[string]schema{} // by the values that a version lacks
		for j := range a.Versions {
			v := &a.Versions[j]
			key := strings.Join(v.Without, " ")
			s, ok := same[key]
			if !ok {
				var err error
				if s, err = a.schema(v); err != nil {
					panic(fmt.Sprintf("addons: schema of %s: %v", a.Name, err)) // a broken build
				}
				same[key] = s
			}
			out[a.Name+" "+v.Version] = s
		}
	}
	return out
})

func (a *AddOn) schema(v *Version) (schema, error) {
	root := map[string]any{
		"$schema": "http://json-schema.org/draft-06/schema#", "type": "object",
		"description": "Configurable parameters of " + a.Name, "additionalProperties": false, "properties": map[string]any{},
	}
	known := types()
	for _, s := range a.settings(v) {
		t, ok := known[s.Type]
		if s.Schema != nil {
			t, ok = s.Schema, true
		}
		if !ok {
			return schema{}, fmt.Errorf("%s has no type %q", s.Value, s.Type)
		}
		addProperty(root, s.Value, t)
	}
	for name, t := range a.Refused {
		if !slices.Contains(v.Without, name) {
			addProperty(root, name, t)
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

// addProperty adds the schema of a value with a dotted name to the whole schema.
func addProperty(at map[string]any, value string, t map[string]any) {
	names := strings.Split(value, ".")
	for i, name := range names {
		properties, _ := at["properties"].(map[string]any)
		if i == len(names)-1 {
			properties[name] = t
			return
		}
		next, ok := properties[name].(map[string]any)
		if !ok {
			next = map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
			properties[name] = next
		}
		at = next
	}
}

// Parse reads configuration values, JSON or YAML.
func Parse(values string) (any, error) {
	raw, err := yamlsafe.ToJSONStrict([]byte(values))
	if err != nil {
		return nil, err
	}
	var out any
	return out, utiljson.Unmarshal(raw, &out) // whole numbers become int64, as in objects
}

// Limits of Validate's messages: how many, and how long each text is.
const maxViolations, maxViolation = 20, 1 << 10

// Validate returns what is wrong with configuration values, in the words of the validator that EKS uses
// (networknt/json-schema-validator). If there are too many errors, it returns the first ones.
func (a *AddOn) Validate(v *Version, values any) []string {
	err := schemas()[a.Name+" "+v.Version].compiled.Validate(values)
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return nil
	}
	var out []string
	violations(values, invalid, func(format string, args ...any) bool {
		text := fmt.Sprintf(format, args...)
		if len(text) > maxViolation {
			text = strings.ToValidUTF8(text[:maxViolation], "") + "..."
		}
		out = append(out, text)
		return len(out) < maxViolations
	})
	slices.Sort(out)
	return out
}

// violations passes each error to say until say returns false.
func violations(values any, e *jsonschema.ValidationError, say func(format string, args ...any) bool) bool {
	// The validator walks maps in no particular order.
	byPlace := func(a, b *jsonschema.ValidationError) int {
		return slices.Compare(a.InstanceLocation, b.InstanceLocation)
	}
	for _, c := range slices.SortedStableFunc(slices.Values(e.Causes), byPlace) {
		if !violations(values, c, say) {
			return false
		}
	}
	if len(e.Causes) > 0 {
		return true
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
	// The first two are quoted in public issues (containers-roadmap#2216, cookpad/terraform-aws-eks#331), the others
	// are the validator's:
	// https://github.com/networknt/json-schema-validator/blob/master/src/main/resources/jsv-messages.properties
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, p := range slices.Sorted(slices.Values(k.Properties)) {
			if !say("%s.%s: is not defined in the schema and the schema does not allow additional properties", at, p) {
				return false
			}
		}
		return true
	case *kind.Type:
		want := strings.Join(k.Want, ", ")
		if len(k.Want) > 1 {
			want = "[" + want + "]"
		}
		got := k.Got
		if _, whole := value.(int64); whole {
			got = "integer"
		}
		return say("%s: %s found, %s expected", at, got, want)
	case *kind.Enum:
		return say("%s: does not have a value in the enumeration %s", at, strings.Join(strings.Fields(fmt.Sprint(k.Want)), ", "))
	case *kind.Minimum:
		return say("%s: must have a minimum value of %s", at, k.Want.RatString())
	case *kind.Maximum:
		return say("%s: must have a maximum value of %s", at, k.Want.RatString())
	case *kind.Required:
		for _, p := range k.Missing {
			if !say("%s.%s: is missing but it is required", at, p) {
				return false
			}
		}
		return true
	case *kind.Pattern:
		return say("%s: does not match the regex pattern %s", at, k.Want)
	case *kind.MinProperties:
		return say("%s: should have a minimum of %d properties", at, k.Want)
	case *kind.FalseSchema:
		return say("%s: Boolean schema false is not valid", at)
	}
	return say("%s: does not match the schema", at) // our schemas have no other kind
}
