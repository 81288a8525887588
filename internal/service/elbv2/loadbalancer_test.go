package elbv2_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestLoadBalancerLife(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	group := testkit.Must(w.ec2.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("lb"), Description: aws.String("lb"), VpcId: &w.vpc}))(t).GroupId
	in := &awselbv2.CreateLoadBalancerInput{
		Name: aws.String("web"), Type: elbv2types.LoadBalancerTypeEnumNetwork, Subnets: w.subnets[:2], SecurityGroups: []string{*group},
		Tags: []elbv2types.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	}
	made := testkit.Must(w.CreateLoadBalancer(ctx, in))(t).LoadBalancers[0]
	if made.State.Code != elbv2types.LoadBalancerStateEnumProvisioning {
		t.Errorf("state %s when it is made", made.State.Code)
	}
	if !regexp.MustCompile(`^web-[0-9a-f]{16}\.elb\.us-east-1\.amazonaws\.com$`).MatchString(*made.DNSName) || *made.CanonicalHostedZoneId != "Z26RNL4JYFTOTI" {
		t.Errorf("name %s in zone %s", *made.DNSName, *made.CanonicalHostedZoneId)
	}
	lb := w.active(*made.LoadBalancerArn)
	if got := []string{*lb.AvailabilityZones[0].ZoneName, *lb.AvailabilityZones[1].ZoneName}; !slices.Equal(got, w.zones[:2]) {
		t.Errorf("zones %v", got)
	}
	again := testkit.Must(w.CreateLoadBalancer(ctx, in))(t).LoadBalancers[0]
	if *again.LoadBalancerArn != *lb.LoadBalancerArn {
		t.Error("the same request made another load balancer")
	}

	enis := w.interfaces()
	if len(enis) != 2 {
		t.Fatalf("%d interfaces", len(enis))
	}
	for _, e := range enis {
		id := strings.SplitN(*lb.LoadBalancerArn, "loadbalancer/", 2)[1]
		if *e.Description != "ELB "+id || !*e.RequesterManaged || *e.RequesterId != "amazon-elb" || e.Status != ec2types.NetworkInterfaceStatusInUse ||
			e.Association == nil || *e.Groups[0].GroupId != *group || e.InterfaceType != ec2types.NetworkInterfaceTypeNetworkLoadBalancer {
			t.Errorf("interface %+v", e)
		}
		_, err := w.ec2.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: e.NetworkInterfaceId})
		testkit.WantErrorWith(t, err, "InvalidParameterValue", "is currently in use.")
	}
	_, err := w.ec2.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: group})
	testkit.WantErrorWith(t, err, "DependencyViolation", "has a dependent object")
	_, err = w.ec2.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: &w.subnets[0]})
	testkit.WantErrorWith(t, err, "DependencyViolation", "has dependencies and cannot be deleted")

	testkit.Must(w.SetSubnets(ctx, &awselbv2.SetSubnetsInput{LoadBalancerArn: lb.LoadBalancerArn, Subnets: w.subnets[1:3]}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		var in []string
		for _, e := range w.interfaces() {
			in = append(in, *e.SubnetId)
		}
		slices.Sort(in)
		if want := slices.Sorted(slices.Values(w.subnets[1:3])); !slices.Equal(in, want) {
			return fmt.Errorf("interfaces in %v", in)
		}
		return nil
	})

	testkit.Must(w.ModifyLoadBalancerAttributes(ctx, &awselbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: lb.LoadBalancerArn, Attributes: []elbv2types.LoadBalancerAttribute{
		{Key: aws.String("deletion_protection.enabled"), Value: aws.String("true")},
	}}))(t)
	_, err = w.DeleteLoadBalancer(ctx, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: lb.LoadBalancerArn})
	testkit.WantErrorWith(t, err, "OperationNotPermitted", "cannot be deleted because deletion protection is enabled")
	testkit.Must(w.ModifyLoadBalancerAttributes(ctx, &awselbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: lb.LoadBalancerArn, Attributes: []elbv2types.LoadBalancerAttribute{
		{Key: aws.String("deletion_protection.enabled"), Value: aws.String("false")},
	}}))(t)
	tags := testkit.Must(w.DescribeTags(ctx, &awselbv2.DescribeTagsInput{ResourceArns: []string{*lb.LoadBalancerArn}}))(t).TagDescriptions[0].Tags
	if len(tags) != 1 || *tags[0].Value != "a" {
		t.Errorf("tags %v", tags)
	}

	testkit.Must(w.DeleteLoadBalancer(ctx, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: lb.LoadBalancerArn}))(t)
	testkit.Must(w.DeleteLoadBalancer(ctx, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: lb.LoadBalancerArn}))(t)
	_, err = w.DescribeLoadBalancers(ctx, &awselbv2.DescribeLoadBalancersInput{Names: []string{"web"}})
	testkit.WantErrorWith(t, err, "LoadBalancerNotFound", "Load balancers '[web]' not found")
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := len(w.interfaces()); n > 0 {
			return fmt.Errorf("%d interfaces are left", n)
		}
		return nil
	})
	testkit.Must(w.ec2.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: group}))(t)
}

