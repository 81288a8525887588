package logrouter

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// newFilter returns the filter of a directive. https://docs.fluentbit.io/manual/pipeline/filters
func newFilter(s section, parsers map[string]*parser) (filter, error) {
	name := strings.ToLower(s.get("name"))
	m, err := newMatcher(s)
	if err != nil {
		return filter{}, err
	}
	var known []string
	var do func(*record) bool
	switch name {
	case "parser":
		known = []string{"key_name", "parser", "preserve_key", "reserve_data", "unescape_key"}
		if err = s.wants("unescape_key", "off"); err == nil {
			do, err = parserFilter(s, parsers)
		}
	case "kubernetes":
		known = []string{
			"merge_log", "merge_log_key", "merge_log_trim", "keep_log", "labels", "annotations", "buffer_size", "kube_meta_cache_ttl", "kube_url", "kube_tag_prefix", "kube_ca_file",
			"kube_token_file", "k8s-logging.parser", "k8s-logging.exclude", "use_kubelet", "kubelet_port",
		}
		for _, d := range [][2]string{{"merge_log_trim", "on"}, {"k8s-logging.parser", "off"}, {"kube_tag_prefix", tagPrefix}} {
			if err == nil {
				err = s.wants(d[0], d[1])
			}
		}
		do = kubernetesFilter(s)
	case "grep":
		known = []string{"regex", "exclude"}
		do, err = grepFilter(s)
	case "record_modifier":
		known = []string{"record", "remove_key", "allowlist_key", "whitelist_key"}
		do = recordModifier(s)
	case "modify":
		known = []string{"set", "add", "remove", "rename", "hard_rename", "copy", "hard_copy"}
		do = modifyFilter(s)
	default:
		return filter{}, fmt.Errorf("the filter plugin %s is not available in Drydock", name)
	}
	if err == nil {
		err = s.only(append(known, "name", "match", "match_regex"))
	}
	if err != nil {
		return filter{}, fmt.Errorf("filter plugin %s: %w", name, err)
	}
	return filter{m, do}, nil
}

func parserFilter(s section, parsers map[string]*parser) (func(*record) bool, error) {
	key, preserve, reserve := s.get("key_name"), isTrue(s.get("preserve_key")), isTrue(s.get("reserve_data"))
	var all []*parser
	for _, name := range s.all("parser") {
		p := parsers[name]
		if p == nil {
			return nil, fmt.Errorf("there is no parser %s", name)
		}
		all = append(all, p)
	}
	return func(r *record) bool {
		text, ok := r.fields[key].(string)
		if !ok {
			return true
		}
		for _, p := range all {
			fields, at, ok := p.parse(text, r.at)
			if !ok {
				continue
			}
			if reserve {
				for k, v := range r.fields {
					if _, has := fields[k]; !has && (k != key || preserve) {
						fields[k] = v
					}
				}
			}
			r.fields, r.at = fields, at
			break
		}
		return true
	}, nil
}

func kubernetesFilter(s section) func(*record) bool {
	merge, mergeKey := isTrue(s.get("merge_log")), s.get("merge_log_key")
	has := func(key string) bool { return s.get(key) == "" || isTrue(s.get(key)) } // on by default
	keep, labels, annotations := has("keep_log"), has("labels"), has("annotations")
	exclude := isTrue(s.get("k8s-logging.exclude"))
	return func(r *record) bool {
		if exclude && excluded(r) {
			return false
		}
		if text, ok := r.fields["log"].(string); ok && merge {
			if merged, ok := jsonObject(text); ok {
				if !keep {
					delete(r.fields, "log")
				}
				if mergeKey != "" {
					r.fields[mergeKey] = merged
				} else {
					maps.Copy(r.fields, merged)
				}
			}
		}
		k := map[string]any{
			"pod_name": r.source.Pod, "namespace_name": r.source.Namespace, "pod_id": r.source.PodUID, "host": r.source.Host,
			"container_name": r.source.Container, "docker_id": r.source.ContainerID, "container_image": r.source.Image,
		}
		if labels && len(r.source.Labels) > 0 {
			k["labels"] = r.source.Labels
		}
		if annotations && len(r.source.Annotations) > 0 {
			k["annotations"] = r.source.Annotations
		}
		r.fields["kubernetes"] = k
		return true
	}
}

