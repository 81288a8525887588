package reach

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// fixes returns AWS CLI commands, one for each explanation that a command can
// remove. What only the user can name stands in capitals.
func (s *Snapshot) fixes(v *Verdict) []string {
	var out []string
	seen := map[string]bool{}
	for i := range v.Explanations {
		if c := s.fix(v, &v.Explanations[i]); c != "" && !seen[c] {
			seen[c] = true
			out = append(out, c)
		}
	}
	return out
}

func (s *Snapshot) fix(v *Verdict, x *Explanation) string {
	switch x.Code {
	case CodeGroupMismatch, CodeGroupNoRules, CodeGroupReferences:
		if len(x.Groups) == 0 {
			return ""
		}
		verb := "authorize-security-group-ingress"
		if x.Direction == Egress {
			verb = "authorize-security-group-egress"
		}
		return fmt.Sprintf("aws ec2 %s --group-id %s --ip-permissions '%s'", verb, x.Groups[0], permission(v, x))
	case CodeFault:
		if f, ok := get[*Fault](s, x.Component); ok {
			return f.Fix
		}
		return ""
	case CodeACL:
		return s.fixACL(v, x)
	case CodeNoRoute:
		return s.fixRoute(v, x)
	case CodeBadStateRoute:
		if x.Route == nil {
			return ""
		}
		return fmt.Sprintf("aws ec2 replace-route --route-table-id %s %s %s", x.Component, routeDestination(*x.Route), s.target(x, v))
	case CodePublicForEgress, CodePrivateForIngress:
		if x.Interface == "" || x.Address.Is6() {
			return ""
		}
		return fmt.Sprintf("aws ec2 associate-address --allocation-id $(aws ec2 allocate-address --domain vpc --query AllocationId --output text) --network-interface-id %s", x.Interface)
	case CodeSourceDestCheck:
		return fmt.Sprintf("aws ec2 modify-network-interface-attribute --network-interface-id %s --no-source-dest-check", x.Interface)
	case CodeNoDestination:
		if x.Missing == KindInternetGateway {
			return fmt.Sprintf("aws ec2 attach-internet-gateway --internet-gateway-id $(aws ec2 create-internet-gateway --query InternetGateway.InternetGatewayId --output text) --vpc-id %s", x.VPC)
		}
		if x.Kind == KindVPC && strings.HasPrefix(x.Text, "enableDnsSupport") {
			return fmt.Sprintf("aws ec2 modify-vpc-attribute --vpc-id %s --enable-dns-support", x.Component)
		}
		if name, ok := strings.CutPrefix(afterLast(x.Component, ":"), "cluster/"); ok && x.Kind == KindName {
			return fmt.Sprintf("aws eks update-cluster-config --name %s --resources-vpc-config publicAccessCidrs=%s", name, host(x.Address))
		}
	case CodeDisconnectedVPCs:
		return fmt.Sprintf("aws ec2 create-vpc-peering-connection --vpc-id %s --peer-vpc-id %s", x.VPC, x.TargetVPC)
	case CodeBadState:
		switch {
		case x.Kind == KindInstance && (x.State == "stopped" || x.State == "stopping"):
			return "aws ec2 start-instances --instance-ids " + x.Component
		case x.Kind == KindPeering && x.State == "pending-acceptance":
			return "aws ec2 accept-vpc-peering-connection --vpc-peering-connection-id " + x.Component
		}
	case CodeName:
		if x.Kind == KindVPC {
			attribute := "--enable-dns-hostnames"
			if strings.HasPrefix(x.Text, "enableDnsSupport") {
				attribute = "--enable-dns-support"
			}
			return fmt.Sprintf("aws ec2 modify-vpc-attribute --vpc-id %s %s", x.Component, attribute)
		}
	}
	return ""
}

func afterLast(s, sep string) string { return s[strings.LastIndex(s, sep)+1:] }

