package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFindings(t *testing.T) {
	got, err := findings(strings.NewReader(`{"config":{}} {"osv":{"id":"GO-1"}}
{"finding":{"osv":"GO-1","trace":[{"module":"m","version":"v1","package":"m/p"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"m","version":"v1"}]}}`))
	if err != nil || len(got) != 1 || got["GO-1"] != "m@v1" {
		t.Errorf("%v, %v: want GO-1 alone, whose package is built in", got, err)
	}
	if _, err := findings(strings.NewReader(`{"finding":`)); err == nil {
		t.Error("an answer that was cut off is taken for a clean one")
	}
}

func TestJudge(t *testing.T) {
	for name, tt := range map[string]struct {
		found, accepted map[string]string
		want            string
	}{
		"clean":    {nil, nil, ""},
		"accepted": {map[string]string{"GO-1": "m@v1"}, map[string]string{"GO-1": "why"}, ""},
		"new":      {map[string]string{"GO-1": "m@v1", "GO-2": "n@v1"}, map[string]string{"GO-1": "why"}, "GO-2 in n@v1"},
		"stale":    {nil, map[string]string{"GO-1": "why"}, "GO-1 is no longer found"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := judge(tt.found, tt.accepted); err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

func TestAcceptedHaveReasons(t *testing.T) {
	if list, err := parseAccepted(acceptedText); err != nil || len(list) == 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := parseAccepted("GO-1\n"); err == nil {
		t.Error("an ID without a reason is accepted")
	}
}

// A copy keeps the facts about the requested modules, and reads back as it was written.
func TestCopy(t *testing.T) {
	git, file := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	if err := os.MkdirAll(filepath.Join(git, "data", "osv"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"GO-1": `{"id":"GO-1","details":"prose","affected":[{"package":{"name":"a"},"ranges":[{"type":"SEMVER"}]},{"package":{"name":"b"}}]}`,
		"GO-2": `{"id":"GO-2","affected":[{"package":{"name":"b"}}]}`,
		"GO-3": `{"id":"GO-3","withdrawn":"2026-01-01T00:00:00Z","affected":[{"package":{"name":"a"}}]}`,
		"GO-4": `{"id":"GO-4","affected":[{"package":{"name":"stdlib"}}]}`,
	} {
		if err := os.WriteFile(filepath.Join(git, "data", "osv", name+".json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "t"}} {
		cmd := exec.Command("git", append([]string{"-C", git}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2026-08-21T12:00:00Z")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	if err := makeCopy(git, file, []string{"a", "stdlib"}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	h, n, err := unpack(file, dir)
	if err != nil || n != 2 || h.Date.Format(time.DateOnly) != "2026-08-21" || len(h.Commit) != 40 {
		t.Fatalf("%d entries, %+v, %v", n, h, err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "GO-1.json"))
	if text := string(b); err != nil || strings.Contains(text, "prose") || strings.Contains(text, `"b"`) || !strings.Contains(text, `"ranges":[{"type":"SEMVER"}]`) {
		t.Errorf("%s, %v", text, err)
	}
	if err := makeCopy(git, file, []string{"nothing"}); err == nil {
		t.Error("a copy without entries is one")
	}
}

// A module that is newer than the copy is not considered safe.
func TestCopyKnowsTheModules(t *testing.T) {
	dep := "golang.org/x/sys" // of any module of this binary
	for _, tt := range []struct {
		modules []string
		want    bool
	}{{nil, true}, {[]string{dep}, false}} {
		missing, err := (&header{Modules: tt.modules}).missing([]string{dep + "/unix"})
		if err != nil || slices.Contains(missing, dep) != tt.want {
			t.Errorf("made for %v: %v is missing, %v", tt.modules, missing, err)
		}
	}
}

func TestNoCopy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "copy")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := unpack(file, t.TempDir()); err == nil {
		t.Error("any file is a copy of the database")
	}
}
