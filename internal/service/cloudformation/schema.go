package cloudformation

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// schemaLines has the schemas of the handlers' types, one per line. tools/cfngen writes
// them.
//
//go:embed schemas.jsonl
var schemaLines string

// A schema is AWS's published schema of a resource type.
type schema struct {
	Type              string              `json:"type"`
	Properties        map[string]*valueOf `json:"properties"`
	Definitions       map[string]*valueOf `json:"definitions,omitempty"`
	Required          []string            `json:"required,omitempty"`
	CreateOnly        []string            `json:"createOnly,omitempty"`
	ReadOnly          []string            `json:"readOnly,omitempty"`
	PrimaryIdentifier []string            `json:"primaryIdentifier,omitempty"`
	// ReplacementStrategy is delete_then_create if the old resource is deleted before its replacement is created.
	// https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html#schema-properties-replacementstrategy
	ReplacementStrategy string `json:"replacementStrategy,omitempty"`
}

func (s *schema) deletesFirst() bool {
	return s != nil && s.ReplacementStrategy == "delete_then_create"
}

// A valueOf describes the values that a property may have.
type valueOf struct {
	Type                 any                 `json:"type,omitempty"`
	Ref                  string              `json:"$ref,omitempty"`
	Items                *valueOf            `json:"items,omitempty"`
	Properties           map[string]*valueOf `json:"properties,omitempty"`
	PatternProperties    map[string]*valueOf `json:"patternProperties,omitempty"`
	AdditionalProperties any                 `json:"additionalProperties,omitempty"`
	Required             []string            `json:"required,omitempty"`
	Enum                 []any               `json:"enum,omitempty"`
	Pattern              string              `json:"pattern,omitempty"`
	MinLength            *int                `json:"minLength,omitempty"`
	MaxLength            *int                `json:"maxLength,omitempty"`
}

var schemas = sync.OnceValue(func() map[string]*schema {
	out := map[string]*schema{}
	for line := range strings.Lines(schemaLines) {
		var s schema
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			panic("cloudformation: schemas.jsonl: " + err.Error()) // a test reads them all
		}
		out[s.Type] = &s
	}
	return out
})

// checkTypes refuses types without a handler, as AWS refuses unknown types. more are the resources that only the
// processed template has.
func checkTypes(t *template.Template, more ...*template.Resource) error {
	var unknown []string
	serving := providers(t)
	for _, d := range append(t.Declared(), more...) {
		if _, ok := handlerOf(d.Type); (!ok || d.Type == lambdaFunction && !serving[d.ID]) && !slices.Contains(unknown, d.Type) {
			unknown = append(unknown, d.Type)
		}
	}
	if len(unknown) > 0 {
		return unrecognized(unknown)
	}
	return nil
}

// invalidProperties is the error for properties that do not match the schema of their type.
type invalidProperties struct{ text string }

func (e *invalidProperties) Error() string { return e.text }

// check validates the properties of a resource. The texts are those of AWS's validator of
// resource types, recorded in localstack/localstack.
func (s *schema) check(id string, props *template.Map) error {
	if s == nil {
		return nil
	}
	v := validator{s: s}
	v.object("#", &valueOf{Properties: s.Properties, Required: s.Required, AdditionalProperties: false}, props)
	for _, p := range s.ReadOnly {
		if !strings.Contains(p, "/") && props.Has(p) {
			v.add("#: extraneous key [%s] is not permitted", p) // read-only properties cannot be given
		}
	}
	if len(v.found) == 0 {
		return nil
	}
	return &invalidProperties{fmt.Sprintf("Properties validation failed for resource %s with message: [%s]", id, strings.Join(v.found, ", "))}
}

type validator struct {
	s     *schema
	found []string
}

func (v *validator) add(format string, args ...any) {
	v.found = append(v.found, fmt.Sprintf(format, args...))
}

func (v *validator) object(path string, want *valueOf, m *template.Map) {
	for _, k := range want.Required {
		if !m.Has(k) {
			v.add("%s: required key [%s] not found", path, k)
		}
	}
	for _, k := range m.Keys() {
		p := want.Properties[k]
		for _, pattern := range slices.Sorted(maps.Keys(want.PatternProperties)) {
			if re, err := regexp.Compile(pattern); p == nil && (err != nil || re.MatchString(k)) {
				p = want.PatternProperties[pattern]
			}
		}
		if p == nil {
			if want.AdditionalProperties == false {
				v.add("%s: extraneous key [%s] is not permitted", path, k)
			}
			continue
		}
		v.value(path+"/"+k, p, m.Get(k), 0)
	}
}

