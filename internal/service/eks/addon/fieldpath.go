package addon

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// removeField removes the field that the API server calls path, as in
// .spec.template.spec.containers[name="coredns"].image, and reports whether it was
// there. Names of fields may have dots of their own: .metadata.labels.a.b/c.
func removeField(o any, path string) bool {
	removed, _ := without(o, path)
	return removed
}

// without removes a field of a value and returns what the value becomes.
func without(o any, path string) (removed bool, rest any) {
	switch o := o.(type) {
	case map[string]any:
		for key, value := range o {
			after, ok := strings.CutPrefix(path, "."+key)
			switch {
			case !ok:
			case after == "":
				delete(o, key)
				return true, o
			case after[0] == '.' || after[0] == '[':
				if removed, rest := without(value, after); removed {
					o[key] = rest
					return true, o
				}
			}
		}
	case []any:
		selector := itemRE.FindString(path)
		if selector == "" {
			return false, o
		}
		i := slices.IndexFunc(o, func(item any) bool { return selects(selector, item) })
		switch after := path[len(selector):]; {
		case i < 0:
		case after == "":
			return true, slices.Delete(o, i, i+1)
		default:
			if removed, rest := without(o[i], after); removed {
				o[i] = rest
				return true, o
			}
		}
	}
	return false, o
}

var (
	itemRE = regexp.MustCompile(`^\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\]`)
	keyRE  = regexp.MustCompile(`(\w*)=("(?:[^"\\]|\\.)*"|[^,\]]*)`)
)

// selects reports whether a selector, [containerPort=53,protocol="UDP"] or [="v"],
// means an item of a list.
func selects(selector string, item any) bool {
	keys := keyRE.FindAllStringSubmatch(selector, -1)
	for _, k := range keys {
		value := item
		if k[1] != "" {
			m, ok := item.(map[string]any)
			if !ok {
				return false
			}
			value = m[k[1]]
		}
		text := fmt.Sprint(value)
		if s, ok := value.(string); ok {
			text = fmt.Sprintf("%q", s)
		}
		if text != k[2] {
			return false
		}
	}
	return len(keys) > 0
}
