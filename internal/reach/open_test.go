package reach_test

import "github.com/drydock-dev/drydock/internal/reach"

// open is a VPC with a public and a private subnet, a NAT gateway, IPv6 and an
// Instance Connect endpoint.
func open() *reach.Snapshot {
	web := public(eni("eni-web", "vpc-1", "subnet-pub", "10.0.0.10", "i-web", "sg-web"), "54.0.0.10")
	web.Addresses = append(web.Addresses, reach.Address{Private: ip("2600::10")})
	app := eni("eni-app", "vpc-1", "subnet-priv", "10.0.1.10", "i-app", "sg-app")
	app.Addresses = append(app.Addresses, reach.Address{Private: ip("2600:0:0:1::10")})
	nat := public(&reach.Interface{ID: "eni-nat", VPC: "vpc-1", Subnet: "subnet-pub", Type: reach.TypeNATGateway, Attached: true,
		Addresses: []reach.Address{{Private: ip("10.0.0.200")}}}, "54.0.0.200")
	d := reach.New("us-east-1").Edit()
	for _, r := range []reach.Resource{
		&reach.VPC{ID: "vpc-1", CIDRs: cidrs("10.0.0.0/16", "2600::/56"), DNSSupport: true, DNSHostnames: true},
		&reach.Subnet{ID: "subnet-pub", VPC: "vpc-1", Zone: "us-east-1a", CIDRs: cidrs("10.0.0.0/24", "2600::/64")},
		&reach.Subnet{ID: "subnet-priv", VPC: "vpc-1", Zone: "us-east-1a", CIDRs: cidrs("10.0.1.0/24", "2600:0:0:1::/64")},
		openACL("acl-1", "vpc-1"),
		&reach.ACL{ID: "acl-pub", VPC: "vpc-1", Subnets: []string{"subnet-pub"}, Entries: openACL("", "").Entries},
		&reach.InternetGateway{ID: "igw-1", VPC: "vpc-1"},
		&reach.EgressOnlyGateway{ID: "eigw-1", VPC: "vpc-1"},
		&reach.NATGateway{ID: "nat-1", VPC: "vpc-1", Subnet: "subnet-pub", State: "available", Interface: "eni-nat"},
		nat,
		&reach.RouteTable{ID: "rtb-pub", VPC: "vpc-1", Subnets: []string{"subnet-pub"}, Routes: []reach.Route{
			{Destination: cidr("10.0.0.0/16"), Target: reach.Local}, {Destination: cidr("2600::/56"), Target: reach.Local},
			{Destination: anyone, Target: "igw-1"}, {Destination: anyone6, Target: "igw-1"},
		}},
		&reach.RouteTable{ID: "rtb-priv", VPC: "vpc-1", Main: true, Routes: []reach.Route{
			{Destination: cidr("10.0.0.0/16"), Target: reach.Local}, {Destination: cidr("2600::/56"), Target: reach.Local},
			{Destination: anyone, Target: "nat-1"}, {Destination: anyone6, Target: "eigw-1"},
		}},
		&reach.SecurityGroup{ID: "sg-web", VPC: "vpc-1", Rules: []reach.Rule{
			everythingOut("sgr-1"), {ID: "sgr-2", Egress: true, Protocol: reach.AllProtocols, CIDR: anyone6},
			tcp("sgr-3", 443, anyone), tcp("sgr-4", 443, anyone6), tcp("sgr-5", 22, cidr("203.0.113.10/32")),
		}},
		&reach.SecurityGroup{ID: "sg-app", VPC: "vpc-1", Rules: []reach.Rule{
			everythingOut("sgr-6"), {ID: "sgr-7", Egress: true, Protocol: reach.AllProtocols, CIDR: anyone6},
			tcp("sgr-8", 8080, "sg-web"), tcp("sgr-9", 22, "sg-connect"), tcp("sgr-10", 9000, "pl-own"),
			{ID: "sgr-11", Protocol: reach.ICMP, ICMPType: 8, ICMPCode: -1, CIDR: cidr("10.0.0.0/24")},
		}},
		&reach.SecurityGroup{ID: "sg-connect", VPC: "vpc-1", Rules: []reach.Rule{everythingOut("sgr-12")}},
		&reach.PrefixList{ID: "pl-own", Name: "own", CIDRs: cidrs("10.0.0.0/28")},
		&reach.Instance{ID: "i-web"}, web, &reach.Instance{ID: "i-app", ResourceName: true}, app,
		eni("eni-connect", "vpc-1", "subnet-priv", "10.0.1.50", "", "sg-connect"),
		&reach.ConnectEndpoint{ID: "eice-1", VPC: "vpc-1", Subnet: "subnet-priv", State: "create-complete", Interface: "eni-connect"},
	} {
		d.Put(r)
	}
	return d.Snapshot()
}
