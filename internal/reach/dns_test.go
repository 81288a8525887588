package reach_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/reach"
)

// Hosted zones answer for their VPCs, the most specific one first, and public ones for all clients.
func TestHostedZones(t *testing.T) {
	s := edit(closed(), &reach.HostedZone{ID: "Z0CORP", Name: "corp.test", VPCs: []string{"vpc-k8s"}, Records: map[string]reach.Record{
		"corp.test": {}, "db.corp.test": {Addresses: []netip.Addr{ip("10.0.1.10")}}, "www.corp.test": {Target: "db.corp.test"},
		"*.apps.corp.test": {Target: "db.corp.test"}, "text.apps.corp.test": {}, "loop.corp.test": {Target: "loop.corp.test"}, "api.corp.test": {Target: clusterName},
	}}, &reach.HostedZone{ID: "Z0DEEP", Name: "deep.corp.test", VPCs: []string{"vpc-k8s"}, Records: map[string]reach.Record{"deep.corp.test": {Addresses: []netip.Addr{ip("10.0.1.11")}}}},
		&reach.HostedZone{ID: "Z0PUBLIC", Name: "corp.test", Records: map[string]reach.Record{"www.corp.test": {Addresses: []netip.Addr{ip("192.0.2.7")}}}})
	worker, bastion := reach.At("i-worker"), reach.At("i-bastion")
	const private = "private hosted zone Z0CORP (corp.test)"
	for _, tt := range []struct {
		net         *reach.Snapshot
		from        reach.Endpoint
		query, want string
	}{
		{s, worker, "db.corp.test", "[10.0.1.10] " + private},
		{s, worker, "WWW.Corp.Test.", "[10.0.1.10] " + private + ", alias of db.corp.test, " + private},
		{s, worker, "a.b.apps.corp.test", "[10.0.1.10] " + private + ", alias of db.corp.test, " + private},
		{s, worker, "api.corp.test", "[10.0.1.50 10.0.2.50] " + private + ", alias of " + clusterName + ", private hosted zone of arn:aws:eks:us-east-1:000000000000:cluster/demo"},
		{s, worker, "text.apps.corp.test", "text.apps.corp.test has no address in the " + private},
		{s, worker, "x.text.apps.corp.test", "x.text.apps.corp.test has no address in the " + private},
		{s, worker, "none.corp.test", "none.corp.test has no address in the " + private},
		{s, worker, "loop.corp.test", "loop.corp.test leads to loop.corp.test through more than 8 aliases"},
		{s, worker, "deep.corp.test", "[10.0.1.11] private hosted zone Z0DEEP (deep.corp.test)"},
		{s, bastion, "www.corp.test", "[192.0.2.7] public hosted zone Z0PUBLIC (corp.test)"},
		{s, laptop, "www.corp.test", "[192.0.2.7] public hosted zone Z0PUBLIC (corp.test)"},
		{s, laptop, "db.corp.test", "db.corp.test has no address in the public hosted zone Z0PUBLIC (corp.test)"},
		{edit(s, &reach.HostedZone{ID: "Z0OTHER", Name: "other.test", VPCs: []string{"vpc-k8s", "vpc-more"}}), bastion, "db.other.test",
			"db.other.test does not exist in public DNS, and the private hosted zone Z0OTHER (other.test) answers only in vpc-k8s, vpc-more"},
		{edit(s, &reach.HostedZone{ID: "Z0AWS", Name: "amazonaws.com", VPCs: []string{"vpc-k8s"}}), bastion, "sts.us-west-2.amazonaws.com",
			"[" + reach.StableAddress("sts.us-west-2.amazonaws.com").String() + "] public DNS"},
		{with(t, s, "vpc-k8s", func(v *reach.VPC) { v.DNSHostnames = false }), worker, "db.corp.test", "enableDnsHostnames of vpc-k8s is off: the private hosted zone Z0CORP does not answer there"},
		{with(t, s, "vpc-k8s", func(v *reach.VPC) { v.Resolvers = []netip.Addr{ip("10.0.0.53")} }), worker, "www.corp.test",
			"[192.0.2.7] public hosted zone Z0PUBLIC (corp.test), by the DNS server 10.0.0.53 of the DHCP options of vpc-k8s"},
	} {
		r := tt.net.Resolve(tt.from, tt.query)
		got := fmt.Sprintf("%v %s", r.Addresses, r.By)
		if r.Explanation != nil {
			got = r.Explanation.Text
		}
		if got != tt.want {
			t.Errorf("%s from %s:\n%s\nwant\n%s", tt.query, tt.from.ID, got, tt.want)
		}
	}
}

