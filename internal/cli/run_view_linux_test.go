package cli

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