// A Network Load Balancer without security groups can leave a zone, and then have another subnet there.
func TestSubnetsOfNetworkLoadBalancer(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	lb := w.network("n")
	zone := w.zones[0]
	other := *testkit.Must(w.ec2.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &w.vpc, CidrBlock: aws.String("172.31.240.0/24"), AvailabilityZone: &zone}))(t).Subnet.SubnetId
	set := func(subnets ...string) error {
		_, err := w.SetSubnets(ctx, &awselbv2.SetSubnetsInput{LoadBalancerArn: lb.LoadBalancerArn, Subnets: subnets})
		return err
	}
	testkit.WantErrorWith(t, set(other, w.subnets[1]), "InvalidConfigurationRequest",
		"The Availability Zone '"+zone+"' corresponding to the new subnet '"+other+"' is already associated with the load balancer.")
	for _, subnets := range [][]string{{w.subnets[1]}, {other, w.subnets[1]}} {
		if err := set(subnets...); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 10*time.Second, func() error {
			var in []string
			for _, e := range w.interfaces() {
				in = append(in, *e.SubnetId)
			}
			if slices.Sort(in); !slices.Equal(in, slices.Sorted(slices.Values(subnets))) {
				return fmt.Errorf("interfaces in %v", in)
			}
			return nil
		})
	}
}

// A Network Load Balancer keeps its Elastic IP addresses if it gets another subnet.
func TestAddressesAreKept(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	address := testkit.Must(w.ec2.AllocateAddress(ctx, &awsec2.AllocateAddressInput{}))(t)
	mapped := elbv2types.SubnetMapping{SubnetId: &w.subnets[0], AllocationId: address.AllocationId}
	lb := testkit.Must(w.CreateLoadBalancer(ctx, &awselbv2.CreateLoadBalancerInput{
		Name: aws.String("n"), Type: elbv2types.LoadBalancerTypeEnumNetwork, SubnetMappings: []elbv2types.SubnetMapping{mapped},
	}))(t).LoadBalancers[0]
	w.active(*lb.LoadBalancerArn)
	zones := testkit.Must(w.SetSubnets(ctx, &awselbv2.SetSubnetsInput{
		LoadBalancerArn: lb.LoadBalancerArn, SubnetMappings: []elbv2types.SubnetMapping{mapped, {SubnetId: &w.subnets[1]}},
	}))(t).AvailabilityZones
	if len(zones) != 2 || len(zones[0].LoadBalancerAddresses) != 1 || aws.ToString(zones[0].LoadBalancerAddresses[0].IpAddress) != *address.PublicIp {
		t.Errorf("zones %+v", zones)
	}
	_, err := w.SetSubnets(ctx, &awselbv2.SetSubnetsInput{
		LoadBalancerArn: lb.LoadBalancerArn, SubnetMappings: []elbv2types.SubnetMapping{mapped, {SubnetId: &w.subnets[2], AllocationId: address.AllocationId}},
	})
	testkit.WantErrorWith(t, err, "ResourceInUse", "are not available for use")
}

