package template

import (
	"regexp"
	"slices"
	"strings"
)

// Limits of a template.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
const (
	maxResources  = 500
	maxParameters = 200
	maxOutputs    = 200
	maxMappings   = 200
	maxName       = 255
	// maxValue is the maximum length of a parameter's value.
	maxValue = 4096
)

// Transforms that do not run in Lambda.
const (
	LanguageExtensions = "AWS::LanguageExtensions"
	// Include inserts parts from elsewhere: see [Template.Include].
	Include = "AWS::Include"
)

// A Template is a parsed template. Anything that depends on parameters is not known yet.
type Template struct {
	Version     string
	Description string
	Metadata    any // nil if there is none
	Parameters  []*Parameter
	Transforms  []string

	root       *Map
	mappings   *Map
	conditions *Map
	rules      *Map
	resources  *Map
	outputs    *Map
}

// A Resource is a resource that the template declares.
type Resource struct {
	ID, Type   string
	Properties *Map
	Metadata   any // nil if there is none
	// DeletionPolicy and UpdateReplacePolicy are empty if they are not set.
	DeletionPolicy, UpdateReplacePolicy string
	CreationPolicy, UpdatePolicy        *Map
	// DependsOn are the resources that must exist first, according to all references, sorted.
	DependsOn []string

	condition string
	explicit  []string
	// policies names the policies, DeletionPolicy or UpdateReplacePolicy, whose values are functions. functions holds
	// these functions in the same order.
	policies  []string
	functions []any
}

// setPolicy sets DeletionPolicy or UpdateReplacePolicy.
func (r *Resource) setPolicy(name, text string) error {
	if !slices.Contains([]string{"Delete", "Retain", "Snapshot"}, text) && (name != "DeletionPolicy" || text != "RetainExceptOnCreate") {
		return formatErr("Unrecognized %s %s for resource %s", name, text, r.ID)
	}
	if name == "DeletionPolicy" {
		r.DeletionPolicy = text
	} else {
		r.UpdateReplacePolicy = text
	}
	return nil
}

// An Output is an output that the template declares.
type Output struct {
	ID, Description string
	Value           any
	Export          any // the name; nil if it is not exported

	condition string
}

var alphanumeric = regexp.MustCompile(`^[A-Za-z0-9]+$`)

// Parse reads a template and checks its structure.
func Parse(body string) (*Template, error) {
	root, err := read(body)
	if err != nil {
		return nil, err
	}
	t := &Template{Metadata: root.Get("Metadata"), root: root}
	var stray []string
	for _, k := range root.Keys() {
		switch k {
		case "AWSTemplateFormatVersion", "Description", "Metadata", "Parameters", "Rules", "Mappings", "Conditions", "Transform", "Resources", "Outputs", "Hooks", transform:
		case "Globals": // of AWS::Serverless
			if !root.Has("Transform") {
				stray = append(stray, k)
			}
		default:
			stray = append(stray, k)
		}
	}
	if len(stray) > 0 {
		return nil, errorf("Invalid template property or properties [%s]", strings.Join(stray, ", "))
	}
	if v := root.Get("AWSTemplateFormatVersion"); v != nil {
		if t.Version, _ = Text(v); t.Version != "2010-09-09" {
			return nil, formatErr("The value of AWSTemplateFormatVersion is not valid: %s.", t.Version) // our own wording
		}
	}
	if v := root.Get("Description"); v != nil {
		var ok bool
		if t.Description, ok = v.(string); !ok {
			return nil, formatErr("Template 'Description' field should be a string.") // our own wording
		}
	}
	if err := t.readTransforms(root.Get("Transform")); err != nil {
		return nil, err
	}
	for _, section := range []struct {
		name string
		into **Map
	}{{"Rules", &t.rules}, {"Mappings", &t.mappings}, {"Conditions", &t.conditions}, {"Outputs", &t.outputs}} {
		v := root.Get(section.name)
		if v == nil {
			continue
		}
		m, ok := v.(*Map)
		if !ok {
			return nil, formatErr("%s must be a map", section.name) // our own wording
		}
		*section.into = m
	}
	if root.Has("Hooks") {
		return nil, errorf("Drydock does not implement the section Hooks of templates.")
	}
	resources, ok := root.Get("Resources").(*Map)
	if (!ok || len(resources.Keys()) == 0) && !t.Includes() {
		return nil, formatErr("At least one Resources member must be defined.")
	}
	t.resources = resources
	if err := t.readParameters(root.Get("Parameters")); err != nil {
		return nil, err
	}
	if err := t.checkMappings(); err != nil {
		return nil, err
	}
	if t.Transformed() {
		return t, nil // Bind checks the rest
	}
	_, err = t.static()
	return t, err
}

// Transformed reports whether the template has transforms. Such a template must be valid only after they have run.
func (t *Template) Transformed() bool { return len(t.Transforms) > 0 || t.Includes() }

func (t *Template) extended() bool { return slices.Contains(t.Transforms, LanguageExtensions) }

func (t *Template) readTransforms(v any) error {
	list, ok := v.([]any)
	if v != nil && !ok {
		list = []any{v}
	}
	for _, e := range list {
		name, ok := e.(string)
		if m, isMap := e.(*Map); isMap {
			name, ok = m.Get("Name").(string)
		}
		if !ok {
			return errorf("Key Name of transform definition must be a string.")
		}
		t.Transforms = append(t.Transforms, name)
	}
	return nil
}