// host is the block of one address.
func host(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// permission is the rule that would let exactly this in or out.
// peer is the block that a rule must name to let the other end through: its address
// or, of a public name, any, since the addresses behind such a name change.
func peer(v *Verdict, x *Explanation) string {
	if r := v.Resolution; r == nil || r.Private || !public(x.Address) || !slices.Contains(r.Addresses, x.Address) {
		return host(x.Address)
	}
	return everything(x.Address).String()
}

// everything is the block of all addresses of a's family.
func everything(a netip.Addr) netip.Prefix {
	if a.Is6() {
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

func permission(v *Verdict, x *Explanation) string {
	ranges := fmt.Sprintf("IpRanges=[{CidrIp=%s}]", peer(v, x))
	if x.Address.Is6() {
		ranges = fmt.Sprintf("Ipv6Ranges=[{CidrIpv6=%s}]", peer(v, x))
	}
	ports := ""
	switch {
	case len(x.Ports) > 0:
		ports = fmt.Sprintf(",FromPort=%d,ToPort=%d", x.Ports[0].From, x.Ports[len(x.Ports)-1].To)
	case x.Protocol.icmp():
		ports = ",FromPort=-1,ToPort=-1"
	}
	return fmt.Sprintf("IpProtocol=%s%s,%s", x.Protocol, ports, ranges)
}

// fixACL is an entry with a number just before the one that denies.
func (s *Snapshot) fixACL(v *Verdict, x *Explanation) string {
	a, ok := get[*ACL](s, x.Component)
	if !ok {
		return ""
	}
	taken := map[int]bool{}
	limit := LastEntry
	if x.Entry != nil {
		limit = x.Entry.Number
	}
	egress := x.Direction == Egress
	for _, e := range a.Entries {
		if e.Egress == egress {
			taken[e.Number] = true
		}
	}
	n := min(limit-1, 32766)
	if limit >= LastEntry {
		n = 200
	}
	for n > 1 && taken[n] {
		n--
	}
	if n < 1 || taken[n] {
		return fmt.Sprintf("aws ec2 delete-network-acl-entry --network-acl-id %s --%s --rule-number %d", a.ID, x.Direction, limit)
	}
	block := "--cidr-block " + peer(v, x)
	if x.Address.Is6() {
		block = "--ipv6-cidr-block " + peer(v, x)
	}
	ports := ""
	switch {
	case len(x.Ports) > 0:
		ports = fmt.Sprintf(" --port-range From=%d,To=%d", x.Ports[0].From, x.Ports[len(x.Ports)-1].To)
	case x.Protocol.icmp():
		ports = " --icmp-type-code Type=-1,Code=-1"
	}
	protocol := x.Protocol.String()
	if p := x.Protocol; p.icmp() { // Names other than tcp, udp and icmp are numbers here.
		protocol = fmt.Sprint(int(p))
	}
	return fmt.Sprintf("aws ec2 create-network-acl-entry --network-acl-id %s --%s --rule-number %d --protocol %s%s %s --rule-action allow",
		a.ID, x.Direction, n, protocol, ports, block)
}

func routeDestination(r Route) string {
	switch {
	case r.PrefixList != "":
		return "--destination-prefix-list-id " + r.PrefixList
	case r.Destination.Addr().Is6():
		return "--destination-ipv6-cidr-block " + r.Destination.String()
	}
	return "--destination-cidr-block " + r.Destination.String()
}

// fixRoute is the route that would lead there: through the peering connection that
// has the address, or else out.
func (s *Snapshot) fixRoute(v *Verdict, x *Explanation) string {
	if x.Component == "" {
		return ""
	}
	if c := s.fixStore(x); c != "" {
		return c
	}
	if here := s.vpc(x.VPC); here != nil {
		for _, p := range here.peerings {
			_, there := p.sides(x.VPC)
			for _, c := range s.ranges(there) {
				if c.Contains(x.Address) {
					return fmt.Sprintf("aws ec2 create-route --route-table-id %s %s --vpc-peering-connection-id %s",
						x.Component, routeDestination(Route{Destination: c}), p.ID)
				}
			}
		}
	}
	if !public(x.Address) {
		return ""
	}
	return fmt.Sprintf("aws ec2 create-route --route-table-id %s %s %s", x.Component, routeDestination(Route{Destination: everything(x.Address)}), s.target(x, v))
}

// fixName is the way to a service of AWS's that is called by its public address:
// an interface endpoint, or what keeps the one there is from answering.
func (s *Snapshot) fixName(from Endpoint, name string, v *Verdict) string {
	here, _ := s.view(from)
	n := strings.ToLower(strings.TrimSuffix(name, "."))
	domain, ok := strings.CutSuffix(n, "."+s.region+".amazonaws.com")
	if here == nil || !ok || v.Resolution.Private || storeName.MatchString(n) || s.Get(n) != nil {
		return ""
	}
	for _, e := range s.topology.endpoints {
		if e.VPC != here.ID || !here.DNSSupport || here.DNSHostnames {
			continue
		}
		for _, p := range e.PrivateNames {
			if matchName(p, n) {
				return fmt.Sprintf("aws ec2 modify-vpc-attribute --vpc-id %s --enable-dns-hostnames", here.ID)
			}
		}
	}
	if strings.HasSuffix(domain, ".dkr.ecr") { // of a registry
		domain = "dkr.ecr"
	}
	parts := strings.Split(domain, ".")
	if len(parts) > 2 {
		return ""
	}
	service := parts[len(parts)-1]
	if len(parts) == 2 {
		service += "." + parts[0]
	}
	serviceName := "com.amazonaws." + s.region + "." + service
	for _, e := range s.topology.endpoints {
		if e.VPC == here.ID && e.Service == serviceName && e.Type == InterfaceEndpoint && len(e.PrivateNames) == 0 {
			return fmt.Sprintf("aws ec2 modify-vpc-endpoint --vpc-endpoint-id %s --private-dns-enabled", e.ID)
		}
	}
	subnet := "SUBNET"
	for i := range v.Forward {
		if h := &v.Forward[i]; h.Kind == KindInterface {
			subnet = h.Subnet
			break
		}
	}
	return fmt.Sprintf("aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface --private-dns-enabled --vpc-id %s --service-name %s --subnet-ids %s",
		here.ID, serviceName, subnet)
}

// fixStore is a gateway endpoint's route to S3 or DynamoDB.
func (s *Snapshot) fixStore(x *Explanation) string {
	for _, service := range []string{"s3", "dynamodb"} {
		name := "com.amazonaws." + s.region + "." + service
		pl := s.prefixList(name)
		if pl == nil || !inAny(pl.CIDRs, x.Address) {
			continue
		}
		for _, e := range s.topology.endpoints {
			if e.VPC == x.VPC && e.PrefixList == pl.ID {
				return fmt.Sprintf("aws ec2 modify-vpc-endpoint --vpc-endpoint-id %s --add-route-table-ids %s", e.ID, x.Component)
			}
		}
		return fmt.Sprintf("aws ec2 create-vpc-endpoint --vpc-id %s --service-name %s --route-table-ids %s", x.VPC, name, x.Component)
	}
	return ""
}

// target is where a route out of a VPC could lead: to its NAT gateway for
// interfaces without a public address, else to its internet gateway.
func (s *Snapshot) target(x *Explanation, v *Verdict) string {
	here := s.vpc(x.VPC)
	if here == nil {
		return "--gateway-id GATEWAY"
	}
	e := s.InterfaceAt(x.VPC, v.Source)
	if x.Return {
		e = s.InterfaceAt(x.VPC, v.Destination)
	}
	private := e != nil && v.Source.Is4() && !e.Addresses[0].Public.IsValid()
	if private && !x.Return {
		found := "NATGATEWAY"
		for _, r := range s.resources.all {
			if n, ok := r.(*NATGateway); ok && n.VPC == x.VPC && n.Subnet != x.Subnet && (n.State == "" || n.State == "available") && (found == "NATGATEWAY" || n.ID < found) {
				found = n.ID
			}
		}
		return "--nat-gateway-id " + found
	}
	if here.gateway != nil {
		return "--gateway-id " + here.gateway.ID
	}
	return "--gateway-id INTERNETGATEWAY"
}
