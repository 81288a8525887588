package dialout

import (
	"net/netip"
	"testing"
)

// The kernel says that addresses are this machine's, whatever its interfaces have: 127.9.9.9 is in a route of type local only.
func TestRouted(t *testing.T) {
	for _, a := range []string{"127.0.0.1", "127.9.9.9", "127.255.255.255", "255.255.255.255"} {
		if routed(netip.MustParseAddr(a)) == nil {
			t.Errorf("%s is another machine's", a)
		}
	}
}
