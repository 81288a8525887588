// Package reach decides whether a packet gets from one place to another in the network of a region, and explains why:
// every hop there and back, and the route, rule or entry that decided at each.
//
// It is pure: a Snapshot is a value that never changes, and Snapshot.Check reads nothing else. A Draft makes the next
// Snapshot from the previous one and shares everything that did not change.
//
//	d := old.Edit()
//	d.Put(&reach.Subnet{…})
//	d.Delete("rtb-…")
//	s := d.Snapshot()
//	v := s.Check(reach.Flow{From: reach.At("i-…"), To: reach.Addr(ip), Protocol: reach.TCP, Port: 443})
//
// Both the way there and the way back are walked, because network ACLs and route tables are stateless. Security
// groups are not: replies pass them. Where the ports of replies matter, the walk carries sets of ports, and an ACL
// that lets only some of them through narrows the set (Verdict.ReplyPorts).
//
// Words and codes are those of VPC Reachability Analyzer,
// https://docs.aws.amazon.com/vpc/latest/reachability/explanation-codes.html. Unlike Reachability Analyzer, Check
// supports IPv6, follows a packet through two internet gateways, and considers whether an instance runs. It includes
// DNS: see Snapshot.Resolve.
package reach

import "net/netip"

// An Endpoint is one end of a flow: a resource, an address, or a resource with one of its addresses.
type Endpoint struct {
	// ID is an instance, network interface, VPC endpoint, Instance Connect endpoint (source only) or internet
	// gateway, which means the internet behind it.
	ID string `json:"id,omitempty"`
	// Address selects one of the addresses of ID. Without an ID, it means whatever has that address; a source that is
	// only an address is on the internet.
	Address netip.Addr `json:"address,omitzero"`
}

// At returns the endpoint of a resource.
func At(id string) Endpoint { return Endpoint{ID: id} }

// Addr returns the endpoint of an address.
func Addr(a netip.Addr) Endpoint { return Endpoint{Address: a} }

// A Flow is a connection to be checked.
type Flow struct {
	From     Endpoint `json:"from"`
	To       Endpoint `json:"to"`
	Protocol Protocol `json:"protocol"`
	Port     uint16   `json:"port,omitempty"` // destination port of TCP and UDP
	// SourcePorts are the ports that the connection may come from. If empty, they are those that the source's
	// operating system uses.
	SourcePorts Ports `json:"sourcePorts,omitempty"`
}

// Ephemeral ports, by operating system.
// https://docs.aws.amazon.com/vpc/latest/userguide/custom-network-acl.html#nacl-ephemeral-ports
var (
	linuxPorts = PortRange{32768, 61000}
	anyClient  = PortRange{1024, 65535} // hosts on the internet, and NAT gateways
)

// Client is the default address of the user's laptop, from TEST-NET-3.
var Client = netip.AddrFrom4([4]byte{203, 0, 113, 10})

// The private ranges of RFC 1918 and RFC 6598.
var (
	rfc1918 = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
	}
	rfc6598 = []netip.Prefix{netip.MustParsePrefix("100.64.0.0/10")}
)

func inAny(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// public reports whether an address can be on the internet.
func public(a netip.Addr) bool {
	if a.Is4() {
		return !inAny(rfc1918, a) && !inAny(rfc6598, a) && !a.IsLinkLocalUnicast() && !a.IsLoopback()
	}
	return a.IsGlobalUnicast() && !a.IsPrivate()
}
