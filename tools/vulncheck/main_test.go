package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindings(t *testing.T) {
	found, library, err := findings(strings.NewReader(`{"config":{}} {"osv":{"id":"GO-1"}}
{"finding":{"osv":"GO-1","trace":[{"module":"m","version":"v1","package":"m/p"}]}}
{"finding":{"osv":"GO-2","trace":[{"module":"m","version":"v1"}]}}
{"finding":{"osv":"GO-3","fixed_version":"v1.26.10","trace":[{"module":"stdlib","version":"v1.26.8","package":"net/http"}]}}
{"finding":{"osv":"GO-4","trace":[{"module":"stdlib","version":"v1.26.8","package":"net/http"}]}}`))
	if want := map[string]string{"GO-1": "m@v1", "GO-4": "stdlib@v1.26.8"}; err != nil || !maps.Equal(found, want) {
		t.Errorf("%v, %v: want %v; only the module of GO-2 is built in, and another Go fixes GO-3", found, err, want)
	}
	if want := map[string]string{"GO-3": "v1.26.10"}; !maps.Equal(library, want) {
		t.Errorf("%v, want %v", library, want)
	}
	if _, _, err := findings(strings.NewReader(`{"finding":`)); err == nil {
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

// Without the database there is no verdict.
func TestNoDatabase(t *testing.T) {
	if _, _, err := database(t.TempDir()); err == nil {
		t.Error("a folder without a go.mod names a release")
	}
}

func TestDatabase(t *testing.T) {
	dir, date, err := database("../vulndb")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "GO-2021-0064.json")); err != nil || date.Year() < 2026 {
		t.Errorf("%v, %v", date, err)
	}
}
