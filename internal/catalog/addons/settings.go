package addons

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// A Setting is a configuration value of an add-on and the field it changes.
type Setting struct {
	// Value is its name, dotted if it is nested: controller.replicaCount.
	Value string
	// Type is the key of its schema in types. Schema is a schema of its own.
	Type   string
	Schema map[string]any
	// Object and Path are what it changes: Deployment/coredns, spec.replicas. An item of a list is selected by its
	// name, or its number: containers[coredns].
	Object, Path string
	// As says how to change it, see [editors]. Empty means as Helm merges values.
	As string
}

// Pods are a workload whose pods have the settings that all add-ons have.
type Pods struct {
	// Under is the name under which the settings are nested; empty at the top.
	Under string
	// Workload is a KIND/NAME; Container is its container with configurable resources.
	Workload, Container string
	// Fixed are the settings that this workload does not have.
	Fixed []string
}

func (p Pods) settings() []Setting {
	pod := "spec.template.spec."
	all := []Setting{
		{Value: "affinity", Type: "object", Path: pod + "affinity"},
		{Value: "nodeSelector", Type: "strings", Path: pod + "nodeSelector"},
		{Value: "podAnnotations", Type: "strings", Path: "spec.template.metadata.annotations"},
		{Value: "podLabels", Type: "strings", Path: "spec.template.metadata.labels"},
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

// settings returns the settings of one version.
func (a *AddOn) settings(v *Version) []Setting {
	return slices.DeleteFunc(slices.Clone(a.Settings), func(s Setting) bool {
		return slices.ContainsFunc(v.Without, func(w string) bool { return s.Value == w || strings.HasPrefix(s.Value, w+".") })
	})
}

// Unsupported returns the names of EKS's values that have no effect here.
func (a *AddOn) Unsupported(values map[string]any) []string {
	var out []string
	for name := range a.Refused {
		if _, ok, err := unstructured.NestedFieldNoCopy(values, strings.Split(name, ".")...); ok && err == nil {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// Configure applies values that have passed [AddOn.Validate] to the objects of a version of the add-on and returns
// the result. It changes the given objects.
func (a *AddOn) Configure(v *Version, objects []*unstructured.Unstructured, values map[string]any) ([]*unstructured.Unstructured, error) {
	for _, s := range a.settings(v) {
		value, ok, err := unstructured.NestedFieldCopy(values, strings.Split(s.Value, ".")...)
		if err != nil {
			return nil, fmt.Errorf("configuration value %s: %w", s.Value, err)
		}
		if !ok {
			continue
		}
		if objects, err = s.configure(objects, value); err != nil {
			return nil, fmt.Errorf("configuration value %s: %w", s.Value, err)
		}
	}
	return objects, nil
}

func (s Setting) configure(objects []*unstructured.Unstructured, value any) ([]*unstructured.Unstructured, error) {
	kind, argument, _ := strings.Cut(s.As, " ")
	if make, ok := makers[kind]; ok {
		return make(objects, s, argument, value)
	}
	i := indexObject(objects, s.Object)
	if i < 0 {
		return nil, fmt.Errorf("there is no %s", s.Object)
	}
	change, ok := editors[kind]
	if !ok {
		return nil, fmt.Errorf("nothing is done as %q", kind)
	}
	return objects, edit(objects[i].Object, strings.Split(s.Path, "."), func(old any) (any, error) { return change(old, argument, value) })
}

func indexObject(objects []*unstructured.Unstructured, id string) int {
	return slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind()+"/"+o.GetName() == id })
}

// edit replaces the field at a path and creates missing maps on the way. A field that becomes nil is removed.
func edit(o map[string]any, path []string, change func(any) (any, error)) error {
	key, item, isItem := strings.Cut(strings.TrimSuffix(path[0], "]"), "[")
	switch {
	case len(path) == 1 && !isItem:
		value, err := change(o[key])
		if o[key] = value; value == nil {
			delete(o, key)
		}
		return err
	case isItem:
		list, _ := o[key].([]any)
		i := named(list, item)
		if n, err := strconv.Atoi(item); err == nil {
			if i = n; n == len(list) && len(path) == 1 {
				list = append(list, nil)
				o[key] = list
			}
		}
		if i < 0 || i >= len(list) {
			return fmt.Errorf("no %s named %s", key, item)
		}
		if next, ok := list[i].(map[string]any); ok && len(path) > 1 {
			return edit(next, path[1:], change)
		}
		value, err := change(list[i])
		if list[i] = value; value == nil {
			o[key] = slices.Delete(list, i, i+1)
		}
		return err
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
