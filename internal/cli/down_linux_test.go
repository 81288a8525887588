package cli

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// A process that has ended is not there any more, even if its parent does not ask.
func TestAliveOfAZombie(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "TEST_DAEMON=short") // its input is empty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	gone, err := waitGone(t.Context(), cmd.Process.Pid, time.Minute)
	if err != nil || !gone {
		t.Errorf("gone %v, %v", gone, err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
