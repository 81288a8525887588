package app

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/cli"
)

// TestBytesDir: daemons with different records do not share payloads, because payloads without a record are removed.
func TestBytesDir(t *testing.T) {
	external := func(prefix string, endpoints ...string) cli.DaemonConfig {
		c := cli.DaemonConfig{DataDir: "d"}
		c.Etcd.Endpoints, c.Etcd.Prefix = endpoints, prefix
		return c
	}
	if bytesDir(external("/p", "a", "b")) != bytesDir(external("/p", "b", "a")) {
		t.Error("the order of endpoints counts")
	}
	seen := map[string]bool{}
	for _, c := range []cli.DaemonConfig{{DataDir: "d"}, external("/p", "a"), external("/q", "a"), external("/p", "b")} {
		if dir := bytesDir(c); seen[dir] {
			t.Errorf("%s is shared", dir)
		} else {
			seen[dir] = true
		}
	}
}
