package reach

import (
	"fmt"
	"strconv"
	"strings"
)

// A Protocol is an IANA protocol number, or AllProtocols.
type Protocol int16

// The protocols that have names.
const (
	AllProtocols Protocol = -1
	ICMP         Protocol = 1
	TCP          Protocol = 6
	UDP          Protocol = 17
	ICMPv6       Protocol = 58
)

var protocolNames = map[Protocol]string{AllProtocols: "all", ICMP: "icmp", TCP: "tcp", UDP: "udp", ICMPv6: "icmpv6"}

func (p Protocol) String() string {
	if s, ok := protocolNames[p]; ok {
		return s
	}
	return strconv.Itoa(int(p))
}

// MarshalText returns the name.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a name or number.
func (p *Protocol) UnmarshalText(b []byte) error {
	var err error
	*p, err = ParseProtocol(string(b))
	return err
}

// ParseProtocol reads a name or number as EC2 writes them.
func ParseProtocol(s string) (Protocol, error) {
	switch strings.ToLower(s) {
	case "-1", "all":
		return AllProtocols, nil
	case "tcp":
		return TCP, nil
	case "udp":
		return UDP, nil
	case "icmp":
		return ICMP, nil
	case "icmpv6":
		return ICMPv6, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 255 {
		return 0, fmt.Errorf("%q is not a protocol", s)
	}
	return Protocol(n), nil
}

// Ported reports whether the protocol has ports.
func (p Protocol) Ported() bool { return p == TCP || p == UDP }

func (p Protocol) icmp() bool { return p == ICMP || p == ICMPv6 }

// A PortRange is the ports From to To, inclusive.
type PortRange struct {
	From uint16 `json:"from"`
	To   uint16 `json:"to"`
}

func (r PortRange) String() string {
	if r.From == r.To {
		return strconv.Itoa(int(r.From))
	}
	return fmt.Sprintf("%d-%d", r.From, r.To)
}

var allPorts = PortRange{0, 65535}

// Ports is a set of ports, as ascending ranges that do not touch.
type Ports []PortRange

func (p Ports) String() string {
	parts := make([]string, len(p))
	for i, r := range p {
		parts[i] = r.String()
	}
	return strings.Join(parts, ",")
}

// Contains reports whether a port is in the set.
func (p Ports) Contains(port uint16) bool {
	for _, r := range p {
		if r.From <= port && port <= r.To {
			return true
		}
	}
	return false
}

// and splits p into the ports in r and the others.
func (p Ports) and(r PortRange) (in, out Ports) {
	if len(p) == 1 && r.From <= p[0].From && p[0].To <= r.To { // almost always the case
		return p, nil
	}
	for _, q := range p {
		if q.To < r.From || r.To < q.From {
			out = append(out, q)
			continue
		}
		if q.From < r.From {
			out = append(out, PortRange{q.From, r.From - 1})
		}
		in = append(in, PortRange{max(q.From, r.From), min(q.To, r.To)})
		if r.To < q.To {
			out = append(out, PortRange{r.To + 1, q.To})
		}
	}
	return in, out
}

// or returns the union of two disjoint sets.
func (p Ports) or(q Ports) Ports {
	if len(p) == 0 {
		return q
	}
	if len(q) == 0 {
		return p
	}
	merged := make(Ports, 0, len(p)+len(q))
	for len(p) > 0 || len(q) > 0 {
		next := &p
		if len(p) == 0 || len(q) > 0 && q[0].From < p[0].From {
			next = &q
		}
		r := (*next)[0]
		*next = (*next)[1:]
		if n := len(merged); n > 0 && int(merged[n-1].To)+1 == int(r.From) {
			merged[n-1].To = r.To
		} else {
			merged = append(merged, r)
		}
	}
	return merged
}

func (p Ports) equal(q Ports) bool {
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i] != q[i] {
			return false
		}
	}
	return true
}
