package addons

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// editors are the ways in which a value changes a field, by the first word of a Setting's As; argument is the rest.
var editors = map[string]func(old any, argument string, value any) (any, error){
	// As Helm merges configuration values into a chart's: objects member by member, everything else as a whole, and
	// null removes. https://helm.sh/docs/chart_template_guide/values_files/
	"": func(old any, _ string, value any) (any, error) { return overlay(old, value), nil },
	// A number as text.
	"text": func(_ any, _ string, value any) (any, error) { return fmt.Sprint(value), nil },
	// Variables of a container, or only the named one.
	"env": func(old any, name string, value any) (any, error) {
		vars, ok := value.(map[string]any)
		if !ok {
			vars = map[string]any{name: value}
		}
		list, _ := old.([]any)
		for _, name := range slices.Sorted(maps.Keys(vars)) {
			list = setNamed(list, map[string]any{"name": name, "value": fmt.Sprint(vars[name])})
		}
		return list, nil
	},
	// Items of a list, matched by name if they have one.
	"append": func(old any, _ string, value any) (any, error) {
		list, _ := old.([]any)
		added, _ := value.([]any)
		for _, e := range added {
			list = setNamed(list, e)
		}
		return list, nil
	},
	// Arguments and their values, one after the other.
	"pairs": func(old any, _ string, value any) (any, error) {
		list, _ := old.([]any)
		pairs, _ := value.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			list = append(list, name, fmt.Sprint(pairs[name]))
		}
		return list, nil
	},
	// The annotation that lets Fargate run the pods.
	// https://docs.aws.amazon.com/eks/latest/userguide/fargate-getting-started.html
	"computeType": func(old any, _ string, value any) (any, error) {
		return overlay(old, map[string]any{"eks.amazonaws.com/compute-type": value}), nil
	},
	// The argument --name=VALUE; text after the = comes before the value. A null changes nothing.
	"flag": func(old any, name string, value any) (any, error) {
		if value == nil {
			return old, nil
		}
		list, _ := old.([]any)
		name, prefix, _ := strings.Cut(name, "=")
		return setFlag(list, name, prefix+fmt.Sprint(value)), nil
	},
	// The argument alone if true, absent if false.
	"switch": func(old any, name string, value any) (any, error) {
		list, _ := old.([]any)
		list = slices.DeleteFunc(list, func(a any) bool { return a == name })
		if on, _ := value.(bool); on {
			list = append(list, name)
		}
		return list, nil
	},
	// The argument --name=a=b,c=d.
	"tags": func(old any, name string, value any) (any, error) {
		list, _ := old.([]any)
		tags, _ := value.(map[string]any)
		var pairs []string
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			pairs = append(pairs, fmt.Sprintf("%s=%v", k, tags[k]))
		}
		if len(pairs) == 0 {
			return list, nil
		}
		return setFlag(list, name, strings.Join(pairs, ",")), nil
	},
	// A field, given by its path, of the YAML in a text.
	"yaml": func(old any, path string, value any) (any, error) {
		text, _ := old.(string)
		doc := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
			return nil, err
		}
		if err := edit(doc, strings.Split(path, "."), func(any) (any, error) { return value, nil }); err != nil {
			return nil, err
		}
		raw, err := yaml.Marshal(doc)
		return string(raw), err
	},
	// Tolerate all taints, or only those of the chart's default.
	"tolerateAll": func(old any, _ string, value any) (any, error) {
		if all, _ := value.(bool); all {
			return old, nil
		}
		return []any{map[string]any{"effect": "NoExecute", "operator": "Exists", "tolerationSeconds": int64(300)}}, nil
	},
	// Tolerations, which the chart leaves out if all taints are tolerated.
	"tolerations": func(old any, _ string, value any) (any, error) {
		if list, _ := old.([]any); len(list) == 1 && len(list[0].(map[string]any)) == 1 {
			return old, nil
		}
		return value, nil
	},
}

func overlay(old, value any) any {
	over, ok := value.(map[string]any)
	if !ok {
		return value
	}
	out := map[string]any{}
	if m, ok := old.(map[string]any); ok {
		maps.Copy(out, m)
	}
	for k, v := range over {
		if out[k] = overlay(out[k], v); v == nil {
			delete(out, k)
		}
	}
	return out
}

// setNamed adds an item to a list, replacing one with the same name.
func setNamed(list []any, item any) []any {
	if m, ok := item.(map[string]any); ok {
		if name, ok := m["name"].(string); ok {
			if i := named(list, name); i >= 0 {
				list[i] = item
				return list
			}
		}
	}
	return append(list, item)
}

// setFlag adds the argument NAME=VALUE to a list, replacing one with the same name.
func setFlag(list []any, name, value string) []any {
	i := indexFlag(list, name)
	if i < 0 {
		return append(list, name+"="+value)
	}
	list[i] = name + "=" + value
	return list
}

func indexFlag(list []any, name string) int {
	return slices.IndexFunc(list, func(a any) bool { t, _ := a.(string); return t == name || strings.HasPrefix(t, name+"=") })
}