func (t *Template) checkMappings() error {
	if n := len(t.mappings.Keys()); n > maxMappings {
		return formatErr("Number of mappings, %d, is greater than maximum allowed, %d", n, maxMappings)
	}
	for _, name := range t.mappings.Keys() {
		first, ok := t.mappings.Get(name).(*Map)
		if !ok {
			return formatErr("Every Mappings member %s must be a map", name)
		}
		for _, k := range first.Keys() {
			second, ok := first.Get(k).(*Map)
			if !ok {
				return formatErr("Every Mappings member %s must be a map", name)
			}
			for _, k := range second.Keys() {
				v := second.Get(k)
				if _, scalar := Text(v); scalar {
					continue
				}
				list, ok := v.([]any)
				for _, e := range list {
					_, scalar := Text(e)
					ok = ok && scalar
				}
				if !ok {
					return formatErr("Every Mappings attribute must be a String or a List.")
				}
			}
		}
	}
	return nil
}

// declared reads the resources and outputs of sections whose loops have been expanded.
func declared(resources, outputs *Map) ([]*Resource, []*Output, error) {
	if n := len(resources.Keys()); n > maxResources {
		return nil, nil, formatErr("Number of resources, %d, is greater than maximum allowed, %d", n, maxResources)
	}
	var rs []*Resource
	for _, id := range resources.Keys() {
		r, err := readResource(id, resources.Get(id))
		if err != nil {
			return nil, nil, err
		}
		rs = append(rs, r)
	}
	if n := len(outputs.Keys()); n > maxOutputs {
		return nil, nil, formatErr("Number of outputs, %d, is greater than maximum allowed, %d", n, maxOutputs)
	}
	var os []*Output
	for _, id := range outputs.Keys() {
		m, ok := outputs.Get(id).(*Map)
		if !ok || !m.Has("Value") {
			return nil, nil, formatErr("Every Outputs member must contain a Value object")
		}
		if !alphanumeric.MatchString(id) {
			return nil, nil, formatErr("Output name %s is non alphanumeric.", id)
		}
		o := &Output{ID: id, Value: m.Get("Value")}
		o.Description, _ = Text(m.Get("Description"))
		o.condition, _ = Text(m.Get("Condition"))
		if e := m.Get("Export"); e != nil {
			export, ok := e.(*Map)
			if !ok || !export.Has("Name") {
				return nil, nil, formatErr("Output %s: Export must have a Name.", id) // our own wording
			}
			o.Export = export.Get("Name")
		}
		os = append(os, o)
	}
	return rs, os, nil
}

func readResource(id string, v any) (*Resource, error) {
	if !alphanumeric.MatchString(id) {
		if strings.HasPrefix(id, "Fn::") {
			return nil, formatErr("[/Resources/%s] resource definition is malformed", id)
		}
		return nil, formatErr("Resource name %s is non alphanumeric.", id)
	}
	if len(id) > maxName {
		return nil, formatErr("Resource name %s is longer than %d characters.", id[:32]+"...", maxName) // our own wording
	}
	m, ok := v.(*Map)
	if !ok {
		return nil, formatErr("Any Resources member must be an object.")
	}
	r := &Resource{ID: id, Properties: &Map{}, Metadata: m.Get("Metadata")}
	for _, k := range m.Keys() {
		v := m.Get(k)
		switch k {
		case "Type":
			r.Type, _ = v.(string)
		case "Properties":
			if r.Properties, ok = v.(*Map); !ok {
				return nil, formatErr("[/Resources/%s] 'Properties' must be an object.", id) // our own wording
			}
		case "DependsOn":
			list, isList := v.([]any)
			if !isList {
				list = []any{v}
			}
			for _, e := range list {
				name, ok := e.(string)
				if !ok {
					return nil, formatErr("[/Resources/%s/DependsOn] Every DependsOn value must be a string.", id)
				}
				r.explicit = append(r.explicit, name)
			}
		case "Condition":
			if r.condition, ok = v.(string); !ok {
				return nil, formatErr("Every Condition member must be a string.")
			}
		case "DeletionPolicy", "UpdateReplacePolicy":
			if _, isMap := v.(*Map); isMap { // a function of the language extensions
				r.policies = append(r.policies, k)
				r.functions = append(r.functions, v)
				continue
			}
			text, _ := v.(string)
			if err := r.setPolicy(k, text); err != nil {
				return nil, err
			}
		case "CreationPolicy", "UpdatePolicy":
			policy, ok := v.(*Map)
			if !ok {
				return nil, formatErr("[/Resources/%s] '%s' must be an object.", id, k) // our own wording
			}
			if k == "CreationPolicy" {
				r.CreationPolicy = policy
			} else {
				r.UpdatePolicy = policy
			}
		case "Metadata", "Description":
		default:
			return nil, errorf("Invalid template resource property '%s'", k)
		}
	}
	if r.Type == "" {
		return nil, formatErr("[/Resources/%s] Every Resources object must contain a Type member.", id)
	}
	return r, nil
}

// Types returns the types of all resources, one per resource, in the order of the
// template.
func (t *Template) Types() []string {
	var out []string
	for _, id := range t.resources.Keys() {
		if m, ok := t.resources.Get(id).(*Map); ok {
			if typ, ok := m.Get("Type").(string); ok {
				out = append(out, typ)
			}
		}
	}
	return out
}

// Declared returns the resources that the template declares, regardless of conditions. It
// leaves out loops.
func (t *Template) Declared() []*Resource {
	var out []*Resource
	for _, id := range t.resources.Keys() {
		if r, err := readResource(id, t.resources.Get(id)); err == nil {
			out = append(out, r)
		}
	}
	return out
}
