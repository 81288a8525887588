package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
		"stale":    {nil, map[string]string{"GO-1": "why"}, "GO-1 is not found any more"},
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

func TestCopyWithoutEntries(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := read(dir); err == nil {
		t.Error("an empty folder is a copy of the database")
	}
	for name, text := range map[string]string{"GO-1.json": "{}", "SOURCE": "golang/vulndb\ndate: 2026-08-21\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if n, date, err := read(dir); err != nil || n != 1 || date.Year() != 2026 {
		t.Errorf("%d, %v, %v", n, date, err)
	}
}
