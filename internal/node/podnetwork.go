package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
)

// PodNetwork is the part of EC2 that the VPC CNI plugin of an instance uses. Errors are EC2's and have its codes
// (smithy.APIError). [Config.Call] decides whether the plugin may make a call.
type PodNetwork interface {
	// Interfaces returns the instance's network interfaces, the primary one first.
	Interfaces(ctx context.Context, in machine.Instance) ([]PodInterface, error)
	// Attach creates an interface and attaches it.
	Attach(ctx context.Context, in machine.Instance, spec PodInterfaceSpec) (PodInterface, error)
	// Assign gives an interface that many more addresses or prefixes, and tags, and returns the resulting interface.
	Assign(ctx context.Context, in machine.Instance, eni string, addresses, prefixes int, tags map[string]string) (PodInterface, error)
	// AssignPrefix6 gives an interface another IPv6 prefix, and tags, and returns the resulting interface.
	AssignPrefix6(ctx context.Context, in machine.Instance, eni string, tags map[string]string) (PodInterface, error)
	// Unassign removes addresses and prefixes from an interface.
	Unassign(ctx context.Context, in machine.Instance, eni string, addresses []netip.Addr, prefixes []netip.Prefix) error
	// Remove detaches an interface and deletes it.
	Remove(ctx context.Context, in machine.Instance, eni string) error
}

// A PodInterface is a network interface of an instance, as far as pods use it.
type PodInterface struct {
	ID         string // eni-…
	Attachment string // eni-attach-…
	Device     int    // 0 means the primary one
	Addresses  []netip.Addr
	Prefixes   []netip.Prefix // delegated, /28
	Prefixes6  []netip.Prefix // delegated, /80
	Tags       map[string]string
	Attached   time.Time
}

// A PodInterfaceSpec describes an interface to attach.
type PodInterfaceSpec struct {
	// Subnet and Groups default to the primary interface's.
	Subnet string
	Groups []string
	// Addresses and Prefixes are the numbers of each that it gets. Only one of them may be set.
	Addresses, Prefixes int
	Tags                map[string]string
	// Discover allows other subnets of the zone that are tagged for this purpose and for Cluster.
	Discover bool
	Cluster  string
}
