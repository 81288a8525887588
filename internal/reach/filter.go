package reach

import (
	"fmt"
	"net/netip"
	"strings"
)

// A packet is a set of packets that differ only in their ports.
type packet struct {
	src, dst       netip.Addr
	proto          Protocol
	sports, dports Ports
	icmpType       int
	// from is the interface where the packet started, whose groups rules may refer to. lost says that rules can no
	// longer refer to them.
	from *Interface
	lost bool
	// entered is the VPC that the packet entered through a transit gateway.
	entered string
}

func (p packet) header() *Header {
	h := &Header{Source: p.src, Destination: p.dst, Protocol: p.proto}
	if p.proto.Ported() {
		h.SourcePorts, h.DestinationPorts = p.sports, p.dports
	}
	return h
}

// what describes the traffic in sentences: tcp 443.
func (p packet) what() string {
	if p.proto.Ported() {
		return p.proto.String() + " " + p.dports.String()
	}
	return p.proto.String()
}

// An aclVerdict is an ACL's decision on a packet.
type aclVerdict struct {
	through Ports  // destination ports that get through
	allowed *Entry // the entry that let (the first of) them through
	denied  *Entry // the entry that stopped the others; nil is the last, implicit one
}

var implicitDeny = Entry{Number: LastEntry, Protocol: AllProtocols}

// admit evaluates the entries in order; the first that matches decides.
// https://docs.aws.amazon.com/vpc/latest/userguide/nacl-basics.html
func (a *ACL) admit(egress bool, p packet) aclVerdict {
	var v aclVerdict
	remote := p.src
	if egress {
		remote = p.dst
	}
	left := p.dports
	for i := range a.Entries {
		e := &a.Entries[i]
		if e.Egress != egress || !e.CIDR.Contains(remote) {
			continue
		}
		hit, rest := left, Ports(nil)
		switch {
		case e.Protocol == AllProtocols:
		case e.Protocol != p.proto:
			continue
		case p.proto.Ported():
			if hit, rest = left.and(e.Ports); len(hit) == 0 {
				continue
			}
		case p.proto.icmp() && !icmpMatches(e.ICMPType, e.ICMPCode, p.icmpType):
			continue
		}
		if e.Allow {
			v.through = v.through.or(hit)
			if v.allowed == nil {
				v.allowed = e
			}
		} else if v.denied == nil {
			v.denied = e
		}
		if left = rest; len(left) == 0 {
			return v
		}
	}
	if v.denied == nil {
		e := implicitDeny
		e.Egress = egress
		v.denied = &e
	}
	return v
}

// icmpMatches assumes code 0: all ICMP flows here are echo requests and their replies.
func icmpMatches(wantType, wantCode, got int) bool {
	return wantType == -1 || wantType == got && (wantCode == -1 || wantCode == 0)
}

// A groupVerdict is the decision of an interface's groups on a packet.
type groupVerdict struct {
	group string
	rule  *Rule // the first rule that allows it, or nil
	// tracked says that the connection is tracked: replies need no rule.
	tracked bool
	// reference is a group that would have matched if the path preserved references.
	reference string
	empty     bool // none of the groups has a rule
}

func (r *Rule) covers(p packet) bool {
	switch {
	case r.Protocol == AllProtocols:
		return true
	case r.Protocol != p.proto:
		return false
	case p.proto.Ported():
		in, _ := p.dports.and(r.Ports)
		return len(in) > 0
	case p.proto.icmp():
		return icmpMatches(r.ICMPType, r.ICMPCode, p.icmpType)
	}
	return true
}

// filter evaluates an interface's groups. other is the interface at the other end, whose groups rules may refer to,
// or nil if there is none.
func (s *Snapshot) filter(e *Interface, egress bool, p packet, other *Interface) groupVerdict {
	v := groupVerdict{empty: true}
	remote := p.src
	if egress {
		remote = p.dst
	}
	anywhere := false // the matching rule applies to all addresses
	for _, id := range e.Groups {
		g, ok := get[*SecurityGroup](s, id)
		if !ok {
			continue
		}
		for i := range g.Rules {
			r := &g.Rules[i]
			v.empty = false
			if r.Egress != egress || !r.covers(p) {
				continue
			}
			match := false
			switch {
			case r.CIDR.IsValid():
				if match = r.CIDR.Contains(remote); match && r.CIDR.Bits() == 0 {
					anywhere = true
				}
			case r.PrefixList != "":
				pl, ok := get[*PrefixList](s, r.PrefixList)
				match = ok && inAny(pl.CIDRs, remote)
			case r.Group != "" && other != nil && other.member(r.Group):
				if p.lost && !egress {
					v.reference = r.Group
				} else {
					match = true
				}
			}
			if match && v.rule == nil {
				v.group, v.rule = id, r
			}
		}
	}
	v.tracked = v.rule != nil && !(anywhere && p.proto.Ported() && s.openBack(e, egress, remote.Is6(), p.proto))
	return v
}

// openBack reports whether a rule allows all replies to any address. If the rule for the connection allows any
// address too, the connection is not tracked.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html#untracked-connections
func (s *Snapshot) openBack(e *Interface, egress, v6 bool, proto Protocol) bool {
	for _, id := range e.Groups {
		g, ok := get[*SecurityGroup](s, id)
		if !ok {
			continue
		}
		for i := range g.Rules {
			r := &g.Rules[i]
			if r.Egress != egress && r.CIDR.IsValid() && r.CIDR.Bits() == 0 && r.CIDR.Addr().Is6() == v6 &&
				(r.Protocol == AllProtocols || r.Protocol == proto && r.Ports == allPorts) {
				return true
			}
		}
	}
	return false
}

func (r *Rule) text() string {
	peer := r.CIDR.String()
	switch {
	case r.PrefixList != "":
		peer = r.PrefixList
	case r.Group != "":
		peer = r.Group
	}
	word := "from"
	if r.Egress {
		word = "to"
	}
	what := r.Protocol.String()
	if r.Protocol.Ported() && r.Ports != allPorts {
		what += " " + r.Ports.String()
	}
	return strings.TrimSpace(fmt.Sprintf("%s allows %s %s %s", r.ID, what, word, peer))
}

func (e *Entry) number() string {
	if e.Number >= LastEntry {
		return "*"
	}
	return fmt.Sprint(e.Number)
}

func (e *Entry) text() string {
	verb, word := "denies", "from"
	if e.Allow {
		verb = "allows"
	}
	if e.Egress {
		word = "to"
	}
	if !e.CIDR.IsValid() {
		return fmt.Sprintf("entry %s %s everything else", e.number(), verb)
	}
	what := e.Protocol.String()
	if e.Protocol.Ported() && e.Ports != allPorts {
		what += " " + e.Ports.String()
	}
	return fmt.Sprintf("entry %s %s %s %s %s", e.number(), verb, what, word, e.CIDR)
}

// direction returns the word for an egress flag.
func direction(egress bool) string {
	if egress {
		return Egress
	}
	return Ingress
}
