package ec2

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/store"
)

// AssignPrivateIpAddresses adds secondary addresses to an interface, within the
// limit of the instance it is attached to.
func (s *Service) AssignPrivateIpAddresses(ctx context.Context, in *awsec2.AssignPrivateIpAddressesInput) (*awsec2.AssignPrivateIpAddressesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	n, err := secondaryCount(in.SecondaryPrivateIpAddressCount)
	if err != nil {
		return nil, err
	}
	if n > 0 == (len(in.PrivateIpAddresses) > 0) {
		return nil, errCombination("Exactly one of privateIpAddresses and secondaryPrivateIpAddressCount must be specified")
	}
	out := &awsec2.AssignPrivateIpAddressesOutput{NetworkInterfaceId: in.NetworkInterfaceId}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		e, err := get(tx, networkInterfaces, sc, networkInterfaceID, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		added, err := s.addAddresses(tx, sc, &e, n, in.PrivateIpAddresses)
		if err != nil {
			return err
		}
		out.AssignedPrivateIpAddresses = nil
		for _, a := range added {
			out.AssignedPrivateIpAddresses = append(out.AssignedPrivateIpAddresses, ec2types.AssignedPrivateIpAddress{PrivateIpAddress: aws.String(a.String())})
		}
		return networkInterfaces.Put(tx, sc.key(e.ID), e)
	})
	return out, err
}

// addAddresses takes n free addresses and the given ones for e, which the caller
// writes.
func (s *Service) addAddresses(tx *store.Tx, sc scope, e *networkInterfaceRecord, n int, given []string) ([]netip.Addr, error) {
	sn, err := get(tx, subnets, sc, subnetID, e.SubnetID)
	if err != nil {
		return nil, err
	}
	pool, err := sc.subnetPool(sn)
	if err != nil {
		return nil, err
	}
	if e.Attachment.InstanceID != "" {
		i, err := get(tx, instances, sc, instanceID, e.Attachment.InstanceID)
		if err != nil {
			return nil, err
		}
		if typ, ok := instancetypes.Lookup(i.Type); ok && len(e.Addresses)+n+len(given) > typ.IPv4PerENI {
			return nil, errTooManyAddresses(e.ID, i.Type, typ.IPv4PerENI)
		}
	}
	var added []netip.Addr
	for _, a := range given {
		ip, err := netip.ParseAddr(a)
		if err != nil || !ip.Is4() {
			return nil, errInvalidParameter("invalid value for parameter address: %s", a)
		}
		if err := pool.claim(tx, ip); err != nil {
			return nil, err
		}
		added = append(added, ip)
	}
	taken, err := pool.take(tx, n, e.ID)
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

// UnassignPrivateIpAddresses gives secondary addresses back.
func (s *Service) UnassignPrivateIpAddresses(ctx context.Context, in *awsec2.UnassignPrivateIpAddressesInput) (*awsec2.UnassignPrivateIpAddressesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		e, err := get(tx, networkInterfaces, sc, networkInterfaceID, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		sn, err := get(tx, subnets, sc, subnetID, e.SubnetID)
		if err != nil {
			return err
		}
		pool, err := sc.subnetPool(sn)
		if err != nil {
			return err
		}
		for _, a := range in.PrivateIpAddresses {
			i := slices.Index(e.Addresses, a)
			if i <= 0 {
				return errInvalidParameter("Some of the specified addresses are not assigned to interface %s", e.ID)
			}
			ip, _ := netip.ParseAddr(a)
			if err := pool.release(tx, ip); err != nil {
				return err
			}
			e.Addresses = slices.Delete(slices.Clone(e.Addresses), i, i+1)
		}
		return networkInterfaces.Put(tx, sc.key(e.ID), e)
	})
	return &awsec2.UnassignPrivateIpAddressesOutput{}, err
}
