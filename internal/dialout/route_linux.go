package dialout

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routed returns an error if this machine would not send packets to an address to another one: if the address is its own, also in a range
// that no interface has (type local), a broadcast address, or one that it throws away. It is nil where there is no route, as dialling fails there.
func routed(a netip.Addr) error {
	routes, err := netlink.RouteGet(a.AsSlice())
	if errors.Is(err, unix.ENETUNREACH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("finding the route to %s: %w", a, err)
	}
	for _, r := range routes {
		if r.Type != unix.RTN_UNICAST {
			return fmt.Errorf("%s is not another machine's address: the route to it has type %d", a, r.Type)
		}
	}
	return nil
}
