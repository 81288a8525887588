package reach

import "net/netip"

// Outside is an internet address, from TEST-NET-2, for flows that end at an internet gateway.
var Outside = netip.AddrFrom4([4]byte{198, 51, 100, 10})

// outside6 is Outside for IPv6.
var outside6 = netip.MustParseAddr("2001:db8::10")

// Check decides a flow. It always returns a verdict: a flow from or to something that does not exist is not
// reachable, and the verdict says so.
func (s *Snapshot) Check(f Flow) *Verdict { return s.check(f, nil, nil) }

func (s *Snapshot) check(f Flow, established *Verdict, r *Resolution) *Verdict {
	w := &walk{s: s, v: &Verdict{Resolution: r}, established: established}
	return w.decide(f)
}

// decide walks to the destination and back.
func (w *walk) decide(f Flow) *Verdict {
	w.v.Flow, w.v.Forward, w.passed = f, make([]Hop, 0, 12), map[passage]bool{}
	w.both(f)
	w.v.Reachable = len(w.v.Explanations) == 0
	return w.v
}

// A start is where the packet starts.
type start struct {
	eni    *Interface // nil if on the internet
	source netip.Addr // zero if the destination's family determines it
	vpc    string
	igw    string // the gateway that the internet must be behind, if it must be a certain one
}

// both walks to the destination and back.
func (w *walk) both(f Flow) {
	from, ok := w.start(f.From)
	if !ok {
		return
	}
	to, dst, ok := w.destination(f.To, from)
	if !ok {
		return
	}
	p := packet{dst: dst, proto: f.Protocol, dports: Ports{{f.Port, f.Port}}, sports: f.SourcePorts, from: from.eni}
	if from.eni == nil {
		if p.src = from.source; p.src.Is4() != dst.Is4() {
			w.deny(Hop{Kind: KindInternet, ID: p.src.String()}, Explanation{Code: CodeNoDestination, Address: dst}, "%s and %s belong to different address families", p.src, dst)
			return
		}
	} else if !w.address(f.From, from, &p) {
		return
	}
	if !f.Protocol.Ported() {
		p.dports, p.sports = Ports{allPorts}, Ports{allPorts}
	} else if len(p.sports) == 0 {
		p.sports = Ports{linuxPorts}
		if from.eni == nil || w.connect != nil {
			p.sports = Ports{anyClient}
		}
	}
	switch f.Protocol {
	case ICMP:
		p.icmpType = 8
	case ICMPv6:
		p.icmpType = 128
	}
	w.v.Source, w.v.Destination, w.sport = p.src, p.dst, p.sports
	w.there(from, p)
	if !w.end.reached {
		return
	}
	if !w.intended(f.To, to, from) {
		return
	}
	w.back(from)
}