// What names resolve to, depending on who asks.
func TestResolve(t *testing.T) {
	s := edit(closed(), &reach.Instance{ID: "i-0000000000000000a", ResourceName: true},
		eni("eni-named", "vpc-k8s", "subnet-a", "10.0.1.33", "i-0000000000000000a", "sg-worker"))
	worker, operator, bastion := reach.At("i-worker"), reach.At("i-operator"), reach.At("i-bastion")
	vpc := func(fn func(*reach.VPC)) *reach.Snapshot { return with(t, s, "vpc-k8s", fn) }
	noHostnames := vpc(func(v *reach.VPC) { v.DNSHostnames = false })
	const service, store, aws = "public service", "S3", "none"
	s3 := netip.MustParsePrefix("54.231.0.0/16")
	for _, tt := range []struct {
		name  string
		net   *reach.Snapshot
		from  reach.Endpoint
		query string
		want  string // addresses; or S3, a public service, none
	}{
		{"private DNS of an endpoint, own zone first", s, worker, "ec2.us-east-1.amazonaws.com", "10.0.1.100 10.0.2.100"},
		{"from the other zone", with(t, s, "eni-operator", func(e *reach.Interface) { e.Zone = "us-east-1b" }), operator, "ec2.us-east-1.amazonaws.com", "10.0.2.100 10.0.1.100"},
		{"case and the last dot do not count", s, worker, "EC2.us-east-1.amazonaws.com.", "10.0.1.100 10.0.2.100"},
		{"wildcard", s, worker, "123456789012.dkr.ecr.us-east-1.amazonaws.com", "10.0.1.101"},
		{"other region", s, worker, "ec2.us-west-2.amazonaws.com", service},
		{"from the peered VPC", s, bastion, "ec2.us-east-1.amazonaws.com", service},
		{"from the laptop", s, laptop, "ec2.us-east-1.amazonaws.com", service},
		{"without DNS hostnames", noHostnames, worker, "ec2.us-east-1.amazonaws.com", service},
		{"without DNS", vpc(func(v *reach.VPC) { v.DNSSupport = false }), worker, "ec2.us-east-1.amazonaws.com", aws},
		{"own DNS servers", vpc(func(v *reach.VPC) { v.Resolvers = []netip.Addr{ip("10.0.0.53")} }), worker, "ec2.us-east-1.amazonaws.com", service},
		{"endpoint not ready", with(t, s, "vpce-ec2", func(e *reach.VPCEndpoint) { e.State = "pending" }), worker, "ec2.us-east-1.amazonaws.com", service},
		{"endpoint's own name", s, laptop, "vpce-ec2-x.ec2.us-east-1.vpce.amazonaws.com", "10.0.1.100 10.0.2.100"},
		{"endpoint's own name of a zone", s, laptop, "vpce-ec2-x-us-east-1b.ec2.us-east-1.vpce.amazonaws.com", "10.0.2.100"},
		{"S3", s, worker, "s3.us-east-1.amazonaws.com", store},
		{"a bucket", s, worker, "prod-us-east-1-starport-layer-bucket.s3.us-east-1.amazonaws.com", store},
		{"a bucket without region", s, laptop, "bucket.s3.amazonaws.com", store},
		{"a bucket elsewhere", s, laptop, "bucket.s3.eu-west-1.amazonaws.com", service},
		{"the API server, inside", s, worker, clusterName, "10.0.1.50 10.0.2.50"},
		{"the API server, from a peered VPC", s, bastion, clusterName, "52.94.7.7"},
		{"the API server, outside", s, laptop, clusterName, "52.94.7.7"},
		{"the API server, private access only, outside", with(t, s, clusterName, func(h *reach.HostName) { h.Public = nil }), laptop, clusterName, "10.0.1.50 10.0.2.50"},
		{"the API server, public access only, inside", with(t, s, clusterName, func(h *reach.HostName) { h.VPC = "" }), worker, clusterName, "52.94.7.7"},
		{"private name", s, operator, "ip-10-0-1-10.ec2.internal", "10.0.1.10"},
		{"private name, outside", s, laptop, "ip-10-0-1-10.ec2.internal", aws},
		{"private name of another VPC", s, bastion, "ip-10-0-1-10.ec2.internal", aws},
		{"private name without DNS hostnames", noHostnames, operator, "ip-10-0-1-10.ec2.internal", aws},
		{"name by ID", s, operator, "i-0000000000000000a.ec2.internal", "10.0.1.33"},
		{"name by ID that is not turned on", s, operator, "i-0000000000000000b.ec2.internal", aws},
		{"public name, outside", s, laptop, "ec2-54-0-0-5.compute-1.amazonaws.com", "54.0.0.5"},
		{"public name, inside", s, bastion, "ec2-54-0-0-5.compute-1.amazonaws.com", "10.9.1.5"},
		{"public name, from a peered VPC", s, worker, "ec2-54-0-0-5.compute-1.amazonaws.com", "10.9.1.5"},
		{"public name, from a peered VPC without the option", with(t, s, "pcx-1", func(p *reach.Peering) { p.Requester.ResolveRemote = false }), worker, "ec2-54-0-0-5.compute-1.amazonaws.com", "54.0.0.5"},
		{"public name of nobody", s, laptop, "ec2-54-0-0-6.compute-1.amazonaws.com", aws},
		{"an address", s, laptop, "192.0.2.1", "192.0.2.1"},
		{"no name", s, laptop, "not a name", aws},
		{"a label alone", s, laptop, "localhost", aws},
		{"a name too long", s, laptop, strings.Repeat("a.", 200) + "com", aws},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := tt.net.Resolve(tt.from, tt.query)
			var got []string
			for _, a := range r.Addresses {
				got = append(got, a.String())
			}
			answer := strings.Join(got, " ")
			switch {
			case len(got) == 0 && r.Explanation != nil:
				answer = aws
			case len(got) == 1 && s3.Contains(r.Addresses[0]):
				answer = store
			case len(got) == 1 && netip.MustParsePrefix("99.77.128.0/17").Contains(r.Addresses[0]):
				answer = service
			}
			if diff := cmp.Diff(tt.want, answer); diff != "" {
				t.Errorf("%s (by %s, %+v)", diff, r.By, r.Explanation)
			}
		})
	}
	if a, b := s.Resolve(laptop, "example.com"), s.Resolve(worker, "example.com"); a.Addresses[0] != b.Addresses[0] {
		t.Error("a public name has two addresses")
	}
}