// excluded reports whether a pod's annotations exclude a record: all of them, or those of a stream or a container.
// https://docs.fluentbit.io/manual/pipeline/filters/kubernetes#kubernetes-pod-annotations
func excluded(r *record) bool {
	names := []string{"fluentbit.io/exclude"}
	if stream, ok := r.fields["stream"].(string); ok {
		names = append(names, names[0]+"_"+stream)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return isTrue(r.source.Annotations[name]) || isTrue(r.source.Annotations[name+"-"+r.source.Container])
	})
}

// As in Fluent Bit, whose Logical_Op is legacy by default, the first Regex decides about a record that no Exclude before it has
// dropped. https://docs.fluentbit.io/manual/pipeline/filters/grep
func grepFilter(s section) (func(*record) bool, error) {
	type rule struct {
		key     string
		re      *regexp.Regexp
		exclude bool
	}
	var rules []rule
	for _, x := range s {
		if x.key != "regex" && x.key != "exclude" {
			continue
		}
		key, expr, _ := strings.Cut(x.value, " ")
		re, err := compile(strings.TrimSpace(expr))
		if err != nil {
			return nil, fmt.Errorf("invalid expression %q: %w", expr, err)
		}
		rules = append(rules, rule{key, re, x.key == "exclude"})
	}
	return func(r *record) bool {
		for _, rule := range rules {
			text, ok := lookUp(r.fields, rule.key)
			matches := ok && rule.re.MatchString(text)
			if !rule.exclude {
				return matches
			}
			if matches {
				return false
			}
		}
		return true
	}, nil
}

// accessor matches the parts of the names of nested fields: $kubernetes['labels']['app'].
var accessor = regexp.MustCompile(`\['([^']*)'\]`)

// lookUp returns the text of a field by its name.
func lookUp(fields map[string]any, name string) (string, bool) {
	rest, nested := strings.CutPrefix(name, "$")
	first, _, _ := strings.Cut(rest, "[")
	v, ok := fields[first]
	if nested {
		for _, m := range accessor.FindAllStringSubmatch(rest, -1) {
			switch below := v.(type) {
			case map[string]any:
				v, ok = below[m[1]]
			case map[string]string:
				v, ok = below[m[1]]
			default:
				return "", false
			}
		}
	}
	if !ok {
		return "", false
	}
	if text, isText := v.(string); isText {
		return text, true
	}
	b, err := json.Marshal(v)
	return string(b), err == nil
}

func recordModifier(s section) func(*record) bool {
	allowed := append(s.all("allowlist_key"), s.all("whitelist_key")...)
	return func(r *record) bool {
		for _, k := range s.all("remove_key") {
			delete(r.fields, k)
		}
		if len(allowed) > 0 {
			left := map[string]any{}
			for _, k := range allowed {
				if v, ok := r.fields[k]; ok {
					left[k] = v
				}
			}
			r.fields = left
		}
		for _, x := range s.all("record") {
			k, v, _ := strings.Cut(x, " ")
			r.fields[k] = strings.TrimSpace(v)
		}
		return true
	}
}

func modifyFilter(s section) func(*record) bool {
	return func(r *record) bool {
		for _, x := range s {
			a, b, _ := strings.Cut(x.value, " ")
			b = strings.TrimSpace(b)
			from, hasFrom := r.fields[a]
			_, hasTo := r.fields[b]
			switch {
			case x.key == "set", x.key == "add" && !hasFrom:
				r.fields[a] = b
			case x.key == "remove":
				delete(r.fields, a)
			case x.key == "rename" && hasFrom && !hasTo, x.key == "hard_rename" && hasFrom:
				delete(r.fields, a)
				r.fields[b] = from
			case x.key == "copy" && hasFrom && !hasTo, x.key == "hard_copy" && hasFrom:
				r.fields[b] = from
			}
		}
		return true
	}
}
