package advice

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
)

// A Kind says what a Change changes.
type Kind string

// The kinds of changes to a network.
const (
	AddRule           Kind = "AddSecurityGroupRule"
	AddEntry          Kind = "AddNetworkACLEntry"
	DeleteEntry       Kind = "DeleteNetworkACLEntry"
	AddRoute          Kind = "AddRoute"
	ReplaceRoute      Kind = "ReplaceRoute"
	CreateGroup       Kind = "CreateSecurityGroup"
	CreateEndpoint    Kind = "CreateVPCEndpoint"
	EnablePrivateDNS  Kind = "EnablePrivateDNS"
	AddRouteTable     Kind = "AddRouteTableToEndpoint"
	AttachGateway     Kind = "AttachInternetGateway"
	CreateNATGateway  Kind = "CreateNATGateway"
	AssociateAddress  Kind = "AssociateAddress"
	EnableAttribute   Kind = "EnableVPCAttribute"
	DisableCheck      Kind = "DisableSourceDestCheck"
	AllowPublicAccess Kind = "AllowPublicAccess"
	AcceptPeering     Kind = "AcceptPeering"
	CreatePeering     Kind = "CreatePeering"
	AssociateTransit  Kind = "AssociateTransitGatewayRouteTable"
	PropagateTransit  Kind = "EnableTransitGatewayRouteTablePropagation"
	RouteTransit      Kind = "RouteInTransitGateway"
	AddTransitSubnet  Kind = "AddSubnetToTransitGatewayAttachment"
	StartInstance     Kind = "StartInstance"
	ClearFault        Kind = "ClearFault"
)

// The kinds of changes to permissions, instances and clusters. Their proposers supply the commands, because they have
// the documents to change and check the changes with their own engines. Value is what is added.
const (
	AddStatement     Kind = "AddPolicyStatement"
	AttachPolicy     Kind = "AttachRolePolicy"
	PutPolicy        Kind = "PutRolePolicy"
	CreateRole       Kind = "CreateRole"
	CreateProvider   Kind = "CreateOpenIDConnectProvider"
	AddAudience      Kind = "AddOpenIDConnectAudience"
	MapRole          Kind = "MapRole"
	ReplaceMapping   Kind = "ReplaceAccessEntry"
	EnableMetadata   Kind = "EnableMetadata"
	SetHopLimit      Kind = "SetHopLimit"
	ReplaceInstance  Kind = "ReplaceInstance"
	RebootInstance   Kind = "RebootInstance"
	RunCommand       Kind = "RunCommand" // as root on an instance; Value says what for
	SendKey          Kind = "SendSSHPublicKey"
	AssociateProfile Kind = "AssociateIamInstanceProfile" // Value is the profile's ARN
	RaiseQuota       Kind = "RaiseQuota"
	ScaleNodegroup   Kind = "ScaleNodegroup"
	ReplaceNodegroup Kind = "ReplaceNodegroup"
	InstallAddon     Kind = "InstallAddon"
	EnableKey        Kind = "EnableKey"
	CreateGrant      Kind = "CreateGrant"
	CreateObject     Kind = "CreateObject"
	PatchObject      Kind = "PatchObject"
	SetPodSecurity   Kind = "SetPodSecurity"
	RemoveTaint      Kind = "RemoveTaint"
	DeleteObject     Kind = "DeleteObject"
)

// A Change is one change of the world. Its kind determines which fields are used.
type Change struct {
	Kind Kind `json:"kind"`
	// Resource is what is changed. For something new, it is the shell variable that holds its ID after the command
	// has run.
	Resource string       `json:"resource,omitempty"`
	VPC      string       `json:"vpc,omitempty"`
	Subnets  []string     `json:"subnets,omitempty"`
	Groups   []string     `json:"groups,omitempty"`
	Tables   []string     `json:"routeTables,omitempty"`
	Service  string       `json:"service,omitempty"`
	Rules    []reach.Rule `json:"rules,omitempty"`
	Entry    *reach.Entry `json:"entry,omitempty"`
	Route    *reach.Route `json:"route,omitempty"`
	Value    string       `json:"value,omitempty"`
	// Cost is complete once the change is part of a Fix.
	Cost Cost `json:"cost"`
}

