package ec2

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/bits"
	"net/netip"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/store"
)

// Addresses are accounted for in pages of up to 1,024: one small record holds
// the bitmap of a page, so an allocation reads and writes a record or two, and
// parallel launches into a big subnet seldom meet. Pages appear when first
// written to.

const pageSize = 1024

// reservedAddresses are the network address, the VPC router, DNS, one for future
// use, and the broadcast address of every subnet.
// https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
const reservedAddresses = 5

// An addressPage is the allocation state of consecutive addresses.
type addressPage struct {
	Used []byte // bitmap, little-endian bits
	// Next is where the search for a free address starts. It moves on with every
	// allocation, so that a freed address rests before it is handed out again: node
	// names are made of addresses.
	Next int
}

// An addressPool is a range of addresses with its pages.
type addressPool struct {
	id     string // subnet ID, or a public pool's name
	key    func(id string) store.Key
	prefix netip.Prefix
	// reserved addresses at the start and the end.
	first, last int
}

func (sc scope) subnetPool(sn subnetRecord) (addressPool, error) {
	p, err := netip.ParsePrefix(sn.CIDR)
	if err != nil {
		return addressPool{}, fmt.Errorf("subnet %s: %w", sn.ID, err)
	}
	return addressPool{id: sn.ID, key: sc.key, prefix: p, first: 4, last: 1}, nil
}

// publicAccount keys the pools of public addresses, which all accounts share.
const publicAccount = "amazon"

// publicPool is the region's range of public addresses.
func publicPool(region string) addressPool {
	n := 0
	for i, r := range regions.All() {
		if r.Name == region {
			n = i
		}
	}
	base := netip.AddrFrom4([4]byte{54, byte(4 * n), 0, 0})
	key := func(id string) store.Key { return store.Key{Account: publicAccount, Region: region, ID: id} }
	return addressPool{id: "public", key: key, prefix: netip.PrefixFrom(base, 14), first: 1, last: 1}
}

func (p addressPool) size() int  { return 1 << (32 - p.prefix.Bits()) }
func (p addressPool) pages() int { return (p.size() + pageSize - 1) / pageSize }

func (p addressPool) pageKey(page int) store.Key { return p.key(fmt.Sprintf("%s/%05d", p.id, page)) }

func (p addressPool) addr(i int) netip.Addr {
	b := p.prefix.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(i))
	return netip.AddrFrom4(b)
}

func (p addressPool) index(a netip.Addr) int {
	b, base := a.As4(), p.prefix.Masked().Addr().As4()
	return int(binary.BigEndian.Uint32(b[:]) - binary.BigEndian.Uint32(base[:]))
}

// usable reports whether index i is neither outside nor reserved.
func (p addressPool) usable(i int) bool { return i >= p.first && i < p.size()-p.last }

func (p addressPool) load(r store.Reader, page int) (addressPage, error) {
	rec, err := addressPages.Get(r, p.pageKey(page))
	n := min(pageSize, p.size())
	if notFound(err) {
		return addressPage{Used: make([]byte, (n+7)/8)}, nil
	}
	if err != nil {
		return rec, err
	}
	rec.Used = append([]byte(nil), rec.Used...) // what is read is shared
	return rec, nil
}

// take allocates n addresses. Which page the search starts with depends on hint;
// a pool with fewer gives errNoFreeAddresses.
func (p addressPool) take(tx *store.Tx, n int, hint string) ([]netip.Addr, error) {
	out, err := p.takeUpTo(tx, n, hint)
	if err == nil && len(out) < n {
		err = errNoFreeAddresses(p.id)
	}
	return out, err
}

