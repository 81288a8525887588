package fabric

import (
	"encoding/binary"
	"net/netip"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// A ruleset is the content of one nftables table.
type ruleset struct {
	chains map[string]*chain
	sets   map[string]*set
}

type chain struct{ rules [][]expr.Any }

type set struct {
	nftables.Set
	elements map[string]nftables.SetElement // by key and value
}

// A packet's mark, while it passes the chains, says which interface it comes from and which it goes to. The
// destination's number is stored in the bytes that the source's is moved to when the mark's bytes are reversed, so one
// rule can find what was tracked for the other direction.
const (
	srcMask  = 0x00003fff
	dstMask  = 0xff3f0000
	flagOK   = 0x00004000 // a security group allows it
	flagAny  = 0x00008000 // by a rule for all addresses
	flagLost = 0x00400000 // rules cannot refer to the source's groups
	flagKept = 0x00800000 // an interface that AWS manages sends it from a client's address
	// maxNumber is the highest number of an interface or VPC. A higher one would overwrite the flags.
	maxNumber = 0x3fff
	// maxParts is how many things with numbers a state may have. While it is applied, those of the last one keep theirs.
	maxParts = maxNumber / 2
)

func dstBits(n uint32) uint32 { return (n&0xff)<<24 | (n>>8)<<16 }

// Afterwards the mark says where the kernel routes it: the number of a routing table, and for services the interface.
const (
	tableShift = 14
	tableMask  = maxNumber << tableShift
	service    = 1 << 30
	delivered  = 1 << 31
)

func finalMark(class, table, iface uint32) uint32 { return class | table<<tableShift | iface }

// A family has what differs between IPv4 and IPv6.
type family struct {
	v6               bool
	table            *nftables.Table
	length, src, dst uint32 // of addresses in the header
	icmp             uint32
	echo             []byte // types of replies and requests
	address          nftables.SetDatatype
}

var families = []*family{
	{
		table:  &nftables.Table{Name: "drydock", Family: nftables.TableFamilyIPv4},
		length: 4, src: 12, dst: 16, icmp: unix.IPPROTO_ICMP, echo: []byte{0, 8}, address: nftables.TypeIPAddr,
	},
	{
		v6: true, table: &nftables.Table{Name: "drydock", Family: nftables.TableFamilyIPv6},
		length: 16, src: 8, dst: 24, icmp: unix.IPPROTO_ICMPV6, echo: []byte{129, 128}, address: nftables.TypeIP6Addr,
	},
}

func (f *family) has(p netip.Prefix) bool { return p.IsValid() && p.Addr().Is6() == f.v6 }

// reg returns the register after n words of four bytes.
func reg(n uint32) uint32 { return unix.NFT_REG32_00 + n }

func u32(v uint32) []byte { return binaryutil.NativeEndian.PutUint32(v) }
func u16(v uint16) []byte { return binaryutil.BigEndian.PutUint16(v) }

// rule joins expressions.
func rule(parts ...any) []expr.Any {
	var out []expr.Any
	for _, p := range parts {
		switch p := p.(type) {
		case expr.Any:
			out = append(out, p)
		case []expr.Any:
			out = append(out, p...)
		}
	}
	return out
}

func verdict(kind expr.VerdictKind, chain string) *expr.Verdict {
	return &expr.Verdict{Kind: kind, Chain: chain}
}
func jump(chain string) *expr.Verdict { return verdict(expr.VerdictJump, chain) }
func goTo(chain string) *expr.Verdict { return verdict(expr.VerdictGoto, chain) }

var (
	accept = verdict(expr.VerdictAccept, "")
	drop   = verdict(expr.VerdictDrop, "")
	back   = verdict(expr.VerdictReturn, "")
)

func loadMark(r uint32) *expr.Meta { return &expr.Meta{Key: expr.MetaKeyMARK, Register: r} }

func value(r uint32, data []byte) *expr.Immediate { return &expr.Immediate{Register: r, Data: data} }

func masked(r, length uint32, mask, xor []byte) *expr.Bitwise {
	return &expr.Bitwise{SourceRegister: r, DestRegister: r, Len: length, Mask: mask, Xor: xor}
}

// setMark keeps the bits of the mask and sets others.
func setMark(keep, set uint32) []expr.Any {
	if keep == 0 {
		return rule(value(reg(0), u32(set)), &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg(0)})
	}
	// Result = (mark & keep without set) xor set.
	return rule(loadMark(reg(0)), masked(reg(0), 4, u32(keep&^set), u32(set)), &expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: reg(0)})
}

// marked compares bits of the mark.
func marked(op expr.CmpOp, mask, want uint32) []expr.Any {
	return rule(loadMark(reg(0)), masked(reg(0), 4, u32(mask), u32(0)), &expr.Cmp{Op: op, Register: reg(0), Data: u32(want)})
}

