package fabric

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// isolated runs the test again in a process with user and network namespaces of its own, and reports whether this is
// that process. It needs no root.
func isolated(t testing.TB) bool {
	t.Helper()
	const child = "DRYDOCK_FABRIC_TEST_CHILD"
	if os.Getenv(child) != "" {
		return true
	}
	args := []string{"-test.run=^" + t.Name() + "$", "-test.v", "-test.timeout=50m"}
	if _, ok := t.(*testing.B); ok {
		args = []string{"-test.run=^$", "-test.bench=^" + t.Name() + "$"}
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		Pdeathsig:   syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err == nil && bytes.Contains(out, []byte("--- SKIP")):
		needs.Missing(t, "a network namespace that allows everything:\n%s", out)
	case err == nil:
		t.Logf("%s", out)
	case errors.As(err, &exit):
		t.Errorf("%v\n%s", err, out)
	default:
		needs.Missing(t, "user and network namespaces (%v)", err)
	}
	return false
}