func TestCreateLoadBalancerRefusals(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.network("taken")
	private := *testkit.Must(w.ec2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.9.0.0/16")}))(t).Vpc.VpcId
	subnet := func(block, zone string) string {
		return *testkit.Must(w.ec2.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &private, CidrBlock: &block, AvailabilityZone: &zone}))(t).Subnet.SubnetId
	}
	closed, tiny := subnet("10.9.0.0/24", w.zones[0]), subnet("10.9.1.0/28", w.zones[1])
	for i := range 5 { // 11 addresses are free
		testkit.Must(w.ec2.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &tiny, Description: aws.String(fmt.Sprint(i))}))(t)
	}
	twin := subnet("10.9.2.0/24", w.zones[0])
	eip := *testkit.Must(w.ec2.AllocateAddress(ctx, &awsec2.AllocateAddressInput{}))(t).AllocationId
	network, internal := elbv2types.LoadBalancerTypeEnumNetwork, elbv2types.LoadBalancerSchemeEnumInternal
	for name, tt := range map[string]struct {
		in            awselbv2.CreateLoadBalancerInput
		code, message string
	}{
		"no name":                  {awselbv2.CreateLoadBalancerInput{Name: aws.String("")}, "ValidationError", "A load balancer name must be specified"},
		"long name":                {awselbv2.CreateLoadBalancerInput{Name: aws.String(strings.Repeat("a", 33))}, "ValidationError", "cannot be longer than '32' characters"},
		"hyphen":                   {awselbv2.CreateLoadBalancerInput{Name: aws.String("a-")}, "ValidationError", "cannot begin or end with '-'"},
		"internal-":                {awselbv2.CreateLoadBalancerInput{Name: aws.String("internal-a")}, "ValidationError", "cannot begin with 'internal-'"},
		"characters":               {awselbv2.CreateLoadBalancerInput{Name: aws.String("a_b")}, "ValidationError", "can only contain characters that are alphanumeric characters and hyphens(-)"},
		"type":                     {awselbv2.CreateLoadBalancerInput{Type: "classic"}, "ValidationError", "Member must satisfy enum value set: [application, network, gateway]"},
		"gateway":                  {awselbv2.CreateLoadBalancerInput{Type: "gateway"}, "NotImplemented", "Gateway Load Balancers"},
		"dualstack":                {awselbv2.CreateLoadBalancerInput{IpAddressType: "dualstack"}, "NotImplemented", "dualstack"},
		"taken name":               {awselbv2.CreateLoadBalancerInput{Name: aws.String("taken"), Subnets: w.subnets[:2]}, "DuplicateLoadBalancerName", "A load balancer with the same name 'taken' exists, but with different settings"},
		"no subnets":               {awselbv2.CreateLoadBalancerInput{}, "ValidationError", "At least two subnets in two different Availability Zones must be specified"},
		"one subnet":               {awselbv2.CreateLoadBalancerInput{Subnets: w.subnets[:1]}, "ValidationError", "At least two subnets in two different Availability Zones must be specified"},
		"one zone":                 {awselbv2.CreateLoadBalancerInput{Subnets: []string{closed, twin}, Scheme: internal}, "InvalidConfigurationRequest", "A load balancer cannot be attached to multiple subnets in the same Availability Zone"},
		"two VPCs":                 {awselbv2.CreateLoadBalancerInput{Subnets: []string{w.subnets[1], closed}}, "InvalidConfigurationRequest", "All subnets must belong to the same VPC: '"},
		"no such subnet":           {awselbv2.CreateLoadBalancerInput{Subnets: []string{"subnet-0123456789abcdef0"}}, "SubnetNotFound", "InvalidSubnetID.NotFound"},
		"no internet gateway":      {awselbv2.CreateLoadBalancerInput{Type: network, Subnets: []string{closed}}, "InvalidSubnet", "has no internet gateway"},
		"full subnet":              {awselbv2.CreateLoadBalancerInput{Type: network, Scheme: internal, Subnets: []string{tiny}}, "InvalidSubnet", "Not enough IP space available in " + tiny + ". ELB requires at least 8 free IP addresses in each subnet."},
		"no such group":            {awselbv2.CreateLoadBalancerInput{Subnets: w.subnets[:2], SecurityGroups: []string{"sg-0123456789abcdef0"}}, "InvalidSecurityGroup", "The security group 'sg-0123456789abcdef0' does not exist"},
		"subnets twice":            {awselbv2.CreateLoadBalancerInput{Subnets: w.subnets[:2], SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: &w.subnets[0]}}}, "ValidationError", "but not both"},
		"address for application":  {awselbv2.CreateLoadBalancerInput{SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: &w.subnets[0], AllocationId: &eip}}}, "InvalidConfigurationRequest", "Application Load Balancer"},
		"elastic address, private": {awselbv2.CreateLoadBalancerInput{Type: network, Scheme: internal, SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: &w.subnets[0], AllocationId: &eip}}}, "InvalidConfigurationRequest", "Elastic IPs are not supported for load balancers with scheme 'internal'"},
		"private address, public":  {awselbv2.CreateLoadBalancerInput{Type: network, SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: &w.subnets[0], PrivateIPv4Address: aws.String("172.31.0.9")}}}, "ValidationError", "You can only specify private IPv4 addresses for Network Load Balancers with scheme 'internal'."},
		"no such elastic address":  {awselbv2.CreateLoadBalancerInput{Type: network, SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: &w.subnets[0], AllocationId: aws.String("eipalloc-0123456789abcdef0")}}}, "AllocationIdNotFound", "eipalloc-0123456789abcdef0"},
		"tag twice":                {awselbv2.CreateLoadBalancerInput{Subnets: w.subnets[:2], Tags: []elbv2types.Tag{{Key: aws.String("a")}, {Key: aws.String("a")}}}, "DuplicateTagKeys", "'a'"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.in.Name == nil {
				tt.in.Name = aws.String("other")
			}
			_, err := w.CreateLoadBalancer(ctx, &tt.in)
			testkit.WantErrorWith(t, err, tt.code, tt.message)
		})
	}
	if n := len(testkit.Must(w.DescribeLoadBalancers(ctx, &awselbv2.DescribeLoadBalancersInput{}))(t).LoadBalancers); n != 1 {
		t.Errorf("%d load balancers after refusals", n)
	}
}

