package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// A command of a pod finds the pod's token where it is in the container, and this machine's
// own files next to it. Nothing of that is seen by others.
func TestPodView(t *testing.T) {
	if exec.Command("unshare", "--mount", "true").Run() != nil && exec.Command("unshare", "--user", "--mount", "true").Run() != nil {
		needs.Missing(t, "this machine does not permit mount namespaces")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	fakeRun(t, dir)
	script := "until grep -q renewed " + serviceAccountDir + "/token; do :; done; cat " + serviceAccountDir + "/token"
	code, out, stderr := run(t, dir, "run", "--pod", "web", "--container", "app", "--", "sh", "-c", script)
	if code != 0 || out != "renewed" {
		t.Errorf("exit code %d, %q, %q", code, out, stderr)
	}
	if _, err := os.Stat(serviceAccountDir + "/token"); err == nil {
		t.Error("this machine sees the pod's token")
	}
	here, err := exec.Command("ls", "-A", "/var/run/").Output()
	if err != nil {
		t.Fatal(err)
	}
	if _, out, _ := run(t, dir, "run", "--pod", "web", "--container", "app", "--", "sh", "-c", "ls -A /var/run/ | grep -v -e '^secrets$' -e '^[.]host$'"); out != string(here) {
		t.Errorf("in /var/run/ is\n%s\nwant\n%s", out, here)
	}
}

// The tunnels of the aws CLI see a bundle in the place of the system's certificates, whether the CLI or ssh starts them. Other
// commands do not.
func TestTrust(t *testing.T) {
	if exec.Command("unshare", "--mount", "true").Run() != nil && exec.Command("unshare", "--user", "--mount", "true").Run() != nil {
		needs.Missing(t, "this machine does not permit mount namespaces")
	}
	var system string // the file with the system's certificates
	for _, name := range slices.Backward(systemBundles) {
		if _, err := os.Stat(name); err == nil {
			system = name
		}
	}
	if system == "" {
		needs.Missing(t, "this machine has no CA certificates")
	}
	dir := t.TempDir()
	bundle, real := filepath.Join(dir, "the bundle"), filepath.Join(dir, "real")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	write(bundle, "the bundle of the test\n")
	write(filepath.Join(real, "aws"), "#!/bin/sh\nhead -n 1 "+system+"\n")
	// Like ssh, run the ProxyCommand.
	write(filepath.Join(real, "ssh"), "#!/bin/sh\nfor a do case $a in ProxyCommand=*) sh -c \"exec ${a#ProxyCommand=}\" ;; esac; done\n")
	t.Setenv("PATH", real+":"+os.Getenv("PATH"))
	o := &globalOptions{dataDir: filepath.Join(dir, "data")}
	bin, err := o.writeSSH(api.DaemonInfo{DataDir: o.dataDir}, api.Place{}, bundle)
	if err != nil {
		t.Fatal(err)
	}
	tunnel := []string{"--region", "eu-west-1", "ec2-instance-connect", "open-tunnel", "--instance-id", "i-1"}
	for _, tc := range []struct {
		program string
		args    []string
		trusted bool
	}{
		{"aws", tunnel, true},
		{"aws", []string{"ec2-instance-connect", "ssh", "--instance-id", "i-1"}, false},
		{"ssh", []string{"-o", "ProxyCommand='" + real + "/aws' ec2-instance-connect open-tunnel", "ec2-user@10.0.0.1"}, true},
		{"ssh", []string{"-o", "ProxyCommand=" + real + "/aws ssm start-session", "ec2-user@10.0.0.1"}, false},
	} {
		out, err := exec.Command(filepath.Join(bin, tc.program), tc.args...).CombinedOutput()
		if err != nil || strings.Contains(string(out), "the bundle of the test") != tc.trusted {
			t.Errorf("%s %q: %s, %v", tc.program, tc.args, out, err)
		}
	}
}

// The command of a pod dies with drydock, also if that is killed.
func TestPodDiesWithRun(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(podFiles{dir}.file(secretsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		cmd := exec.CommandContext(t.Context(), exe)
		cmd.Env = append(os.Environ(), "TEST_DAEMON=run", "TEST_DIR="+dir, "TMPDIR="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		pid, e := strconv.Atoi(strings.TrimSpace(line))
		if err = errors.Join(err, e); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		testkit.Eventually(t, 10*time.Second, func() error {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("the command %d is still there: %w", pid, err)
			}
			return nil
		})
	}
}
