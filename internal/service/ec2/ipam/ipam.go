package ipam

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// reservedAddresses are the addresses that AWS reserves in every subnet: network, VPC router, DNS,
// one for future use, and broadcast.
// https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
const reservedAddresses = 5

// A Pool is a range of addresses with its pages.
type Pool struct {
	id     string // subnet ID, or the name of a public pool
	key    func(id string) store.Key
	prefix netip.Prefix
	// number of reserved addresses at the start and at the end
	first, last int
}

// OfSubnet returns the IPv4 addresses of a subnet. That of an IPv6-only subnet is empty.
func OfSubnet(sc resource.Scope, sn record.Subnet) (Pool, error) {
	if sn.IPv6Only() {
		return Pool{id: sn.ID, key: sc.Key}, nil
	}
	p, err := netip.ParsePrefix(sn.CIDR)
	if err != nil {
		return Pool{}, fmt.Errorf("subnet %s: %w", sn.ID, err)
	}
	return Pool{id: sn.ID, key: sc.Key, prefix: p, first: 4, last: 1}, nil
}

// Of is OfSubnet by the subnet's ID.
func Of(r store.Reader, sc resource.Scope, subnetID string) (Pool, error) {
	sn, err := resource.Get(r, record.Subnets, sc, subnetID)
	if err != nil {
		return Pool{}, err
	}
	return OfSubnet(sc, sn)
}

// Public is the region's range of public addresses.
func Public(region string) Pool {
	n := 0
	for i, r := range regions.All() {
		if r.Name == region {
			n = i
		}
	}
	base := netip.AddrFrom4([4]byte{54, byte(4 * n), 0, 0})
	key := func(id string) store.Key { return store.Key{Account: resource.PublicAccount, Region: region, ID: id} }
	return Pool{id: "public", key: key, prefix: netip.PrefixFrom(base, 14), first: 1, last: 1}
}

// PublicRanges returns the regions' ranges of public IPv4 addresses.
func PublicRanges() []netip.Prefix {
	var out []netip.Prefix
	for _, r := range regions.All() {
		out = append(out, Public(r.Name).prefix)
	}
	return out
}

// RegionOf returns the region whose range of public addresses has an address, or "".
func RegionOf(a netip.Addr) string {
	for _, r := range regions.All() {
		if Public(r.Name).prefix.Contains(a) || amazonPool6(r.Name).Contains(a) {
			return r.Name
		}
	}
	return ""
}

func (p Pool) size() int {
	if !p.prefix.IsValid() {
		return 0
	}
	return 1 << (32 - p.prefix.Bits())
}

func (p Pool) pages() int { return (p.size() + record.AddressesPerPage - 1) / record.AddressesPerPage }

func (p Pool) pageKey(page int) store.Key { return p.key(fmt.Sprintf("%s/%05d", p.id, page)) }

func (p Pool) addr(i int) netip.Addr {
	b := p.prefix.Masked().Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(i))
	return netip.AddrFrom4(b)
}

func (p Pool) index(a netip.Addr) int {
	b, base := a.As4(), p.prefix.Masked().Addr().As4()
	return int(binary.BigEndian.Uint32(b[:]) - binary.BigEndian.Uint32(base[:]))
}

// usable reports whether index i is inside the range and not reserved.
func (p Pool) usable(i int) bool { return i >= p.first && i < p.size()-p.last }

func (p Pool) load(r store.Reader, page int) (record.AddressPage, error) {
	rec, err := record.AddressPages.Get(r, p.pageKey(page))
	n := min(record.AddressesPerPage, p.size())
	if resource.NotFound(err) {
		return record.AddressPage{Used: make([]byte, (n+7)/8)}, nil
	}
	if err != nil {
		return rec, err
	}
	rec.Used = append([]byte(nil), rec.Used...) // stored values are shared, so copy before writing
	return rec, nil
}

// Take allocates n addresses, or returns ec2err.NoFreeAddresses. hint determines the page where the
// search starts.
func (p Pool) Take(tx *store.Tx, n int, hint string) ([]netip.Addr, error) {
	out, err := p.takeUpTo(tx, n, hint)
	if err == nil && len(out) < n {
		err = ec2err.NoFreeAddresses(p.id)
	}
	return out, err
}

