package reach

import (
	"fmt"
	"net/netip"
)

// maxHops ends walks that go in circles through routes to network interfaces.
const maxHops = 64

// A walk follows a packet through the network, first there, then back.
type walk struct {
	s       *Snapshot
	v       *Verdict
	reply   bool
	sport   Ports // the source's ports
	natted  []translation
	out6    *EgressOnlyGateway // the gateway through which the connection left
	connect *ConnectEndpoint   // the endpoint from which it comes
	client  netip.Addr         // the source's address, if the interface from which it comes keeps a client's
	keeper  *Interface         // the interface that keeps the client's address, to which replies go back
	// passed are the interfaces whose groups let the connection through, in which direction. Replies pass them in the
	// other direction.
	passed map[passage]bool
	// established is the verdict under which the connection was established, if it was.
	established *Verdict
	end         end
}

type passage struct {
	eni    string
	egress bool
}

// A translation is what a NAT gateway, or an instance that masquerades, remembers.
type translation struct {
	box    string // interface
	src    netip.Addr
	sports Ports
}

// An end is where a packet ended up.
type end struct {
	reached bool
	eni     *Interface // nil if outside
	kind    string     // if outside: KindInternet, KindVPCEndpoint, KindLocalService
	id      string
	vpc     string
	packet  packet // as it arrived
}

func (w *walk) hops() *[]Hop {
	if w.reply {
		return &w.v.Return
	}
	return &w.v.Forward
}

// pass records a hop that lets the packet through.
func (w *walk) pass(h Hop) {
	h.OK = true
	if h.Name == "" {
		h.Name = w.s.name(h.ID)
	}
	*w.hops() = append(*w.hops(), h)
}

// deny records a hop that blocks the packet.
func (w *walk) deny(h Hop, x Explanation, format string, args ...any) {
	x.Text = fmt.Sprintf(format, args...)
	x.Return = w.reply
	if x.Kind == "" {
		x.Kind, x.Component = h.Kind, h.ID
	}
	if h.Name == "" {
		h.Name = w.s.name(h.ID)
	}
	h.Explanation = &x
	*w.hops() = append(*w.hops(), h)
	w.v.Explanations = append(w.v.Explanations, x)
}

// tooFar reports whether the walk goes in circles.
func (w *walk) tooFar(h Hop) bool {
	if len(*w.hops()) < maxHops {
		return false
	}
	w.deny(h, Explanation{Code: CodeNoDestination}, "the route tables send the packet in a loop")
	return true
}

// instance records the instance that an interface is attached to.
func (w *walk) instance(e *Interface, in, out *Header) {
	if e.Instance == "" {
		return
	}
	h := Hop{Kind: KindInstance, ID: e.Instance, In: in, Out: out}
	if i, ok := get[*Instance](w.s, e.Instance); ok && !i.on() {
		w.deny(h, Explanation{Code: CodeBadState, State: i.State}, "%s is %s", i.ID, i.State)
		return
	}
	w.pass(h)
}

func (w *walk) eniHop(e *Interface, note string) Hop {
	return Hop{
		Kind: KindInterface, ID: e.ID, VPC: e.VPC, Subnet: e.Subnet, Zone: e.Zone, AttachedTo: e.Instance, Note: note,
	}
}

// leave follows a packet out of an interface.
func (w *walk) leave(e *Interface, p packet) {
	if !p.dst.IsLinkLocalUnicast() && w.severed(e) { // the instance's host still answers
		return
	}
	w.groups(e, true, p)
	w.send(e, p)
}

// groups applies the security groups of an interface. A denial does not end the walk, so that everything that blocks
// the packet is found.
func (w *walk) groups(e *Interface, egress bool, p packet) {
	if e.Ungrouped() {
		return
	}
	h := Hop{Kind: KindSecurityGroup, Direction: direction(egress), Interface: e.ID, VPC: e.VPC}
	if len(e.Groups) > 0 {
		h.ID = e.Groups[0]
	}
	if w.reply && w.passed[passage{e.ID, !egress}] {
		h.Note = "replies pass: groups are stateful"
		w.pass(h)
		return
	}
	if w.established != nil && w.established.tracks(e.ID, egress, w.reply) {
		h.Note, h.Tracked = "established: the connection is tracked", true
		w.remember(e, egress)
		w.pass(h)
		return
	}
	other := p.from
	if egress {
		other = w.s.peer(e, p.dst)
	}
	v := w.s.filter(e, egress, p, other)
	if v.rule != nil {
		h.ID, h.Rule, h.Tracked = v.group, v.rule, v.tracked
		w.remember(e, egress)
		w.pass(h)
		return
	}
	w.remember(e, egress) // replies to traffic that got through would pass
	x := Explanation{
		Code: CodeGroupMismatch, Direction: direction(egress), Interface: e.ID, VPC: e.VPC, Groups: e.Groups,
		Protocol: p.proto, Ports: w.ports(p), Address: p.src,
	}
	word := "from"
	if egress {
		word, x.Address = "to", p.dst
	}
	switch {
	case v.reference != "":
		x.Code = CodeGroupReferences
		w.deny(h, x, "the rule for %s does not apply: the packet came through a middlebox or a transit gateway, so only rules with addresses can let it in", v.reference)
	case v.empty:
		x.Code = CodeGroupNoRules
		w.deny(h, x, "%s has no rules", list(e.Groups))
	default:
		w.deny(h, x, "no %s rule of %s allows %s %s %s", direction(egress), list(e.Groups), p.what(), word, x.Address)
	}
}

