package elb_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is classic load balancing behind an AWS API server, on a real EC2. The test sets the
// results of health checks.
type world struct {
	testing.TB
	*awselb.Client
	ec2     *awsec2.Client
	svc     *elb.Service
	store   *store.Store
	account string
	vpc     string
	subnets []string // default subnets, by zone
	zones   []string

	mu      sync.Mutex
	finding elbnet.Finding
	probe   elbnet.Probe // the latest one
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{TB: t, finding: elbnet.Answers}
	var network *ec2.Service
	var svc *elb.Service
	server := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		network = ec2.New(ec2.Config{Store: st, Timing: timing.Fast(), Log: testkit.Log(t)})
		svc = elb.New(elbnet.Config{
			Store: st, Log: testkit.Log(t), Network: elbnet.Network{
				EC2:              network,
				EnsureInterfaces: network.EnsureManagedInterfaces,
				Probes: func(context.Context, string, string) elbnet.Prober {
					return func(_ context.Context, p elbnet.Probe) elbnet.Finding {
						w.mu.Lock()
						defer w.mu.Unlock()
						w.probe = p
						return w.finding
					}
				},
			},
		})
		w.svc, w.store = svc, st
		return []awsapi.Service{svc.AWS(), network.AWS()}
	}})
	w.account = server.Account(t)
	cfg := server.AWSConfig(w.account)
	w.Client, w.ec2 = awselb.NewFromConfig(cfg), awsec2.NewFromConfig(cfg)
	found := testkit.Must(w.ec2.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{}))(t).Subnets
	slices.SortFunc(found, func(a, b ec2types.Subnet) int { return strings.Compare(*a.AvailabilityZone, *b.AvailabilityZone) })
	for _, sn := range found {
		w.vpc = *sn.VpcId
		w.subnets, w.zones = append(w.subnets, *sn.SubnetId), append(w.zones, *sn.AvailabilityZone)
	}
	testkit.Run(t, network.Run, svc.Run)
	return w
}

func (w *world) find(f elbnet.Finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finding = f
}

func tcp(port, instancePort int32) elbtypes.Listener {
	return elbtypes.Listener{Protocol: aws.String("tcp"), LoadBalancerPort: port, InstancePort: &instancePort, InstanceProtocol: aws.String("tcp")}
}

func (w *world) describe(name string) elbtypes.LoadBalancerDescription {
	w.Helper()
	return testkit.Must(w.DescribeLoadBalancers(context.Background(), &awselb.DescribeLoadBalancersInput{LoadBalancerNames: []string{name}}))(w).LoadBalancerDescriptions[0]
}

func (w *world) interfaces() []ec2types.NetworkInterface {
	w.Helper()
	return testkit.Must(w.ec2.DescribeNetworkInterfaces(context.Background(), &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{{Name: aws.String("description"), Values: []string{"ELB *"}}}}))(w).NetworkInterfaces
}

func (w *world) instance(subnet string) string {
	w.Helper()
	img, ok := images.EKS(testkit.Region, images.AL2023, "1.36", "x86_64", "")
	if !ok {
		w.Fatal("no image")
	}
	id := *testkit.Must(w.ec2.RunInstances(context.Background(), &awsec2.RunInstancesInput{
		ImageId: &img.ID, InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &subnet,
	}))(w).Instances[0].InstanceId
	testkit.Eventually(w, 10*time.Second, func() error {
		i := testkit.Must(w.ec2.DescribeInstances(context.Background(), &awsec2.DescribeInstancesInput{InstanceIds: []string{id}}))(w).Reservations[0].Instances[0]
		if i.State.Name != ec2types.InstanceStateNameRunning {
			return errors.New("the instance is " + string(i.State.Name))
		}
		return nil
	})
	return id
}

