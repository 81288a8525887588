package reach

import (
	"fmt"
	"strings"
)

// kindWords are the words for kinds in texts.
var kindWords = map[string]string{
	KindInstance: "instance", KindInterface: "network interface", KindSecurityGroup: "security group",
	KindACL: "network ACL", KindRouteTable: "route table", KindInternetGateway: "internet gateway",
	KindEgressOnly: "egress-only gateway", KindNATGateway: "NAT gateway", KindPeering: "peering connection",
	KindVPNGateway: "VPN gateway", KindTransitGateway: "transit gateway", KindTransitAttachment: "attachment", KindTransitTable: "transit route table",
	KindVPCEndpoint: "VPC endpoint", KindConnectEndpoint: "Connect endpoint", KindPrefixList: "prefix list",
	KindSubnet: "subnet", KindVPC: "VPC", KindInternet: "internet", KindLocalService: "local service", KindName: "name", KindFault: "fault", KindLoadBalancer: "load balancer",
}

// Text renders the verdict: the name, every hop of both ways with ✔ or ✘, and what blocks the packet.
func (v *Verdict) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s → %s\n", v.from(), v.to())
	if r := v.Resolution; r != nil {
		if r.Explanation != nil {
			fmt.Fprintf(&b, "  ✘ name %s: %s\n", r.Name, r.Explanation.Text)
		} else {
			parts := make([]string, len(r.Addresses))
			for i, a := range r.Addresses {
				parts[i] = a.String()
			}
			fmt.Fprintf(&b, "  ✔ name %s is %s (%s)\n", r.Name, strings.Join(parts, ", "), r.By)
		}
	}
	way := func(title string, hops []Hop) {
		if len(hops) == 0 {
			return
		}
		fmt.Fprintf(&b, "%s\n", title)
		for i := range hops {
			b.WriteString(hops[i].line())
		}
	}
	way("there", v.Forward)
	way("back", v.Return)
	if v.Reachable {
		b.WriteString("reachable")
		if v.Endpoint != "" {
			fmt.Fprintf(&b, " through %s", v.Endpoint)
		}
		b.WriteString("\n")
		if len(v.ReplyPorts) > 0 {
			fmt.Fprintf(&b, "but replies only get through to the ports %s: connections from other ports hang\n", v.ReplyPorts)
		}
		return b.String()
	}
	b.WriteString("not reachable\n")
	for i, x := range v.Explanations {
		word := "also"
		if i == 0 {
			word = "because"
		}
		if x.Return {
			word += ", for replies"
		}
		fmt.Fprintf(&b, "  %s: %s\n    %s\n", word, x.Code, x.Text)
	}
	return b.String()
}

func (v *Verdict) from() string {
	s := v.Flow.From.ID
	if v.Source.IsValid() {
		if s != "" {
			s += " "
		}
		s += v.Source.String()
	}
	if s == "" {
		s = v.Flow.From.Address.String()
	}
	return s
}

func (v *Verdict) to() string {
	var parts []string
	if v.Resolution != nil {
		parts = append(parts, v.Resolution.Name)
	}
	if v.Flow.To.ID != "" {
		parts = append(parts, v.Flow.To.ID)
	}
	switch {
	case v.Destination.IsValid():
		parts = append(parts, v.Destination.String())
	case v.Flow.To.Address.IsValid():
		parts = append(parts, v.Flow.To.Address.String())
	}
	s := strings.Join(parts, " ") + " " + v.Flow.Protocol.String()
	if v.Flow.Protocol.Ported() {
		s += fmt.Sprintf(" %d", v.Flow.Port)
	}
	return s
}

func (h *Hop) line() string {
	mark := "✔"
	if !h.OK {
		mark = "✘"
	}
	what := h.ID
	if h.Name != "" {
		what += " (" + h.Name + ")"
	}
	var notes []string
	switch {
	case h.Kind == KindInterface && h.Subnet != "":
		notes = append(notes, "in "+h.Subnet+" of "+h.VPC)
	case h.Kind == KindPeering:
		notes = append(notes, h.SourceVPC+" → "+h.TargetVPC)
	case h.Kind == KindACL || h.Kind == KindSecurityGroup:
		what += " " + h.Direction
	}
	if h.Explanation != nil {
		notes = append(notes, h.Explanation.Text)
	} else {
		switch {
		case h.Rule != nil:
			notes = append(notes, h.Rule.text())
		case h.Entry != nil:
			notes = append(notes, h.Entry.text())
		case h.Route != nil:
			notes = append(notes, h.Route.text())
		}
		if h.Note != "" {
			notes = append(notes, h.Note)
		}
	}
	line := fmt.Sprintf("  %s %-19s %s", mark, kindWords[h.Kind], what)
	if len(notes) > 0 {
		line += ": " + strings.Join(notes, "; ")
	}
	return strings.TrimRight(line, " ") + "\n"
}

// DOT renders the verdict for Graphviz.
func (v *Verdict) DOT() string {
	var b strings.Builder
	b.WriteString("digraph reach {\n  rankdir=LR;\n  node [shape=box, fontname=\"monospace\"];\n")
	way := func(prefix, label string, hops []Hop) {
		for i := range hops {
			h := &hops[i]
			colour, text := "darkgreen", kindWords[h.Kind]+"\n"+h.ID
			if h.Name != "" {
				text += "\n" + h.Name
			}
			if !h.OK {
				colour = "red"
				if h.Explanation != nil {
					text += "\n" + h.Explanation.Code
				}
			}
			fmt.Fprintf(&b, "  %s%d [label=%s, color=%s];\n", prefix, i, quote(text), colour)
			if i > 0 {
				fmt.Fprintf(&b, "  %s%d -> %s%d [label=%q];\n", prefix, i-1, prefix, i, label)
			}
		}
	}
	way("there", "", v.Forward)
	way("back", "reply", v.Return)
	b.WriteString("}\n")
	return b.String()
}

// quote writes a DOT string; \n stays a line break.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(s) + `"`
}
