package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
)

// PodNetwork is what EC2 does for the VPC CNI plugin of an instance. Errors are
// EC2's, which have its codes (smithy.APIError). Whether the plugin may call is
// decided by [Config.Call].
type PodNetwork interface {
	// Interfaces returns the instance's network interfaces, the primary one first.
	Interfaces(ctx context.Context, in machine.Instance) ([]PodInterface, error)
	// Attach makes an interface and attaches it.
	Attach(ctx context.Context, in machine.Instance, spec PodInterfaceSpec) (PodInterface, error)
	// Assign gives an interface so many more addresses or prefixes, and tags, and
	// returns it as it is then.
	Assign(ctx context.Context, in machine.Instance, eni string, addresses, prefixes int, tags map[string]string) (PodInterface, error)
	// Unassign takes addresses and prefixes off an interface.
	Unassign(ctx context.Context, in machine.Instance, eni string, addresses []netip.Addr, prefixes []netip.Prefix) error
	// Remove detaches an interface and deletes it.
	Remove(ctx context.Context, in machine.Instance, eni string) error
}

// A PodInterface is a network interface of an instance, as far as pods use it.
type PodInterface struct {
	ID         string // eni-…
	Attachment string // eni-attach-…
	Device     int    // 0: the primary one
	Addresses  []netip.Addr
	Prefixes   []netip.Prefix // delegated, /28
	Tags       map[string]string
	Attached   time.Time
}

// A PodInterfaceSpec says what interface to attach.
type PodInterfaceSpec struct {
	// Subnet and Groups are the primary interface's, if empty.
	Subnet string
	Groups []string
	// Addresses and Prefixes are how many it is to have, one kind only.
	Addresses, Prefixes int
	Tags                map[string]string
	// Discover allows other subnets of the zone that are tagged for it and for Cluster.
	Discover bool
	Cluster  string
}
