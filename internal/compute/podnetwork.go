package compute

import (
	"context"
	"net/netip"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// PodInterfaces is the part of EC2 that manages the network interfaces of pods.
type PodInterfaces interface {
	PodInterfaces(ctx context.Context, account, region, id string) ([]ec2.PodInterface, error)
	AttachPodInterface(ctx context.Context, account, region, id string, spec ec2.PodInterfaceSpec) (ec2.PodInterface, error)
	AssignPodAddresses(ctx context.Context, account, region, eni string, n, prefixes int, tags ec2.Tags) (ec2.PodInterface, error)
	AssignPodPrefix6(ctx context.Context, account, region, eni string, tags ec2.Tags) (ec2.PodInterface, error)
	UnassignPodAddresses(ctx context.Context, account, region, eni string, addrs []netip.Addr, prefixes []netip.Prefix) error
	RemovePodInterface(ctx context.Context, account, region, eni string) error
}

// podNetwork is EC2 as the VPC CNI plugin uses it.
type podNetwork struct{ machines *Machines }

var _ node.PodNetwork = podNetwork{}

func podInterface(p ec2.PodInterface) node.PodInterface {
	return node.PodInterface{
		ID: p.ID, Attachment: p.AttachmentID, Device: int(p.Device), Addresses: p.Addresses, Prefixes: p.Prefixes, Prefixes6: p.Prefixes6, Tags: p.Tags, Attached: p.Attached,
	}
}

func (n podNetwork) Interfaces(ctx context.Context, in machine.Instance) ([]node.PodInterface, error) {
	all, err := n.machines.cfg.EC2.PodInterfaces(ctx, in.Account, in.Region, in.ID)
	out := make([]node.PodInterface, len(all))
	for i, p := range all {
		out[i] = podInterface(p)
	}
	return out, err
}

func (n podNetwork) Attach(ctx context.Context, in machine.Instance, s node.PodInterfaceSpec) (node.PodInterface, error) {
	p, err := n.machines.cfg.EC2.AttachPodInterface(ctx, in.Account, in.Region, in.ID, ec2.PodInterfaceSpec{
		Subnet: s.Subnet, Groups: s.Groups, Addresses: s.Addresses, Prefixes: s.Prefixes, Tags: s.Tags, Discover: s.Discover, Cluster: s.Cluster,
	})
	return podInterface(p), err
}

func (n podNetwork) Assign(ctx context.Context, in machine.Instance, eni string, addresses, prefixes int, tags map[string]string) (node.PodInterface, error) {
	p, err := n.machines.cfg.EC2.AssignPodAddresses(ctx, in.Account, in.Region, eni, addresses, prefixes, tags)
	return podInterface(p), err
}

func (n podNetwork) AssignPrefix6(ctx context.Context, in machine.Instance, eni string, tags map[string]string) (node.PodInterface, error) {
	p, err := n.machines.cfg.EC2.AssignPodPrefix6(ctx, in.Account, in.Region, eni, tags)
	return podInterface(p), err
}

func (n podNetwork) Unassign(ctx context.Context, in machine.Instance, eni string, addresses []netip.Addr, prefixes []netip.Prefix) error {
	return n.machines.cfg.EC2.UnassignPodAddresses(ctx, in.Account, in.Region, eni, addresses, prefixes)
}

func (n podNetwork) Remove(ctx context.Context, in machine.Instance, eni string) error {
	return n.machines.cfg.EC2.RemovePodInterface(ctx, in.Account, in.Region, eni)
}
