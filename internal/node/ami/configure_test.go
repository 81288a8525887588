package ami_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// TestConfigureAgain checks that nodeadm writes the kubelet's files at every boot, and that a machine that continues after
// a restart of the daemon keeps them.
func TestConfigureAgain(t *testing.T) {
	cfg := &userdata.Config{ClusterName: "dev", Endpoint: "https://x"}
	w := newWorld(t, images.AL2023)
	configure := func(w *world, resumed bool) (text string, kept bool) {
		t.Helper()
		kept, err := w.Configure(cfg, "node", 17, resumed)
		if err != nil {
			t.Fatal(err)
		}
		b, err := w.FS.ReadFile(userdata.NodeadmConfigFile)
		if err != nil {
			t.Fatal(err)
		}
		return string(b), kept
	}
	written, kept := configure(w, true)
	if kept {
		t.Error("a disk without the files is not written to")
	}
	const changed = `{"maxPods": 5}`
	if err := w.FS.WriteFile(userdata.NodeadmConfigFile, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	for resumed, want := range map[bool]string{true: changed, false: written} {
		next := newWorld(t, images.AL2023)
		if err := next.FS.Restore(w.FS.Image()); err != nil {
			t.Fatal(err)
		}
		if got, kept := configure(next, resumed); got != want || kept != resumed {
			t.Errorf("resumed %t: kept %t, %s", resumed, kept, got)
		}
		if _, err := next.Reread(cfg); err != nil {
			t.Error(err)
		}
	}
}
