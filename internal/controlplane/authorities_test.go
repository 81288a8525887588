package controlplane_test

import (
	"bytes"
	"strings"
	"testing"
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
