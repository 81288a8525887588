package eni

import (
	"context"
	"net/netip"
	"slices"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// AssignIpv6Addresses adds IPv6 addresses to an interface.
func (s *Service) AssignIpv6Addresses(ctx context.Context, in *awsec2.AssignIpv6AddressesInput) (*awsec2.AssignIpv6AddressesOutput, error) {
	sc := resource.ScopeOf(ctx)
	n, err := AddressCount(in.Ipv6AddressCount, "ipv6AddressCount")
	if err != nil {
		return nil, err
	}
	prefixes, err := AddressCount(in.Ipv6PrefixCount, "ipv6PrefixCount")
	if err != nil {
		return nil, err
	}
	if ways(n, prefixes, in.Ipv6Addresses, in.Ipv6Prefixes) != 1 {
		return nil, ec2err.OneWayOfIPv6()
	}
	out := &awsec2.AssignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	_, err = resource.Change(ctx, s.Core, record.NetworkInterfaces, nil, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) error {
		if e.Attachment.InstanceID != "" {
			i, err := resource.Get(tx, record.Instances, sc, e.Attachment.InstanceID)
			if err != nil {
				return err
			}
			// The limit for IPv6 addresses is the same as for IPv4 addresses.
			if typ, ok := instancetypes.Lookup(i.Type); ok && len(e.IPv6)+len(e.Prefixes6)+n+prefixes+len(in.Ipv6Addresses)+len(in.Ipv6Prefixes) > typ.IPv4PerENI {
				return ec2err.TooManyAddresses(e.ID, i.Type, typ.IPv4PerENI)
			}
		}
		sn, err := resource.Get(tx, record.Subnets, sc, e.SubnetID)
		if err != nil {
			return err
		}
		added, err := ipam.Take6(tx, sc, sn, e.ID, in.Ipv6Addresses, n)
		if err != nil {
			return err
		}
		blocks, err := ipam.TakePrefixes6(tx, sc, sn, e.ID, in.Ipv6Prefixes, prefixes)
		if err != nil {
			return err
		}
		out.AssignedIpv6Addresses, out.AssignedIpv6Prefixes = added, blocks
		e.IPv6, e.Prefixes6 = append(slices.Clone(e.IPv6), added...), append(slices.Clone(e.Prefixes6), blocks...)
		return nil
	})
	return out, err
}

// ways counts how a request asks for IPv6 addresses and prefixes.
func ways(addressCount, prefixCount int, addresses, prefixes []string) int {
	n := 0
	for _, given := range []bool{addressCount > 0, prefixCount > 0, len(addresses) > 0, len(prefixes) > 0} {
		if given {
			n++
		}
	}
	return n
}

// UnassignIpv6Addresses removes IPv6 addresses and prefixes from an interface.
func (s *Service) UnassignIpv6Addresses(ctx context.Context, in *awsec2.UnassignIpv6AddressesInput) (*awsec2.UnassignIpv6AddressesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.Ipv6Addresses)+len(in.Ipv6Prefixes) == 0 {
		return nil, ec2err.Missing("ipv6Addresses")
	}
	out := &awsec2.UnassignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	_, err := resource.Change(ctx, s.Core, record.NetworkInterfaces, nil, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) error {
		out.UnassignedIpv6Addresses, out.UnassignedIpv6Prefixes = nil, nil
		for _, given := range in.Ipv6Prefixes {
			p, ok := resource.ParseCIDR6(given)
			i := slices.Index(e.Prefixes6, p.String())
			if !ok || i < 0 {
				return ec2err.InvalidParameterValue("Some of the specified prefixes are not assigned to interface %s", e.ID)
			}
			e.Prefixes6 = slices.Delete(slices.Clone(e.Prefixes6), i, i+1)
			out.UnassignedIpv6Prefixes = append(out.UnassignedIpv6Prefixes, p.String())
		}
		for _, given := range in.Ipv6Addresses {
			a, err := netip.ParseAddr(given)
			i := slices.Index(e.IPv6, a.String())
			if err != nil || i < 0 {
				return ec2err.InvalidParameterValue("Some of the specified addresses are not assigned to interface %s", e.ID)
			}
			e.IPv6 = slices.Delete(slices.Clone(e.IPv6), i, i+1)
			out.UnassignedIpv6Addresses = append(out.UnassignedIpv6Addresses, a.String())
		}
		ipam.Release6(tx, sc, e.SubnetID, slices.Concat(out.UnassignedIpv6Addresses, out.UnassignedIpv6Prefixes))
		return nil
	})
	return out, err
}
