package cli

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/advice"
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

// TestSSHPrograms checks that the scripts find the real programs, even if one script starts another.
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
		bin, err := o.writeSSH(api.DaemonInfo{DataDir: o.dataDir}, api.Place{Account: "111111111111", Region: "eu-west-1"}, "")
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
		config, err := os.ReadFile(filepath.Join(o.dataDir, "ssh", "111111111111-eu-west-1", "config"))
		if err != nil || !strings.Contains(string(config), `it'\''s 100%%' --account 111111111111 --region eu-west-1 -- '%h' '%p'`) || !strings.Contains(string(config), `/it's 100%%/ssh/known_hosts"`) {
			t.Errorf("%s, %v", config, err)
		}
		if bin, err = o.writeSSH(api.DaemonInfo{DataDir: o.dataDir}, api.Place{}, filepath.Join(dir, "bundle")); err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(filepath.Join(o.dataDir, "ssh", "run", "config"))
		if err != nil || !strings.Contains(string(other), "--anywhere") || strings.Contains(string(config), "--anywhere") {
			t.Errorf("drydock run: %s, %v", other, err)
		}
		t.Setenv("PATH", bin+":"+real)
	}
}

// A fix may name an address of AWS, where the source of a twin is. Its ssh connects to none but Drydock's instances.
func TestFixesReachOnlyInstances(t *testing.T) {
	dir := playDaemon(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s is asked", r.URL) })
	real := t.TempDir()
	if err := os.WriteFile(filepath.Join(real, "ssh"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", real+":"+os.Getenv("PATH"))
	var out bytes.Buffer
	o := &globalOptions{dataDir: dir, streams: Streams{Out: &out, Err: &out}}
	err := o.runFix(t.Context(), &advice.Fix{Commands: []string{"command -v ssh"}}, api.Place{Account: "111122223333", Region: "eu-west-1"})
	if want := filepath.Join(dir, "ssh", "111122223333-eu-west-1", "bin", "ssh") + "\n"; err != nil || out.String() != want {
		t.Errorf("ssh is %s, want %s, %v", out.String(), want, err)
	}
}

// TestSSHProxyHost checks that a host name is refused if a shell or ssh could take it for something else.
func TestSSHProxyHost(t *testing.T) {
	for _, host := range []string{"a b", "$(id)", "x';id;'", "", "-x"} {
		cmd := newSSHProxy(&globalOptions{})
		cmd.SetArgs([]string{"--", host, "22"})
		if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "is not the name of a host") {
			t.Errorf("%q: %v", host, err)
		}
	}
}
