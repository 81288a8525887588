package eni

import (
	"context"
	"slices"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// EnsureManagedInterfaces creates, changes and deletes interfaces to match want, in one
// transaction, and returns them by subnet. If alive is not nil and reports that the owner no longer
// exists, it does nothing and returns nothing.
func (s *Service) EnsureManagedInterfaces(ctx context.Context, account, region string, want elbnet.Interfaces, alive func(store.Reader) bool) ([]elbnet.Interface, error) {
	sc := resource.Scope{Account: account, Region: region}
	var out []elbnet.Interface
	err := s.Store.Update(ctx, func(tx *store.Tx) (err error) {
		out = nil
		if alive != nil && !alive(tx) {
			return nil
		}
		have := resource.List(tx, record.NetworkInterfaces, sc, func(e record.NetworkInterface) bool {
			return e.RequesterID == want.Requester && e.OwnerID == want.Owner
		})
		left := slices.Clone(want.Subnets)
		for _, e := range have {
			i := slices.Index(left, e.SubnetID)
			if i < 0 {
				if err := Remove(tx, sc, e); err != nil {
					return err
				}
				continue
			}
			left = slices.Delete(left, i, i+1)
			if groups := resource.SortedUnique(want.Groups); !slices.Equal(groups, e.Groups) {
				if len(groups) > 0 {
					if groups, err = ResolveGroups(tx, sc, e.VPCID, groups); err != nil {
						return err
					}
				}
				e.Groups = groups
				if err := record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e); err != nil {
					return err
				}
			}
			out = append(out, managedInterface(e))
		}
		for _, id := range left {
			e, err := s.makeManaged(tx, sc, want, id)
			if err != nil {
				return err
			}
			out = append(out, managedInterface(e))
		}
		slices.SortFunc(out, func(a, b elbnet.Interface) int {
			return slices.Index(want.Subnets, a.Subnet) - slices.Index(want.Subnets, b.Subnet)
		})
		return nil
	})
	return out, err
}

func (s *Service) makeManaged(tx *store.Tx, sc resource.Scope, want elbnet.Interfaces, subnet string) (record.NetworkInterface, error) {
	sn, err := resource.Get(tx, record.Subnets, sc, subnet)
	if err != nil {
		return record.NetworkInterface{}, err
	}
	id := ids.Resource("eni")
	e, err := s.Make(tx, sc, Spec{
		ID: id, Subnet: sn, Description: want.Description, Primary: want.Addresses[subnet], Groups: want.Groups, NoGroups: len(want.Groups) == 0,
		Kind: want.Type, Requester: want.Requester, Owner: want.Owner, Hint: id,
	})
	if err != nil {
		return e, err
	}
	e.Attachment = record.InterfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.Now()}
	if id := want.Allocations[subnet]; id != "" {
		a, err := resource.Get(tx, record.Addresses, sc, id)
		if err != nil {
			return e, err
		}
		if a.AssociationID != "" {
			return e, ec2err.AddressInUse(a.PublicIP)
		}
		if _, err := Link(a, tx, sc, &e, e.PrivateIP()); err != nil {
			return e, err
		}
	} else if want.Public {
		public, err := ipam.Public(sc.Region).Take(tx, 1, e.ID)
		if err != nil {
			return e, err
		}
		e.PublicIP = public[0].String()
	}
	return e, record.NetworkInterfaces.Create(tx, sc.Key(e.ID), e)
}

func managedInterface(e record.NetworkInterface) elbnet.Interface {
	return elbnet.Interface{ID: e.ID, Subnet: e.SubnetID, Zone: e.Zone, Private: e.PrivateIP(), Public: e.PublicIP}
}
