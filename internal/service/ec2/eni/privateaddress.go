package eni

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// AssignPrivateIpAddresses adds secondary addresses to an interface, up to the limit of the
// instance that it is attached to.
func (s *Service) AssignPrivateIpAddresses(ctx context.Context, in *awsec2.AssignPrivateIpAddressesInput) (*awsec2.AssignPrivateIpAddressesOutput, error) {
	sc := resource.ScopeOf(ctx)
	n, err := SecondaryCount(in.SecondaryPrivateIpAddressCount)
	if err != nil {
		return nil, err
	}
	prefixes, err := AddressCount(in.Ipv4PrefixCount, "ipv4PrefixCount")
	if err != nil {
		return nil, err
	}
	ways := 0
	for _, given := range []bool{n > 0, len(in.PrivateIpAddresses) > 0, prefixes > 0, len(in.Ipv4Prefixes) > 0} {
		if given {
			ways++
		}
	}
	if ways != 1 {
		return nil, ec2err.Combination("Exactly one of privateIpAddresses, secondaryPrivateIpAddressCount, ipv4Prefixes and ipv4PrefixCount must be specified")
	}
	out := &awsec2.AssignPrivateIpAddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	_, err = resource.Change(ctx, s.Core, record.NetworkInterfaces, nil, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) error {
		if prefixes > 0 || len(in.Ipv4Prefixes) > 0 {
			added, err := addPrefixes(tx, sc, e, prefixes, in.Ipv4Prefixes)
			if err != nil {
				return err
			}
			out.AssignedIpv4Prefixes = nil
			for _, p := range added {
				out.AssignedIpv4Prefixes = append(out.AssignedIpv4Prefixes, ec2types.Ipv4PrefixSpecification{Ipv4Prefix: aws.String(p)})
			}
			return nil
		}
		if aws.ToBool(in.AllowReassignment) {
			if err := takeOver(tx, sc, *e, in.PrivateIpAddresses); err != nil {
				return err
			}
		}
		added, err := s.addAddresses(tx, sc, e, n, in.PrivateIpAddresses)
		if err != nil {
			return err
		}
		out.AssignedPrivateIpAddresses = nil
		for _, a := range added {
			out.AssignedPrivateIpAddresses = append(out.AssignedPrivateIpAddresses, ec2types.AssignedPrivateIpAddress{PrivateIpAddress: aws.String(a.String())})
		}
		return nil
	})
	return out, err
}

// addAddresses allocates n free addresses and the given ones for e. The caller stores e.
func (s *Service) addAddresses(tx *store.Tx, sc resource.Scope, e *record.NetworkInterface, n int, given []string) ([]netip.Addr, error) {
	pool, err := ipam.Of(tx, sc, e.SubnetID)
	if err != nil {
		return nil, err
	}
	if err := checkSlots(tx, sc, *e, n+len(given)); err != nil {
		return nil, err
	}
	var added []netip.Addr
	for _, a := range given {
		ip, err := netip.ParseAddr(a)
		if err != nil || !ip.Is4() {
			return nil, ec2err.InvalidParameterValue("invalid value for parameter address: %s", a)
		}
		if err := pool.Claim(tx, ip); err != nil {
			return nil, err
		}
		added = append(added, ip)
	}
	taken, err := pool.Take(tx, n, e.ID)
	if err != nil {
		return nil, err
	}
	added = append(added, taken...)
	e.Addresses = slices.Clone(e.Addresses)
	for _, a := range added {
		e.Addresses = append(e.Addresses, a.String())
	}
	return added, nil
}

// checkSlots checks that the instance type allows more addresses and prefixes on an interface. Both
// count the same. A detached interface has no limit yet.
func checkSlots(r store.Reader, sc resource.Scope, e record.NetworkInterface, n int) error {
	if e.Attachment.InstanceID == "" {
		return nil
	}
	i, err := resource.Get(r, record.Instances, sc, e.Attachment.InstanceID)
	if err != nil {
		return err
	}
	if typ, ok := instancetypes.Lookup(i.Type); ok && len(e.Addresses)+len(e.Prefixes)+n > typ.IPv4PerENI {
		return ec2err.TooManyAddresses(e.ID, i.Type, typ.IPv4PerENI)
	}
	return nil
}

