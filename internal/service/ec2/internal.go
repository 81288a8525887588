package ec2

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// What the other parts of Drydock ask of EC2, beyond its operations.

// Errors of AssignPodAddresses.
var (
	// ErrInterfaceLimit says that an instance has all the interfaces and addresses
	// its type allows.
	ErrInterfaceLimit = errors.New("the instance type allows no more network interfaces")
	// ErrSubnetFull says that the instance's subnet has too few free addresses.
	ErrSubnetFull = errors.New("the subnet has no free addresses")
)

// AssignPodAddresses gives an instance more secondary addresses for pods, as the
// VPC CNI does, and returns them: first those its primary interface still has
// room for, then those of one more interface, up to its type's limits.
func (s *Service) AssignPodAddresses(ctx context.Context, account, region, id string) ([]netip.Addr, error) {
	sc := scope{account, region}
	var added []netip.Addr
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		added = nil
		i, err := get(tx, instances, sc, instanceID, id)
		if err != nil {
			return err
		}
		if len(i.Interfaces) == 0 {
			return errInstanceState(id, "given addresses")
		}
		typ, _ := instancetypes.Lookup(i.Type)
		var first networkInterfaceRecord
		used := map[int32]bool{}
		for n, eni := range i.Interfaces {
			e, err := networkInterfaces.Get(tx, sc.key(eni))
			if err != nil {
				return fmt.Errorf("interface %s of %s: %w", eni, id, err)
			}
			used[e.Attachment.DeviceIndex] = true
			if n == 0 {
				first = e
			}
			if room := typ.IPv4PerENI - len(e.Addresses); room > 0 {
				if added, err = s.fillInterface(tx, sc, &e, room); err != nil {
					return err
				}
				return networkInterfaces.Put(tx, sc.key(e.ID), e)
			}
		}
		if len(i.Interfaces) >= typ.ENIs {
			return ErrInterfaceLimit
		}
		sn, err := get(tx, subnets, sc, subnetID, first.SubnetID)
		if err != nil {
			return err
		}
		e, err := s.makeInterface(tx, sc, interfaceSpec{
			id: ids.Resource("eni"), subnet: sn, groups: first.Groups, description: "aws-K8S-" + id,
			tags: Tags{"node.k8s.amazonaws.com/instance_id": id}, hint: id,
		})
		if isCode(err, "InsufficientFreeAddressesInSubnet") {
			return fmt.Errorf("%w: %s", ErrSubnetFull, sn.ID)
		}
		if err != nil {
			return err
		}
		device := int32(1)
		for used[device] {
			device++
		}
		e.Attachment = interfaceAttachment{ID: ids.Resource("eni-attach"), InstanceID: id, DeviceIndex: device, DeleteOnTermination: true, Time: s.now()}
		if added, err = s.fillInterface(tx, sc, &e, typ.IPv4PerENI-1); err != nil {
			return err
		}
		if err := networkInterfaces.Create(tx, sc.key(e.ID), e); err != nil {
			return err
		}
		i.Interfaces = append(slices.Clone(i.Interfaces), e.ID)
		return instances.Put(tx, sc.key(id), i)
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// fillInterface adds n addresses, or as many as the subnet has.
func (s *Service) fillInterface(tx *store.Tx, sc scope, e *networkInterfaceRecord, n int) ([]netip.Addr, error) {
	sn, err := get(tx, subnets, sc, subnetID, e.SubnetID)
	if err != nil {
		return nil, err
	}
	pool, err := sc.subnetPool(sn)
	if err != nil {
		return nil, err
	}
	addrs, err := pool.takeUpTo(tx, n, e.Attachment.InstanceID)
	if err != nil {
		return nil, err
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrSubnetFull, sn.ID)
	}
	e.Addresses = slices.Clone(e.Addresses)
	for _, a := range addrs {
		e.Addresses = append(e.Addresses, a.String())
	}
	return addrs, nil
}

// PodAddresses returns the secondary addresses an instance has.
func (s *Service) PodAddresses(_ context.Context, account, region, id string) ([]netip.Addr, error) {
	sc := scope{account, region}
	i, err := get(s.store, instances, sc, instanceID, id)
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, e := range i.interfaces(s.store, sc) {
		for _, a := range e.Addresses[1:] {
			ip, err := netip.ParseAddr(a)
			if err != nil {
				return nil, fmt.Errorf("interface %s: %w", e.ID, err)
			}
			out = append(out, ip)
		}
	}
	return out, nil
}

// InstanceByID returns an instance as DescribeInstances does; false if there is
// none.
func (s *Service) InstanceByID(account, region, id string) (ec2types.Instance, bool) {
	sc := scope{account, region}
	i, err := instances.Get(s.store, sc.key(id))
	if err != nil {
		return ec2types.Instance{}, false
	}
	return s.sdkInstance(sc, i), true
}

// InstanceIDs returns the instances of all accounts and regions that may still
// boot: not those that have ended.
func (s *Service) InstanceIDs() (map[string]bool, error) {
	all, err := instances.List(s.store, store.Scope{})
	if err != nil {
		return nil, err
	}
	out := make(map[string]bool, len(all))
	for _, i := range all {
		if i.Value.State != stateTerminated {
			out[i.Value.ID] = true
		}
	}
	return out, nil
}

// PrivateDNSName returns the private DNS name of an instance: what
// {{EC2PrivateDNSName}} stands for in aws-auth. False if there is no such instance
// or it has no address any more.
func (s *Service) PrivateDNSName(account, region, id string) (string, bool) {
	i, err := instances.Get(s.store, scope{account, region}.key(id))
	if err != nil {
		return "", false
	}
	name := i.privateDNSName(region)
	return name, name != ""
}

// WatchInstances returns a watcher of instance records; their keys' IDs are
// instance IDs. Stop it when done.
func (s *Service) WatchInstances(scope store.Scope) *store.Watcher {
	return instances.Watch(s.store, scope)
}

// InstanceState returns the state of an instance (running, terminated, …); false
// if there is none. It costs one look-up.
func (s *Service) InstanceState(account, region, id string) (string, bool) {
	i, err := instances.Get(s.store, scope{account, region}.key(id))
	return i.State, err == nil
}
