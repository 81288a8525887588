package record

import (
	"net/netip"
	"slices"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// A Subnet is a subnet of a VPC.
type Subnet struct {
	ID               string
	VPCID            string
	CIDR             string            // empty for an IPv6-only subnet
	IPv6             []CIDRAssociation `json:",omitempty"` // at most one
	Zone             string            // such as us-east-1a
	ZoneID           string            // such as use1-az1
	DefaultForZone   bool              `json:",omitempty"`
	MapPublicIP      bool              `json:",omitempty"`
	AssignIPv6       bool              `json:",omitempty"`
	DNS64            bool              `json:",omitempty"`
	HostnameType     string            // ip-name or resource-name
	ResourceNameA    bool              `json:",omitempty"`
	ResourceNameAAAA bool              `json:",omitempty"`
	Tags             tag.Set           `json:",omitempty"`
}

// IPv6Only reports whether the subnet has no IPv4 block, which EC2 calls ipv6Native.
func (sn Subnet) IPv6Only() bool { return sn.CIDR == "" }

// Prefix6 returns the subnet's IPv6 block, or false if there is none.
func (sn Subnet) Prefix6() (netip.Prefix, bool) {
	if len(sn.IPv6) == 0 {
		return netip.Prefix{}, false
	}
	return resource.ParseCIDR6(sn.IPv6[0].CIDR)
}

// Prefixes returns the subnet's IPv4 block and IPv6 block.
func (sn Subnet) Prefixes() []netip.Prefix {
	return PrefixesOf(append([]CIDRAssociation{{CIDR: sn.CIDR}}, sn.IPv6...))
}

// SortByZone sorts subnets in the order in which a default one is chosen.
func SortByZone(sns []Subnet) {
	slices.SortFunc(sns, func(a, b Subnet) int {
		switch {
		case a.Zone < b.Zone:
			return -1
		case a.Zone > b.Zone:
			return 1
		}
		return 0
	})
}