// remember notes that the groups of an interface let the connection through. A reply that an interface forwards without
// having seen the connection is no reply to it: it passes by rules, in both directions.
func (w *walk) remember(e *Interface, egress bool) {
	if !w.reply {
		w.passed[passage{e.ID, egress}] = true
	}
}

func (w *walk) ports(p packet) Ports {
	if p.proto.Ported() {
		return p.dports
	}
	return nil
}

// acl applies the network ACL of a subnet and returns the packet with the ports that got through.
func (w *walk) acl(sn *Subnet, egress bool, p packet) packet {
	a := w.s.aclOf(sn)
	if a == nil {
		return p
	}
	h := Hop{Kind: KindACL, ID: a.ID, Direction: direction(egress), Subnet: sn.ID, VPC: sn.VPC}
	v := a.admit(egress, p)
	if len(v.through) == 0 {
		h.Entry = v.denied
		x := Explanation{
			Code: CodeACL, Direction: direction(egress), Subnet: sn.ID, VPC: sn.VPC, Entry: v.denied,
			Protocol: p.proto, Ports: w.ports(p), Address: p.src,
		}
		word := "from"
		if egress {
			word, x.Address = "to", p.dst
		}
		w.deny(h, x, "%s of %s: %s, which stops %s %s %s", a.ID, sn.ID, v.denied.text(), p.what(), word, x.Address)
		return p
	}
	h.Entry = v.allowed
	if p.proto.Ported() && !v.through.equal(p.dports) {
		h.Note = "only ports " + v.through.String() + " get through"
		p.dports = v.through
	}
	w.pass(h)
	return p
}

// send follows a packet that leaves an interface for its subnet.
func (w *walk) send(e *Interface, p packet) {
	if w.service(e, p) {
		return
	}
	back := w.reply && w.keeper != nil && p.dst == w.v.Source // it tracks its connections, whatever the routes say
	near := w.s.InterfaceAt(e.VPC, p.dst)
	if back {
		near = w.keeper
	}
	if near != nil && near.Subnet == e.Subnet {
		w.arrive(near, p) // neither ACLs nor routes apply within a subnet
		return
	}
	sn, ok := get[*Subnet](w.s, e.Subnet)
	if !ok {
		w.deny(w.eniHop(e, ""), Explanation{Code: CodeUnassociated}, "%s is not in a subnet", e.ID)
		return
	}
	p = w.acl(sn, true, p)
	if back {
		w.enter(w.keeper, e.Subnet, p)
		return
	}
	w.route(sn, e, p)
}

// enter follows a packet that reaches an interface's subnet from elsewhere.
func (w *walk) enter(e *Interface, from string, p packet) {
	if sn, ok := get[*Subnet](w.s, e.Subnet); ok && e.Subnet != from {
		p = w.acl(sn, false, p)
	}
	w.arrive(e, p)
}

// arrive follows a packet that reaches the interface with its destination address.
func (w *walk) arrive(e *Interface, p packet) {
	if w.severed(e) || w.detached(e) {
		return
	}
	if i := w.translated(e); i >= 0 {
		w.untranslate(i, e, p)
		return
	}
	switch e.Type {
	case TypeNATGateway:
		w.deny(w.eniHop(e, ""), Explanation{Code: CodeNoDestination}, "%s belongs to a NAT gateway, which does not accept connections", e.ID)
		return
	case TypeTransitGateway:
		w.deny(w.eniHop(e, ""), Explanation{Code: CodeNoDestination}, "%s belongs to a transit gateway, which does not accept connections", e.ID)
		return
	}
	w.groups(e, false, p)
	if w.hairpin(e) {
		return
	}
	w.pass(w.eniHop(e, ""))
	if !w.endpoint(e) {
		return
	}
	w.instance(e, p.header(), nil)
	w.end = end{reached: true, eni: e, vpc: e.VPC, packet: p}
}

// detached denies packets from and to an interface that is not attached to anything.
func (w *walk) detached(e *Interface) bool {
	if e.Attached {
		return false
	}
	w.deny(w.eniHop(e, ""), Explanation{Code: CodeUnassociated, Interface: e.ID, VPC: e.VPC}, "%s is not attached to an instance", e.ID)
	return true
}