func (c *Change) key() string {
	return fmt.Sprint(c.Kind, c.Resource, c.VPC, c.Subnets, c.Groups, c.Tables, c.Service, c.Rules, c.Entry, c.Route, c.Value)
}

// Equal reports whether two changes are the same, regardless of their cost.
func (c Change) Equal(o Change) bool { return c.key() == o.key() }

// apply returns the network after the change, or nil if the change cannot be made.
func (c *Change) apply(s *reach.Snapshot) *reach.Snapshot {
	d := s.Edit()
	switch c.Kind {
	case AddRule:
		g, ok := s.Get(c.Resource).(*reach.SecurityGroup)
		if !ok {
			return nil
		}
		next := *g
		next.Rules = append(slices.Clip(g.Rules), c.Rules...)
		d.Put(&next)
	case CreateGroup:
		d.Put(&reach.SecurityGroup{ID: c.Resource, VPC: c.VPC, Rules: append(slices.Clip(c.Rules),
			reach.Rule{Egress: true, Protocol: reach.AllProtocols, CIDR: everywhere})})
	case AddEntry, DeleteEntry:
		a, ok := s.Get(c.Resource).(*reach.ACL)
		if !ok {
			return nil
		}
		next := *a
		next.Entries = slices.Clone(a.Entries)
		if c.Kind == AddEntry {
			next.Entries = append(next.Entries, *c.Entry)
		} else {
			next.Entries = slices.DeleteFunc(next.Entries, func(e reach.Entry) bool { return e.Number == c.Entry.Number && e.Egress == c.Entry.Egress })
		}
		d.Put(&next)
	case AddRoute, ReplaceRoute:
		t, ok := s.Get(c.Resource).(*reach.RouteTable)
		if !ok {
			return nil
		}
		next := *t
		next.Routes = slices.DeleteFunc(slices.Clone(t.Routes), func(r reach.Route) bool {
			return r.Destination == c.Route.Destination && r.PrefixList == c.Route.PrefixList
		})
		next.Routes = append(next.Routes, *c.Route)
		d.Put(&next)
	case CreateEndpoint:
		return c.createEndpoint(s)
	case EnablePrivateDNS:
		e, ok := s.Get(c.Resource).(*reach.VPCEndpoint)
		if !ok {
			return nil
		}
		next := *e
		next.PrivateNames = privateNames(s.Region(), strings.TrimPrefix(e.Service, "com.amazonaws."+s.Region()+"."))
		d.Put(&next)
	case AddRouteTable:
		e, ok := s.Get(c.Resource).(*reach.VPCEndpoint)
		if !ok {
			return nil
		}
		addEndpointRoutes(s, d, e, c.Tables)
	case AttachGateway:
		d.Put(&reach.InternetGateway{ID: c.Resource, VPC: c.VPC})
	case CreateNATGateway:
		return c.createNATGateway(s)
	case AssociateAddress:
		e, ok := s.Get(c.Resource).(*reach.Interface)
		if !ok || len(e.Addresses) == 0 {
			return nil
		}
		next := *e
		next.Addresses = slices.Clone(e.Addresses)
		next.Addresses[0].Public = newPublic
		d.Put(&next)
	case EnableAttribute:
		v := s.VPC(c.Resource)
		if v == nil {
			return nil
		}
		next := *v
		next.DNSSupport = next.DNSSupport || c.Value == reach.AttributeDNSSupport
		next.DNSHostnames = next.DNSHostnames || c.Value == reach.AttributeDNSHostnames
		d.Put(&next)
	case DisableCheck:
		e, ok := s.Get(c.Resource).(*reach.Interface)
		if !ok {
			return nil
		}
		next := *e
		next.NoSourceDestCheck = true
		d.Put(&next)
	case AllowPublicAccess:
		h, ok := s.Get(c.Resource).(*reach.HostName)
		if !ok {
			return nil
		}
		next := *h
		next.PublicFrom = nil
		for part := range strings.SplitSeq(c.Value, ",") {
			if p, err := netip.ParsePrefix(part); err == nil {
				next.PublicFrom = append(next.PublicFrom, p)
			}
		}
		if len(next.Public) == 0 {
			next.Public = []netip.Addr{reach.StableAddress(h.Name)}
		}
		d.Put(&next)
	case AcceptPeering:
		p, ok := s.Get(c.Resource).(*reach.Peering)
		if !ok {
			return nil
		}
		next := *p
		next.State = "active"
		d.Put(&next)
	case CreatePeering:
		here, there := s.VPC(c.VPC), s.VPC(c.Value)
		if here == nil || there == nil {
			return nil
		}
		d.Put(&reach.Peering{ID: c.Resource, State: "active", Requester: side(s, here), Accepter: side(s, there)})
	case AssociateTransit, PropagateTransit, RouteTransit, AddTransitSubnet:
		if !c.applyTransit(s, d) {
			return nil
		}
	case StartInstance:
		i, ok := s.Get(c.Resource).(*reach.Instance)
		if !ok {
			return nil
		}
		next := *i
		next.State = "running"
		d.Put(&next)
	case ClearFault:
		d.Delete(c.Resource)
	default:
		return nil
	}
	return d.Snapshot()
}