// All that Kubernetes' service controller does with a load balancer, from creation to deletion.
func TestLoadBalancerLife(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	name := aws.String("a0123456789abcdef")
	group := testkit.Must(w.ec2.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{GroupName: aws.String("k8s-elb-a"), Description: aws.String("lb"), VpcId: &w.vpc}))(t).GroupId
	in := &awselb.CreateLoadBalancerInput{
		LoadBalancerName: name, Listeners: []elbtypes.Listener{tcp(80, 30080)}, Subnets: w.subnets[:2], SecurityGroups: []string{*group},
		Tags: []elbtypes.Tag{{Key: aws.String("kubernetes.io/service-name"), Value: aws.String("default/web")}},
	}
	dns := *testkit.Must(w.CreateLoadBalancer(ctx, in))(t).DNSName
	if !regexp.MustCompile(`^a0123456789abcdef-\d{9,10}\.us-east-1\.elb\.amazonaws\.com$`).MatchString(dns) {
		t.Errorf("name %s", dns)
	}
	if again := *testkit.Must(w.CreateLoadBalancer(ctx, in))(t).DNSName; again != dns {
		t.Errorf("the same request made %s", again)
	}
	lb := w.describe(*name)
	if *lb.Scheme != "internet-facing" || *lb.HealthCheck.Target != "TCP:30080" || *lb.ListenerDescriptions[0].Listener.Protocol != "TCP" || *lb.SourceSecurityGroup.GroupName != "k8s-elb-a" || *lb.VPCId != w.vpc {
		t.Errorf("described as %+v", lb)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if enis := w.interfaces(); len(enis) != 2 || *enis[0].Description != "ELB "+*name || *enis[0].RequesterId != "amazon-elb" {
			return fmt.Errorf("interfaces: %v", enis)
		}
		return nil
	})
	_, err := w.ec2.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: group})
	testkit.WantErrorWith(t, err, "DependencyViolation", "has a dependent object")

	// Creating the same policy again, here for the proxy protocol, is not an error.
	for range 2 {
		testkit.Must(w.CreateLoadBalancerPolicy(ctx, &awselb.CreateLoadBalancerPolicyInput{
			LoadBalancerName: name, PolicyName: aws.String("k8s-proxyprotocol-enabled"), PolicyTypeName: aws.String("ProxyProtocolPolicyType"),
			PolicyAttributes: []elbtypes.PolicyAttribute{{AttributeName: aws.String("ProxyProtocol"), AttributeValue: aws.String("true")}},
		}))(t)
	}
	testkit.Must(w.SetLoadBalancerPoliciesForBackendServer(ctx, &awselb.SetLoadBalancerPoliciesForBackendServerInput{LoadBalancerName: name, InstancePort: aws.Int32(30080), PolicyNames: []string{"k8s-proxyprotocol-enabled"}}))(t)
	if got := w.describe(*name).BackendServerDescriptions; len(got) != 1 || got[0].PolicyNames[0] != "k8s-proxyprotocol-enabled" {
		t.Errorf("backends %+v", got)
	}
	_, err = w.SetLoadBalancerPoliciesOfListener(ctx, &awselb.SetLoadBalancerPoliciesOfListenerInput{LoadBalancerName: name, LoadBalancerPort: 80, PolicyNames: []string{"k8s-proxyprotocol-enabled"}})
	testkit.WantErrorWith(t, err, "InvalidConfigurationRequest", "k8s-proxyprotocol-enabled cannot be enabled")
	_, err = w.DescribeLoadBalancerPolicies(ctx, &awselb.DescribeLoadBalancerPoliciesInput{LoadBalancerName: name, PolicyNames: []string{"nobody"}})
	testkit.WantErrorWith(t, err, "PolicyNotFound", "There is no policy with name nobody for load balancer "+*name)

	// Terraform creates policies of sticky sessions by the general operation.
	for kind, a := range map[string]elbtypes.PolicyAttribute{
		"AppCookieStickinessPolicyType": {AttributeName: aws.String("CookieName"), AttributeValue: aws.String("session")},
		"LBCookieStickinessPolicyType":  {AttributeName: aws.String("CookieExpirationPeriod"), AttributeValue: aws.String("300")},
	} {
		testkit.Must(w.CreateLoadBalancerPolicy(ctx, &awselb.CreateLoadBalancerPolicyInput{LoadBalancerName: name, PolicyName: &kind, PolicyTypeName: &kind, PolicyAttributes: []elbtypes.PolicyAttribute{a}}))(t)
		got := testkit.Must(w.DescribeLoadBalancerPolicies(ctx, &awselb.DescribeLoadBalancerPoliciesInput{LoadBalancerName: name, PolicyNames: []string{kind}}))(t).PolicyDescriptions[0]
		if d := got.PolicyAttributeDescriptions; *got.PolicyTypeName != kind || len(d) != 1 || *d[0].AttributeValue != *a.AttributeValue {
			t.Errorf("policy %+v", got)
		}
	}

	testkit.Must(w.CreateLoadBalancerListeners(ctx, &awselb.CreateLoadBalancerListenersInput{LoadBalancerName: name, Listeners: []elbtypes.Listener{tcp(443, 30443)}}))(t)
	_, err = w.CreateLoadBalancerListeners(ctx, &awselb.CreateLoadBalancerListenersInput{LoadBalancerName: name, Listeners: []elbtypes.Listener{tcp(443, 30444)}})
	testkit.WantErrorWith(t, err, "DuplicateListener", "A listener already exists for "+*name+" with LoadBalancerPort 443, but with a different InstancePort, Protocol, or SSLCertificateId")
	testkit.Must(w.DeleteLoadBalancerListeners(ctx, &awselb.DeleteLoadBalancerListenersInput{LoadBalancerName: name, LoadBalancerPorts: []int32{443}}))(t)

	testkit.Must(w.AttachLoadBalancerToSubnets(ctx, &awselb.AttachLoadBalancerToSubnetsInput{LoadBalancerName: name, Subnets: w.subnets[2:3]}))(t)
	left := testkit.Must(w.DetachLoadBalancerFromSubnets(ctx, &awselb.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: name, Subnets: w.subnets[:1]}))(t).Subnets
	if len(left) != 2 || slices.Contains(left, w.subnets[0]) {
		t.Errorf("subnets %v", left)
	}
	_, err = w.DetachLoadBalancerFromSubnets(ctx, &awselb.DetachLoadBalancerFromSubnetsInput{LoadBalancerName: name, Subnets: left})
	testkit.WantErrorWith(t, err, "InvalidConfigurationRequest", "no subnets")
	// Terraform enables the zones of each load balancer that it creates, also those in which it is.
	enabled := testkit.Must(w.EnableAvailabilityZonesForLoadBalancer(ctx, &awselb.EnableAvailabilityZonesForLoadBalancerInput{LoadBalancerName: name, AvailabilityZones: w.zones[:2]}))(t).AvailabilityZones
	if !slices.Equal(enabled, w.zones[:3]) {
		t.Errorf("enabled %v, want %v", enabled, w.zones[:3])
	}
	enabled = testkit.Must(w.DisableAvailabilityZonesForLoadBalancer(ctx, &awselb.DisableAvailabilityZonesForLoadBalancerInput{LoadBalancerName: name, AvailabilityZones: w.zones[:1]}))(t).AvailabilityZones
	if got := w.describe(*name); !slices.Equal(enabled, w.zones[1:3]) || !slices.Equal(got.AvailabilityZones, enabled) || len(got.Subnets) != 2 {
		t.Errorf("enabled %v, load balancer %+v", enabled, got)
	}
	_, err = w.EnableAvailabilityZonesForLoadBalancer(ctx, &awselb.EnableAvailabilityZonesForLoadBalancerInput{LoadBalancerName: name, AvailabilityZones: []string{"nowhere"}})
	testkit.WantErrorWith(t, err, "ValidationError", "Invalid Availability Zone(s): nowhere")

	changed := testkit.Must(w.ModifyLoadBalancerAttributes(ctx, &awselb.ModifyLoadBalancerAttributesInput{LoadBalancerName: name, LoadBalancerAttributes: &elbtypes.LoadBalancerAttributes{
		ConnectionSettings: &elbtypes.ConnectionSettings{IdleTimeout: aws.Int32(120)}, CrossZoneLoadBalancing: &elbtypes.CrossZoneLoadBalancing{Enabled: true},
	}}))(t).LoadBalancerAttributes
	if *changed.ConnectionSettings.IdleTimeout != 120 || *changed.ConnectionDraining.Timeout != 300 || !changed.CrossZoneLoadBalancing.Enabled {
		t.Errorf("attributes %+v", changed)
	}
	tags := testkit.Must(w.DescribeTags(ctx, &awselb.DescribeTagsInput{LoadBalancerNames: []string{*name}}))(t).TagDescriptions[0].Tags
	if len(tags) != 1 || *tags[0].Value != "default/web" {
		t.Errorf("tags %v", tags)
	}

	for range 2 { // a missing one is not an error
		testkit.Must(w.DeleteLoadBalancer(ctx, &awselb.DeleteLoadBalancerInput{LoadBalancerName: name}))(t)
	}
	// The interfaces are gone when the call returns, because the controller deletes the group next.
	testkit.Must(w.ec2.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: group}))(t)
	_, err = w.DescribeLoadBalancers(ctx, &awselb.DescribeLoadBalancersInput{LoadBalancerNames: []string{*name}})
	testkit.WantErrorWith(t, err, "LoadBalancerNotFound", "There is no ACTIVE Load Balancer named '"+*name+"'")
}