// opens matches the first packet of a TCP connection.
func opens() []expr.Any {
	return rule(protocolIs(unix.IPPROTO_TCP), transport(reg(0), 13, 1), masked(reg(0), 1, []byte{0x12}, []byte{0}),
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: []byte{0x02}})
}

func protocolIs(p uint32) []expr.Any {
	return rule(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(0)}, &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: []byte{byte(p)}})
}

func transport(r, offset, length uint32) *expr.Payload {
	return &expr.Payload{DestRegister: r, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: length}
}

func (f *family) addr(r, offset uint32) *expr.Payload {
	return &expr.Payload{DestRegister: r, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.length}
}

// writeAddr replaces an address of the packet and corrects the checksums.
func (f *family) writeAddr(r, offset uint32) *expr.Payload {
	return &expr.Payload{
		OperationType: expr.PayloadWrite, SourceRegister: r, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: f.length,
		CsumType: expr.CsumTypeInet, CsumOffset: 10, CsumFlags: unix.NFT_PAYLOAD_L4CSUM_PSEUDOHDR,
	}
}

func in(set string, r uint32) *expr.Lookup { return &expr.Lookup{SourceRegister: r, SetName: set} }
func notIn(set string, r uint32) *expr.Lookup {
	return &expr.Lookup{SourceRegister: r, SetName: set, Invert: true}
}

// by looks a verdict up.
func by(set string, r uint32) *expr.Lookup {
	return &expr.Lookup{SourceRegister: r, SetName: set, IsDestRegSet: true, DestRegister: unix.NFT_REG_VERDICT}
}

// at loads a number and one of the packet's addresses, as a key.
func (f *family) at(n, offset uint32) []expr.Any {
	return rule(value(reg(0), u32(n)), f.addr(reg(1), offset))
}

// within matches an address against a range.
func (f *family) within(offset uint32, p netip.Prefix) []expr.Any {
	if p.Bits() == 0 {
		return nil
	}
	mask := make([]byte, f.length)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return rule(f.addr(reg(0), offset), masked(reg(0), f.length, mask, make([]byte, f.length)),
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: p.Masked().Addr().AsSlice()})
}

// matches matches the protocol, ports and ICMP type.
func (f *family) matches(m Match) []expr.Any {
	if m.Protocol == Any {
		return nil
	}
	out := protocolIs(uint32(m.Protocol))
	switch {
	case m.Protocol == unix.IPPROTO_TCP || m.Protocol == unix.IPPROTO_UDP:
		if m.From == 0 && m.To == 65535 {
			break
		}
		out = append(out, transport(reg(0), 2, 2))
		if m.From == m.To {
			return append(out, &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: u16(m.From)})
		}
		out = append(out, &expr.Cmp{Op: expr.CmpOpGte, Register: reg(0), Data: u16(m.From)}, &expr.Cmp{Op: expr.CmpOpLte, Register: reg(0), Data: u16(m.To)})
	case m.Protocol == unix.IPPROTO_ICMP || m.Protocol == unix.IPPROTO_ICMPV6:
		if m.ICMPType != Any {
			out = append(out, transport(reg(0), 0, 1), &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: []byte{byte(m.ICMPType)}})
			if m.ICMPCode != Any {
				out = append(out, transport(reg(0), 1, 1), &expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: []byte{byte(m.ICMPCode)}})
			}
		}
	}
	return out
}

// concat returns the type of a concatenation.
func concat(types ...nftables.SetDatatype) nftables.SetDatatype {
	return nftables.MustConcatSetType(types...)
}

func newRuleset() *ruleset {
	return &ruleset{chains: map[string]*chain{}, sets: map[string]*set{}}
}

func (rs *ruleset) add(name string, r ...any) {
	c := rs.chains[name]
	if c == nil {
		c = &chain{}
		rs.chains[name] = c
	}
	if len(r) > 0 {
		c.rules = append(c.rules, rule(r...))
	}
}

func (rs *ruleset) set(name string, s nftables.Set) {
	s.Name = name
	rs.sets[name] = &set{Set: s, elements: map[string]nftables.SetElement{}}
}

func (rs *ruleset) put(name string, e nftables.SetElement) {
	key := string(e.Key) + string(e.KeyEnd) + "|" + string(e.Val)
	if e.VerdictData != nil {
		key += e.VerdictData.Chain + string(binary.BigEndian.AppendUint64(nil, uint64(e.VerdictData.Kind)))
	}
	rs.sets[name].elements[key] = e
}

// span returns a key of a number and a range of addresses.
func span(n uint32, from, to netip.Addr) nftables.SetElement {
	return nftables.SetElement{Key: append(u32(n), from.AsSlice()...), KeyEnd: append(u32(n), to.AsSlice()...)}
}

// last returns the last address of a range.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// How long a security group remembers a connection that is silent.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/security-group-connection-tracking.html#connection-tracking-timeouts
var trackTimeouts = map[uint32]time.Duration{unix.IPPROTO_TCP: time.Hour, unix.IPPROTO_UDP: 180 * time.Second, 0: 60 * time.Second}