// start finds the source.
func (w *walk) start(f Endpoint) (start, bool) {
	if f.ID == "" {
		if !f.Address.IsValid() || !public(f.Address) {
			w.deny(Hop{Kind: KindInternet, ID: f.Address.String()}, Explanation{Code: CodeNoSourceOrDestination}, "a source must be a resource or a public address: %s is neither", f.Address)
			return start{}, false
		}
		return start{source: f.Address}, true
	}
	switch r := w.s.Get(f.ID).(type) {
	case *Interface:
		if w.client.IsValid() {
			w.keeper = r
		}
		return start{eni: r, vpc: r.VPC, source: w.client}, true
	case *Instance:
		e := w.s.primaryInterface(r.ID)
		if f.Address.IsValid() {
			ids, _ := w.s.instances.get(r.ID)
			for _, id := range ids {
				if own, ok := get[*Interface](w.s, id); ok {
					if _, has := own.find(f.Address); has {
						e = own
					}
				}
			}
		}
		if e == nil {
			w.deny(Hop{Kind: KindInstance, ID: r.ID}, Explanation{Code: CodeUnassociated}, "%s has no network interface", r.ID)
			return start{}, false
		}
		return start{eni: e, vpc: e.VPC}, true
	case *InternetGateway:
		a := f.Address
		if !a.IsValid() {
			a = Client
		}
		if r.VPC == "" {
			w.deny(Hop{Kind: KindInternetGateway, ID: r.ID}, Explanation{Code: CodeUnassociated}, "%s is not attached to a VPC", r.ID)
			return start{}, false
		}
		return start{source: a, igw: r.ID}, true
	case *ConnectEndpoint:
		e, ok := get[*Interface](w.s, r.Interface)
		h := Hop{Kind: KindConnectEndpoint, ID: r.ID, VPC: r.VPC, Subnet: r.Subnet}
		if !ok || r.State != "" && r.State != "create-complete" && r.State != "update-complete" {
			w.deny(h, Explanation{Code: CodeBadState, State: r.State}, "%s is %s", r.ID, r.State)
			return start{}, false
		}
		w.connect = r
		w.pass(h)
		st := start{eni: e, vpc: e.VPC}
		if r.PreserveClientIP {
			st.source, w.keeper = Client, e
			if f.Address.IsValid() {
				st.source = f.Address
			}
		}
		return st, true
	case *VPCEndpoint:
		w.deny(Hop{Kind: KindVPCEndpoint, ID: r.ID}, Explanation{Code: CodeEndpointInitiates, VPC: r.VPC}, "%s does not open connections to its VPC", r.ID)
	case nil:
		w.deny(Hop{Kind: KindOf(f.ID), ID: f.ID}, Explanation{Code: CodeNoSourceOrDestination}, "the source %s does not exist", f.ID)
	default:
		w.deny(Hop{Kind: KindOf(f.ID), ID: f.ID}, Explanation{Code: CodeUnsupported}, "%s cannot be a source", f.ID)
	}
	return start{}, false
}

// address chooses the source address and records the first hops.
func (w *walk) address(f Endpoint, from start, p *packet) bool {
	e := from.eni
	switch {
	case from.source.IsValid():
		p.src = from.source
	case f.Address.IsValid() && w.connect == nil:
		p.src = f.Address
	default:
		a, ok := e.primary(p.dst.Is6())
		if !ok {
			family := "IPv4"
			if p.dst.Is6() {
				family = "IPv6"
			}
			w.deny(w.eniHop(e, ""), Explanation{Code: CodeUnassociated}, "%s has no %s address", e.ID, family)
			return false
		}
		p.src = a.Private
	}
	if w.connect == nil {
		w.instance(e, nil, p.header())
	}
	h := w.eniHop(e, "")
	if _, own := e.find(p.src); !own && !e.NoSourceDestCheck && !from.source.IsValid() {
		w.deny(h, Explanation{Code: CodeSourceDestCheck, Address: p.src, Interface: e.ID}, "%s is not an address of %s, whose source/destination check is on", p.src, e.ID)
	} else {
		w.pass(h)
	}
	return true
}

// destination finds the address that the packet is for, and the interfaces that it must reach, if that matters.
func (w *walk) destination(t Endpoint, from start) ([]string, netip.Addr, bool) {
	none := func(code, format string, args ...any) ([]string, netip.Addr, bool) {
		w.deny(Hop{Kind: KindOf(t.ID), ID: t.ID}, Explanation{Code: code}, format, args...)
		return nil, netip.Addr{}, false
	}
	if t.ID == "" {
		if !t.Address.IsValid() {
			return none(CodeNoSourceOrDestination, "there is no destination")
		}
		return nil, t.Address, true
	}
	switch r := w.s.Get(t.ID).(type) {
	case *Interface:
		return w.interfaceDestination(t, r, []string{r.ID}, from)
	case *Instance:
		ids, _ := w.s.instances.get(r.ID)
		if len(ids) == 0 {
			return none(CodeUnassociated, "%s has no network interface", r.ID)
		}
		return w.interfaceDestination(t, w.s.primaryInterface(r.ID), ids, from)
	case *InternetGateway:
		a := t.Address
		if !a.IsValid() {
			if a = Outside; from.eni != nil {
				if _, v4 := from.eni.primary(false); !v4 {
					a = outside6
				}
			}
		}
		return nil, a, true
	case *VPCEndpoint:
		if r.Type == GatewayEndpoint {
			pl, _ := get[*PrefixList](w.s, r.PrefixList)
			if pl == nil || len(pl.CIDRs) == 0 {
				return none(CodeNoSourceOrDestination, "the prefix list of %s is empty", r.ID)
			}
			a := t.Address
			if !a.IsValid() {
				a = pl.CIDRs[0].Addr().Next()
			}
			return nil, a, true
		}
		var chosen *Interface
		for _, id := range r.Interfaces {
			e, ok := get[*Interface](w.s, id)
			if ok && (chosen == nil || from.eni != nil && e.Zone == from.eni.Zone && chosen.Zone != e.Zone) {
				chosen = e
			}
		}
		if chosen == nil {
			return none(CodeUnassociated, "%s has no network interface", r.ID)
		}
		return w.interfaceDestination(t, chosen, r.Interfaces, from)
	case nil:
		return none(CodeNoSourceOrDestination, "the destination %s does not exist", t.ID)
	}
	return none(CodeUnsupported, "%s cannot be a destination", t.ID)
}

