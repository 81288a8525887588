package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// The conformance tests that run by default take a few minutes: those of what only nodes that run containers have. Tests that mostly wait are
// left out, and so are those that need cgroup controllers.
var (
	conformanceFocus = []string{
		`Containers .*\[Conformance\]`, `Pods .*\[Conformance\]`, `InitContainer .*\[Conformance\]`,
		`Container Lifecycle Hook .*\[Conformance\]`, `Ephemeral Containers .*\[Conformance\]`, `Variable Expansion .*\[Conformance\]`, `KubeletManagedEtcHosts .*\[Conformance\]`,
		`Kubectl logs .*\[Conformance\]`, `Networking Granular Checks.*\[Conformance\]`, `DNS .*\[Conformance\]`, `Projected combined .*\[Conformance\]`,
		`ServiceAccounts .*\[Conformance\]`, `AdmissionWebhook .*\[Conformance\]`, `Aggregator .*\[Conformance\]`,
	}
	conformanceSkip = []string{`\[Serial\]`, `\[Slow\]`, `monotonically increasing`, `should \*not\* be restarted`, `have backoff`, `affinity timeout`, `subpath`, `500 podspec`, `(Secrets|Projected \w+) (optional )?updates`, `Pod InPlace Resize`}
)

// TestConformance runs Kubernetes' conformance tests on nodes that run containers: all of them with CONFORMANCE=all, those that match with
// CONFORMANCE=REGEXP. It needs make conformance-tests. docs/conformance.md has the results.
func TestConformance(t *testing.T) {
	t.Parallel()
	if os.Getenv("CONFORMANCE") == "none" {
		t.Skip("the conformance tests ARE NOT RUN: CONFORMANCE=none")
	}
	program, err := exec.LookPath("e2e.test")
	if err != nil {
		needs.Missing(t, "the conformance tests ARE NOT RUN: make conformance-tests, or CONFORMANCE=none")
	}
	dir := filepath.Join(filepath.Dir(program), "conformance")
	focus, skip, limit := strings.Join(conformanceFocus, "|"), strings.Join(conformanceSkip, "|"), 20*time.Minute
	switch v := os.Getenv("CONFORMANCE"); v {
	case "":
	case "all":
		focus, skip, limit = `\[Conformance\]`, "^$", 140*time.Minute
	default:
		focus, skip, limit = v, "^$", 60*time.Minute
	}
	runScripts(t, "testdata/conformance", limit, func(env *testscript.Env) {
		env.Setenv("DIR", dir)
		env.Setenv("FOCUS", focus)
		env.Setenv("SKIP", skip)
	})
}