// endpoint passes the interface endpoint that an interface belongs to, if any.
func (w *walk) endpoint(e *Interface) bool {
	v, ok := get[*VPCEndpoint](w.s, w.s.topology.owners[e.ID])
	if !ok || w.reply {
		return true
	}
	h := Hop{Kind: KindVPCEndpoint, ID: v.ID, VPC: v.VPC, Note: v.Service}
	if v.State != "" && v.State != "available" {
		w.deny(h, Explanation{Code: CodeBadState, State: v.State}, "%s is %s", v.ID, v.State)
		return false
	}
	w.v.Endpoint = v.ID
	w.pass(h)
	return true
}

// translated returns the index of the translation that replies to an interface belong to, or -1.
func (w *walk) translated(e *Interface) int {
	if !w.reply {
		return -1
	}
	if n := len(w.natted); n > 0 && w.natted[n-1].box == e.ID {
		return n - 1
	}
	return -1
}

// untranslate restores a reply's original address.
func (w *walk) untranslate(i int, e *Interface, p packet) {
	t := w.natted[i]
	w.natted = w.natted[:i]
	h := w.eniHop(e, "translates the destination back")
	if e.Type == TypeNATGateway {
		h.Kind, h.ID = KindNATGateway, w.s.natOf(e)
	} else {
		w.groups(e, false, p)
	}
	h.In = p.header()
	p.dst, p.dports, p.from = t.src, t.sports, nil
	h.Out = p.header()
	w.pass(h)
	if e.Type != TypeNATGateway {
		w.groups(e, true, p)
	}
	w.send(e, p)
}

// service answers packets to link-local addresses and to the VPC's DNS server. The instance's host answers them, and
// no filter sees them. https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html
func (w *walk) service(e *Interface, p packet) bool {
	h := Hop{Kind: KindLocalService, ID: p.dst.String(), VPC: e.VPC}
	switch {
	case p.dst == netip.AddrFrom4([4]byte{169, 254, 169, 254}) || p.dst == netip.MustParseAddr("fd00:ec2::254"):
		h.Note = "instance metadata"
		if w.unanswered(h, e, false) {
			return true
		}
	case p.dst == netip.AddrFrom4([4]byte{169, 254, 169, 123}) || p.dst == netip.MustParseAddr("fd00:ec2::123"):
		h.Note = "time"
	case w.s.resolver(e.VPC, p.dst):
		h.Note = "Amazon's DNS server"
		if v := w.s.vpc(e.VPC); !v.DNSSupport {
			w.deny(h, Explanation{Code: CodeNoDestination, Kind: KindVPC, Component: e.VPC, Attribute: AttributeDNSSupport}, "enableDnsSupport of %s is off", e.VPC)
			return true
		}
		if w.unanswered(h, e, true) {
			return true
		}
	default:
		return false
	}
	w.pass(h)
	w.end = end{reached: true, kind: KindLocalService, id: h.ID, vpc: e.VPC, packet: p}
	return true
}

// resolver reports whether an address is the VPC's DNS server: the base of its
// first range plus two, or 169.254.169.253.
func (s *Snapshot) resolver(vpc string, a netip.Addr) bool {
	v := s.vpc(vpc)
	if v == nil {
		return false
	}
	if a == netip.AddrFrom4([4]byte{169, 254, 169, 253}) || a == netip.MustParseAddr("fd00:ec2::253") {
		return true
	}
	for _, c := range v.CIDRs {
		if c.Addr().Is4() {
			return a == c.Masked().Addr().Next().Next()
		}
	}
	return false
}

// name returns a resource's name tag.
func (s *Snapshot) name(id string) string {
	switch r := s.Get(id).(type) {
	case *VPC:
		return r.Name
	case *Subnet:
		return r.Name
	case *RouteTable:
		return r.Name
	case *ACL:
		return r.Name
	case *SecurityGroup:
		return r.Name
	case *Interface:
		return r.Name
	case *Instance:
		return r.Name
	case *InternetGateway:
		return r.Name
	case *EgressOnlyGateway:
		return r.Name
	case *NATGateway:
		return r.Name
	case *Peering:
		return r.Name
	case *TransitGateway:
		return r.Name
	case *VPNGateway:
		return r.Name
	case *TransitAttachment:
		return r.Name
	case *TransitTable:
		return r.Name
	case *VPCEndpoint:
		return r.Name
	case *ConnectEndpoint:
		return r.Name
	case *PrefixList:
		return r.Name
	}
	return ""
}

func list(ids []string) string {
	switch len(ids) {
	case 0:
		return "no group"
	case 1:
		return ids[0]
	}
	s := ids[0]
	for _, id := range ids[1:] {
		s += ", " + id
	}
	return s
}
