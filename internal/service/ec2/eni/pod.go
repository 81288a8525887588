package eni

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// The VPC CNI plugin's requests to EC2, in fewer transactions than the plugin makes calls. The
// errors are those of the individual calls.

// A PodInterface is a network interface of an instance, reduced to what pods need.
type PodInterface struct {
	ID           string
	AttachmentID string
	SubnetID     string
	Device       int32
	Addresses    []netip.Addr // except the primary one
	Prefixes     []netip.Prefix
	Prefixes6    []netip.Prefix
	Tags         tag.Set
	Attached     time.Time
}

// A PodInterfaceSpec describes an interface to attach.
type PodInterfaceSpec struct {
	// If Subnet or Groups is empty, those of the primary interface are used.
	Subnet string
	Groups []string
	// Addresses and Prefixes are the number of each to allocate. Only one may be set.
	Addresses, Prefixes int
	Tags                tag.Set
	// Discover selects a subnet if Subnet is empty: the one with the most free addresses in the
	// instance's zone, among the primary interface's and those tagged for pods. Subnets tagged for
	// a cluster other than Cluster are excluded.
	Discover bool
	Cluster  string
}

func podOf(e record.NetworkInterface) (PodInterface, error) {
	p := PodInterface{
		ID: e.ID, AttachmentID: e.Attachment.ID, SubnetID: e.SubnetID, Device: e.Attachment.DeviceIndex, Tags: e.Tags, Attached: e.Attachment.Time,
	}
	for _, a := range e.Secondary() {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return p, fmt.Errorf("interface %s: %w", e.ID, err)
		}
		p.Addresses = append(p.Addresses, ip)
	}
	p.Prefixes, p.Prefixes6 = record.ParsePrefixes(e.Prefixes), record.ParsePrefixes(e.Prefixes6)
	return p, nil
}

