package cli

import (
	"os"
	"os/exec"
	"testing"

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
