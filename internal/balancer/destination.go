package balancer

import (
	"cmp"
	"net/netip"
)

// A Destination is where a load balancer's network interface connects to.
type Destination struct {
	// Interface is the load balancer's.
	Interface string
	// Instance or Address is the target. An instance has its primary address, if that is known. Balancer is the ID of
	// another load balancer of the account and region.
	Instance, Balancer string
	Address            netip.Addr
	Port               uint16
	// Network is udp, or empty for tcp.
	Network string
	// Client is the address and port of the client if the target sees them. If the port is not free, the target sees another one.
	Client netip.AddrPort
}

// Host returns the target, for messages and Host headers.
func (d Destination) Host() string {
	if d.Address.IsValid() {
		return d.Address.String()
	}
	return cmp.Or(d.Instance, d.Balancer)
}
