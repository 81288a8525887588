package authz

import (
	"strings"
	"testing"
)

// TestOverlay: every row has a source and names actions and resource types that the
// reference knows.
func TestOverlay(t *testing.T) {
	known := func(action string) *Reference {
		_, ref, ok := ActionOf(action)
		if !ok {
			t.Errorf("the reference has no action %s", action)
		}
		return ref
	}
	for op, row := range targeted {
		ref := known(actionName(op))
		if row.source == "" {
			t.Errorf("%s has no source", op)
		}
		for spec := range strings.FieldsSeq(row.targets) {
			kind, _, _ := strings.Cut(spec, "=")
			if kind = strings.TrimSuffix(kind, "?"); ref != nil && ref.Types[kind] == nil {
				t.Errorf("%s: the reference has no resource type %s", op, kind)
			}
		}
	}
	for op, rows := range dependents {
		known(actionName(op))
		for _, d := range rows {
			if ref := known(d.action); d.source == "" || ref != nil && ref.Types[d.kind] == nil {
				t.Errorf("%s: %+v", op, d)
			}
		}
	}
	for prefix, tagger := range taggers {
		if tagger.source == "" && tagger.action("") != "" {
			t.Errorf("the tags of %s have no source", prefix)
		}
	}
	for op, l := range launchers {
		if known(actionName(op)); l.source == "" {
			t.Errorf("%s has no source", op)
		}
	}
	for op, action := range renamed {
		if known(action); op == action {
			t.Errorf("%s is no other name", op)
		}
	}
	for key := range memberKeys {
		prefix, _, _ := strings.Cut(key, ":")
		ref, ok := ReferenceOf(prefix)
		if !ok || ref.Names[key] == "" {
			t.Errorf("the reference has no condition key %s", key)
		}
	}
}