func side(s *reach.Snapshot, v *reach.VPC) reach.PeeringSide {
	return reach.PeeringSide{VPC: v.ID, Region: s.Region(), CIDRs: v.CIDRs}
}

// newPublic stands for the address that AWS would assign. No other interface has it here.
var newPublic = netip.AddrFrom4([4]byte{54, 255, 255, 254})

var everywhere = netip.PrefixFrom(netip.IPv4Unspecified(), 0)

// createEndpoint adds the endpoint with an interface in each subnet, or with its routes.
func (c *Change) createEndpoint(s *reach.Snapshot) *reach.Snapshot {
	d := s.Edit()
	e := &reach.VPCEndpoint{ID: c.Resource, VPC: c.VPC, Service: "com.amazonaws." + s.Region() + "." + c.Service, State: "available", Type: reach.InterfaceEndpoint}
	if len(c.Tables) > 0 {
		pl := s.PrefixListOf(c.Service)
		if pl == nil {
			return nil
		}
		e.Type, e.PrefixList = reach.GatewayEndpoint, pl.ID
		addEndpointRoutes(s, d, e, c.Tables)
		d.Put(e)
		return d.Snapshot()
	}
	e.PrivateNames = privateNames(s.Region(), c.Service)
	for i, id := range c.Subnets {
		sn, ok := s.Get(id).(*reach.Subnet)
		if !ok {
			return nil
		}
		a, ok := free(s, sn)
		if !ok {
			return nil
		}
		eni := &reach.Interface{
			ID: fmt.Sprintf("eni-new-%s-%d", c.Service, i), VPC: c.VPC, Subnet: id, Zone: sn.Zone, Type: reach.TypeVPCEndpoint,
			Attached: true, Addresses: []reach.Address{{Private: a}}, Groups: c.Groups,
		}
		e.Interfaces = append(e.Interfaces, eni.ID)
		d.Put(eni)
	}
	d.Put(e)
	return d.Snapshot()
}

func addEndpointRoutes(s *reach.Snapshot, d *reach.Draft, e *reach.VPCEndpoint, tables []string) {
	for _, id := range tables {
		if t, ok := s.Get(id).(*reach.RouteTable); ok {
			next := *t
			next.Routes = append(slices.Clip(t.Routes), reach.Route{PrefixList: e.PrefixList, Target: e.ID})
			d.Put(&next)
		}
	}
}

