package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
)

func TestRangePatterns(t *testing.T) {
	for cidr, want := range map[string]string{
		"10.0.0.0/16":    "10.0.*",
		"10.1.2.0/24":    "10.1.2.*",
		"172.16.16.0/22": "172.16.16.* 172.16.17.* 172.16.18.* 172.16.19.*",
		"10.0.0.32/30":   "10.0.0.32 10.0.0.33 10.0.0.34 10.0.0.35",
		"2001:db8::/56":  "",
		"nothing":        "",
	} {
		if got := strings.Join(rangePatterns(cidr), " "); got != want {
			t.Errorf("%s: %q, want %q", cidr, got, want)
		}
	}
}

// TestSSHPrograms checks that the programs find the real ones, even if they are started from one another.
func TestSSHPrograms(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(real, "ssh"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	o := &globalOptions{dataDir: filepath.Join(dir, "it's 100%")}
	t.Setenv("PATH", real)
	for range 2 {
		bin, err := o.writeSSH(api.DaemonInfo{DataDir: o.dataDir}, api.Place{Region: "eu-west-1"})
		if err != nil {
			t.Fatal(err)
		}
		script, err := os.ReadFile(filepath.Join(bin, "ssh"))
		if err != nil || !strings.Contains(string(script), "exec "+real+"/ssh -F ") {
			t.Errorf("%s, %v", script, err)
		}
		if _, err := os.Stat(filepath.Join(bin, "scp")); err == nil {
			t.Error("there is no scp")
		}
		config, err := os.ReadFile(filepath.Join(o.dataDir, "ssh", "config"))
		if err != nil || !strings.Contains(string(config), `it'\''s 100%%' --region eu-west-1 %h %p`) {
			t.Errorf("%s, %v", config, err)
		}
		t.Setenv("PATH", bin+":"+real)
	}
}
