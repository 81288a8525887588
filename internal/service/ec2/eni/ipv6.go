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
	if n > 0 == (len(in.Ipv6Addresses) > 0) {
		return nil, ec2err.Combination("Exactly one of ipv6Addresses and ipv6AddressCount must be specified")
	}
	out := &awsec2.AssignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	_, err = resource.Change(ctx, s.Core, record.NetworkInterfaces, nil, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) error {
		if e.Attachment.InstanceID != "" {
			i, err := resource.Get(tx, record.Instances, sc, e.Attachment.InstanceID)
			if err != nil {
				return err
			}
			// The limit for IPv6 addresses is the same as for IPv4 addresses.
			if typ, ok := instancetypes.Lookup(i.Type); ok && len(e.IPv6)+n+len(in.Ipv6Addresses) > typ.IPv4PerENI {
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
		out.AssignedIpv6Addresses = added
		e.IPv6 = append(slices.Clone(e.IPv6), added...)
		return nil
	})
	return out, err
}

// UnassignIpv6Addresses removes IPv6 addresses from an interface.
func (s *Service) UnassignIpv6Addresses(ctx context.Context, in *awsec2.UnassignIpv6AddressesInput) (*awsec2.UnassignIpv6AddressesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.Ipv6Addresses) == 0 {
		return nil, ec2err.Missing("ipv6Addresses")
	}
	out := &awsec2.UnassignIpv6AddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	_, err := resource.Change(ctx, s.Core, record.NetworkInterfaces, nil, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) error {
		out.UnassignedIpv6Addresses = nil
		for _, given := range in.Ipv6Addresses {
			a, err := netip.ParseAddr(given)
			i := slices.Index(e.IPv6, a.String())
			if err != nil || i < 0 {
				return ec2err.InvalidParameterValue("Some of the specified addresses are not assigned to interface %s", e.ID)
			}
			e.IPv6 = slices.Delete(slices.Clone(e.IPv6), i, i+1)
			out.UnassignedIpv6Addresses = append(out.UnassignedIpv6Addresses, a.String())
		}
		ipam.Release6(tx, sc, e.SubnetID, out.UnassignedIpv6Addresses)
		return nil
	})
	return out, err
}
