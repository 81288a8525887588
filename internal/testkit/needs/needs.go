// Package needs skips tests if the machine lacks something that they need: a client, a built program. In CI nothing
// may be missing. It is a leaf, so that tests of small packages stay small.
package needs

import (
	"os"
	"testing"
)

// Missing skips a test because this machine lacks something. Under REQUIRE_CLIENTS=1, as in CI, it fails the test
// instead, so that no test is skipped silently.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_CLIENTS") == "1" {
		t.Fatalf(format+" (REQUIRE_CLIENTS=1)", args...)
	}
	t.Skipf(format, args...)
}