// The interfaces have the addresses chosen in the request.
func TestChosenAddresses(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	eip := testkit.Must(w.ec2.AllocateAddress(ctx, &awsec2.AllocateAddressInput{}))(t)
	lb := testkit.Must(w.CreateLoadBalancer(ctx, &awselbv2.CreateLoadBalancerInput{
		Name: aws.String("fixed"), Type: elbv2types.LoadBalancerTypeEnumNetwork, SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: &w.subnets[0], AllocationId: eip.AllocationId}},
	}))(t).LoadBalancers[0]
	w.active(*lb.LoadBalancerArn)
	if got := w.interfaces()[0].Association; *got.PublicIp != *eip.PublicIp {
		t.Errorf("association %+v", got)
	}
	if got := lb.AvailabilityZones[0].LoadBalancerAddresses; len(got) != 1 || *got[0].IpAddress != *eip.PublicIp {
		t.Errorf("addresses %+v", got)
	}
	_, err := w.CreateLoadBalancer(ctx, &awselbv2.CreateLoadBalancerInput{
		Name: aws.String("second"), Type: elbv2types.LoadBalancerTypeEnumNetwork, SubnetMappings: []elbv2types.SubnetMapping{{SubnetId: &w.subnets[0], AllocationId: eip.AllocationId}},
	})
	testkit.WantErrorWith(t, err, "ResourceInUse", "not available for use")
	testkit.Must(w.DeleteLoadBalancer(ctx, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: lb.LoadBalancerArn}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		_, err := w.ec2.ReleaseAddress(ctx, &awsec2.ReleaseAddressInput{AllocationId: eip.AllocationId})
		return err
	})
}

