package controlplane_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/fault"
)

// TestAuthoritiesRotate: clients that trust only the old authority are served until the new one signs, and clients that
// trust both always.
func TestAuthoritiesRotate(t *testing.T) {
	w := newWorld(t, nil)
	old := w.claim("arn", account)
	first := w.Authorities(old.ID)[0].ID
	for range 2 { // it can be repeated
		if err := w.AddAuthority(t.Context(), old.ID, "ca-next"); err != nil {
			t.Fatal(err)
		}
	}
	both, err := w.Get(old.ID)
	if err != nil || bytes.Count(both.CAPEM, []byte("BEGIN CERTIFICATE")) != 2 {
		t.Fatalf("trusted: %s, %v", both.CAPEM, err)
	}
	if _, err := viaEndpoint(t.Context(), old, "/pid"); err != nil {
		t.Error(err)
	}
	if err := w.ActivateAuthority(t.Context(), old.ID, "ca-next"); err != nil {
		t.Fatal(err)
	}
	if _, err := viaEndpoint(t.Context(), old, "/pid"); err == nil || !strings.Contains(err.Error(), "x509:") {
		t.Errorf("a client that trusts the old authority: %v", err)
	}
	if _, err := viaEndpoint(t.Context(), both, "/pid"); err != nil {
		t.Errorf("a client that trusts both: %v", err)
	}
	if got := w.get(old.ID, "/whoami"); got != "drydock system:masters" {
		t.Errorf("the daemon is %q", got)
	}
	w.reopen()
	w.ready(old.ID)
	if all := w.Authorities(old.ID); len(all) != 2 || all[0].ID != "ca-next" || all[1].ID != first {
		t.Errorf("authorities %+v", all)
	}
	if err := w.RemoveAuthority(t.Context(), old.ID, "ca-next"); err == nil {
		t.Error("the authority that signs was removed")
	}
	if err := w.RemoveAuthority(t.Context(), old.ID, first); err != nil {
		t.Fatal(err)
	}
	if got := w.get(old.ID, "/whoami"); got != "drydock system:masters" {
		t.Errorf("the daemon is %q", got)
	}
}

// TestARepeatedRotationReplacesNothing: a pass of the reconciler that finds everything done leaves the process alone.
func TestARepeatedRotationReplacesNothing(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("arn", account)
	if err := w.AddAuthority(t.Context(), p.ID, "ca-next"); err != nil {
		t.Fatal(err)
	}
	pid := w.pid(p.ID)
	if err := w.AddAuthority(t.Context(), p.ID, "ca-next"); err != nil || w.pid(p.ID) != pid {
		t.Errorf("the process was replaced again: %v", err)
	}
}

// TestARotationThatFailsLeavesThePlaneAsItWas: its keys, in the store too, and the certificate that it serves with.
func TestARotationThatFailsLeavesThePlaneAsItWas(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("arn", account)
	if err := w.AddAuthority(t.Context(), p.ID, "ca-next"); err != nil {
		t.Fatal(err)
	}
	before, pid := w.Authorities(p.ID), w.pid(p.ID)
	hang := hangWish(filepath.Join(w.cfg.Dir, p.ID))
	if err := os.WriteFile(hang, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := w.ActivateAuthority(ctx, p.ID, "ca-next"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("ActivateAuthority = %v", err)
	}
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	unchanged := func() {
		t.Helper()
		if all := w.Authorities(p.ID); len(all) != 2 || all[0].ID != before[0].ID || !bytes.Equal(all[1].CertPEM, before[1].CertPEM) {
			t.Errorf("authorities %+v", all)
		}
		if _, err := viaEndpoint(t.Context(), p, "/pid"); err != nil {
			t.Errorf("a client that trusts the first authority: %v", err)
		}
	}
	if unchanged(); w.pid(p.ID) != pid {
		t.Error("the process has changed")
	}
	w.reopen()
	w.ready(p.ID)
	unchanged()
}

// TestAFaultOfUpgradesSparesRotations: neither they nor moves to a platform version are upgrades.
func TestAFaultOfUpgradesSparesRotations(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	w := newWorld(t, func(c *config) { c.Faults = set })
	p := w.claim("arn", account)
	setFault(set, fault.Upgrade, 0)
	if err := errors.Join(w.AddAuthority(t.Context(), p.ID, "ca-next"), w.Replace(t.Context(), p.ID)); err != nil {
		t.Error(err)
	}
}

// TestARotationOfAPlaneThatIsDown fails at once with the fault, and can be repeated when that is over.
func TestARotationOfAPlaneThatIsDown(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	w := newWorld(t, func(c *config) { c.Faults = set })
	p := w.claim("arn", account)
	setFault(set, fault.ControlPlane, 0)
	eventually(t, func() error {
		if err := w.WaitReady(t.Context(), p.ID); fault.Of(err) == nil {
			return errors.New("the fault is not in force yet")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.AddAuthority(ctx, p.ID, "ca-next"); fault.Of(err) == nil {
		t.Errorf("AddAuthority = %v", err)
	}
	if all := w.Authorities(p.ID); len(all) != 1 {
		t.Errorf("authorities %+v", all)
	}
	setFault(set, "", 0)
	eventually(t, func() error { return w.AddAuthority(t.Context(), p.ID, "ca-next") })
}

// TestARotationCuresAnExpiredAuthority while the fault lasts.
func TestARotationCuresAnExpiredAuthority(t *testing.T) {
	set := fault.NewSet(fault.Config{})
	w := newWorld(t, func(c *config) { c.Faults = set })
	p := w.claim("arn", account)
	setFault(set, fault.ExpiredCA, 0)
	eventually(t, func() error {
		if _, err := viaEndpoint(t.Context(), p, "/pid"); err == nil || !strings.Contains(err.Error(), "x509: certificate has expired") {
			return errors.New("the fault is not in force yet")
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.Upgrade(ctx, p.ID, "1.35"); fault.Of(err) == nil {
		t.Errorf("Upgrade = %v", err)
	}
	if err := w.AddAuthority(ctx, p.ID, "ca-next"); err != nil {
		t.Fatal(err)
	}
	if err := w.ActivateAuthority(ctx, p.ID, "ca-next"); err != nil {
		t.Fatal(err)
	}
	both, err := w.Get(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := viaEndpoint(ctx, both, "/pid"); err != nil {
		t.Error(err)
	}
	w.reopen() // the fault is still in force
	w.ready(p.ID)
	eventually(t, func() error { _, err := viaEndpoint(ctx, both, "/pid"); return err })
	if err := w.RemoveAuthority(ctx, p.ID, w.Authorities(p.ID)[1].ID); err != nil {
		t.Error(err)
	}
}
