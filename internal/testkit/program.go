package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// Program returns the path of the built program: $DRYDOCK_BIN, or bin/drydock of this module. Tests do not link the
// Kubernetes servers; those that need them run the program. If it is missing, the test is skipped, or fails under
// REQUIRE_CLIENTS=1.
func Program(t testing.TB) string {
	t.Helper()
	bin := os.Getenv("DRYDOCK_BIN")
	if bin == "" {
		bin = filepath.Join(moduleRoot(t), "bin", "drydock")
	}
	bin, err := filepath.Abs(bin)
	if err == nil {
		_, err = os.Stat(bin)
	}
	if err != nil {
		needs.Missing(t, "no built program: %v\nTry: make build", err)
	}
	return bin
}

// moduleRoot returns the folder of go.mod. Tests run in the folder of their package.
func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = up
	}
}

// Children returns the IDs of the running processes that a process has started, or none if there is no /proc.
func Children(pid int) []int {
	var out []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, t := range tasks {
		b, _ := os.ReadFile(t)
		for _, f := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out
}
