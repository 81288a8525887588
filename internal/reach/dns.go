package reach

import (
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// A Resolution is the result of resolving a name.
type Resolution struct {
	Name string `json:"name"`
	// Addresses are in the order in which a client tries them. If there are none, the name does not resolve, and
	// Explanation says why.
	Addresses []netip.Addr `json:"addresses,omitempty"`
	// By says which server answered.
	By string `json:"by,omitempty"`
	// Silent reports that no server answered, so the client waits until it gives up.
	Silent bool `json:"silent,omitempty"`
	// LoadBalancer is the load balancer whose name it is, if any.
	LoadBalancer string `json:"loadBalancer,omitempty"`
	// Private reports that only this VPC gets the answer.
	Private bool `json:"private,omitempty"`
	// Outside is the name, at the end of aliases, that belongs neither to AWS nor to this network. Its address stands for one of
	// the real internet.
	Outside     string       `json:"-"`
	Explanation *Explanation `json:"explanation,omitempty"`
}

// The ranges into which public names resolve: AWS's services have addresses from one of AWS's ranges, all others have
// addresses from TEST-NET-2. A name always gets the same address.
var (
	serviceRange = netip.MustParsePrefix("99.77.128.0/17")
	worldRange   = netip.MustParsePrefix("198.51.100.0/24")
)

var (
	hostName     = regexp.MustCompile(`^([a-z0-9_*]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	addressName  = regexp.MustCompile(`^(ip|ec2)-(\d{1,3})-(\d{1,3})-(\d{1,3})-(\d{1,3})\.(.+)$`)
	instanceName = regexp.MustCompile(`^(i-[0-9a-f]{8,17})\.(.+)$`)
	storeName    = regexp.MustCompile(`(^|\.)(s3|s3-fips|dynamodb)(\.dualstack)?(\.([a-z]{2}(-[a-z]+)+-\d))?\.amazonaws\.com$`)
)

// Resolve returns what a name resolves to for a source. Amazon's DNS server of a VPC resolves private DNS names of
// endpoints and clusters and names of instances; other clients get public answers. An address resolves to itself.
func (s *Snapshot) Resolve(from Endpoint, name string) Resolution {
	return s.resolve(from, name, 0)
}

// resolve is Resolve for a name at the end of a chain of aliases. aliases is the length of the chain so far.
func (s *Snapshot) resolve(from Endpoint, name string, aliases int) Resolution {
	r := Resolution{Name: name}
	if a, err := netip.ParseAddr(name); err == nil {
		r.Addresses = []netip.Addr{a.Unmap()}
		return r
	}
	n := strings.ToLower(strings.TrimSuffix(name, "."))
	if len(n) > 253 || !hostName.MatchString(n) {
		return r.fail(KindName, n, "%q is not a host name", name)
	}
	v, zone := s.view(from)
	if v == nil {
		return s.public(r, n, from, aliases)
	}
	if len(v.Resolvers) > 0 {
		r = s.public(r, n, Endpoint{}, aliases)
		r.By = fmt.Sprintf("%s, by the DNS server %s of the DHCP options of %s", r.By, v.Resolvers[0], v.ID)
		return r
	}
	if f := s.dnsFault(from, v.ID); f != nil {
		r = r.fail(KindFault, f.ID, "Amazon's DNS server does not answer: %s", f.Text)
		r.Explanation.Code, r.Silent = CodeFault, true
		return r
	}
	if !v.DNSSupport {
		r.Silent = true
		return r.lacks(AttributeDNSSupport, v.ID, "nothing resolves there")
	}
	if done, ok := s.inside(r, n, v, zone); ok {
		return done
	}
	if z := s.zoneOf(n, v.ID); z != nil {
		if !v.DNSHostnames {
			return r.lacks(AttributeDNSHostnames, v.ID, "the private hosted zone "+z.ID+" does not answer there")
		}
		return s.answer(r, n, z, from, aliases)
	}
	return s.public(r, n, from, aliases)
}

// zoneOf returns the most specific zone that is authoritative for a name in a VPC or, if vpc is empty, on the internet.
func (s *Snapshot) zoneOf(n, vpc string) *HostedZone {
	for _, z := range s.topology.zones {
		if (n == z.Name || strings.HasSuffix(n, "."+z.Name)) && (vpc == "" && len(z.VPCs) == 0 || vpc != "" && slices.Contains(z.VPCs, vpc)) {
			return z
		}
	}
	return nil
}

// unheard returns the most specific private zone that contains a name, or nil. Clients outside its VPCs cannot resolve
// the name, except for names of AWS's services, which public DNS always has.
func (s *Snapshot) unheard(n string) *HostedZone {
	if strings.HasSuffix(n, ".amazonaws.com") || strings.HasSuffix(n, ".amazonaws.com.cn") || strings.HasSuffix(n, ".aws") {
		return nil
	}
	for _, z := range s.topology.zones {
		if len(z.VPCs) > 0 && (n == z.Name || strings.HasSuffix(n, "."+z.Name)) {
			return z
		}
	}
	return nil
}

// maxAliases is the length of the longest chain of aliases that a resolver follows.
const maxAliases = 8

// answer answers from a hosted zone. Names that a private zone does not have are not looked up in public DNS.
// https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/hosted-zone-private-considerations.html
func (s *Snapshot) answer(r Resolution, n string, z *HostedZone, from Endpoint, aliases int) Resolution {
	kind := "public"
	if len(z.VPCs) > 0 {
		kind, r.Private = "private", true
	}
	r.By = fmt.Sprintf("%s hosted zone %s (%s)", kind, z.ID, z.Name)
	if z.Unread != "" {
		return r.fail(KindName, n, "%s", z.Unread)
	}
	rec, ok := z.Records[n]
	for parent := n; !ok && parent != z.Name; {
		_, parent, _ = strings.Cut(parent, ".")
		if rec, ok = z.Records["*."+parent]; ok {
			break
		}
		if _, exists := z.Records[parent]; exists { // the closest name that exists hides wildcards above it
			break
		}
	}
	switch {
	case !ok, rec.Target == "" && len(rec.Addresses) == 0:
		return r.fail(KindName, n, "%s has no address in the %s hosted zone %s (%s)", n, kind, z.ID, z.Name)
	case rec.Target == "":
		r.Addresses = rec.Addresses
		return r
	case aliases == maxAliases:
		return r.fail(KindName, n, "%s leads to %s through more than %d aliases", n, rec.Target, maxAliases)
	}
	next := s.resolve(from, rec.Target, aliases+1)
	r.Addresses, r.Silent, r.LoadBalancer, r.Outside, r.Explanation = next.Addresses, next.Silent, next.LoadBalancer, next.Outside, next.Explanation
	r.By += ", alias of " + rec.Target
	if next.By != "" {
		r.By += ", " + next.By
	}
	return r
}

func (r Resolution) fail(kind, id, format string, args ...any) Resolution {
	r.Explanation = &Explanation{Code: CodeName, Kind: kind, Component: id, Text: fmt.Sprintf(format, args...)}
	return r
}

// lacks fails because an attribute of the VPC is off.
func (r Resolution) lacks(attribute, vpc, consequence string) Resolution {
	r = r.fail(KindVPC, vpc, "%s of %s is off: %s", attribute, vpc, consequence)
	r.Explanation.Attribute = attribute
	return r
}

// view returns the VPC and zone from which a source asks, or nil for the internet.
func (s *Snapshot) view(from Endpoint) (*vpcView, string) {
	switch r := s.Get(from.ID).(type) {
	case *Interface:
		return s.vpc(r.VPC), r.Zone
	case *Instance:
		if e := s.primaryInterface(r.ID); e != nil {
			return s.vpc(e.VPC), e.Zone
		}
	case *VPC:
		return s.vpc(r.ID), ""
	}
	return nil, ""
}

// inside returns answers that only the VPC's own DNS server has.
func (s *Snapshot) inside(r Resolution, n string, v *vpcView, zone string) (Resolution, bool) {
	if v.DNSHostnames {
		if e, _ := s.privateName(v.ID, n); e != nil {
			r.Addresses, r.By, r.Private = s.endpointAddresses(e, zone, ""), "private DNS of "+e.ID, true
			return r, true
		}
		for _, h := range s.topology.hostNames {
			if h.Name == n && h.VPC == v.ID && len(h.Private) > 0 {
				r.Addresses, r.By, r.Private = h.Private, "private hosted zone of "+h.Owner, true
				return r, true
			}
		}
	}
	if m := addressName.FindStringSubmatch(n); m != nil {
		a, err := netip.ParseAddr(strings.Join(m[2:6], "."))
		if err != nil {
			return r, false
		}
		if m[1] == "ip" && m[6] == s.internalDomain() {
			if !v.DNSHostnames {
				return r.lacks(AttributeDNSHostnames, v.ID, "names of its instances do not resolve"), true
			}
			if !inAny(v.CIDRs, a) {
				return r.fail(KindName, n, "%s is not in %s", a, v.ID), true
			}
			r.Addresses, r.By, r.Private = []netip.Addr{a}, "private name in "+v.ID, true
			return r, true
		}
		if m[1] == "ec2" && m[6] == s.publicDomain() {
			p, ok := s.publics.get(a)
			e, _ := get[*Interface](s, p.eni)
			if !ok || e == nil || !s.seesPrivate(v, e.VPC) {
				return r, false
			}
			r.Addresses, r.By, r.Private = []netip.Addr{p.private}, "public name of "+e.ID+", as seen in its VPC", true
			if e.VPC != v.ID {
				r.By = "public name of " + e.ID + ", as seen through the peering connection"
				if s.transitNames(v.ID, e.VPC) {
					r.By = "public name of " + e.ID + ", as seen through the transit gateway"
				}
			}
			return r, true
		}
	}
	if m := instanceName.FindStringSubmatch(n); m != nil && m[2] == s.internalDomain() {
		i, _ := get[*Instance](s, m[1])
		e := s.primaryInterface(m[1])
		if i == nil || e == nil || e.VPC != v.ID || !v.DNSHostnames || !i.ResourceName {
			return r.fail(KindName, n, "%s does not name an instance of %s that has resource names", n, v.ID), true
		}
		a, ok := e.primary(false)
		if !ok {
			a, _ = e.primary(true)
		}
		r.Addresses, r.By, r.Private = []netip.Addr{a.Private}, "private name in "+v.ID, true
		return r, true
	}
	return r, false
}

// seesPrivate reports whether public names of a VPC's instances resolve to private
// addresses from v.
// https://docs.aws.amazon.com/vpc/latest/peering/modify-peering-connections.html#vpc-peering-dns
func (s *Snapshot) seesPrivate(v *vpcView, owner string) bool {
	o := s.vpc(owner)
	if o == nil || !o.DNSHostnames {
		return false
	}
	if owner == v.ID {
		return true
	}
	for _, p := range v.peerings {
		if _, there := p.sides(v.ID); there.VPC == owner && p.State == "active" && there.ResolveRemote {
			return true
		}
	}
	return s.transitNames(v.ID, owner)
}

// privateName returns the interface endpoint that answers for a name in a VPC, and which of its names matched. The
// most specific one wins.
func (s *Snapshot) privateName(vpc, n string) (*VPCEndpoint, string) {
	var found *VPCEndpoint
	pattern := ""
	for _, e := range s.topology.endpoints {
		if e.VPC != vpc || e.Type == GatewayEndpoint || e.State != "" && e.State != "available" {
			continue
		}
		for _, p := range e.PrivateNames {
			if len(p) > len(pattern) && matchName(p, n) {
				found, pattern = e, p
			}
		}
	}
	return found, pattern
}

// matchName reports whether a pattern matches a name. A leading * stands for one or more labels, as in DNS.
func matchName(pattern, n string) bool {
	if rest, ok := strings.CutPrefix(pattern, "*"); ok {
		return len(n) > len(rest) && strings.HasSuffix(n, rest)
	}
	return pattern == n
}

// endpointAddresses returns the addresses of an endpoint's interfaces, those in the client's zone first. only, if
// set, restricts them to one zone.
func (s *Snapshot) endpointAddresses(v *VPCEndpoint, zone, only string) []netip.Addr {
	var near, far []netip.Addr
	for _, id := range v.Interfaces {
		e, ok := get[*Interface](s, id)
		if !ok || only != "" && e.Zone != only {
			continue
		}
		a, ok := e.primary(false)
		if !ok {
			if a, ok = e.primary(true); !ok {
				continue
			}
		}
		if e.Zone == zone {
			near = append(near, a.Private)
		} else {
			far = append(far, a.Private)
		}
	}
	slices.SortFunc(far, netip.Addr.Compare)
	return append(near, far...)
}

// public answers like the internet's DNS. The targets of aliases are resolved as for from.
func (s *Snapshot) public(r Resolution, n string, from Endpoint, aliases int) Resolution {
	if z := s.zoneOf(n, ""); z != nil {
		return s.answer(r, n, z, from, aliases)
	}
	r.By = "public DNS"
	for _, h := range s.topology.hostNames {
		if h.Name != n {
			continue
		}
		if len(h.Public) > 0 {
			r.Addresses = h.Public
		} else {
			r.Addresses = h.Private
		}
		if len(r.Addresses) == 0 {
			return r.fail(KindName, n, "%s has no address yet", n)
		}
		return r
	}
	if lb, addresses := s.balancerAddresses(n); lb != nil {
		r.Addresses, r.By, r.LoadBalancer = addresses, "public DNS, name of "+lb.Name, lb.Name
		if len(addresses) == 0 {
			return r.fail(KindName, n, "%s has no address yet", n)
		}
		return r
	}
	for _, e := range s.topology.endpoints {
		i := slices.Index(e.Names, n)
		if i < 0 {
			continue
		}
		zone := ""
		for _, id := range e.Interfaces {
			if eni, ok := get[*Interface](s, id); ok && strings.Contains(n, "-"+eni.Zone+".") {
				zone = eni.Zone
			}
		}
		r.Addresses, r.By = s.endpointAddresses(e, "", zone), "public DNS, name of "+e.ID
		return r
	}
	if m := addressName.FindStringSubmatch(n); m != nil && m[1] == "ec2" && m[6] == s.publicDomain() {
		a, err := netip.ParseAddr(strings.Join(m[2:6], "."))
		if err != nil {
			return r.fail(KindName, n, "%s does not exist", n)
		}
		p, ok := s.publics.get(a)
		e, _ := get[*Interface](s, p.eni)
		if !ok || e == nil {
			return r.fail(KindName, n, "no interface has the address %s", a)
		}
		if v := s.vpc(e.VPC); v == nil || !v.DNSHostnames {
			return r.lacks(AttributeDNSHostnames, e.VPC, "its instances have no public names")
		}
		r.Addresses = []netip.Addr{a}
		return r
	}
	if z := s.unheard(n); z != nil {
		return r.fail(KindName, n, "%s does not exist in public DNS, and the private hosted zone %s (%s) answers only in %s", n, z.ID, z.Name, strings.Join(z.VPCs, ", "))
	}
	if strings.HasSuffix(n, ".internal") || strings.HasSuffix(n, ".invalid") || strings.HasSuffix(n, ".local") {
		return r.fail(KindName, n, "%s does not exist in public DNS", n)
	}
	if m := storeName.FindStringSubmatch(n); m != nil && (m[5] == "" && s.region == "us-east-1" || m[5] == s.region) {
		service := strings.TrimSuffix(m[2], "-fips")
		if pl := s.prefixList("com.amazonaws." + s.region + "." + service); pl != nil {
			for _, c := range pl.CIDRs {
				if c.Addr().Is4() {
					r.Addresses = []netip.Addr{stable(c, n)}
					return r
				}
			}
		}
	}
	if strings.HasSuffix(n, ".amazonaws.com") || strings.HasSuffix(n, ".amazonaws.com.cn") || strings.HasSuffix(n, ".aws") {
		r.Addresses = []netip.Addr{stable(serviceRange, n)}
		return r
	}
	r.Addresses, r.Outside = []netip.Addr{stable(worldRange, n)}, n
	return r
}

// Owned returns the IPv4 addresses that belong to AWS or to this network, public ones and those of VPCs and their peers, and those that
// names outside resolve to here.
func (s *Snapshot) Owned() []netip.Prefix {
	out := []netip.Prefix{serviceRange, worldRange}
	add := func(a netip.Addr) {
		if a.Is4() && !a.IsPrivate() {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	for r := range s.All {
		switch r := r.(type) {
		case *PrefixList:
			if strings.HasPrefix(r.Name, "com.amazonaws.") {
				out = append(out, r.CIDRs...)
			}
		case *VPC:
			out = append(out, r.CIDRs...)
		case *Peering:
			out = append(out, slices.Concat(r.Requester.CIDRs, r.Accepter.CIDRs)...)
		case *Interface:
			for _, a := range r.Addresses {
				add(a.Public)
			}
		}
	}
	for _, h := range s.topology.hostNames {
		for _, a := range h.Public {
			add(a)
		}
	}
	out = slices.DeleteFunc(out, func(p netip.Prefix) bool { return !p.Addr().Is4() })
	slices.SortFunc(out, func(a, b netip.Prefix) int { return cmp.Or(a.Addr().Compare(b.Addr()), a.Bits()-b.Bits()) })
	return slices.Compact(out)
}

func (s *Snapshot) prefixList(name string) *PrefixList {
	for _, r := range s.resources.all {
		if pl, ok := r.(*PrefixList); ok && pl.Name == name {
			return pl
		}
	}
	return nil
}

// stable picks an address of an IPv4 range for a name, never the first or last.
func stable(p netip.Prefix, n string) netip.Addr {
	size := uint32(1) << (32 - p.Bits())
	offset := fnv(n)
	if size > 2 {
		offset = 1 + offset%(size-2)
	} else {
		offset %= size
	}
	b := p.Masked().Addr().As4()
	base := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	base += offset
	return netip.AddrFrom4([4]byte{byte(base >> 24), byte(base >> 16), byte(base >> 8), byte(base)})
}

// hostNameAt returns the host name that has a public address, or nil.
func (s *Snapshot) hostNameAt(a netip.Addr) *HostName {
	for _, h := range s.topology.hostNames {
		if slices.Contains(h.Public, a) {
			return h
		}
	}
	return nil
}

// StableAddress returns the address of one of AWS's public names. Use it for names that resolve by a HostName.
func StableAddress(name string) netip.Addr { return stable(serviceRange, name) }

func (s *Snapshot) internalDomain() string {
	if s.region == "us-east-1" {
		return "ec2.internal"
	}
	return s.region + ".compute.internal"
}

func (s *Snapshot) publicDomain() string {
	if s.region == "us-east-1" {
		return "compute-1.amazonaws.com"
	}
	return s.region + ".compute.amazonaws.com"
}

// CheckName resolves a name as the source of f would and decides the flow to the first of its addresses that can be
// reached or, if none can, to its first address.
func (s *Snapshot) CheckName(f Flow, name string) *Verdict {
	r := s.Resolve(f.From, name)
	if len(r.Addresses) == 0 {
		v := &Verdict{Flow: f, Forward: []Hop{}, Resolution: &r}
		x := Explanation{Code: CodeName, Kind: KindName, Component: name, Text: name + " has no address"}
		if r.Explanation != nil {
			x = *r.Explanation
		}
		v.Explanations = []Explanation{x}
		return v
	}
	var first *Verdict
	for _, a := range r.Addresses {
		f.To = Addr(a)
		v := s.check(f, nil, &r)
		if v.Reachable {
			return v
		}
		if first == nil {
			first = v
		}
	}
	return first
}