// takeUpTo allocates n addresses, or as many as there are.
func (p addressPool) takeUpTo(tx *store.Tx, n int, hint string) ([]netip.Addr, error) {
	var out []netip.Addr
	h := fnv.New32a()
	h.Write([]byte(hint))
	start, count := int(h.Sum32()%uint32(p.pages())), p.pages()
	for k := 0; k < count && len(out) < n; k++ {
		page := (start + k) % count
		rec, err := p.load(tx, page)
		if err != nil {
			return nil, err
		}
		got := p.fill(&rec, page, n-len(out))
		if len(got) == 0 {
			continue
		}
		if err := addressPages.Put(tx, p.pageKey(page), rec); err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// fill takes up to n free addresses of a page.
func (p addressPool) fill(rec *addressPage, page, n int) []netip.Addr {
	size := len(rec.Used) * 8
	var out []netip.Addr
	for k := 0; k < size && len(out) < n; k++ {
		bit := (rec.Next + k) % size
		if rec.Used[bit/8]&(1<<(bit%8)) != 0 || !p.usable(page*pageSize+bit) {
			continue
		}
		rec.Used[bit/8] |= 1 << (bit % 8)
		out = append(out, p.addr(page*pageSize+bit))
	}
	if len(out) > 0 {
		rec.Next = (p.index(out[len(out)-1])%pageSize + 1) % size
	}
	return out
}

// claim allocates one given address.
func (p addressPool) claim(tx *store.Tx, a netip.Addr) error {
	if !p.prefix.Contains(a) || !p.usable(p.index(a)) {
		return errAddressNotInSubnet(a.String())
	}
	i := p.index(a)
	rec, err := p.load(tx, i/pageSize)
	if err != nil {
		return err
	}
	bit := i % pageSize
	if rec.Used[bit/8]&(1<<(bit%8)) != 0 {
		return errAddressInUse(a.String())
	}
	rec.Used[bit/8] |= 1 << (bit % 8)
	return addressPages.Put(tx, p.pageKey(i/pageSize), rec)
}

// release frees addresses; those that are not allocated, or not of the pool, are
// passed over.
func (p addressPool) release(tx *store.Tx, addrs ...netip.Addr) error {
	byPage := map[int][]int{}
	for _, a := range addrs {
		if a.Is4() && p.prefix.Contains(a) {
			i := p.index(a)
			byPage[i/pageSize] = append(byPage[i/pageSize], i%pageSize)
		}
	}
	for page, bitsOf := range byPage {
		rec, err := p.load(tx, page)
		if err != nil {
			return err
		}
		for _, bit := range bitsOf {
			rec.Used[bit/8] &^= 1 << (bit % 8)
		}
		if err := addressPages.Put(tx, p.pageKey(page), rec); err != nil {
			return err
		}
	}
	return nil
}

// used counts the allocated addresses.
func (p addressPool) used(r store.Reader) (int, error) {
	k := p.key(p.id + "/")
	items, err := addressPages.List(r, store.Scope{Account: k.Account, Region: k.Region, Prefix: k.ID})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, it := range items {
		n += it.Value.count()
	}
	return n, nil
}

// free counts the addresses that can still be taken.
func (p addressPool) free(r store.Reader) (int, error) {
	used, err := p.used(r)
	return p.size() - p.first - p.last - used, err
}

// drop removes the pool's pages.
func (p addressPool) drop(tx *store.Tx) {
	for page := range p.pages() {
		if _, err := addressPages.Get(tx, p.pageKey(page)); err == nil {
			addressPages.Delete(tx, p.pageKey(page))
		}
	}
}

func (a addressPage) count() int {
	n := 0
	for _, b := range a.Used {
		n += bits.OnesCount8(b)
	}
	return n
}

// prefixBits is the size of the IPv4 prefixes delegated to interfaces.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-prefix-eni.html
const prefixBits = 28

// takePrefixes takes the given prefixes and n free ones.
func (p addressPool) takePrefixes(tx *store.Tx, given []string, n int) ([]string, error) {
	var out []string
	for _, g := range given {
		q, ok := parseCIDR(g)
		if !ok || q.Bits() != prefixBits || q.String() != g {
			return nil, errInvalidParameter("invalid value for parameter prefix: %s", g) // [seen] moto, for other parameters
		}
		if !within(p.prefix, q) || !p.usable(p.index(q.Addr())) || !p.usable(p.index(q.Addr())+15) {
			return nil, errAddressNotInSubnet(g)
		}
		taken, err := p.takeBlock(tx, p.index(q.Addr()))
		if err != nil {
			return nil, err
		}
		if !taken {
			return nil, errAddressInUse(g)
		}
		out = append(out, g)
	}
	for i := 0; n > 0 && i < p.size(); i += 16 {
		if !p.usable(i) || !p.usable(i+15) {
			continue
		}
		taken, err := p.takeBlock(tx, i)
		if err != nil {
			return nil, err
		}
		if taken {
			out = append(out, netip.PrefixFrom(p.addr(i), prefixBits).String())
			n--
		}
	}
	if n > 0 {
		return nil, errNoFreePrefixes(p.id)
	}
	return out, nil
}

// takeBlock takes the 16 addresses from an index on, which is a multiple of 16,
// if all are free.
func (p addressPool) takeBlock(tx *store.Tx, i int) (bool, error) {
	rec, err := p.load(tx, i/pageSize)
	if err != nil {
		return false, err
	}
	b := i % pageSize / 8
	if rec.Used[b] != 0 || rec.Used[b+1] != 0 {
		return false, nil
	}
	rec.Used[b], rec.Used[b+1] = 0xff, 0xff
	return true, addressPages.Put(tx, p.pageKey(i/pageSize), rec)
}

// releasePrefixes frees delegated prefixes.
func (p addressPool) releasePrefixes(tx *store.Tx, prefixes []string) error {
	for _, s := range prefixes {
		q, ok := parseCIDR(s)
		if !ok {
			continue
		}
		var addrs []netip.Addr
		for i := range 16 {
			addrs = append(addrs, p.addr(p.index(q.Addr())+i))
		}
		if err := p.release(tx, addrs...); err != nil {
			return err
		}
	}
	return nil
}
