package reach

// A Conn is an established connection.
type Conn struct {
	// Made is the verdict under which the connection was established.
	Made *Verdict `json:"made"`
}

// Established returns the connection that a verdict allows, or false if it allows none.
func (v *Verdict) Established() (Conn, bool) {
	return Conn{Made: v}, v.Reachable
}

// Continues decides whether an established connection survives in this network. Security groups track connections:
// one outlives the rule that let it in, unless that rule and the rule for replies were open to all addresses, because
// such connections are not tracked. Network ACLs, routes, gateways and addresses apply to every packet.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html
func (s *Snapshot) Continues(c Conn) *Verdict {
	f := c.Made.Flow
	// The packets have the addresses with which the connection was established.
	f.To.Address = c.Made.Destination
	if f.From.ID != "" && KindOf(f.From.ID) != KindConnectEndpoint {
		f.From.Address = c.Made.Source
	}
	if len(c.Made.ReplyPorts) > 0 {
		f.SourcePorts = c.Made.ReplyPorts
	}
	v := s.check(f, c.Made, nil)
	v.Flow = c.Made.Flow
	return v
}

// tracks reports whether the security groups of an interface track the connection.
func (v *Verdict) tracks(eni string, egress, reply bool) bool {
	hops := v.Forward
	if reply {
		hops = v.Return
	}
	for i := range hops {
		h := &hops[i]
		if h.Kind == KindSecurityGroup && h.Interface == eni && h.Direction == direction(egress) {
			return h.Tracked
		}
	}
	return false
}
