package advice

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/reach"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func machine(id, subnet, zone, address string, groups ...string) *reach.Interface {
	return &reach.Interface{
		ID: "eni-" + id, VPC: "vpc-1", Subnet: subnet, Zone: zone, Type: "interface", Instance: "i-" + id, Attached: true, Primary: true,
		Addresses: []reach.Address{{Private: netip.MustParseAddr(address)}}, Groups: groups,
	}
}

// closedWorld is a VPC without a way out: a node, another machine, endpoints for ec2 and
// ecr.api, S3's prefix list, and a cluster with a private endpoint.
func closedWorld(edit func(d *reach.Draft)) *reach.Snapshot {
	out := reach.Rule{ID: "out", Egress: true, Protocol: reach.AllProtocols, CIDR: everywhere}
	in := func(group string) reach.Rule {
		return reach.Rule{ID: "in-" + group, Protocol: reach.TCP, Ports: reach.PortRange{From: 443, To: 443}, Group: group}
	}
	open := func(egress bool) reach.Entry {
		return reach.Entry{Number: 100, Egress: egress, Allow: true, Protocol: reach.AllProtocols, CIDR: everywhere}
	}
	endpoint := func(service, name, address string) []reach.Resource {
		e := machine("vpce-"+service, "subnet-a", "us-east-1a", address, "sg-endpoint")
		e.Instance, e.Type = "", reach.TypeVPCEndpoint
		return []reach.Resource{e, &reach.VPCEndpoint{
			ID: "vpce-" + service, VPC: "vpc-1", Type: reach.InterfaceEndpoint, Service: "com.amazonaws.us-east-1." + service, State: "available",
			Interfaces: []string{e.ID}, PrivateNames: []string{name},
		}}
	}
	cluster := machine("cluster", "subnet-b", "us-east-1b", "10.0.2.50", "sg-cluster")
	cluster.Instance, cluster.Requester = "", "amazon-eks"
	d := reach.New("us-east-1").Edit()
	for _, r := range slices.Concat([]reach.Resource{
		&reach.VPC{ID: "vpc-1", CIDRs: []netip.Prefix{prefix("10.0.0.0/16")}, DNSSupport: true, DNSHostnames: true},
		&reach.Subnet{ID: "subnet-a", VPC: "vpc-1", Zone: "us-east-1a", CIDRs: []netip.Prefix{prefix("10.0.1.0/24")}},
		&reach.Subnet{ID: "subnet-b", VPC: "vpc-1", Zone: "us-east-1b", CIDRs: []netip.Prefix{prefix("10.0.2.0/24")}},
		&reach.ACL{ID: "acl-1", VPC: "vpc-1", Default: true, Entries: []reach.Entry{open(true), open(false)}},
		&reach.RouteTable{ID: "rtb-1", VPC: "vpc-1", Main: true, Routes: []reach.Route{{Destination: prefix("10.0.0.0/16"), Target: reach.Local}}},
		&reach.PrefixList{ID: "pl-s3", Name: "com.amazonaws.us-east-1.s3", CIDRs: []netip.Prefix{prefix("54.231.0.0/16")}},
		&reach.SecurityGroup{ID: "sg-node", VPC: "vpc-1", Rules: []reach.Rule{out}},
		&reach.SecurityGroup{ID: "sg-other", VPC: "vpc-1", Rules: []reach.Rule{out}},
		&reach.SecurityGroup{ID: "sg-endpoint", VPC: "vpc-1", Rules: []reach.Rule{out, in("sg-node"), in("sg-other")}},
		&reach.SecurityGroup{ID: "sg-cluster", VPC: "vpc-1", Rules: []reach.Rule{out, in("sg-node")}},
		&reach.Instance{ID: "i-node"}, machine("node", "subnet-a", "us-east-1a", "10.0.1.10", "sg-node"),
		&reach.Instance{ID: "i-other"}, machine("other", "subnet-b", "us-east-1b", "10.0.2.10", "sg-other"),
		cluster,
		&reach.HostName{Name: "c.eks.amazonaws.com", VPC: "vpc-1", Private: []netip.Addr{netip.MustParseAddr("10.0.2.50")}, Owner: "arn:aws:eks:us-east-1:000000000000:cluster/c"},
	}, endpoint("ec2", "ec2.us-east-1.amazonaws.com", "10.0.1.100"), endpoint("ecr.api", "api.ecr.us-east-1.amazonaws.com", "10.0.1.101")) {
		d.Put(r)
	}
	edit(d)
	return d.Snapshot()
}