// interfaceDestination chooses the address that the source would use for an interface: the private one if it can be
// routed.
func (w *walk) interfaceDestination(t Endpoint, e *Interface, ids []string, from start) ([]string, netip.Addr, bool) {
	if t.Address.IsValid() {
		return ids, t.Address, true
	}
	a, ok := e.primary(false)
	if from.eni != nil && ok {
		if _, v4 := from.eni.primary(false); !v4 {
			ok = false
		}
	}
	if !ok {
		if a, ok = e.primary(true); !ok {
			w.deny(Hop{Kind: KindInterface, ID: e.ID}, Explanation{Code: CodeUnassociated}, "%s has no address", e.ID)
		}
		return ids, a.Private, ok
	}
	if from.eni != nil && (from.vpc == e.VPC || w.peered(from.vpc, e.VPC) || w.s.transited(from.vpc, e.VPC) != nil) {
		return ids, a.Private, true
	}
	if a.Public.IsValid() {
		return ids, a.Public, true
	}
	if from.eni == nil {
		h := Hop{Kind: KindInternetGateway, VPC: e.VPC}
		v := w.s.vpc(e.VPC)
		if v == nil || v.gateway == nil {
			w.deny(Hop{Kind: KindVPC, ID: e.VPC}, Explanation{Code: CodeNoDestination, VPC: e.VPC, Missing: KindInternetGateway},
				"%s has no internet gateway, and %s has no public address", e.VPC, e.ID)
			return nil, netip.Addr{}, false
		}
		h.ID = v.gateway.ID
		w.deny(h, Explanation{Code: CodePrivateForIngress, Address: a.Private, Interface: e.ID, VPC: e.VPC}, "%s has no public address: it cannot be reached from the internet", e.ID)
		return nil, netip.Addr{}, false
	}
	w.deny(Hop{Kind: KindVPC, ID: from.vpc}, Explanation{Code: CodeDisconnectedVPCs, VPC: from.vpc, TargetVPC: e.VPC, Interface: e.ID},
		"%s and %s are not connected, and %s has no public address", from.vpc, e.VPC, e.ID)
	return nil, netip.Addr{}, false
}

// peered reports whether a peering connection joins two VPCs, in any state.
func (w *walk) peered(a, b string) bool {
	v := w.s.vpc(a)
	if v == nil {
		return false
	}
	for _, p := range v.peerings {
		if _, there := p.sides(a); there.VPC == b {
			return true
		}
	}
	return false
}

// there walks to the destination.
func (w *walk) there(from start, p packet) {
	if from.eni != nil {
		if !w.detached(from.eni) {
			w.leave(from.eni, p)
		}
		return
	}
	if !w.homed(p.dst) && !public(p.dst) {
		x := Explanation{Code: CodePrivateForIngress, Address: p.dst}
		w.deny(Hop{Kind: KindInternet, ID: p.src.String()}, x, "%s is a private address, which the internet does not route", p.dst)
		return
	}
	if !w.homed(p.dst) {
		w.internet(p)
		return
	}
	w.pass(Hop{Kind: KindInternet, ID: p.src.String(), Out: p.header()})
	w.fromInternet(p)
}