// addPrefixes allocates n free prefixes and the given ones for e. The caller stores e.
func addPrefixes(tx *store.Tx, sc resource.Scope, e *record.NetworkInterface, n int, given []string) ([]string, error) {
	if err := checkSlots(tx, sc, *e, n+len(given)); err != nil {
		return nil, err
	}
	pool, err := ipam.Of(tx, sc, e.SubnetID)
	if err != nil {
		return nil, err
	}
	added, err := pool.TakePrefixes(tx, given, n)
	e.Prefixes = append(slices.Clone(e.Prefixes), added...)
	return added, err
}

// takeOver removes secondary addresses from other interfaces in e's subnet.
func takeOver(tx *store.Tx, sc resource.Scope, e record.NetworkInterface, addrs []string) error {
	holders := resource.List(tx, record.NetworkInterfaces, sc, func(o record.NetworkInterface) bool {
		return o.ID != e.ID && o.SubnetID == e.SubnetID && slices.ContainsFunc(o.Secondary(), func(a string) bool { return slices.Contains(addrs, a) })
	})
	for _, o := range holders {
		var moved []string
		for _, a := range o.Secondary() {
			if slices.Contains(addrs, a) {
				moved = append(moved, a)
			}
		}
		if err := removeAddresses(tx, sc, &o, moved); err != nil {
			return err
		}
		if err := record.NetworkInterfaces.Put(tx, sc.Key(o.ID), o); err != nil {
			return err
		}
	}
	return nil
}

// removeAddresses frees secondary addresses of e and disassociates elastic addresses from them. The
// caller stores e.
func removeAddresses(tx *store.Tx, sc resource.Scope, e *record.NetworkInterface, addrs []string) error {
	pool, err := ipam.Of(tx, sc, e.SubnetID)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		i := slices.Index(e.Addresses, a)
		if i <= 0 {
			return ec2err.InvalidParameterValue("Some of the specified addresses are not assigned to interface %s", e.ID)
		}
		if el, ok := e.ElasticOf(a); ok {
			if err := unlinkElastic(tx, sc, e, el.AllocationID); err != nil {
				return err
			}
		}
		ip, _ := netip.ParseAddr(a)
		if err := pool.Release(tx, ip); err != nil {
			return err
		}
		e.Addresses = slices.Delete(slices.Clone(e.Addresses), i, i+1)
	}
	return nil
}

// UnassignPrivateIpAddresses removes secondary addresses from an interface.
func (s *Service) UnassignPrivateIpAddresses(ctx context.Context, in *awsec2.UnassignPrivateIpAddressesInput) (*awsec2.UnassignPrivateIpAddressesOutput, error) {
	sc := resource.ScopeOf(ctx)
	_, err := resource.Change(ctx, s.Core, record.NetworkInterfaces, nil, in.NetworkInterfaceId, func(tx *store.Tx, e *record.NetworkInterface) error {
		if err := removeAddresses(tx, sc, e, in.PrivateIpAddresses); err != nil {
			return err
		}
		for _, p := range in.Ipv4Prefixes {
			i := slices.Index(e.Prefixes, p)
			if i < 0 {
				return ec2err.InvalidParameterValue("Some of the specified prefixes are not assigned to interface %s", e.ID)
			}
			e.Prefixes = slices.Delete(slices.Clone(e.Prefixes), i, i+1)
		}
		pool, err := ipam.Of(tx, sc, e.SubnetID)
		if err != nil {
			return err
		}
		return pool.ReleasePrefixes(tx, in.Ipv4Prefixes)
	})
	return &awsec2.UnassignPrivateIpAddressesOutput{}, err
}