func needs(names ...string) []Need {
	var out []Need
	for _, n := range names {
		out = append(out, Need{Flow: reach.Flow{From: reach.At("i-node"), Protocol: reach.TCP, Port: 443}, Name: n})
	}
	return out
}

const (
	ec2Name = "ec2.us-east-1.amazonaws.com"
	ecrName = "api.ecr.us-east-1.amazonaws.com"
	s3Name  = "bucket.s3.us-east-1.amazonaws.com"
)

// The first fix gets the node to Ready, names kinds instead of addresses, and opens no way
// to the internet.
func TestFixesOfAClosedNetwork(t *testing.T) {
	group := func(id string, rules ...reach.Rule) func(*reach.Draft) {
		return func(d *reach.Draft) { d.Put(&reach.SecurityGroup{ID: id, VPC: "vpc-1", Rules: rules}) }
	}
	for _, tt := range []struct {
		name  string
		broke func(d *reach.Draft)
		needs []Need
		want  []string
	}{
		{"an endpoint is gone", func(d *reach.Draft) { d.Delete("vpce-ecr.api"); d.Delete("eni-vpce-ecr.api") }, needs(ecrName, ec2Name, "c.eks.amazonaws.com"), []string{
			"aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface --vpc-id vpc-1 --service-name com.amazonaws.us-east-1.ecr.api --private-dns-enabled --subnet-ids subnet-a subnet-b --security-group-ids sg-endpoint --region us-east-1",
		}},
		{"the group lets nothing out", group("sg-node"), needs(ec2Name, "c.eks.amazonaws.com"), []string{
			"aws ec2 authorize-security-group-egress --group-id sg-node --ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,UserIdGroupPairs=[{GroupId=sg-endpoint}]' --region us-east-1",
			"aws ec2 authorize-security-group-egress --group-id sg-node --ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,UserIdGroupPairs=[{GroupId=sg-cluster}]' --region us-east-1",
		}},
		{"the endpoint's group lets nobody in", group("sg-endpoint"), needs(ec2Name), []string{
			"aws ec2 authorize-security-group-ingress --group-id sg-endpoint --ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,UserIdGroupPairs=[{GroupId=sg-node}]' --region us-east-1",
		}},
		{"no endpoint for S3", func(*reach.Draft) {}, needs(s3Name), []string{
			"aws ec2 create-vpc-endpoint --vpc-id vpc-1 --service-name com.amazonaws.us-east-1.s3 --route-table-ids rtb-1 --region us-east-1",
		}},
		{"no endpoint of two", func(d *reach.Draft) {
			for _, s := range []string{"ec2", "ecr.api"} {
				d.Delete("vpce-" + s)
				d.Delete("eni-vpce-" + s)
			}
		}, needs(ec2Name, ecrName), []string{
			"GROUP=$(aws ec2 create-security-group --group-name vpc-endpoints --description 'HTTPS from the VPC to its endpoints' --vpc-id vpc-1 --query GroupId --output text --region us-east-1)",
			"aws ec2 authorize-security-group-ingress --group-id $GROUP --ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,IpRanges=[{CidrIp=10.0.0.0/16}]' --region us-east-1",
			"aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface --vpc-id vpc-1 --service-name com.amazonaws.us-east-1.ec2 --private-dns-enabled --subnet-ids subnet-a subnet-b --security-group-ids $GROUP --region us-east-1",
			"aws ec2 create-vpc-endpoint --vpc-endpoint-type Interface --vpc-id vpc-1 --service-name com.amazonaws.us-east-1.ecr.api --private-dns-enabled --subnet-ids subnet-a subnet-b --security-group-ids $GROUP --region us-east-1",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := closedWorld(tt.broke)
			a := Network(s, Connection{Needs: tt.needs})
			if len(a.Fixes) == 0 {
				t.Fatalf("no fix: %s", a.Note)
			}
			if got := a.Fixes[0]; !slices.Equal(got.Commands, tt.want) || !got.Proven {
				t.Errorf("got\n%s\nwant\n%s", got.Shell(), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// A private endpoint is reached from another VPC by a peering connection, with routes in
// both directions, and a rule. If the ranges overlap, there is no fix, and the answer says
// so.
func TestFixesBetweenVPCs(t *testing.T) {
	away := func(cidr, address string) func(d *reach.Draft) {
		return func(d *reach.Draft) {
			d.Put(&reach.VPC{ID: "vpc-2", CIDRs: []netip.Prefix{prefix(cidr)}, DNSSupport: true})
			d.Put(&reach.Subnet{ID: "subnet-2", VPC: "vpc-2", Zone: "us-east-1a", CIDRs: []netip.Prefix{prefix(cidr)}})
			d.Put(&reach.ACL{ID: "acl-2", VPC: "vpc-2", Default: true, Entries: []reach.Entry{
				{Number: 100, Egress: true, Allow: true, Protocol: reach.AllProtocols, CIDR: everywhere}, {Number: 100, Allow: true, Protocol: reach.AllProtocols, CIDR: everywhere},
			}})
			d.Put(&reach.RouteTable{ID: "rtb-2", VPC: "vpc-2", Main: true, Routes: []reach.Route{{Destination: prefix(cidr), Target: reach.Local}}})
			d.Put(&reach.SecurityGroup{ID: "sg-away", VPC: "vpc-2", Rules: []reach.Rule{{Egress: true, Protocol: reach.AllProtocols, CIDR: everywhere}}})
			e := machine("away", "subnet-2", "us-east-1a", address, "sg-away")
			e.VPC = "vpc-2"
			d.Put(e)
			d.Put(&reach.Instance{ID: "i-away"})
		}
	}
	question := Connection{Needs: []Need{{Flow: reach.Flow{From: reach.At("i-away"), Protocol: reach.TCP, Port: 443}, Name: "c.eks.amazonaws.com"}}}
	a := Network(closedWorld(away("10.9.0.0/16", "10.9.0.10")), question)
	if len(a.Fixes) == 0 {
		t.Fatal(a.Note)
	}
	want := []string{
		"PEERING=$(aws ec2 create-vpc-peering-connection --vpc-id vpc-2 --peer-vpc-id vpc-1 --query VpcPeeringConnection.VpcPeeringConnectionId --output text --region us-east-1)",
		"aws ec2 wait vpc-peering-connection-exists --vpc-peering-connection-ids $PEERING --region us-east-1",
		"aws ec2 accept-vpc-peering-connection --vpc-peering-connection-id $PEERING --region us-east-1",
		"aws ec2 create-route --route-table-id rtb-2 --destination-cidr-block 10.0.0.0/16 --vpc-peering-connection-id $PEERING --region us-east-1",
		"aws ec2 create-route --route-table-id rtb-1 --destination-cidr-block 10.9.0.0/16 --vpc-peering-connection-id $PEERING --region us-east-1",
		"aws ec2 authorize-security-group-ingress --group-id sg-cluster --ip-permissions 'IpProtocol=tcp,FromPort=443,ToPort=443,UserIdGroupPairs=[{GroupId=sg-away}]' --region us-east-1",
	}
	if got := a.Fixes[0]; !slices.Equal(got.Commands, want) {
		t.Errorf("got\n%s\nwant\n%s", got.Shell(), strings.Join(want, "\n"))
	}
	// A default route sends the packet to the internet gateway instead, which drops it. The
	// fix keeps that route.
	public := func(d *reach.Draft) {
		away("10.9.0.0/16", "10.9.0.10")(d)
		for vpc, local := range map[string]string{"vpc-1": "10.0.0.0/16", "vpc-2": "10.9.0.0/16"} {
			d.Put(&reach.InternetGateway{ID: "igw-" + vpc, VPC: vpc})
			d.Put(&reach.RouteTable{ID: "rtb-" + vpc[4:], VPC: vpc, Main: true, Routes: []reach.Route{
				{Destination: prefix(local), Target: reach.Local}, {Destination: everywhere, Target: "igw-" + vpc},
			}})
		}
	}
	a = Network(closedWorld(public), question)
	if len(a.Fixes) == 0 || !slices.Equal(a.Fixes[0].Commands, want) {
		t.Errorf("with default routes: %+v", a)
	}
	// An existing connection lacks its routes.
	a = Network(closedWorld(func(d *reach.Draft) {
		public(d)
		side := func(vpc, cidr string) reach.PeeringSide {
			return reach.PeeringSide{VPC: vpc, Region: "us-east-1", CIDRs: []netip.Prefix{prefix(cidr)}}
		}
		d.Put(&reach.Peering{ID: "pcx-1", State: "active", Requester: side("vpc-2", "10.9.0.0/16"), Accepter: side("vpc-1", "10.0.0.0/16")})
	}), question)
	if len(a.Fixes) == 0 || len(a.Fixes[0].Commands) != 3 || strings.Contains(a.Fixes[0].Shell(), "replace-route") {
		t.Errorf("without routes: %+v", a)
	}
	a = Network(closedWorld(away("10.0.128.0/17", "10.0.128.10")), question)
	if len(a.Fixes) > 0 || a.Note == "" {
		t.Errorf("%+v", a)
	}
}

// VPCs that are attached to a transit gateway lack what carries packets between them: routes in both VPCs, a route
// table, propagated routes, a subnet in the zone. Each lack has its own fix.
func TestFixesOfTransitGateways(t *testing.T) {
	world := func(change func(d *reach.Draft, a, b *reach.TransitAttachment, tables [2]*reach.RouteTable)) *reach.Snapshot {
		d := reach.New("us-east-1").Edit()
		var attachments [2]*reach.TransitAttachment
		var tables [2]*reach.RouteTable
		for i, n := range []string{"1", "2"} {
			block := prefix("10." + n + ".0.0/16")
			other := prefix("10." + []string{"2", "1"}[i] + ".0.0/16")
			d.Put(&reach.VPC{ID: "vpc-" + n, CIDRs: []netip.Prefix{block}, DNSSupport: true})
			d.Put(&reach.Subnet{ID: "subnet-" + n, VPC: "vpc-" + n, Zone: "us-east-1a", CIDRs: []netip.Prefix{block}})
			tables[i] = &reach.RouteTable{ID: "rtb-" + n, VPC: "vpc-" + n, Main: true, Routes: []reach.Route{{Destination: block, Target: reach.Local}, {Destination: other, Target: "tgw-1"}}}
			d.Put(&reach.SecurityGroup{ID: "sg-" + n, VPC: "vpc-" + n, Rules: []reach.Rule{
				{Egress: true, Protocol: reach.AllProtocols, CIDR: everywhere}, {Protocol: reach.AllProtocols, CIDR: prefix("10.0.0.0/8")},
			}})
			e := machine(n, "subnet-"+n, "us-east-1a", "10."+n+".0.10", "sg-"+n)
			e.VPC = "vpc-" + n
			d.Put(e)
			d.Put(&reach.Instance{ID: "i-" + n})
			attachments[i] = &reach.TransitAttachment{
				ID: "tgw-attach-" + n, Gateway: "tgw-1", VPC: "vpc-" + n, State: "available", Subnets: []string{"subnet-" + n}, Table: "tgw-rtb-1", Propagates: []string{"tgw-rtb-1"},
			}
		}
		d.Put(&reach.TransitGateway{ID: "tgw-1", State: "available"})
		d.Put(&reach.TransitTable{ID: "tgw-rtb-1", Gateway: "tgw-1"})
		if change != nil {
			change(d, attachments[0], attachments[1], tables)
		}
		for i := range 2 {
			d.Put(attachments[i])
			d.Put(tables[i])
		}
		return d.Snapshot()
	}
	question := Connection{Needs: []Need{{Flow: reach.Flow{From: reach.At("i-1"), To: reach.Addr(netip.MustParseAddr("10.2.0.10")), Protocol: reach.TCP, Port: 443}}}}
	if v := world(nil).Check(question.Needs[0].Flow); !v.Reachable {
		t.Fatalf("the whole network does not work:\n%s", v.Text())
	}
	for name, tt := range map[string]struct {
		change func(d *reach.Draft, a, b *reach.TransitAttachment, tables [2]*reach.RouteTable)
		code   string
		want   []string
	}{
		"no routes in the VPCs": {func(_ *reach.Draft, _, _ *reach.TransitAttachment, tables [2]*reach.RouteTable) {
			tables[0].Routes, tables[1].Routes = tables[0].Routes[:1], tables[1].Routes[:1]
		}, reach.CodeNoRoute, []string{
			"aws ec2 create-route --route-table-id rtb-1 --destination-cidr-block 10.2.0.0/16 --transit-gateway-id tgw-1 --region us-east-1",
			"aws ec2 create-route --route-table-id rtb-2 --destination-cidr-block 10.1.0.0/16 --transit-gateway-id tgw-1 --region us-east-1",
		}},
		"no association": {func(_ *reach.Draft, a, _ *reach.TransitAttachment, _ [2]*reach.RouteTable) { a.Table = "" }, reach.CodeTransitNoTable, []string{
			"aws ec2 associate-transit-gateway-route-table --transit-gateway-route-table-id tgw-rtb-1 --transit-gateway-attachment-id tgw-attach-1 --region us-east-1",
		}},
		"no propagation": {func(_ *reach.Draft, _, b *reach.TransitAttachment, _ [2]*reach.RouteTable) { b.Propagates = nil }, reach.CodeTransitNoRoute, []string{
			"aws ec2 enable-transit-gateway-route-table-propagation --transit-gateway-route-table-id tgw-rtb-1 --transit-gateway-attachment-id tgw-attach-2 --region us-east-1",
		}},
		"a blackhole": {func(d *reach.Draft, _, _ *reach.TransitAttachment, _ [2]*reach.RouteTable) {
			d.Put(&reach.TransitTable{ID: "tgw-rtb-1", Gateway: "tgw-1", Routes: []reach.TransitRoute{{Destination: prefix("10.2.0.0/16")}}})
		}, reach.CodeTransitBadRoute, []string{
			"aws ec2 replace-transit-gateway-route --transit-gateway-route-table-id tgw-rtb-1 --destination-cidr-block 10.2.0.0/16 --transit-gateway-attachment-id tgw-attach-2 --region us-east-1",
		}},
		"no subnet in the zone": {func(d *reach.Draft, a, _ *reach.TransitAttachment, _ [2]*reach.RouteTable) {
			d.Put(&reach.Subnet{ID: "subnet-1b", VPC: "vpc-1", Zone: "us-east-1b", CIDRs: []netip.Prefix{prefix("10.1.128.0/20")}})
			a.Subnets = []string{"subnet-1b"}
		}, reach.CodeTransitZone, []string{
			"aws ec2 modify-transit-gateway-vpc-attachment --transit-gateway-attachment-id tgw-attach-1 --add-subnet-ids subnet-1 --region us-east-1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := world(tt.change)
			if v := s.Check(question.Needs[0].Flow); v.Reachable || v.Explanations[0].Code != tt.code {
				t.Fatalf("want %s:\n%s", tt.code, v.Text())
			}
			a := Network(s, question)
			if len(a.Fixes) == 0 || !slices.Equal(a.Fixes[0].Commands, tt.want) || !a.Fixes[0].Proven {
				t.Errorf("%+v", a)
			}
		})
	}
}

// If nothing helps, the answer says so, with what is known to be wrong.
func TestNothingHelps(t *testing.T) {
	a := Network(closedWorld(func(*reach.Draft) {}), Connection{Needs: []Need{{Flow: reach.Flow{From: reach.At("i-gone"), Protocol: reach.TCP, Port: 443}, Name: ec2Name}}})
	if len(a.Fixes) > 0 || !strings.Contains(a.Note, "the source i-gone does not exist") {
		t.Errorf("%+v", a)
	}
}

// An endpoint whose group admits only one machine would cut off the others if they have
// another way, so the neighbours are checked as well.
func TestNeighboursKeepTheirWay(t *testing.T) {
	s := closedWorld(func(d *reach.Draft) {
		d.Delete("vpce-ecr.api")
		d.Delete("eni-vpce-ecr.api")
		d.Put(&reach.InternetGateway{ID: "igw-1", VPC: "vpc-1"})
		d.Put(&reach.RouteTable{ID: "rtb-b", VPC: "vpc-1", Subnets: []string{"subnet-b"}, Routes: []reach.Route{
			{Destination: prefix("10.0.0.0/16"), Target: reach.Local}, {Destination: everywhere, Target: "igw-1"},
		}})
		other := machine("other", "subnet-b", "us-east-1b", "10.0.2.10", "sg-other")
		other.Addresses[0].Public = netip.MustParseAddr("54.1.2.3")
		d.Put(other)
		d.Put(&reach.SecurityGroup{ID: "sg-endpoint", VPC: "vpc-1", Rules: []reach.Rule{{Protocol: reach.TCP, Ports: reach.PortRange{From: 443, To: 443}, Group: "sg-node"}}})
	})
	for _, f := range Network(s, Connection{Needs: needs(ecrName)}).Fixes {
		for _, c := range f.Changes {
			if c.Kind == CreateEndpoint && slices.Contains(c.Groups, "sg-endpoint") {
				t.Errorf("it cuts i-other off:\n%s", f.Shell())
			}
		}
	}
}
