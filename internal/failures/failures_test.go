package failures

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range All() {
		if seen[f.ID] {
			t.Errorf("%s stands twice", f.ID)
		}
		seen[f.ID] = true
		if f.Title == "" || f.Broken == "" || f.Symptom == "" || f.Step == "" || len(f.Verdict) == 0 || len(f.Sources) == 0 || f.Outcome == "" {
			t.Errorf("%s lacks something", f.ID)
		}
		if _, err := regexp.Compile(f.Symptom); err != nil {
			t.Errorf("%s: %v", f.ID, err)
		}
		if len(f.Fix) == 0 && !f.Relaunch {
			t.Errorf("%s has no fix", f.ID)
		}
		for _, s := range f.Sources {
			if !strings.HasPrefix(s, "https://") {
				t.Errorf("%s: source %s", f.ID, s)
			}
		}
		if f.Look == "" && f.Outcome == Pod {
			t.Errorf("%s: what shows the symptom of a pod?", f.ID)
		}
	}
	if len(seen) < 25 {
		t.Errorf("%d rows", len(seen))
	}
}

// docs/failures is what Pages says: make failures.
func TestPages(t *testing.T) {
	const dir = "../../docs/failures"
	pages := Pages()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := pages[filepath.Base(f)]; !ok {
			t.Errorf("%s is nobody's: make failures", f)
		}
	}
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s is stale: make failures\n%s", name, diff)
		}
	}
}