// takeUpTo allocates n addresses, or fewer if there are not enough.
func (p Pool) takeUpTo(tx *store.Tx, n int, hint string) ([]netip.Addr, error) {
	var out []netip.Addr
	count := p.pages()
	if count == 0 {
		return nil, nil
	}
	h := fnv.New32a()
	h.Write([]byte(hint))
	start := int(h.Sum32() % uint32(count))
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
		if err := record.AddressPages.Put(tx, p.pageKey(page), rec); err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// fill takes up to n free addresses from a page.
func (p Pool) fill(rec *record.AddressPage, page, n int) []netip.Addr {
	size := len(rec.Used) * 8
	var out []netip.Addr
	for k := 0; k < size && len(out) < n; k++ {
		bit := (rec.Next + k) % size
		if rec.Used[bit/8]&(1<<(bit%8)) != 0 || !p.usable(page*record.AddressesPerPage+bit) {
			continue
		}
		rec.Used[bit/8] |= 1 << (bit % 8)
		out = append(out, p.addr(page*record.AddressesPerPage+bit))
	}
	if len(out) > 0 {
		rec.Next = (p.index(out[len(out)-1])%record.AddressesPerPage + 1) % size
	}
	return out
}

// Claim allocates a specific address.
func (p Pool) Claim(tx *store.Tx, a netip.Addr) error {
	if !p.prefix.Contains(a) || !p.usable(p.index(a)) {
		return ec2err.AddressNotInSubnet(a.String())
	}
	i := p.index(a)
	rec, err := p.load(tx, i/record.AddressesPerPage)
	if err != nil {
		return err
	}
	bit := i % record.AddressesPerPage
	if rec.Used[bit/8]&(1<<(bit%8)) != 0 {
		return ec2err.AddressInUse(a.String())
	}
	rec.Used[bit/8] |= 1 << (bit % 8)
	return record.AddressPages.Put(tx, p.pageKey(i/record.AddressesPerPage), rec)
}

// Release frees addresses. It ignores those that are not allocated or not in the pool.
func (p Pool) Release(tx *store.Tx, addrs ...netip.Addr) error {
	byPage := map[int][]int{}
	for _, a := range addrs {
		if a.Is4() && p.prefix.Contains(a) {
			i := p.index(a)
			byPage[i/record.AddressesPerPage] = append(byPage[i/record.AddressesPerPage], i%record.AddressesPerPage)
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
		if err := record.AddressPages.Put(tx, p.pageKey(page), rec); err != nil {
			return err
		}
	}
	return nil
}

// Used counts the allocated addresses.
func (p Pool) Used(r store.Reader) int {
	k := p.key(p.id + "/")
	n := 0
	for _, it := range record.AddressPages.All(r, store.Scope{Account: k.Account, Region: k.Region, Prefix: k.ID}) {
		n += it.Value.Count()
	}
	return n
}

// Free counts the addresses that can still be taken.
func (p Pool) Free(r store.Reader) (int, error) {
	return p.size() - p.first - p.last - p.Used(r), nil
}

// Drop deletes the pool's pages.
func (p Pool) Drop(tx *store.Tx) {
	for page := range p.pages() {
		if _, err := record.AddressPages.Get(tx, p.pageKey(page)); err == nil {
			record.AddressPages.Delete(tx, p.pageKey(page))
		}
	}
}

// prefixBits is the length of the IPv4 prefixes delegated to interfaces.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-prefix-eni.html
const prefixBits = 28

// TakePrefixes allocates the given prefixes and n free ones.
func (p Pool) TakePrefixes(tx *store.Tx, given []string, n int) ([]string, error) {
	var out []string
	for _, g := range given {
		q, ok := resource.ParseCIDR(g)
		if !ok || q.Bits() != prefixBits || q.String() != g {
			return nil, ec2err.InvalidParameterValue("invalid value for parameter prefix: %s", g) // [seen] moto, for other parameters
		}
		if !resource.Within(p.prefix, q) || !p.usable(p.index(q.Addr())) || !p.usable(p.index(q.Addr())+15) {
			return nil, ec2err.AddressNotInSubnet(g)
		}
		taken, err := p.takeBlock(tx, p.index(q.Addr()))
		if err != nil {
			return nil, err
		}
		if !taken {
			return nil, ec2err.AddressInUse(g)
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
		return nil, ec2err.NoFreePrefixes(p.id)
	}
	return out, nil
}

// takeBlock takes the 16 addresses that start at an index, a multiple of 16, if all of them are
// free.
func (p Pool) takeBlock(tx *store.Tx, i int) (bool, error) {
	rec, err := p.load(tx, i/record.AddressesPerPage)
	if err != nil {
		return false, err
	}
	b := i % record.AddressesPerPage / 8
	if rec.Used[b] != 0 || rec.Used[b+1] != 0 {
		return false, nil
	}
	rec.Used[b], rec.Used[b+1] = 0xff, 0xff
	return true, record.AddressPages.Put(tx, p.pageKey(i/record.AddressesPerPage), rec)
}

// ReleasePrefixes frees delegated prefixes.
func (p Pool) ReleasePrefixes(tx *store.Tx, prefixes []string) error {
	for _, s := range prefixes {
		q, ok := resource.ParseCIDR(s)
		if !ok {
			continue
		}
		var addrs []netip.Addr
		for i := range 16 {
			addrs = append(addrs, p.addr(p.index(q.Addr())+i))
		}
		if err := p.Release(tx, addrs...); err != nil {
			return err
		}
	}
	return nil
}
