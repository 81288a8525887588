package fabric

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/nftables"
)

// A Drop is a packet that the fabric dropped.
type Drop struct {
	Reason      Reason         `json:"reason"`
	Interface   string         `json:"interface,omitempty"` // that it came from
	Protocol    int            `json:"protocol"`
	Source      netip.AddrPort `json:"source"` // the port is the identifier of ICMP echoes
	Destination netip.AddrPort `json:"destination"`
}

// Drops returns the different packets dropped in the last minute, in no particular order. There are at most 4096 for
// each family.
func (f *Fabric) Drops() ([]Drop, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, net.ErrClosed
	}
	names := map[uint32]string{}
	for id, n := range f.numbers {
		names[n] = id
	}
	var out []Drop
	for _, fam := range families {
		if f.nft.current[fam] == nil {
			continue
		}
		elements, err := f.nft.conn.GetSetElements(&nftables.Set{Table: fam.table, Name: "dropped"})
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			k, n := e.Key, int(fam.length)
			if len(k) < 20+2*n {
				continue
			}
			src, _ := netip.AddrFromSlice(k[12 : 12+n])
			dst, _ := netip.AddrFromSlice(k[12+n : 12+2*n])
			d := Drop{Interface: names[binary.NativeEndian.Uint32(k[4:])], Protocol: int(k[8])}
			if i := int(binary.NativeEndian.Uint32(k)); i < len(reasons) {
				d.Reason = reasons[i]
			}
			d.Source = netip.AddrPortFrom(src, binary.BigEndian.Uint16(k[12+2*n:]))
			d.Destination = netip.AddrPortFrom(dst, binary.BigEndian.Uint16(k[16+2*n:]))
			out = append(out, d)
		}
	}
	return out, nil
}
