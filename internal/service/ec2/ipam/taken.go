package ipam

import (
	"net/netip"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// Taken returns the pages of a subnet in which some addresses and blocks are allocated, for subnets that come with
// their interfaces. Those outside of the subnet are ignored.
func Taken(sc resource.Scope, sn record.Subnet, blocks []netip.Prefix) (map[store.Key]record.AddressPage, error) {
	p, err := OfSubnet(sc, sn)
	if err != nil {
		return nil, err
	}
	out := map[store.Key]record.AddressPage{}
	for _, b := range blocks {
		if !b.Addr().Is4() || !p.prefix.Overlaps(b) {
			continue
		}
		for a := b.Masked().Addr(); b.Contains(a) && p.prefix.Contains(a); a = a.Next() {
			i := p.index(a)
			k := p.pageKey(i / record.AddressesPerPage)
			page, ok := out[k]
			if !ok {
				page.Used = make([]byte, (min(record.AddressesPerPage, p.size())+7)/8)
				out[k] = page
			}
			bit := i % record.AddressesPerPage
			page.Used[bit/8] |= 1 << (bit % 8)
		}
	}
	return out, nil
}