// createNATGateway adds the gateway in its subnet.
func (c *Change) createNATGateway(s *reach.Snapshot) *reach.Snapshot {
	sn, ok := s.Get(c.Subnets[0]).(*reach.Subnet)
	if !ok {
		return nil
	}
	a, ok := free(s, sn)
	if !ok {
		return nil
	}
	d := s.Edit()
	eni := &reach.Interface{
		ID: "eni-new-nat", VPC: sn.VPC, Subnet: sn.ID, Zone: sn.Zone, Type: reach.TypeNATGateway, Attached: true,
		Addresses: []reach.Address{{Private: a, Public: newPublic}},
	}
	d.Put(eni)
	d.Put(&reach.NATGateway{ID: c.Resource, VPC: sn.VPC, Subnet: sn.ID, State: "available", Interface: eni.ID})
	return d.Snapshot()
}

// HasRoom reports whether a subnet has an unused address.
func HasRoom(s *reach.Snapshot, subnet string) bool {
	sn, ok := s.Get(subnet).(*reach.Subnet)
	if ok {
		_, ok = free(s, sn)
	}
	return ok
}

// free returns an unused address of a subnet.
func free(s *reach.Snapshot, sn *reach.Subnet) (netip.Addr, bool) {
	for _, c := range sn.CIDRs {
		if !c.Addr().Is4() {
			continue
		}
		a := c.Masked().Addr()
		for range 4 { // AWS reserves the first four and the last
			a = a.Next()
		}
		for ; c.Contains(a) && c.Contains(a.Next()); a = a.Next() {
			if s.InterfaceAt(sn.VPC, a) == nil {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// commands returns the commands that make the change on AWS.
func (c *Change) commands(region string) []string {
	at := " --region " + region
	var out []string
	switch c.Kind {
	case AddRule:
		for _, r := range c.Rules {
			out = append(out, authorize(c.Resource, r)+at)
		}
	case CreateGroup:
		out = []string{fmt.Sprintf("%s=$(aws ec2 create-security-group --group-name %s --description 'HTTPS from the VPC to its endpoints' --vpc-id %s --query GroupId --output text%s)",
			strings.TrimPrefix(c.Resource, "$"), c.Value, c.VPC, at)}
		for _, r := range c.Rules {
			out = append(out, authorize(c.Resource, r)+at)
		}
	case AddEntry:
		e := c.Entry
		block := "--cidr-block "
		if e.CIDR.Addr().Is6() {
			block = "--ipv6-cidr-block "
		}
		protocol, ports := e.Protocol.String(), ""
		switch e.Protocol {
		case reach.TCP, reach.UDP:
			ports = fmt.Sprintf(" --port-range From=%d,To=%d", e.Ports.From, e.Ports.To)
		case reach.ICMP, reach.ICMPv6: // protocols other than tcp, udp and icmp are numbers here
			protocol, ports = fmt.Sprint(int(e.Protocol)), " --icmp-type-code Type=-1,Code=-1"
		}
		out = []string{fmt.Sprintf("aws ec2 create-network-acl-entry --network-acl-id %s --%s --rule-number %d --protocol %s%s %s%s --rule-action allow%s",
			c.Resource, way(e.Egress), e.Number, protocol, ports, block, e.CIDR, at)}
	case DeleteEntry:
		out = []string{fmt.Sprintf("aws ec2 delete-network-acl-entry --network-acl-id %s --%s --rule-number %d%s", c.Resource, way(c.Entry.Egress), c.Entry.Number, at)}
	case AddRoute, ReplaceRoute:
		verb := "create-route"
		if c.Kind == ReplaceRoute {
			verb = "replace-route"
		}
		out = []string{fmt.Sprintf("aws ec2 %s --route-table-id %s %s %s%s", verb, c.Resource, destination(*c.Route), routeTarget(c.Route.Target), at)}
	case CreateEndpoint:
		name := "com.amazonaws." + region + "." + c.Service
		if len(c.Tables) > 0 {
			out = []string{fmt.Sprintf("aws ec2 create-vpc-endpoint --vpc-id %s --service-name %s --route-table-ids %s%s", c.VPC, name, strings.Join(c.Tables, " "), at)}
			break
		}
		out = []string{fmt.Sprintf("aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface --vpc-id %s --service-name %s --private-dns-enabled --subnet-ids %s --security-group-ids %s%s",
			c.VPC, name, strings.Join(c.Subnets, " "), strings.Join(c.Groups, " "), at)}
	case EnablePrivateDNS:
		out = []string{fmt.Sprintf("aws ec2 modify-vpc-endpoint --vpc-endpoint-id %s --private-dns-enabled%s", c.Resource, at)}
	case AddRouteTable:
		out = []string{fmt.Sprintf("aws ec2 modify-vpc-endpoint --vpc-endpoint-id %s --add-route-table-ids %s%s", c.Resource, strings.Join(c.Tables, " "), at)}
	case AttachGateway:
		out = []string{
			fmt.Sprintf("IGW=$(aws ec2 create-internet-gateway --query InternetGateway.InternetGatewayId --output text%s)", at),
			fmt.Sprintf("aws ec2 attach-internet-gateway --internet-gateway-id $IGW --vpc-id %s%s", c.VPC, at),
		}
	case CreateNATGateway:
		out = []string{
			fmt.Sprintf("NAT=$(aws ec2 create-nat-gateway --subnet-id %s --allocation-id $(aws ec2 allocate-address --domain vpc --query AllocationId --output text%s) --query NatGateway.NatGatewayId --output text%s)", c.Subnets[0], at, at),
			"aws ec2 wait nat-gateway-available --nat-gateway-ids $NAT" + at,
		}
	case AssociateAddress:
		out = []string{fmt.Sprintf("aws ec2 associate-address --network-interface-id %s --allocation-id $(aws ec2 allocate-address --domain vpc --query AllocationId --output text%s)%s", c.Resource, at, at)}
		for _, sn := range c.Subnets { // for the commands that follow
			out = append(out, fmt.Sprintf("aws ec2 modify-subnet-attribute --subnet-id %s --map-public-ip-on-launch%s", sn, at))
		}
	case EnableAttribute:
		flag := map[string]string{reach.AttributeDNSSupport: "--enable-dns-support", reach.AttributeDNSHostnames: "--enable-dns-hostnames"}[c.Value]
		out = []string{fmt.Sprintf("aws ec2 modify-vpc-attribute --vpc-id %s %s Value=true%s", c.Resource, flag, at)}
	case DisableCheck:
		out = []string{fmt.Sprintf("aws ec2 modify-network-interface-attribute --network-interface-id %s --no-source-dest-check%s", c.Resource, at)}
	case AllowPublicAccess:
		out = []string{fmt.Sprintf("aws eks update-cluster-config --name %s --resources-vpc-config endpointPublicAccess=true,publicAccessCidrs=%s%s", c.Service, c.Value, at)}
	case AcceptPeering:
		out = []string{"aws ec2 accept-vpc-peering-connection --vpc-peering-connection-id " + c.Resource + at}
	case CreatePeering:
		out = []string{
			fmt.Sprintf("PEERING=$(aws ec2 create-vpc-peering-connection --vpc-id %s --peer-vpc-id %s --query VpcPeeringConnection.VpcPeeringConnectionId --output text%s)", c.VPC, c.Value, at),
			"aws ec2 wait vpc-peering-connection-exists --vpc-peering-connection-ids $PEERING" + at,
			"aws ec2 accept-vpc-peering-connection --vpc-peering-connection-id $PEERING" + at,
		}
	case AssociateTransit, PropagateTransit, RouteTransit, AddTransitSubnet:
		out = []string{c.transitCommand() + at}
	case StartInstance:
		out = []string{"aws ec2 start-instances --instance-ids " + c.Resource + at}
	case ClearFault:
		out = []string{c.Value}
	}
	return out
}

func way(egress bool) string {
	if egress {
		return reach.Egress
	}
	return reach.Ingress
}

// authorize adds a rule to a group.
func authorize(group string, r reach.Rule) string {
	peer := fmt.Sprintf("IpRanges=[{CidrIp=%s}]", r.CIDR)
	switch {
	case r.Group != "":
		peer = fmt.Sprintf("UserIdGroupPairs=[{GroupId=%s}]", r.Group)
	case r.PrefixList != "":
		peer = fmt.Sprintf("PrefixListIds=[{PrefixListId=%s}]", r.PrefixList)
	case r.CIDR.Addr().Is6():
		peer = fmt.Sprintf("Ipv6Ranges=[{CidrIpv6=%s}]", r.CIDR)
	}
	ports := ""
	switch r.Protocol {
	case reach.TCP, reach.UDP:
		ports = fmt.Sprintf(",FromPort=%d,ToPort=%d", r.Ports.From, r.Ports.To)
	case reach.ICMP, reach.ICMPv6:
		ports = ",FromPort=-1,ToPort=-1"
	}
	quote := "'"
	if strings.HasPrefix(r.Group, "$") { // a shell variable
		quote = `"`
	}
	return fmt.Sprintf("aws ec2 authorize-security-group-%s --group-id %s --ip-permissions %sIpProtocol=%s%s,%s%s", way(r.Egress), group, quote, r.Protocol, ports, peer, quote)
}

func destination(r reach.Route) string {
	switch {
	case r.PrefixList != "":
		return "--destination-prefix-list-id " + r.PrefixList
	case r.Destination.Addr().Is6():
		return "--destination-ipv6-cidr-block " + r.Destination.String()
	}
	return "--destination-cidr-block " + r.Destination.String()
}

func routeTarget(id string) string {
	switch {
	case strings.HasPrefix(id, "nat-") || id == natVariable:
		return "--nat-gateway-id " + id
	case strings.HasPrefix(id, "tgw-"):
		return "--transit-gateway-id " + id
	case strings.HasPrefix(id, "pcx-") || id == peeringVariable:
		return "--vpc-peering-connection-id " + id
	}
	return "--gateway-id " + id
}

// The shell variables that hold the IDs of new resources.
const (
	natVariable     = "$NAT"
	gatewayVariable = "$IGW"
	groupVariable   = "$GROUP"
	peeringVariable = "$PEERING"
)

// endpointServices are the services for which endpoints are proposed.
var endpointServices = strings.Fields(`autoscaling cloudformation ec2 ec2messages ecr.api ecr.dkr eks eks-auth elasticloadbalancing
	events kms logs monitoring secretsmanager sns sqs ssm ssmmessages sts`)

// privateNames returns the names that private DNS of an interface endpoint answers for.
func privateNames(region, service string) []string {
	host := service
	if first, second, ok := strings.Cut(service, "."); ok {
		host = second + "." + first
	}
	base := host + "." + region + ".amazonaws.com"
	switch service {
	case "ecr.dkr":
		return []string{base, "*." + base}
	case "eks", "eks-auth":
		return []string{base, host + "." + region + ".api.aws"}
	}
	return []string{base}
}

// serviceOf returns the service that has a host name, if there can be an interface endpoint for it.
func serviceOf(region, name string) (string, bool) {
	for _, service := range endpointServices {
		for _, n := range privateNames(region, service) {
			rest, wild := strings.CutPrefix(n, "*")
			if n == name || wild && strings.HasSuffix(name, rest) {
				return service, true
			}
		}
	}
	return "", false
}