func TestInstanceHealth(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	name := aws.String("web")
	testkit.Must(w.CreateLoadBalancer(ctx, &awselb.CreateLoadBalancerInput{LoadBalancerName: name, Listeners: []elbtypes.Listener{tcp(80, 30080)}, Subnets: w.subnets[:1]}))(t)
	near, far := w.instance(w.subnets[0]), w.instance(w.subnets[1])
	testkit.Must(w.RegisterInstancesWithLoadBalancer(ctx, &awselb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name, Instances: []elbtypes.Instance{{InstanceId: &near}, {InstanceId: &far}}}))(t)
	state := func(id string) string {
		t.Helper()
		st := testkit.Must(w.DescribeInstanceHealth(ctx, &awselb.DescribeInstanceHealthInput{LoadBalancerName: name, Instances: []elbtypes.Instance{{InstanceId: &id}}}))(t).InstanceStates[0]
		return *st.State + " " + *st.ReasonCode + " " + *st.Description
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if got := state(near); got != "InService N/A N/A" {
			return errors.New(got)
		}
		return nil
	})
	if w.probe.Instance != near || w.probe.Port != 30080 || w.probe.Protocol != "TCP" {
		t.Errorf("probe %+v", w.probe)
	}
	if got := state(far); got != "OutOfService ELB Instance is in the EC2 Availability Zone for which LoadBalancer is not configured to route traffic to." {
		t.Error(got)
	}
	testkit.Must(w.ConfigureHealthCheck(ctx, &awselb.ConfigureHealthCheckInput{LoadBalancerName: name, HealthCheck: &elbtypes.HealthCheck{
		Target: aws.String("HTTP:31000/healthz"), Interval: aws.Int32(10), Timeout: aws.Int32(5), HealthyThreshold: aws.Int32(2), UnhealthyThreshold: aws.Int32(6),
	}}))(t)
	w.find(elbnet.Refused)
	if got := state(near); got != "OutOfService Instance Instance has failed at least the UnhealthyThreshold number of health checks consecutively." {
		t.Error(got)
	}
	if w.probe.Port != 31000 || w.probe.Path != "/healthz" {
		t.Errorf("probe %+v", w.probe)
	}
	auto := awsapi.WithCall(ctx, &awsapi.Call{Account: w.account, Region: testkit.Region})
	failing := func(want []string, after time.Duration) {
		t.Helper()
		passing, got, took, err := w.svc.InstanceHealth(auto, *name, []string{near})
		if err != nil || len(passing) > 0 || !slices.Equal(got, want) || took != after {
			t.Errorf("Auto Scaling sees %v pass, %v fail after %s: %v", passing, got, took, err)
		}
	}
	failing([]string{near}, time.Minute)
	w.find(elbnet.Unclaimed)
	if got := state(near); !strings.HasPrefix(got, "OutOfService Instance Instance has failed") {
		t.Error(got)
	}
	failing(nil, time.Minute)
	w.find(elbnet.Unknown)
	if got := state(near); got != "Unknown ELB A transient error occurred. Please try again later." {
		t.Error(got)
	}
	testkit.Must(w.ec2.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{near}}))(t)
	if got := state(near); got != "OutOfService Instance Instance is in stopped state." {
		t.Error(got)
	}
	rest := testkit.Must(w.DeregisterInstancesFromLoadBalancer(ctx, &awselb.DeregisterInstancesFromLoadBalancerInput{LoadBalancerName: name, Instances: []elbtypes.Instance{{InstanceId: &near}}}))(t).Instances
	if len(rest) != 1 || *rest[0].InstanceId != far {
		t.Errorf("left %v", rest)
	}
	_, err := w.RegisterInstancesWithLoadBalancer(ctx, &awselb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: name, Instances: []elbtypes.Instance{{InstanceId: aws.String("i-0123456789abcdef0")}}})
	testkit.WantErrorWith(t, err, "InvalidInstance", "Could not find EC2 instance i-0123456789abcdef0.")
	_, err = w.DescribeInstanceHealth(ctx, &awselb.DescribeInstanceHealthInput{LoadBalancerName: name, Instances: []elbtypes.Instance{{InstanceId: &near}}})
	testkit.WantErrorWith(t, err, "InvalidInstance", near)
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	good := []elbtypes.Listener{tcp(80, 30080)}
	testkit.Must(w.CreateLoadBalancer(ctx, &awselb.CreateLoadBalancerInput{LoadBalancerName: aws.String("taken"), Listeners: good, Subnets: w.subnets[:1]}))(t)
	closed := *testkit.Must(w.ec2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.9.0.0/16")}))(t).Vpc.VpcId
	private := *testkit.Must(w.ec2.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &closed, CidrBlock: aws.String("10.9.0.0/24"), AvailabilityZone: &w.zones[0]}))(t).Subnet.SubnetId
	elsewhere := *testkit.Must(w.ec2.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: &closed, GroupName: aws.String("elsewhere"), Description: aws.String("elsewhere")}))(t).GroupId
	twin := *testkit.Must(w.ec2.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &closed, CidrBlock: aws.String("10.9.1.0/24"), AvailabilityZone: &w.zones[0]}))(t).Subnet.SubnetId
	for name, tt := range map[string]struct {
		in            awselb.CreateLoadBalancerInput
		code, message string
	}{
		"name":                {awselb.CreateLoadBalancerInput{LoadBalancerName: aws.String("a_b"), Listeners: good}, "ValidationError", "LoadBalancer name cannot contain characters that are not letters, or digits or the dash."},
		"no name":             {awselb.CreateLoadBalancerInput{LoadBalancerName: aws.String(""), Listeners: good}, "ValidationError", "LoadBalancerName must be specified"},
		"long name":           {awselb.CreateLoadBalancerInput{LoadBalancerName: aws.String(strings.Repeat("a", 33)), Listeners: good}, "ValidationError", "LoadBalancer name cannot be longer than 32 characters"},
		"hyphen":              {awselb.CreateLoadBalancerInput{LoadBalancerName: aws.String("a-"), Listeners: good}, "ValidationError", "cannot begin or end with a hyphen"},
		"taken name":          {awselb.CreateLoadBalancerInput{LoadBalancerName: aws.String("taken"), Listeners: good, Subnets: w.subnets[:2]}, "DuplicateLoadBalancerName", "Load Balancer named taken already exists and it is configured with different parameters."},
		"taken name, tags":    {awselb.CreateLoadBalancerInput{LoadBalancerName: aws.String("taken"), Listeners: good, Subnets: w.subnets[:1], Tags: []elbtypes.Tag{{Key: aws.String("a")}}}, "DuplicateLoadBalancerName", "Load Balancer named taken already exists and it is configured with different tags."},
		"no listeners":        {awselb.CreateLoadBalancerInput{Listeners: []elbtypes.Listener{}, Subnets: w.subnets[:1]}, "ValidationError", "Listeners cannot be empty"},
		"protocol":            {awselb.CreateLoadBalancerInput{Listeners: []elbtypes.Listener{{Protocol: aws.String("udp"), LoadBalancerPort: 1, InstancePort: aws.Int32(1)}}}, "UnsupportedProtocol", "UDP"},
		"layers":              {awselb.CreateLoadBalancerInput{Listeners: []elbtypes.Listener{{Protocol: aws.String("http"), InstanceProtocol: aws.String("tcp"), LoadBalancerPort: 1, InstancePort: aws.Int32(1)}}}, "ValidationError", "layer"},
		"port":                {awselb.CreateLoadBalancerInput{Listeners: []elbtypes.Listener{tcp(0, 1)}}, "ValidationError", "range 1 to 65535"},
		"instance port":       {awselb.CreateLoadBalancerInput{Listeners: []elbtypes.Listener{tcp(1, 1), tcp(2, 65536)}}, "ValidationError", "1 validation error detected: Value '65536' at 'listeners.2.member.instancePort' failed to satisfy constraint: Member must have value less than or equal to 65535"},
		"long tag":            {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: w.subnets[:1], Tags: []elbtypes.Tag{{Key: aws.String(strings.Repeat("k", 129))}}}, "ValidationError", "' at 'tags.1.member.key' failed to satisfy constraint: Member must have length less than or equal to 128"},
		"certificate":         {awselb.CreateLoadBalancerInput{Listeners: []elbtypes.Listener{{Protocol: aws.String("https"), LoadBalancerPort: 443, InstancePort: aws.Int32(1), SSLCertificateId: aws.String("mine")}}}, "CertificateNotFound", "Server Certificate not found for the key: mine"},
		"nowhere":             {awselb.CreateLoadBalancerInput{Listeners: good}, "ValidationError", "Either AvailabilityZones or SubnetIds must be specified"},
		"twice":               {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: w.subnets[:1], AvailabilityZones: w.zones[:1]}, "ValidationError", "Only one of SubnetIds or AvailabilityZones may be specified"},
		"no such subnet":      {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: []string{"subnet-0123456789abcdef0"}}, "SubnetNotFound", "subnet-0123456789abcdef0"},
		"one zone":            {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: []string{private, twin}}, "InvalidConfigurationRequest", "ELB cannot be attached to multiple subnets in the same AZ."},
		"no internet gateway": {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: []string{private}}, "InvalidSubnet", "has no internet gateway"},
		"no such group":       {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: w.subnets[:1], SecurityGroups: []string{"sg-0123456789abcdef0"}}, "InvalidSecurityGroup", "sg-0123456789abcdef0"},
		"six groups":          {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: w.subnets[:1], SecurityGroups: []string{"sg-1", "sg-2", "sg-3", "sg-4", "sg-5", "sg-6"}}, "InvalidConfigurationRequest", "The maximum number of security groups per load balancer has been reached."},
		"group elsewhere":     {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: w.subnets[:1], SecurityGroups: []string{elsewhere}}, "InvalidConfigurationRequest", "Security group \"" + elsewhere + "\" does not belong to VPC \"" + w.vpc + "\""},
		"scheme":              {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: w.subnets[:1], Scheme: aws.String("public")}, "InvalidScheme", "public"},
		"tag twice":           {awselb.CreateLoadBalancerInput{Listeners: good, Subnets: w.subnets[:1], Tags: []elbtypes.Tag{{Key: aws.String("a")}, {Key: aws.String("a")}}}, "DuplicateTagKeys", "'a'"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.in.LoadBalancerName == nil {
				tt.in.LoadBalancerName = aws.String("other")
			}
			_, err := w.CreateLoadBalancer(ctx, &tt.in)
			testkit.WantErrorWith(t, err, tt.code, tt.message)
		})
	}
	for _, tt := range []struct {
		interval, timeout, unhealthy int32
		message                      string
	}{
		{10, 5, 1, "1 validation error detected: Value '1' at 'healthCheck.unhealthyThreshold' failed to satisfy constraint: Member must have value greater than or equal to 2"},
		{301, 5, 2, "1 validation error detected: Value '301' at 'healthCheck.interval' failed to satisfy constraint: Member must have value less than or equal to 300"},
		{10, 61, 2, "1 validation error detected: Value '61' at 'healthCheck.timeout' failed to satisfy constraint: Member must have value less than or equal to 60"},
		{10, 10, 2, "Interval must be greater than Timeout"},
	} {
		_, err := w.ConfigureHealthCheck(ctx, &awselb.ConfigureHealthCheckInput{LoadBalancerName: aws.String("taken"), HealthCheck: &elbtypes.HealthCheck{
			Target: aws.String("TCP:80"), Interval: &tt.interval, Timeout: &tt.timeout, HealthyThreshold: aws.Int32(2), UnhealthyThreshold: &tt.unhealthy,
		}})
		testkit.WantErrorWith(t, err, "ValidationError", tt.message)
	}
	_, err := w.DescribeLoadBalancers(ctx, &awselb.DescribeLoadBalancersInput{LoadBalancerNames: []string{"app/web/1234567890abcdef"}})
	testkit.WantErrorWith(t, err, "ValidationError", "LoadBalancer name cannot contain characters that are not letters, or digits or the dash.")
	_, err = w.DeleteLoadBalancer(ctx, &awselb.DeleteLoadBalancerInput{LoadBalancerName: aws.String("a_b")})
	testkit.WantErrorWith(t, err, "ValidationError", "LoadBalancer name cannot contain characters that are not letters, or digits or the dash.")
	_, err = w.DescribeLoadBalancers(ctx, &awselb.DescribeLoadBalancersInput{PageSize: aws.Int32(401)})
	testkit.WantErrorWith(t, err, "ValidationError", "1 validation error detected: Value '401' at 'pageSize' failed to satisfy constraint: Member must have value less than or equal to 400")
	for target, message := range map[string]string{
		"":          "HealthCheck Target must be specified",
		"UDP:1":     "HealthCheck Target must begin with one of HTTP, TCP, HTTPS, SSL",
		"HTTP:80":   "HealthCheck HTTP Target must specify a port followed by a path that begins with a slash. e.g. HTTP:80/ping/this/path",
		"TCP:99999": "port number",
	} {
		_, err := w.ConfigureHealthCheck(ctx, &awselb.ConfigureHealthCheckInput{LoadBalancerName: aws.String("taken"), HealthCheck: &elbtypes.HealthCheck{
			Target: &target, Interval: aws.Int32(10), Timeout: aws.Int32(5), HealthyThreshold: aws.Int32(2), UnhealthyThreshold: aws.Int32(6),
		}})
		testkit.WantErrorWith(t, err, "ValidationError", message)
	}
	_, err = w.CreateLoadBalancerPolicy(ctx, &awselb.CreateLoadBalancerPolicyInput{LoadBalancerName: aws.String("taken"), PolicyName: aws.String("p"), PolicyTypeName: aws.String("NoSuchType")})
	testkit.WantErrorWith(t, err, "PolicyTypeNotFound", "NoSuchType")
}
