package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

// version returns the version that the plane's process emulates.
func (w *world) version(id string) string {
	w.t.Helper()
	var cfg launch.Config
	if err := json.Unmarshal([]byte(w.get(id, "/config")), &cfg); err != nil {
		w.t.Fatal(err)
	}
	return cfg.Version
}

func TestUpgradeReplacesTheProcessBehindTheEndpoint(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("arn", account)
	old := w.pid(p.ID)

	// Users see no interruption.
	ctx, stop := context.WithCancel(t.Context())
	lost := make(chan error, 1)
	go func() {
		defer close(lost)
		for ctx.Err() == nil {
			if _, err := viaEndpoint(t.Context(), p, "/pid"); err != nil {
				lost <- err
				return
			}
		}
	}()
	if err := w.Upgrade(t.Context(), p.ID, "1.35"); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-lost; err != nil {
		t.Errorf("a request failed during the upgrade: %v", err)
	}
	if got := w.version(p.ID); got != "1.35" {
		t.Errorf("the process emulates %s", got)
	}
	if err := gone(old); err != nil {
		t.Errorf("the old process is still there: %v", err)
	}
	now, err := w.Get(p.ID)
	if err != nil || now.Key.Version != "1.35" || now.Endpoint != p.Endpoint || !strings.HasPrefix(now.GitVersion, "v1.35.") {
		t.Errorf("plane %+v, %v", now, err)
	}
	status, err := w.Status(p.ID)
	if err != nil || status.State != controlplane.Ready || status.PID != w.pid(p.ID) || status.Restarts != 0 {
		t.Errorf("status %+v, %v", status, err)
	}
	if err := w.Upgrade(t.Context(), p.ID, "1.35"); err != nil || w.pid(p.ID) != status.PID {
		t.Errorf("the repeated upgrade did something: %v", err)
	}

	// The new process is supervised as the old one was.
	if err := syscall.Kill(status.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if now, err := w.Status(p.ID); err != nil || now.State != controlplane.Ready || now.Restarts == 0 {
			return fmt.Errorf("status %+v, %v", now, err)
		}
		return nil
	})
	if got := w.version(p.ID); got != "1.35" {
		t.Errorf("after a restart the process emulates %s", got)
	}
	w.reopen()
	w.ready(p.ID)
	if got := w.version(p.ID); got != "1.35" {
		t.Errorf("after a restart of the Manager the process emulates %s", got)
	}
}

func TestAnUpgradeThatFailsLeavesThePlaneAsItWas(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("arn", account)
	old := w.pid(p.ID)
	if err := w.Upgrade(t.Context(), p.ID, "1.99"); err == nil {
		t.Error("upgraded to a version that does not exist")
	}

	hang := hangWish(filepath.Join(w.cfg.Dir, p.ID)) + "1.35"
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.Upgrade(ctx, p.ID, "1.35"); err == nil {
		t.Error("upgraded to a version that never answers")
	}
	if w.pid(p.ID) != old || w.version(p.ID) != "1.34" {
		t.Error("the process has changed")
	}

	// The Manager closes while a successor starts.
	failed := make(chan error)
	go func() { failed <- w.Upgrade(t.Context(), p.ID, "1.35") }()
	w.reopen()
	if err := <-failed; err == nil {
		t.Error("an upgrade succeeded in a Manager that was closed")
	}
	w.ready(p.ID)
	if got := w.version(p.ID); got != "1.34" {
		t.Errorf("the process emulates %s", got)
	}
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	if err := w.Upgrade(t.Context(), p.ID, "1.35"); err != nil {
		t.Error(err)
	}
}

// A plane can be released while its old process still completes requests, and both processes end.
func TestReleaseWhileTheOldProcessRetires(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("arn", account)
	old := w.pid(p.ID)
	if err := os.WriteFile(lingerWish(filepath.Join(w.cfg.Dir, p.ID)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Upgrade(t.Context(), p.ID, "1.35") }()
	eventually(t, func() error {
		if now, err := w.Get(p.ID); err != nil || now.Key.Version != "1.35" {
			return fmt.Errorf("plane %+v, %v", now, err)
		}
		return nil
	})
	began := time.Now()
	if err := w.Release(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the release waited %s for the old process", took)
	}
	if err := gone(old); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the upgrade of a released plane succeeded")
	}
}
