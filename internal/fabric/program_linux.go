package fabric

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
)

// A Reason says which part of the fabric dropped a packet.
type Reason string

// The reasons, in the order of their numbers in the kernel.
const (
	Spoofed     Reason = "source/destination check"
	Stopped     Reason = "interface not in use"
	DeniedACL   Reason = "network ACL"
	DeniedGroup Reason = "security group"
	NoRoute     Reason = "no route"
	BadRoute    Reason = "blackhole route"
	Nowhere     Reason = "no such address"
	NotPublic   Reason = "address that the internet does not route"
	NoPublic    Reason = "no public address"
	NoGateway   Reason = "no internet gateway"
	NotPeered   Reason = "address outside the peered VPCs"
	BadProtocol Reason = "protocol that the gateway does not carry"
	NoInternet  Reason = "no internet"
)

var reasons = []Reason{
	Spoofed, Stopped, DeniedACL, DeniedGroup, NoRoute, BadRoute, Nowhere, NotPublic, NoPublic, NoGateway, NotPeered, BadProtocol, NoInternet,
}

func dropAs(r Reason) *expr.Verdict { return goTo(fmt.Sprintf("drop%d", slices.Index(reasons, r))) }

// A port is an attached device.
type port struct {
	index   uint32 // of the device
	machine bool   // belongs to a machine
	managed bool   // belongs to an interface that AWS manages
}

// A program is what the rules are made from.
type program struct {
	*State
	f      *family
	rs     *ruleset
	number func(id string) uint32 // of interfaces, VPCs, subnets, ACLs, groups and endpoints
	ports  map[string]port        // attached, by interface ID, endpoint ID, or outside
	// tables are the routing tables of VPCs, and of interfaces that forward.
	vpcs     map[string]*VPC
	subnets  map[string]*Subnet
	ifaces   map[string]*Interface
	acls     map[string]*ACL
	groups   map[string]*Group
	transits map[string]*Transit
}

// outsideID is the outside namespace's in numbers and ports, and outsideDevice the device there.
const (
	outsideID     = "outside"
	outsideDevice = "internet"
)

var notPublic = map[bool][]netip.Prefix{
	false: {
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
		netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("127.0.0.0/8"),
	},
	true: {
		netip.MustParsePrefix("::/127"), netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
	},
}

// compile makes the rules of one family.
func compile(st *State, f *family, number func(string) uint32, ports map[string]port) *ruleset {
	p := &program{
		State: st, f: f, rs: newRuleset(), number: number, ports: ports,
		vpcs: map[string]*VPC{}, subnets: map[string]*Subnet{}, ifaces: map[string]*Interface{}, acls: map[string]*ACL{}, groups: map[string]*Group{},
		transits: map[string]*Transit{},
	}
	for i := range st.Transits {
		p.transits[st.Transits[i].ID] = &st.Transits[i]
	}
	for i := range st.VPCs {
		p.vpcs[st.VPCs[i].ID] = &st.VPCs[i]
	}
	for i := range st.Subnets {
		p.subnets[st.Subnets[i].ID] = &st.Subnets[i]
	}
	for i := range st.Interfaces {
		p.ifaces[st.Interfaces[i].ID] = &st.Interfaces[i]
	}
	for i := range st.ACLs {
		p.acls[st.ACLs[i].ID] = &st.ACLs[i]
	}
	for i := range st.Groups {
		p.groups[st.Groups[i].ID] = &st.Groups[i]
	}
	p.fixed()
	for i := range st.ACLs {
		p.acl(&st.ACLs[i])
	}
	p.securityGroups()
	for i := range st.VPCs {
		p.vpc(&st.VPCs[i])
	}
	for i := range st.Subnets {
		p.subnet(&st.Subnets[i])
	}
	for i := range st.Transits {
		p.transit(&st.Transits[i])
	}
	for i := range st.Interfaces {
		p.iface(&st.Interfaces[i])
	}
	return p.rs
}

// What the ports of a connection are: ports, the identifier of an echo in both places, or in the requester's, nothing.
const (
	kindPorts = iota
	kindEcho
	kindRequest
	kindReply
	kindOther
)

func (p *program) name(prefix, id string) string { return fmt.Sprint(prefix, p.number(id)) }
