package drydock

import (
	"os"
	"testing"

	"golang.org/x/mod/modfile"
)

// The programs of nodes, the conformance tests and those of CSI are modules of their own, because their authors need other versions of
// some modules. What they share with Drydock has Drydock's versions, so that Kubernetes' clients are compiled once for
// all: three times take ten minutes more with cold caches.
func TestModulesShareVersions(t *testing.T) {
	ours := versions(t, "go.mod")
	for _, name := range []string{"tools/nodebin/coredns/go.mod", "tools/nodebin/csi/go.mod", "tools/conformance/go.mod", "tools/csisanity/go.mod"} {
		for path, theirs := range versions(t, name) {
			if name == "tools/csisanity/go.mod" && path == "github.com/container-storage-interface/spec" {
				continue // the tests are those of a newer specification
			}
			if v, shared := ours[path]; shared && v != theirs {
				t.Errorf("%s: %s is %s, and %s in go.mod: go mod edit -replace=%[2]s=%[2]s@%[4]s", name, path, theirs, v)
			}
		}
	}
}

// versions returns the version of each module that a go.mod names. With replacements, it is theirs.
func versions(t *testing.T, name string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := modfile.Parse(name, text, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, r := range f.Require {
		out[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range f.Replace {
		if _, ok := out[r.Old.Path]; ok && r.New.Path == r.Old.Path {
			out[r.Old.Path] = r.New.Version
		}
	}
	return out
}
