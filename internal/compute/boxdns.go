package compute

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	boxes "github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

const (
	dnsPort = 53
	// dnsIdle is how long the VPC's DNS server waits for the next query of a connection.
	dnsIdle = 30 * time.Second
	// dnsPatience bounds one query.
	dnsPatience = 10 * time.Second
)

// isResolver reports whether an address at which the network answers is that of the VPC's DNS server. The others are
// those of the instance metadata service and the time server.
func isResolver(a netip.Addr) bool { return a == boxes.Resolver || !a.IsLinkLocalUnicast() }

// serveDNS answers a datagram like the VPC's DNS server.
func (n *boxNetwork) serveDNS(d inside.Datagram, answer func([]byte)) {
	in, ok := n.from(d.Interface)
	if ok = ok && isResolver(d.Service.Addr()); ok {
		n.links(in, func(b *boxLinks) {
			if ok = b.queries < maxBoxQueries; ok {
				b.queries++
			}
		})
	}
	if !ok {
		return
	}
	go func() {
		defer n.links(in, func(b *boxLinks) { b.queries = max(0, b.queries-1) })
		if out, ok := n.answerDNS(in, d.Data, dnsSize(d.Data)); ok {
			answer(out)
		}
	}()
}

// serveDNSConn answers the queries of a connection, each with its length before it, one after the other.
// https://www.rfc-editor.org/rfc/rfc1035#section-4.2.2
func (n *boxNetwork) serveDNSConn(c *boxConn) {
	defer c.Close()
	if to, err := netip.ParseAddrPort(c.LocalAddr().String()); err != nil || !isResolver(to.Addr()) {
		c.reset()
		return
	}
	for { // deadlines of connections are real times
		_ = c.SetReadDeadline(clocks.RealClock{}.Now().Add(dnsIdle))
		query, err := readDNS(c)
		if err != nil {
			return
		}
		out, ok := n.answerDNS(c.in, query, math.MaxUint16)
		if !ok {
			continue
		}
		_ = c.SetWriteDeadline(clocks.RealClock{}.Now().Add(dnsIdle))
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

func readDNS(r io.Reader) ([]byte, error) {
	var length [2]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	query := make([]byte, binary.BigEndian.Uint16(length[:]))
	_, err := io.ReadFull(r, query)
	return query, err
}

// dnsSize returns how long the answer to a datagram may be. https://www.rfc-editor.org/rfc/rfc6891#section-6.2.3
func dnsSize(query []byte) int {
	const least = 512
	var m dnsmessage.Message
	if m.Unpack(query) != nil {
		return least
	}
	for _, r := range m.Additionals {
		if r.Header.Type == dnsmessage.TypeOPT {
			return max(least, int(r.Header.Class))
		}
	}
	return least
}

// answerDNS returns the answer to a query, which says that it is truncated if it would be longer than size. It returns
// false if the server is silent.
func (n *boxNetwork) answerDNS(in machine.Instance, query []byte, size int) ([]byte, bool) {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || m.Response || len(m.Questions) != 1 {
		return nil, false
	}
	q := m.Questions[0]
	name := strings.TrimSuffix(q.Name.String(), ".")
	ctx, cancel := context.WithTimeout(context.Background(), dnsPatience)
	defer cancel()
	all, outside, err := n.resolve(ctx, in, name, q.Type == dnsmessage.TypeA)
	if de, ok := errors.AsType[*net.DNSError](err); ok && !de.IsNotFound {
		return nil, false
	}
	code := dnsmessage.RCodeSuccess
	if err != nil {
		code = dnsmessage.RCodeNameError
	}
	addresses := slices.DeleteFunc(slices.Clone(all), func(a netip.Addr) bool { return !a.Is4() || q.Type != dnsmessage.TypeA })
	if !outside {
		n.learn(ctx, in, name, addresses...)
	}
	out, err := answerOf(&m, addresses, code, size)
	return out, err == nil
}

// answerOf returns the answer to a query, which has one question.
func answerOf(m *dnsmessage.Message, addresses []netip.Addr, code dnsmessage.RCode, size int) ([]byte, error) {
	out := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: m.ID, Response: true, RecursionDesired: m.RecursionDesired, RecursionAvailable: true, RCode: code},
		Questions: m.Questions,
	}
	for _, a := range addresses {
		out.Answers = append(out.Answers, dnsmessage.Resource{
			Header: dnsmessage.ResourceHeader{Name: m.Questions[0].Name, Class: dnsmessage.ClassINET, TTL: 5}, Body: &dnsmessage.AResource{A: a.As4()},
		})
	}
	b, err := out.Pack()
	if err == nil && len(b) > size {
		out.Truncated, out.Answers = true, nil
		b, err = out.Pack()
	}
	return b, err
}
