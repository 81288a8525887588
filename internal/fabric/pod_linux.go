package fabric

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A Pod is the network of a pod on a machine, as the VPC CNI builds it: a pair of devices, the pod's address without a
// subnet, and a route to it. The pod reaches everything through the machine.
type Pod struct {
	Netns   int        // a descriptor of the pod's network namespace
	Address netip.Addr // a secondary address, or one of a delegated prefix, of an interface of the machine
	// HostDevice is the device's name in the machine.
	HostDevice string
	// Interface is the machine's device that the address belongs to. Empty means the one with the default route.
	// Packets from the pod to anywhere outside the machine leave by it.
	Interface string
}

// podGateway is the address of the machine's end, as with the VPC CNI.
// https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/cni-proposal.md
var podGateway = netip.MustParseAddr("169.254.1.1")

// The VPC CNI's priorities: first to the pod, then from it.
const (
	toPod   = 512
	fromPod = 1536
)

// AddPod connects a pod in the network namespace of the current process, which is that of a machine. Adding a pod
// again makes no difference. Addresses must be IPv4.
func AddPod(p Pod) error {
	if err := p.add(); err != nil {
		return fmt.Errorf("connect pod %s: %w", p.Address, err)
	}
	return nil
}

func (p *Pod) add() error {
	if !p.Address.Is4() {
		return errors.New("only IPv4 is supported")
	}
	host, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer host.Close()
	fd, err := unix.FcntlInt(uintptr(p.Netns), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	pod, err := namespaceAt(fd)
	if err != nil {
		return err
	}
	defer pod.close()
	own, mac := macOf(p.HostDevice), macOf("pod "+p.Address.String())
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = p.HostDevice, MTU, own
	if err := host.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: mac, PeerNamespace: netlink.NsFd(pod.fd), PeerMTU: MTU}); err != nil && !isExist(err) {
		return fmt.Errorf("add device: %w", err)
	}
	here, err := host.LinkByName(p.HostDevice)
	if err != nil {
		return err
	}
	there, err := pod.nl.LinkByName("eth0")
	if err != nil {
		return err
	}
	if err := errors.Join(up(host, p.HostDevice), up(pod.nl, "lo"), up(pod.nl, "eth0")); err != nil {
		return err
	}
	// Services of Kubernetes answer from other addresses than those that the pod asked.
	if err := sysctl(map[string]string{"ipv4/ip_forward": "1", "ipv4/conf/" + p.HostDevice + "/rp_filter": "2"}); err != nil {
		return err
	}
	one := netip.PrefixFrom(p.Address, 32)
	gateway := netip.PrefixFrom(podGateway, 32)
	index := there.Attrs().Index
	if err := errors.Join(
		pod.nl.AddrReplace(there, &netlink.Addr{IPNet: ipNet(one)}),
		pod.nl.NeighSet(neighbour(index, podGateway, own)),
		pod.nl.RouteReplace(&netlink.Route{LinkIndex: index, Dst: ipNet(gateway), Scope: unix.RT_SCOPE_LINK}),
		pod.nl.RouteReplace(&netlink.Route{LinkIndex: index, Dst: ipNet(netip.PrefixFrom(netip.IPv4Unspecified(), 0)), Gw: podGateway.AsSlice()}),
		host.NeighSet(neighbour(here.Attrs().Index, p.Address, mac)),
		host.RouteReplace(&netlink.Route{LinkIndex: here.Attrs().Index, Dst: ipNet(one), Scope: unix.RT_SCOPE_LINK}),
	); err != nil {
		return err
	}
	rules := []*netlink.Rule{p.rule(toPod, unix.RT_TABLE_MAIN)}
	if p.Interface != "" {
		dev, err := host.LinkByName(p.Interface)
		if err != nil {
			return fmt.Errorf("find %s: %w", p.Interface, err)
		}
		rules = append(rules, p.rule(fromPod, tableBase+dev.Attrs().Index))
	}
	for _, r := range rules {
		if err := host.RuleAdd(r); err != nil && !isExist(err) {
			return fmt.Errorf("add routing rule: %w", err)
		}
	}
	return nil
}

func (p *Pod) rule(priority, table int) *netlink.Rule {
	r := netlink.NewRule()
	r.Family, r.Priority, r.Table = netlink.FAMILY_V4, priority, table
	if priority == toPod {
		r.Dst = ipNet(netip.PrefixFrom(p.Address, 32))
	} else {
		r.Src = ipNet(netip.PrefixFrom(p.Address, 32))
	}
	return r
}

// DeletePod removes what AddPod made. The pod's namespace may be gone.
func DeletePod(p Pod) error {
	host, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer host.Close()
	if dev, err := host.LinkByName(p.HostDevice); err == nil {
		_ = host.LinkDel(dev) // it may be gone with the pod's namespace
	}
	var errs []error
	for _, priority := range []int{toPod, fromPod} {
		if err := host.RuleDel(p.rule(priority, 0)); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("disconnect pod %s: %w", p.Address, err))
		}
	}
	return errors.Join(errs...)
}
