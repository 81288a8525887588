package ipam

import (
	"crypto/rand"
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// There are too many IPv6 blocks and addresses for bitmaps. Each one in use has a record under its
// name, which makes it unique.

// Prefix lengths of the blocks of VPCs and subnets.
const (
	vpcBits6 = 56
	// Those of the largest and the smallest subnets.
	MaxSubnetBits6, MinSubnetBits6 = 44, 64
	// prefixBits6 is the length of the prefixes delegated to interfaces.
	// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-prefix-eni.html
	prefixBits6 = 80
)

// amazonPool6 is the region's range of Amazon-provided IPv6 blocks.
func amazonPool6(region string) netip.Prefix {
	n := 0
	for i, r := range regions.All() {
		if r.Name == region {
			n = i
		}
	}
	return netip.PrefixFrom(netip.AddrFrom16([16]byte{0x26, 0x00, 0x1f, 0x10 + byte(n)}), 32)
}

func pool6Key(region, prefix string) store.Key {
	return store.Key{Account: resource.PublicAccount, Region: region, ID: "vpc/" + prefix}
}

// TakeBlock6 allocates a free /56 from Amazon's pool to a VPC.
func TakeBlock6(tx *store.Tx, region, vpc string) (netip.Prefix, error) {
	for {
		var random [4]byte
		rand.Read(random[:3]) // never fails, see crypto/rand
		b := amazonPool6(region).Addr().As16()
		copy(b[4:7], random[:3])
		p := netip.PrefixFrom(netip.AddrFrom16(b), vpcBits6)
		_, err := record.IPv6Addresses.Get(tx, pool6Key(region, p.String()))
		if resource.NotFound(err) {
			return p, record.IPv6Addresses.Create(tx, pool6Key(region, p.String()), resource.Name{ID: vpc})
		}
		if err != nil {
			return p, err
		}
	}
}

// ReleaseBlocks6 returns blocks to Amazon's pool.
func ReleaseBlocks6(tx *store.Tx, region string, blocks []record.CIDRAssociation) {
	for _, b := range blocks {
		record.IPv6Addresses.Delete(tx, pool6Key(region, b.CIDR))
	}
}

// address6Key is the key of an address or of a delegated prefix.
func address6Key(sc resource.Scope, subnet, addr string) store.Key {
	return sc.Key(subnet + "/" + addr)
}

// Take6 allocates the given addresses and n free ones of a subnet to an interface.
func Take6(tx *store.Tx, sc resource.Scope, sn record.Subnet, eni string, given []string, n int) ([]string, error) {
	if n == 0 && len(given) == 0 {
		return nil, nil
	}
	block, ok := sn.Prefix6()
	if !ok {
		return nil, ec2err.InvalidParameterValue("The subnet '%s' does not have an IPv6 CIDR block associated with it.", sn.ID) // from memory
	}
	var out []string
	for _, g := range given {
		a, err := netip.ParseAddr(g)
		if err != nil || !a.Is6() || a.Zone() != "" {
			return nil, ec2err.InvalidParameterValue("invalid value for parameter address: %s", g)
		}
		if !block.Contains(a) || reserved6(block, a) {
			return nil, ec2err.AddressNotInSubnet(g)
		}
		k := address6Key(sc, sn.ID, a.String())
		if _, err := record.IPv6Addresses.Get(tx, k); err == nil || delegated6(tx, sc, sn.ID, a) {
			return nil, ec2err.AddressInUse(a.String())
		}
		if err := record.IPv6Addresses.Create(tx, k, resource.Name{ID: eni}); err != nil {
			return nil, err
		}
		out = append(out, a.String())
	}
	for n > 0 {
		b := block.Addr().As16()
		rand.Read(b[8:])
		b[8] &^= prefixHalf6
		a := netip.AddrFrom16(b)
		k := address6Key(sc, sn.ID, a.String())
		if _, err := record.IPv6Addresses.Get(tx, k); err == nil || reserved6(block, a) || delegated6(tx, sc, sn.ID, a) {
			continue
		}
		if err := record.IPv6Addresses.Create(tx, k, resource.Name{ID: eni}); err != nil {
			return nil, err
		}
		out = append(out, a.String())
		n--
	}
	return out, nil
}

// reserved6 reports whether an address is one of the first four or the last, which AWS reserves.
// https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
func reserved6(block netip.Prefix, a netip.Addr) bool {
	first := block.Masked().Addr()
	for range 4 {
		if a == first {
			return true
		}
		first = first.Next()
	}
	return block.Contains(a) && !block.Contains(a.Next())
}

// prefixHalf6 is set in the first byte after a subnet's block in the prefixes that are chosen for interfaces, and
// not in the addresses that are chosen: so that no address is inside a prefix, without a look at all of them.
const prefixHalf6 = 0x80

// TakePrefixes6 allocates the given prefixes and n free ones of a subnet to an interface.
func TakePrefixes6(tx *store.Tx, sc resource.Scope, sn record.Subnet, eni string, given []string, n int) ([]string, error) {
	if n == 0 && len(given) == 0 {
		return nil, nil
	}
	block, ok := sn.Prefix6()
	if !ok {
		return nil, ec2err.InvalidParameterValue("The subnet '%s' does not have an IPv6 CIDR block associated with it.", sn.ID) // from memory
	}
	var out []string
	for _, g := range given {
		p, ok := resource.ParseCIDR6(g)
		if !ok || p.Bits() != prefixBits6 {
			return nil, ec2err.InvalidParameterValue("invalid value for parameter prefix: %s", g)
		}
		if !resource.Within(block, p) {
			return nil, ec2err.AddressNotInSubnet(g)
		}
		used := record.IPv6Addresses.All(tx, store.Scope{Account: sc.Account, Region: sc.Region, Prefix: sn.ID + "/"})
		for _, u := range used {
			if a, err := netip.ParseAddr(strings.TrimPrefix(u.Key.ID, sn.ID+"/")); err == nil && p.Contains(a) {
				return nil, ec2err.AddressInUse(g)
			}
		}
		if delegated6(tx, sc, sn.ID, p.Addr()) || slices.Contains(out, p.String()) {
			return nil, ec2err.AddressInUse(g)
		}
		out = append(out, p.String())
	}
	for n > 0 {
		b := block.Addr().As16()
		rand.Read(b[8:10])
		b[8] |= prefixHalf6
		if a := netip.AddrFrom16(b); !delegated6(tx, sc, sn.ID, a) && !slices.Contains(out, delegation6(a)) {
			out = append(out, delegation6(a))
			n--
		}
	}
	for _, p := range out {
		if err := record.IPv6Addresses.Create(tx, address6Key(sc, sn.ID, p), resource.Name{ID: eni}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// delegation6 returns the prefix that an address would be delegated with.
func delegation6(a netip.Addr) string {
	return netip.PrefixFrom(a, prefixBits6).Masked().String()
}

// delegated6 reports whether an address is inside a delegated prefix.
func delegated6(r store.Reader, sc resource.Scope, subnet string, a netip.Addr) bool {
	_, err := record.IPv6Addresses.Get(r, address6Key(sc, subnet, delegation6(a)))
	return err == nil
}

// Release6 frees addresses and prefixes of a subnet.
func Release6(tx *store.Tx, sc resource.Scope, subnet string, addrs []string) {
	for _, a := range addrs {
		record.IPv6Addresses.Delete(tx, address6Key(sc, subnet, a))
	}
}