func (v *validator) value(path string, want *valueOf, is any, depth int) {
	for want != nil && want.Ref != "" && depth < 50 {
		want, depth = v.s.Definitions[strings.TrimPrefix(want.Ref, "#/definitions/")], depth+1
	}
	if want == nil {
		return
	}
	typ, _ := want.Type.(string)
	text, scalar := template.Text(is)
	list, isList := is.([]any)
	m, isMap := is.(*template.Map)
	mismatch := func(wanted string) {
		kind := "String"
		switch {
		case isList:
			kind = "JSONArray"
		case isMap:
			kind = "JSONObject"
		}
		v.add("%s: expected type: %s, found: %s", path, wanted, kind)
	}
	switch typ {
	case "object":
		switch {
		case isMap:
			v.object(path, want, m)
		default:
			mismatch("JSONObject")
		}
	case "array":
		if !isList {
			mismatch("JSONArray")
			return
		}
		for n, e := range list {
			v.value(path+"/"+strconv.Itoa(n), want.Items, e, depth)
		}
	case "integer", "number":
		if _, err := strconv.ParseFloat(text, 64); !scalar || err != nil {
			mismatch("Number")
		}
	case "boolean":
		if text != "true" && text != "false" {
			mismatch("Boolean")
		}
	case "string":
		if !scalar {
			mismatch("String")
			return
		}
		v.text(path, want, text)
	}
}

func (v *validator) text(path string, want *valueOf, text string) {
	n := utf8.RuneCountInString(text)
	switch {
	case want.MaxLength != nil && n > *want.MaxLength:
		v.add("%s: expected maxLength: %d, actual: %d", path, *want.MaxLength, n)
	case want.MinLength != nil && n < *want.MinLength:
		v.add("%s: expected minLength: %d, actual: %d", path, *want.MinLength, n)
	case want.Pattern != "":
		if re, err := regexp.Compile(want.Pattern); err == nil && !re.MatchString(text) {
			v.add("%s: failed validation constraint for keyword [pattern]", path)
		}
	case len(want.Enum) > 0 && !slices.ContainsFunc(want.Enum, func(e any) bool { return fmt.Sprint(e) == text }):
		v.add("%s: %s is not a valid enum value", path, text)
	}
}

// checkTags refuses tags that only AWS may set. The services would accept them, because
// CloudFormation itself may set them.
func (r *request) checkTags() error {
	for _, t := range r.ownTags() {
		if tagging.IsReserved(t.Key) {
			return fmt.Errorf("aws: prefixed tag key names are not allowed for external use: %s", t.Key)
		}
	}
	return nil
}

// tagsProperty returns the name of the property that holds the tags of a type.
func tagsProperty(typ string) string {
	if typ == hostedZone {
		return "HostedZoneTags"
	}
	return "Tags"
}

// ownTags returns the resource's tags in the template, which may be a list or a map.
func (r *request) ownTags() (out []tagRecord) {
	switch tags := r.props.Get(tagsProperty(r.typ)).(type) {
	case []any:
		for _, e := range tags {
			if m, ok := e.(*template.Map); ok {
				key, _ := template.Text(m.Get("Key"))
				value, _ := template.Text(m.Get("Value"))
				out = append(out, tagRecord{key, value})
			}
		}
	case *template.Map:
		for _, k := range tags.Keys() {
			value, _ := template.Text(tags.Get(k))
			out = append(out, tagRecord{k, value})
		}
	}
	return out
}

// tags returns the resource's own tags and those of the stack. The resource's own take
// precedence.
func (r *request) tags() []tagRecord {
	out := r.ownTags()
	for _, t := range r.stackTags {
		if !slices.ContainsFunc(out, func(o tagRecord) bool { return o.Key == t.Key }) {
			out = append(out, t)
		}
	}
	return out
}

// systemTags returns the tags by which CloudFormation identifies its resources.
func (r *request) systemTags() []tagRecord {
	return []tagRecord{
		{"aws:cloudformation:stack-name", r.o.rec.Name}, {"aws:cloudformation:stack-id", r.o.arn}, {"aws:cloudformation:logical-id", r.logical},
	}
}

func (r *request) tagMap() map[string]string { return tagsAsMap(r.tags()) }

func tagsAsMap(tags []tagRecord) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, t := range tags {
		out[t.Key] = t.Value
	}
	return out
}

// notHonoured returns the error for a property that Drydock does not implement.
func (r *request) notHonoured(property string) error {
	return awserr.NotImplemented("the property " + property + " of " + r.typ)
}
