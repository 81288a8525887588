package controlplane_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// signal sends a signal to a plane's current process: on a busy machine a healthy one may be considered hanging and
// be replaced.
func signal(t *testing.T, w *world, id string, what syscall.Signal) (pid int) {
	t.Helper()
	eventually(t, func() error {
		s, err := w.Status(id)
		if err == nil && s.State != controlplane.Ready {
			err = fmt.Errorf("%s: %s", s.State, s.Reason)
		}
		if err == nil {
			pid, err = s.PID, syscall.Kill(s.PID, what)
		}
		return err
	})
	return pid
}

// A process that hangs does not end by itself, and nothing of its plane would ever answer again.
func TestAStoppedProcessIsReplaced(t *testing.T) {
	w := newWorld(t, func(cfg *config) {
		cfg.Silence, cfg.Log = 4*time.Second, testlog.New(t, "a control plane is not responding")
	})
	p := w.claim("o", account)
	old := signal(t, w, p.ID, syscall.SIGSTOP)
	eventually(t, func() error { return gone(old) })
	eventually(t, func() error {
		s, err := w.Status(p.ID)
		if err == nil && (s.State != controlplane.Ready || s.PID == old) {
			err = fmt.Errorf("%s: %s", s.State, s.Reason)
		}
		return err
	})
}

// A process that never gets ready does not end by itself either.
func TestAProcessThatHangsAtItsStartIsReplaced(t *testing.T) {
	w := newWorld(t, func(cfg *config) {
		cfg.Silence, cfg.Log = 2*time.Second, testlog.New(t, "a control plane is not responding")
	})
	p := w.claim("o", account)
	wish := hangWish(filepath.Join(w.cfg.Dir, p.ID))
	if err := os.WriteFile(wish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := signal(t, w, p.ID, syscall.SIGKILL)
	hanging := 0
	eventually(t, func() error {
		s, err := w.Status(p.ID)
		if err == nil && (s.State != controlplane.Starting || s.PID == 0 || s.PID == old) {
			err = fmt.Errorf("%s: %s", s.State, s.Reason)
		}
		hanging = s.PID
		return err
	})
	eventually(t, func() error { return gone(hanging) })
	if err := os.Remove(wish); err != nil {
		t.Fatal(err)
	}
	w.ready(p.ID)
}

// A stopped process does not prevent the daemon from ending.
func TestCloseEndsStoppedProcesses(t *testing.T) {
	w := newWorld(t, nil)
	var pids []int
	for _, owner := range []string{"o1", "o2"} {
		pid := w.pid(w.claim(owner, account).ID)
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	done := make(chan error, 1)
	go func() { done <- w.Close() }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute): // it takes as long as a child may take to stop
		t.Fatal("it does not end")
	}
	var left []error
	for _, pid := range pids {
		left = append(left, gone(pid))
	}
	if err := errors.Join(left...); err != nil {
		t.Error(err)
	}
}
