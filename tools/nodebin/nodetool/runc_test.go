//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A program that kubectl exec starts has the container's variables as Kubernetes knows them, with Drydock's address on the real
// machine.
func TestProgramsOfExecCallAWS(t *testing.T) {
	file := filepath.Join(t.TempDir(), "process")
	if err := os.WriteFile(file, []byte(`{"args":["x"],"env":["A=1","AWS_ENDPOINT_URL=http://127.0.0.1:4566","AWS_ENDPOINT_URL_STS=http://localhost:4566","AWS_ENDPOINT_URL_S3=http://10.0.0.1"],"oomScoreAdj":-5,"rlimits":[{"hard":18446744073709551615}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := option([]string{"runc", "exec", "--process", file, "id"}, "--process", "-p", ""); got != file {
		t.Errorf("the file is %q", got)
	}
	if err := adaptProgram(file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if want := `{"args":["x"],"env":["A=1","AWS_ENDPOINT_URL_S3=http://10.0.0.1"],"rlimits":[{"hard":18446744073709551615}]}`; err != nil || string(b) != want {
		t.Errorf("%s, %v, want %s", b, err, want)
	}
}

func TestContainersSeeTheMachineInProc(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "meminfo"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	shown := func(masked ...any) (all []string) {
		spec := map[string]any{"mounts": []any{map[string]any{"destination": "/proc"}}, "linux": map[string]any{"maskedPaths": masked}}
		showProc(spec, dir)
		for _, m := range spec["mounts"].([]any) {
			all = append(all, m.(map[string]any)["destination"].(string))
		}
		return all
	}
	if got := shown("/proc/kcore"); !slices.Equal(got, []string{"/proc", "/proc/meminfo"}) {
		t.Errorf("a container has %v", got)
	}
	if got := shown(); !slices.Equal(got, []string{"/proc"}) {
		t.Errorf("a privileged container has %v", got)
	}
}