func TestAttributes(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	app, net := w.application("app"), w.network("net")
	set := func(lb elbv2types.LoadBalancer, kv ...string) error {
		in := &awselbv2.ModifyLoadBalancerAttributesInput{LoadBalancerArn: lb.LoadBalancerArn}
		for i := 0; i < len(kv); i += 2 {
			in.Attributes = append(in.Attributes, elbv2types.LoadBalancerAttribute{Key: &kv[i], Value: &kv[i+1]})
		}
		_, err := w.ModifyLoadBalancerAttributes(ctx, in)
		return err
	}
	if r := testkit.Must(w.DescribeCapacityReservation(ctx, &awselbv2.DescribeCapacityReservationInput{LoadBalancerArn: app.LoadBalancerArn}))(t); r.MinimumLoadBalancerCapacity != nil || len(r.CapacityReservationState) > 0 {
		t.Errorf("reserved capacity: %+v", r)
	}
	_, err := w.DescribeCapacityReservation(ctx, &awselbv2.DescribeCapacityReservationInput{LoadBalancerArn: aws.String(*app.LoadBalancerArn + "0")})
	testkit.WantErrorWith(t, err, "LoadBalancerNotFound", "")
	_, err = w.SetSecurityGroups(ctx, &awselbv2.SetSecurityGroupsInput{LoadBalancerArn: net.LoadBalancerArn, SecurityGroups: app.SecurityGroups})
	testkit.WantErrorWith(t, err, "InvalidConfigurationRequest", "You cannot set security groups on a Network Load Balancer which was created without any security groups.")
	testkit.WantErrorWith(t, set(app, "no.such.key", "1"), "ValidationError", "Load balancer attribute key 'no.such.key' is not recognized")
	testkit.WantErrorWith(t, set(net, "idle_timeout.timeout_seconds", "60"), "InvalidConfigurationRequest", "Load balancer attribute key 'idle_timeout.timeout_seconds' is not supported on load balancers with type 'network'")
	testkit.WantErrorWith(t, set(app, "idle_timeout.timeout_seconds", "4001"), "ValidationError", "'4001'")
	testkit.WantErrorWith(t, set(app, "routing.http2.enabled", "yes"), "ValidationError", "'yes'")
	testkit.WantErrorWith(t, set(app, "access_logs.s3.enabled", "true"), "ValidationError", "The value of 'access_logs.s3.bucket' cannot be empty")
	if err := set(app, "idle_timeout.timeout_seconds", "120"); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, a := range testkit.Must(w.DescribeLoadBalancerAttributes(ctx, &awselbv2.DescribeLoadBalancerAttributesInput{LoadBalancerArn: app.LoadBalancerArn}))(t).Attributes {
		got[*a.Key] = *a.Value
	}
	for k, v := range map[string]string{"idle_timeout.timeout_seconds": "120", "load_balancing.cross_zone.enabled": "true", "routing.http2.enabled": "true"} {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
	group := w.group("tcp", elbv2types.ProtocolEnumTcp, 80, elbv2types.TargetTypeEnumIp)
	out := testkit.Must(w.ModifyTargetGroupAttributes(ctx, &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group, Attributes: []elbv2types.TargetGroupAttribute{
		{Key: aws.String("proxy_protocol_v2.enabled"), Value: aws.String("true")},
	}}))(t)
	got = map[string]string{}
	for _, a := range out.Attributes {
		got[*a.Key] = *a.Value
	}
	if diff := cmp.Diff("true false", got["proxy_protocol_v2.enabled"]+" "+got["preserve_client_ip.enabled"]); diff != "" {
		t.Error(diff)
	}
	_, err = w.ModifyTargetGroupAttributes(ctx, &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: &group, Attributes: []elbv2types.TargetGroupAttribute{{Key: aws.String("slow"), Value: aws.String("1")}}})
	testkit.WantErrorWith(t, err, "ValidationError", "Target group attribute key 'slow' is not recognized")
}

// If the interfaces of a deleted load balancer cannot be removed yet, users still no longer see it,
// and the interfaces are removed later. A new load balancer of the same name gets interfaces of its
// own.
func TestInterfacesAreResumed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	old := w.network("web")
	w.breakEC2(true)
	testkit.Must(w.DeleteLoadBalancer(ctx, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: old.LoadBalancerArn}))(t)
	next := testkit.Must(w.CreateLoadBalancer(ctx, &awselbv2.CreateLoadBalancerInput{Name: aws.String("web"), Type: elbv2types.LoadBalancerTypeEnumNetwork, Subnets: w.subnets[1:3]}))(t).LoadBalancers[0]
	if next.State.Code != elbv2types.LoadBalancerStateEnumProvisioning || *next.LoadBalancerArn == *old.LoadBalancerArn {
		t.Errorf("the second one: %+v", next)
	}
	if n := len(w.interfaces()); n != 2 {
		t.Errorf("%d interfaces while nothing can be removed", n)
	}
	w.breakEC2(false)
	w.active(*next.LoadBalancerArn)
	testkit.Eventually(t, 10*time.Second, func() error {
		for _, e := range w.interfaces() {
			if !strings.HasSuffix(*e.Description, strings.SplitN(*next.LoadBalancerArn, "loadbalancer/", 2)[1]) {
				return fmt.Errorf("%s is left", *e.Description)
			}
		}
		return nil
	})
}