// intended checks that the packet reached the intended destination.
func (w *walk) intended(t Endpoint, interfaces []string, from start) bool {
	ok := true
	switch {
	case interfaces != nil:
		ok = false
		for _, id := range interfaces {
			ok = ok || w.end.eni != nil && w.end.eni.ID == id
		}
	case KindOf(t.ID) == KindInternetGateway:
		ok = w.end.kind == KindInternet && w.through(t.ID)
	case KindOf(t.ID) == KindVPCEndpoint:
		ok = w.end.id == t.ID
	}
	if ok && from.igw != "" && !w.through(from.igw) {
		w.deny(Hop{Kind: KindInternetGateway, ID: from.igw}, Explanation{Code: CodeNoPath}, "the path does not lead through %s", from.igw)
		return false
	}
	if !ok {
		got := w.end.id
		if w.end.eni != nil {
			got = w.end.eni.ID
		}
		w.deny(Hop{Kind: KindOf(t.ID), ID: t.ID}, Explanation{Code: CodeNoDestination, Address: w.v.Destination}, "the packet arrives at %s, not at %s", got, t.ID)
	}
	return ok
}

func (w *walk) through(id string) bool {
	for i := range w.v.Forward {
		if w.v.Forward[i].ID == id {
			return true
		}
	}
	return false
}

// back walks the reply.
func (w *walk) back(from start) {
	last := w.end
	if last.kind == KindLocalService || last.kind == KindInternet && from.eni == nil {
		return
	}
	w.reply, w.end = true, end{}
	p := packet{
		src: last.packet.dst, dst: last.packet.src, proto: last.packet.proto,
		sports: last.packet.dports, dports: last.packet.sports, from: last.eni,
	}
	if p.proto == ICMPv6 {
		p.icmpType = 129
	}
	switch {
	case last.eni != nil:
		w.instance(last.eni, nil, p.header())
		w.pass(w.eniHop(last.eni, ""))
		w.leave(last.eni, p)
	case last.kind == KindVPCEndpoint:
		e := w.s.InterfaceAt(last.vpc, p.dst)
		if e == nil {
			return
		}
		w.pass(Hop{Kind: KindVPCEndpoint, ID: last.id, VPC: last.vpc, Out: p.header()})
		w.enter(e, "", p)
	default:
		w.fromInternet(p)
	}
	if !w.end.reached {
		return
	}
	home := from.eni == nil && w.end.kind == KindInternet || from.eni != nil && w.end.eni != nil && w.end.eni.ID == from.eni.ID
	if !home {
		got := w.end.id
		if w.end.eni != nil {
			got = w.end.eni.ID
		}
		w.deny(Hop{Kind: KindInternet, ID: got}, Explanation{Code: CodeNoDestination, Address: w.end.packet.dst}, "the reply arrives at %s, not at the source", got)
		return
	}
	if got := w.end.packet.dports; p.proto.Ported() && !got.equal(w.sport) {
		w.v.ReplyPorts = got
	}
}

// KindOf returns the kind of a resource from its ID.
func KindOf(id string) string {
	for _, k := range []struct{ prefix, kind string }{
		{"i-", KindInstance}, {"eni-", KindInterface}, {"igw-", KindInternetGateway}, {"vpce-", KindVPCEndpoint},
		{"eice-", KindConnectEndpoint}, {"nat-", KindNATGateway}, {"pcx-", KindPeering}, {"eigw-", KindEgressOnly},
		{"sg-", KindSecurityGroup}, {"acl-", KindACL}, {"rtb-", KindRouteTable}, {"subnet-", KindSubnet}, {"vpc-", KindVPC},
		{"pl-", KindPrefixList}, {"vgw-", KindVPNGateway}, {"tgw-attach-", KindTransitAttachment}, {"tgw-rtb-", KindTransitTable}, {"tgw-", KindTransitGateway},
	} {
		if len(id) > len(k.prefix) && id[:len(k.prefix)] == k.prefix {
			return k.kind
		}
	}
	return KindInternet
}