// PodInterfaces returns the interfaces of an instance, starting with the primary one.
func (s *Service) PodInterfaces(_ context.Context, account, region, id string) ([]PodInterface, error) {
	sc := resource.Scope{Account: account, Region: region}
	i, err := resource.Get(s.Store, record.Instances, sc, id)
	if err != nil {
		return nil, err
	}
	var out []PodInterface
	for _, e := range i.AttachedInterfaces(s.Store, sc) {
		p, err := podOf(e)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// AttachPodInterface creates an interface and attaches it to an instance. It is deleted with the
// instance.
func (s *Service) AttachPodInterface(ctx context.Context, account, region, id string, spec PodInterfaceSpec) (PodInterface, error) {
	sc := resource.Scope{Account: account, Region: region}
	candidates, err := s.podSubnets(sc, id, spec)
	if err != nil {
		return PodInterface{}, err
	}
	for n, subnet := range candidates {
		p, err := s.attachPodInterface(ctx, sc, id, subnet, spec)
		full := ec2err.HasCode(err, "InsufficientFreeAddressesInSubnet") || ec2err.HasCode(err, "InsufficientCidrBlocks")
		if !full || n == len(candidates)-1 {
			return p, err
		}
	}
	return PodInterface{}, fmt.Errorf("no valid subnets available for ENI creation - all subnets are either not tagged or tagged with %s=0", podSubnetTag)
}

// podSubnetTag marks subnets for pods, or with 0, subnets that pods must not use.
// https://github.com/aws/amazon-vpc-cni-k8s#enable_subnet_discovery-v1180
const podSubnetTag = "kubernetes.io/role/cni"

// podSubnets returns the subnets for a new interface in order of preference.
func (s *Service) podSubnets(sc resource.Scope, id string, spec PodInterfaceSpec) ([]string, error) {
	if spec.Subnet != "" {
		return []string{spec.Subnet}, nil
	}
	i, err := resource.Get(s.Store, record.Instances, sc, id)
	if err != nil {
		return nil, err
	}
	if !spec.Discover {
		return []string{i.SubnetID}, nil
	}
	type candidate struct {
		id   string
		free int
	}
	var all []candidate
	found := resource.List(s.Store, record.Subnets, sc, func(sn record.Subnet) bool {
		if sn.VPCID != i.VPCID || sn.Zone != i.Zone || sn.Tags[podSubnetTag] == "0" {
			return false
		}
		if sn.Tags[podSubnetTag] == "" {
			return sn.ID == i.SubnetID
		}
		return ofCluster(sn.Tags, spec.Cluster)
	})
	for _, sn := range found {
		c := candidate{id: sn.ID}
		if len(found) > 1 {
			pool, err := ipam.OfSubnet(sc, sn)
			if err != nil {
				return nil, err
			}
			if c.free, err = pool.Free(s.Store); err != nil {
				return nil, err
			}
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(b.free, a.free) })
	out := make([]string, len(all))
	for n, c := range all {
		out[n] = c.id
	}
	return out, nil
}

// ofCluster reports whether a subnet is tagged for this cluster or for none.
func ofCluster(t tag.Set, cluster string) bool {
	const prefix = "kubernetes.io/cluster/"
	marked := false
	for k := range t {
		if len(k) > len(prefix) && k[:len(prefix)] == prefix {
			marked = true
			if cluster == "" || k[len(prefix):] == cluster {
				return true
			}
		}
	}
	return !marked
}

func (s *Service) attachPodInterface(ctx context.Context, sc resource.Scope, id, subnet string, spec PodInterfaceSpec) (PodInterface, error) {
	var out PodInterface
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		i, err := resource.Get(tx, record.Instances, sc, id)
		if err != nil {
			return err
		}
		if len(i.Interfaces) == 0 {
			return ec2err.InstanceState(id, "attached to")
		}
		typ, _ := instancetypes.Lookup(i.Type)
		if len(i.Interfaces) >= typ.ENIs {
			return ec2err.TooManyInterfaces(len(i.Interfaces)+1, i.Type)
		}
		groups := spec.Groups
		if len(groups) == 0 {
			first, err := record.NetworkInterfaces.Get(tx, sc.Key(i.Interfaces[0]))
			if err != nil {
				return fmt.Errorf("interface %s of %s: %w", i.Interfaces[0], id, err)
			}
			groups = first.Groups
		}
		sn, err := resource.Get(tx, record.Subnets, sc, subnet)
		if err != nil {
			return err
		}
		if sn.Zone != i.Zone {
			return ec2err.InvalidParameterValue("You may not attach a network interface to an instance if they are not in the same availability zone")
		}
		e, err := s.Make(tx, sc, Spec{
			ID: ids.Resource("eni"), Subnet: sn, Groups: groups, Description: "aws-K8S-" + id,
			Extra: min(spec.Addresses, typ.IPv4PerENI-1), ExtraPrefix: min(spec.Prefixes, typ.IPv4PerENI-1), Tags: spec.Tags, Hint: id,
		})
		if err != nil {
			return err
		}
		used, err := deviceIndexes(tx, sc, i)
		if err != nil {
			return err
		}
		device := int32(1)
		for used[device] {
			device++
		}
		e.Attachment = record.InterfaceAttachment{ID: ids.Resource("eni-attach"), InstanceID: id, DeviceIndex: device, DeleteOnTermination: true, Time: s.Now()}
		if err := record.NetworkInterfaces.Create(tx, sc.Key(e.ID), e); err != nil {
			return err
		}
		i.Interfaces = append(slices.Clone(i.Interfaces), e.ID)
		if err := record.Instances.Put(tx, sc.Key(id), i); err != nil {
			return err
		}
		out, err = podOf(e)
		return err
	})
	return out, err
}

