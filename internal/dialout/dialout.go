// Package dialout dials targets chosen by someone else, such as the clients of a proxy. It refuses this machine's
// loopback and link-local addresses, because services on loopback often trust local callers, and a cloud machine's
// metadata service returns its credentials.
package dialout

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// Dialer returns a dialer that refuses such addresses. It checks the resolved address, so a
// DNS name cannot get around it.
func Dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		if local(to.Addr()) {
			return fmt.Errorf("%s is a loopback or link-local address", to.Addr())
		}
		return nil
	}}
}

// metadata is the IPv6 range of EC2's metadata, time and DNS services.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html
var metadata = netip.MustParsePrefix("fd00:ec2::/32")

func local(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() || a.IsMulticast() || metadata.Contains(a)
}
