package fabric

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NAT gateways are devices in a namespace of their own, where the kernel tracks connections, in one zone for each
// device.

// helper is the table in the fabric's own namespaces.
var helper = &nftables.Table{Name: "drydock", Family: nftables.TableFamilyIPv4}

// rewrite replaces that table.
func (ns *namespace) rewrite(fill func(*nftables.Conn)) error {
	conn, err := nftables.New(nftables.WithNetNSFd(ns.fd))
	if err != nil {
		return err
	}
	conn.AddTable(helper)
	conn.DelTable(helper)
	conn.AddTable(helper)
	fill(conn)
	return conn.Flush()
}

func base(conn *nftables.Conn, name string, kind nftables.ChainType, hook *nftables.ChainHook, priority *nftables.ChainPriority) func(...any) {
	c := conn.AddChain(&nftables.Chain{Name: name, Table: helper, Type: kind, Hooknum: hook, Priority: priority})
	return func(parts ...any) { conn.AddRule(&nftables.Rule{Table: helper, Chain: c, Exprs: rule(parts...)}) }
}

func device(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return rule(&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded})
}

func (f *Fabric) applyNAT() error {
	type gateway struct {
		device string
		n      uint32
		own    netip.Addr
	}
	var all []gateway
	for _, e := range f.state.Interfaces {
		l := f.links[e.ID]
		own, ok := e.primary(false)
		if !e.NAT || l == nil || !ok {
			continue
		}
		all = append(all, gateway{l.peer, f.number(e.ID), own})
		r := netlink.NewRule()
		r.Family, r.IifName, r.Table, r.Priority = netlink.FAMILY_V4, l.peer, tableBase+int(f.number(e.ID)), 10
		if err := f.nat.nl.RuleAdd(r); err != nil && !isExist(err) {
			return fmt.Errorf("add routing rule: %w", err)
		}
	}
	v4 := families[0]
	err := f.nat.rewrite(func(conn *nftables.Conn) {
		zone := base(conn, "zone", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
		forward := base(conn, "forward", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter)
		translate := base(conn, "translate", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
		for _, g := range all {
			zone(device(expr.MetaKeyIIFNAME, g.device), value(1, zoneBytes(g.n)), &expr.Ct{Key: expr.CtKeyZONE, SourceRegister: true, Register: 1})
			// Nothing may come that belongs to no connection.
			forward(device(expr.MetaKeyIIFNAME, g.device), v4.addr(1, v4.dst), &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: g.own.AsSlice()}, drop)
			translate(device(expr.MetaKeyOIFNAME, g.device), value(1, g.own.AsSlice()), &expr.NAT{Type: expr.NATTypeSourceNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1})
		}
		forward(&expr.Ct{Key: expr.CtKeySTATE, Register: 1}, masked(1, 4, u32(expr.CtStateBitINVALID), u32(0)),
			&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: u32(0)}, drop)
	})
	if err != nil {
		return fmt.Errorf("translate for NAT gateways: %w", err)
	}
	return nil
}

// applyEndpoints lets replies from the outside return to the gateway endpoint that their connection came through.
func (f *Fabric) applyEndpoints(endpoints map[string]bool) error {
	ids := slices.Sorted(maps.Keys(endpoints))
	for _, id := range ids {
		r := netlink.NewRule()
		n := f.number(id)
		r.Family, r.Mark, r.Table, r.Priority = netlink.FAMILY_V4, n, tableBase+int(n), 20
		if err := f.outside.nl.RuleAdd(r); err != nil && !isExist(err) {
			return fmt.Errorf("add routing rule: %w", err)
		}
	}
	err := f.outside.rewrite(func(conn *nftables.Conn) {
		mark := base(conn, "mark", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
		for _, id := range ids {
			mark(device(expr.MetaKeyIIFNAME, f.links[id].peer), setMark(0, f.number(id)))
		}
	})
	if err != nil {
		return fmt.Errorf("mark packets of gateway endpoints: %w", err)
	}
	return nil
}

func zoneBytes(n uint32) []byte { return binaryutil.NativeEndian.PutUint16(uint16(n)) }

func isExist(err error) bool { return errors.Is(err, unix.EEXIST) }
