// Package needs skips tests for what the machine they run on lacks: a client, a
// built program. In CI nothing may be lacking. It is a leaf, so that tests of small
// packages stay small.
package needs

import (
	"os"
	"testing"
)

// Missing skips a test because of what this machine lacks, or fails it under
// REQUIRE_CLIENTS=1, as in CI: no test is skipped silently.
func Missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("REQUIRE_CLIENTS") == "1" {
		t.Fatalf(format+" (REQUIRE_CLIENTS=1)", args...)
	}
	t.Skipf(format, args...)
}
