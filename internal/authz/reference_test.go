package authz

import (
	"slices"
	"strings"
	"testing"
)

// TestReferenceIsComplete: every line of the embedded reference can be parsed, and what the lines name exists.
func TestReferenceIsComplete(t *testing.T) {
	levels := []string{"Read", "List", "Write", "Tagging", "Permissions management"}
	for prefix, load := range loaders() {
		text, err := data.ReadFile("data/" + prefix + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		ref, lines := load(), 0
		for line := range strings.Lines(string(text)) {
			if key, ok := strings.CutPrefix(line, "K\t"); !ok {
				lines++
			} else if f := strings.Fields(key); ref.Names[strings.ToLower(f[1])] == "" { // AWS spells one in two ways
				t.Errorf("%s: the condition key %s is lost", prefix, f[1])
			}
		}
		kept := len(ref.Types) + len(ref.Actions)
		for name, act := range ref.Actions {
			kept += len(act.Types)
			if !slices.Contains(levels, act.Access) || name != strings.ToLower(act.Name) {
				t.Errorf("%s:%s: access level %q", prefix, name, act.Access)
			}
			for _, on := range act.Types {
				if ref.Types[on.Name] == nil {
					t.Errorf("%s:%s touches %s, which the reference does not have", prefix, name, on.Name)
				}
			}
		}
		for name, typ := range ref.Types {
			if !strings.HasPrefix(typ.ARN, "arn:") {
				t.Errorf("%s:%s has the ARN %q", prefix, name, typ.ARN)
			}
		}
		if kept != lines || len(ref.Actions) == 0 {
			t.Errorf("%s: %d lines make %d records", prefix, lines, kept)
		}
	}
}
