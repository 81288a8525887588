package eni

import (
	"context"
	"slices"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// ManagedInterfaces are the network interfaces that an AWS service has in a
// customer's subnets for one thing of its own: a load balancer.
type ManagedInterfaces struct {
	// Requester is the service as DescribeNetworkInterfaces names it: amazon-elb.
	Requester string
	// Owner names the thing; together with Requester it finds the interfaces again.
	Owner       string
	Description string
	Type        string // interface, network_load_balancer
	// Subnets have one interface each; none means that all are removed.
	Subnets []string
	// Addresses are wanted private addresses, by subnet.
	Addresses map[string]string
	// Allocations are the elastic addresses to give, by subnet.
	Allocations map[string]string
	// Groups are the security groups; none means that the interfaces have none.
	Groups []string
	// Public gives each a public address.
	Public bool
}

// A ManagedInterface is one that is there.
type ManagedInterface struct{ ID, Subnet, Zone, Private, Public string }

// EnsureManagedInterfaces makes, changes and removes interfaces until they are as
// wanted, in one transaction, and returns them by their subnets. alive, unless
// nil, is asked within it whether the thing is still there; if not, nothing is
// done and nothing returned.
func (s *Service) EnsureManagedInterfaces(ctx context.Context, account, region string, want ManagedInterfaces, alive func(store.Reader) bool) ([]ManagedInterface, error) {
	sc := resource.Scope{Account: account, Region: region}
	var out []ManagedInterface
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
		slices.SortFunc(out, func(a, b ManagedInterface) int {
			return slices.Index(want.Subnets, a.Subnet) - slices.Index(want.Subnets, b.Subnet)
		})
		return nil
	})
	return out, err
}

func (s *Service) makeManaged(tx *store.Tx, sc resource.Scope, want ManagedInterfaces, subnet string) (record.NetworkInterface, error) {
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
		if _, err := Link(a, tx, sc, &e, e.Addresses[0]); err != nil {
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

func managedInterface(e record.NetworkInterface) ManagedInterface {
	return ManagedInterface{ID: e.ID, Subnet: e.SubnetID, Zone: e.Zone, Private: e.Addresses[0], Public: e.PublicIP}
}