// AssignPodAddresses adds a number of addresses or prefixes to an interface, and any missing tags.
func (s *Service) AssignPodAddresses(ctx context.Context, account, region, eni string, n, prefixes int, tags tag.Set) (PodInterface, error) {
	sc := resource.Scope{Account: account, Region: region}
	var out PodInterface
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		e, err := resource.Get(tx, record.NetworkInterfaces, sc, eni)
		if err != nil {
			return err
		}
		if n > 0 {
			if _, err := s.addAddresses(tx, sc, &e, n, nil); err != nil {
				return err
			}
		}
		if prefixes > 0 {
			if _, err := addPrefixes(tx, sc, &e, prefixes, nil); err != nil {
				return err
			}
		}
		merged := tag.Set{}
		for _, set := range []tag.Set{e.Tags, tags} {
			for k, v := range set {
				merged[k] = v
			}
		}
		if len(merged) > 0 {
			e.Tags = merged
		}
		if out, err = podOf(e); err != nil {
			return err
		}
		return record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e)
	})
	return out, err
}

// AssignPodPrefix6 adds an IPv6 prefix to an interface, and any missing tags.
func (s *Service) AssignPodPrefix6(ctx context.Context, account, region, eni string, tags tag.Set) (PodInterface, error) {
	sc := resource.Scope{Account: account, Region: region}
	var out PodInterface
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		e, err := resource.Get(tx, record.NetworkInterfaces, sc, eni)
		if err != nil {
			return err
		}
		sn, err := resource.Get(tx, record.Subnets, sc, e.SubnetID)
		if err != nil {
			return err
		}
		added, err := ipam.TakePrefixes6(tx, sc, sn, e.ID, nil, 1)
		if err != nil {
			return err
		}
		e.Prefixes6 = append(slices.Clone(e.Prefixes6), added...)
		if e.Tags = e.Tags.With(nil); e.Tags == nil {
			e.Tags = tag.Set{}
		}
		maps.Copy(e.Tags, tags)
		if out, err = podOf(e); err != nil {
			return err
		}
		return record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e)
	})
	return out, err
}

// UnassignPodAddresses removes addresses and prefixes from an interface. It is not an error if the
// interface no longer has them.
func (s *Service) UnassignPodAddresses(ctx context.Context, account, region, eni string, addrs []netip.Addr, prefixes []netip.Prefix) error {
	sc := resource.Scope{Account: account, Region: region}
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		e, err := resource.Get(tx, record.NetworkInterfaces, sc, eni)
		if err != nil {
			return err
		}
		var texts, blocks []string
		for _, a := range addrs {
			if slices.Contains(e.Secondary(), a.String()) {
				texts = append(texts, a.String())
			}
		}
		for _, p := range prefixes {
			if i := slices.Index(e.Prefixes, p.String()); i >= 0 {
				blocks = append(blocks, p.String())
				e.Prefixes = slices.Delete(slices.Clone(e.Prefixes), i, i+1)
			}
		}
		if err := removeAddresses(tx, sc, &e, texts); err != nil {
			return err
		}
		pool, err := ipam.Of(tx, sc, e.SubnetID)
		if err != nil {
			return err
		}
		if err := pool.ReleasePrefixes(tx, blocks); err != nil {
			return err
		}
		return record.NetworkInterfaces.Put(tx, sc.Key(e.ID), e)
	})
}

// RemovePodInterface detaches an interface and deletes it.
func (s *Service) RemovePodInterface(ctx context.Context, account, region, eni string) error {
	sc := resource.Scope{Account: account, Region: region}
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		e, err := resource.Get(tx, record.NetworkInterfaces, sc, eni)
		if err != nil {
			return err
		}
		if e.Attachment.InstanceID == "" || e.Attachment.DeviceIndex == 0 {
			return ec2err.InvalidParameterValue("Network interface '%s' is currently in use.", e.ID)
		}
		i, err := resource.Get(tx, record.Instances, sc, e.Attachment.InstanceID)
		if err != nil {
			return err
		}
		i.Interfaces = slices.DeleteFunc(slices.Clone(i.Interfaces), func(x string) bool { return x == e.ID })
		if err := Remove(tx, sc, e); err != nil {
			return err
		}
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
}
