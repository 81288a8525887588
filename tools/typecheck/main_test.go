package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFunctionsMissingOnOnePlatform(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module example.com/program\n\ngo 1.26\n",
		"main.go":          "package main\n\nimport \"example.com/program/lib\"\n\nfunc main() { lib.Run() }\n",
		"lib/lib.go":       "package lib\n\nfunc Run() { run() }\n",
		"lib/lib_linux.go": "package lib\n\nfunc run() {}\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	for _, pattern := range []string{".", "./..."} {
		if faults, err := check(pattern, "linux/arm64"); err != nil || len(faults) > 0 {
			t.Fatalf("linux/arm64: %q, %v", faults, err)
		}
		faults, err := check(pattern, "darwin/arm64")
		if err != nil || len(faults) != 1 || !strings.Contains(faults[0], "undefined: run") {
			t.Fatalf("darwin/arm64: %q, %v: want one fault, undefined: run", faults, err)
		}
	}
}
