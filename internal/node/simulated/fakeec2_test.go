package simulated_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// fakeEC2 is one instance's interfaces in a subnet with that many free addresses.
type fakeEC2 struct {
	mu      sync.Mutex
	free    int
	enis    []node.PodInterface
	removed []string
	spec    node.PodInterfaceSpec // of the last interface
	next    int                   // names
	ip      int                   // addresses, and prefixes from the other end
	block   int
}

func newFakeEC2(free int) *fakeEC2 {
	return &fakeEC2{free: free, enis: []node.PodInterface{{ID: "eni-0", Tags: map[string]string{}}}}
}

var errSubnetFull = &smithy.GenericAPIError{Code: "InsufficientFreeAddressesInSubnet", Message: "The specified subnet does not have enough free addresses to satisfy the request."}

// give hands out addresses or prefixes. f.mu is held.
func (f *fakeEC2) give(e *node.PodInterface, addresses, prefixes int) error {
	if n := addresses + 16*prefixes; n > f.free {
		return errSubnetFull
	} else {
		f.free -= n
	}
	for range addresses {
		f.ip++
		e.Addresses = append(slices.Clone(e.Addresses), netip.AddrFrom4([4]byte{10, 0, 1, byte(f.ip)}))
	}
	for range prefixes {
		e.Prefixes = append(slices.Clone(e.Prefixes), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 2, byte(16 * f.block)}), 28))
		f.block++
	}
	return nil
}

func (f *fakeEC2) Interfaces(context.Context, machine.Instance) ([]node.PodInterface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.enis), nil
}

func (f *fakeEC2) Attach(_ context.Context, _ machine.Instance, s node.PodInterfaceSpec) (node.PodInterface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spec = s
	f.next++
	e := node.PodInterface{ID: fmt.Sprintf("eni-%d", f.next), Attachment: "eni-attach-1", Device: f.next, Tags: s.Tags, Attached: time.Now()}
	if f.free < 1 {
		return e, errSubnetFull
	}
	if err := f.give(&e, s.Addresses, s.Prefixes); err != nil {
		return e, err
	}
	f.free--
	f.enis = append(slices.Clone(f.enis), e)
	return e, nil
}

func (f *fakeEC2) Assign(_ context.Context, _ machine.Instance, eni string, addresses, prefixes int, tags map[string]string) (node.PodInterface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.enis, func(e node.PodInterface) bool { return e.ID == eni })
	e := f.enis[i]
	if err := f.give(&e, addresses, prefixes); err != nil {
		return e, err
	}
	e.Tags = maps.Clone(e.Tags)
	maps.Copy(e.Tags, tags)
	f.enis = slices.Clone(f.enis)
	f.enis[i] = e
	return e, nil
}

func (f *fakeEC2) AssignPrefix6(_ context.Context, _ machine.Instance, eni string, tags map[string]string) (node.PodInterface, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.enis, func(e node.PodInterface) bool { return e.ID == eni })
	f.enis = slices.Clone(f.enis)
	e := &f.enis[i]
	e.Prefixes6 = append(slices.Clone(e.Prefixes6), netip.MustParsePrefix("2600:1f10:0:1:8001::/80"))
	e.Tags = maps.Clone(e.Tags)
	maps.Copy(e.Tags, tags)
	return *e, nil
}

func (f *fakeEC2) Unassign(_ context.Context, _ machine.Instance, eni string, addresses []netip.Addr, prefixes []netip.Prefix) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.enis, func(e node.PodInterface) bool { return e.ID == eni })
	f.enis = slices.Clone(f.enis)
	e := &f.enis[i]
	e.Addresses = slices.DeleteFunc(slices.Clone(e.Addresses), func(a netip.Addr) bool { return slices.Contains(addresses, a) })
	e.Prefixes = slices.DeleteFunc(slices.Clone(e.Prefixes), func(p netip.Prefix) bool { return slices.Contains(prefixes, p) })
	f.free += len(addresses) + 16*len(prefixes)
	return nil
}

func (f *fakeEC2) Remove(_ context.Context, _ machine.Instance, eni string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.enis, func(e node.PodInterface) bool { return e.ID == eni })
	f.free += 1 + len(f.enis[i].Addresses) + 16*len(f.enis[i].Prefixes)
	f.enis = slices.Delete(slices.Clone(f.enis), i, i+1)
	f.removed = append(f.removed, eni)
	return nil
}

// shape describes each interface: 9, 9+2/28.
func (f *fakeEC2) shape() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, e := range f.enis {
		s := fmt.Sprint(len(e.Addresses))
		if len(e.Prefixes) > 0 {
			s += fmt.Sprintf("+%d/28", len(e.Prefixes))
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
