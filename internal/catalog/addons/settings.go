package addons

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Setting is a configuration value of an add-on and the field it changes.
type Setting struct {
	// Value is its name, dotted where it is nested: controller.replicaCount.
	Value string
	// Type is the key of its schema in types.
	Type string
	// Object and Path are what it changes: Deployment/coredns, spec.replicas. An
	// item of a list is called by its name: containers[coredns].
	Object, Path string
	// As says how: the value itself if empty; "merge" into the map there; "env" as
	// variables of a container; "computeType" as EKS's annotation; "--name" as the
	// argument --name=VALUE.
	As string
}

// Pods are a workload whose pods have the settings all add-ons have.
type Pods struct {
	// Under is what the settings are nested in, empty at the top.
	Under string
	// Workload is a KIND/NAME; Container its container with settable resources.
	Workload, Container string
	// Fixed are settings that this one has not.
	Fixed []string
}

func (p Pods) settings() []Setting {
	pod := "spec.template.spec."
	all := []Setting{
		{Value: "affinity", Type: "object", Path: pod + "affinity"},
		{Value: "nodeSelector", Type: "strings", Path: pod + "nodeSelector", As: "merge"},
		{Value: "podAnnotations", Type: "strings", Path: "spec.template.metadata.annotations", As: "merge"},
		{Value: "podLabels", Type: "strings", Path: "spec.template.metadata.labels", As: "merge"},
		{Value: "tolerations", Type: "objects", Path: pod + "tolerations"},
	}
	if p.Container != "" {
		all = append(all, Setting{Value: "resources", Type: "resources", Path: pod + "containers[" + p.Container + "].resources"})
	}
	var out []Setting
	for _, s := range all {
		if slices.Contains(p.Fixed, s.Value) {
			continue
		}
		if p.Under != "" {
			s.Value = p.Under + "." + s.Value
		}
		s.Object = p.Workload
		out = append(out, s)
	}
	return out
}

// Configure changes objects of the add-on as values say. The values have passed
// [AddOn.Validate].
func (a *AddOn) Configure(objects []*unstructured.Unstructured, values map[string]any) error {
	for _, s := range a.Settings {
		value, ok, err := unstructured.NestedFieldNoCopy(values, strings.Split(s.Value, ".")...)
		if err != nil {
			return fmt.Errorf("configuration value %s: %w", s.Value, err)
		}
		if !ok {
			continue
		}
		i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind()+"/"+o.GetName() == s.Object })
		if i < 0 {
			return fmt.Errorf("configuration value %s: %s has no %s", s.Value, a.Name, s.Object)
		}
		if err := edit(objects[i].Object, strings.Split(s.Path, "."), func(old any) any { return s.merge(old, value) }); err != nil {
			return fmt.Errorf("configuration value %s: %w", s.Value, err)
		}
	}
	return nil
}

// merge returns what a field becomes.
func (s Setting) merge(old, value any) any {
	switch {
	case s.As == "env":
		list, _ := old.([]any)
		vars, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			entry := map[string]any{"name": name, "value": vars[name]}
			if i := named(list, name); i >= 0 {
				list[i] = entry
			} else {
				list = append(list, entry)
			}
		}
		return list
	case s.As == "computeType":
		return joined(old, map[string]any{"eks.amazonaws.com/compute-type": value})
	case s.As == "merge":
		added, _ := value.(map[string]any)
		return joined(old, added)
	case strings.HasPrefix(s.As, "--"):
		list, _ := old.([]any)
		arg := fmt.Sprintf("%s=%v", s.As, value)
		i := slices.IndexFunc(list, func(a any) bool { t, _ := a.(string); return strings.HasPrefix(t, s.As+"=") })
		if i < 0 {
			return append(list, arg)
		}
		list[i] = arg
		return list
	}
	return value
}

func joined(old any, added map[string]any) map[string]any {
	out := map[string]any{}
	if m, ok := old.(map[string]any); ok {
		maps.Copy(out, m)
	}
	maps.Copy(out, added)
	return out
}

// edit replaces the field at a path; maps on the way are made where missing.
func edit(o map[string]any, path []string, change func(any) any) error {
	key, item, isItem := strings.Cut(strings.TrimSuffix(path[0], "]"), "[")
	switch {
	case len(path) == 1:
		o[key] = change(o[key])
		return nil
	case isItem:
		list, _ := o[key].([]any)
		if i := named(list, item); i >= 0 {
			if next, ok := list[i].(map[string]any); ok {
				return edit(next, path[1:], change)
			}
		}
		return fmt.Errorf("no %s named %s", key, item)
	}
	next, ok := o[key].(map[string]any)
	if !ok {
		next = map[string]any{}
		o[key] = next
	}
	return edit(next, path[1:], change)
}

// named returns the index of the item with a name, or -1.
func named(list []any, name string) int {
	return slices.IndexFunc(list, func(e any) bool { m, ok := e.(map[string]any); return ok && m["name"] == name })
}
