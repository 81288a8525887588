package elbv2_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestTargetHealth(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	group := w.group("nodes", elbv2types.ProtocolEnumTcp, 30080, elbv2types.TargetTypeEnumInstance)
	near, far := w.instance(w.subnets[0]), w.instance(w.subnets[2])
	register := func(ids ...string) error {
		in := &awselbv2.RegisterTargetsInput{TargetGroupArn: &group}
		for _, id := range ids {
			in.Targets = append(in.Targets, elbv2types.TargetDescription{Id: aws.String(id)})
		}
		_, err := w.RegisterTargets(context.Background(), in)
		return err
	}
	if err := register(near); err != nil {
		t.Fatal(err)
	}
	expect := func(want string) {
		t.Helper()
		if got := w.health(group); got != want {
			t.Errorf("health %q, want %q", got, want)
		}
	}
	expect("unused Target.NotInUse")
	lb := w.network("lb")
	w.listen(*lb.LoadBalancerArn, elbv2types.ProtocolEnumTcp, 80, group)
	expect("healthy")
	if p := w.probes[len(w.probes)-1]; p.Instance != near || p.Port != 30080 || p.Protocol != "TCP" || !strings.HasPrefix(p.Interface, "eni-") {
		t.Errorf("probe %+v", p)
	}
	w.find(elbnet.TimedOut)
	expect("unhealthy Target.Timeout")
	w.find(elbnet.Refused)
	expect("unhealthy Target.FailedHealthChecks")
	auto := awsapi.WithCall(ctx, &awsapi.Call{Account: w.account, Region: testkit.Region})
	scaling := func(wantPassing, wantFailing []string) {
		t.Helper()
		passing, failing, after, err := w.svc.InstanceHealth(auto, group, []string{near})
		if err != nil || !slices.Equal(passing, wantPassing) || !slices.Equal(failing, wantFailing) || after != time.Minute {
			t.Errorf("Auto Scaling sees %v pass, %v fail after %s: %v", passing, failing, after, err)
		}
	}
	scaling(nil, []string{near})
	w.find(elbnet.Unclaimed)
	expect("unhealthy Target.FailedHealthChecks")
	scaling(nil, nil)
	w.find(elbnet.Answers)
	scaling([]string{near}, nil)
	w.find(elbnet.Unknown)
	expect("unavailable Elb.InternalError")
	w.find(elbnet.Answers)

	if err := register(far); err != nil {
		t.Fatal(err)
	}
	if got := w.health(group); !strings.Contains(got, "unused Target.NotInUse") || !strings.Contains(got, "healthy") {
		t.Errorf("with a target in a zone without the load balancer: %s", got)
	}
	testkit.Must(w.DeregisterTargets(ctx, &awselbv2.DeregisterTargetsInput{TargetGroupArn: &group, Targets: []elbv2types.TargetDescription{{Id: &far}}}))(t)
	testkit.Must(w.ec2.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{near}}))(t)
	expect("unused Target.InvalidState")

	testkit.WantErrorWith(t, register("i-0123456789abcdef0"), "InvalidTarget", "Instance ID 'i-0123456789abcdef0' is not valid")
	testkit.WantErrorWith(t, register(near), "InvalidTarget", "The following targets are not in a running state and cannot be registered: '"+near+"'")
	one := testkit.Must(w.DescribeTargetHealth(ctx, &awselbv2.DescribeTargetHealthInput{TargetGroupArn: &group, Targets: []elbv2types.TargetDescription{{Id: &far}}}))(t).TargetHealthDescriptions[0]
	if one.TargetHealth.Reason != elbv2types.TargetHealthReasonEnumNotRegistered {
		t.Errorf("health of a stranger: %+v", one.TargetHealth)
	}

	ips := w.group("pods", elbv2types.ProtocolEnumTcp, 8080, elbv2types.TargetTypeEnumIp)
	for address, want := range map[string][2]string{
		"nonsense": {"ValidationError", "is not a valid IPv4 address"},
		"8.8.8.8":  {"InvalidTarget", "is not within a range"},
		"10.1.2.3": {"ValidationError", "The Availability Zone is required for IP address '10.1.2.3' because it is not in the VPC"},
	} {
		_, err := w.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: &ips, Targets: []elbv2types.TargetDescription{{Id: &address}}})
		testkit.WantErrorWith(t, err, want[0], want[1])
	}
	address := *testkit.Must(w.ec2.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{far}}))(t).Reservations[0].Instances[0].PrivateIpAddress
	web := w.group("web", elbv2types.ProtocolEnumHttp, 8080, elbv2types.TargetTypeEnumIp)
	_, err := w.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: &web, Targets: []elbv2types.TargetDescription{{Id: aws.String("10.1.2.3"), AvailabilityZone: &w.zones[0]}}})
	testkit.WantErrorWith(t, err, "ValidationError", "The Availability Zone for IP address '10.1.2.3' must be 'all' for Application Load Balancer target groups, when not within the VPC")
	_, err = w.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: &ips, Targets: []elbv2types.TargetDescription{{Id: &address, AvailabilityZone: aws.String("all")}}})
	testkit.WantErrorWith(t, err, "ValidationError", "The IP address '"+address+"' is within the VPC, and cannot have its Availability Zone overridden to 'all' from '"+w.zones[2]+"'")
	testkit.Must(w.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: &ips, Targets: []elbv2types.TargetDescription{{Id: aws.String("172.31.0.9")}}}))(t)
	w.listen(*lb.LoadBalancerArn, elbv2types.ProtocolEnumTcp, 81, ips)
	if got := w.health(ips); got != "healthy" {
		t.Errorf("health of an address: %s", got)
	}
}

func TestTargetGroups(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	in := func(change func(*awselbv2.CreateTargetGroupInput)) *awselbv2.CreateTargetGroupInput {
		out := &awselbv2.CreateTargetGroupInput{Name: aws.String("g"), Protocol: elbv2types.ProtocolEnumHttp, Port: aws.Int32(80), VpcId: &w.vpc}
		change(out)
		return out
	}
	g := testkit.Must(w.CreateTargetGroup(ctx, in(func(*awselbv2.CreateTargetGroupInput) {})))(t).TargetGroups[0]
	if *g.HealthCheckPath != "/" || *g.HealthCheckTimeoutSeconds != 5 || *g.Matcher.HttpCode != "200" || *g.ProtocolVersion != "HTTP1" || *g.HealthCheckPort != "traffic-port" {
		t.Errorf("defaults of HTTP: %+v", g)
	}
	if again := testkit.Must(w.CreateTargetGroup(ctx, in(func(*awselbv2.CreateTargetGroupInput) {})))(t).TargetGroups[0]; *again.TargetGroupArn != *g.TargetGroupArn {
		t.Error("the same request made another group")
	}
	for name, tt := range map[string]struct {
		change        func(*awselbv2.CreateTargetGroupInput)
		code, message string
	}{
		"other settings": {func(in *awselbv2.CreateTargetGroupInput) { in.Port = aws.Int32(81) }, "DuplicateTargetGroupName", "A target group with the same name 'g' exists, but with different settings"},
		"no protocol":    {func(in *awselbv2.CreateTargetGroupInput) { in.Protocol = "" }, "ValidationError", "A protocol must be specified"},
		"no port":        {func(in *awselbv2.CreateTargetGroupInput) { in.Port = nil }, "ValidationError", "A port must be specified"},
		"no VPC":         {func(in *awselbv2.CreateTargetGroupInput) { in.VpcId = nil }, "ValidationError", "A VPC ID must be specified"},
		"no such VPC":    {func(in *awselbv2.CreateTargetGroupInput) { in.VpcId = aws.String("vpc-0123456789abcdef0") }, "ValidationError", "The VPC ID 'vpc-0123456789abcdef0' is not found"},
		"protocol":       {func(in *awselbv2.CreateTargetGroupInput) { in.Protocol = "SCTP" }, "ValidationError", "Member must satisfy enum value set"},
		"target type":    {func(in *awselbv2.CreateTargetGroupInput) { in.TargetType = "pod" }, "ValidationError", "[instance, ip, lambda, alb]"},
		"lambda":         {func(in *awselbv2.CreateTargetGroupInput) { in.TargetType = "lambda" }, "NotImplemented", "Lambda"},
		"timeout":        {func(in *awselbv2.CreateTargetGroupInput) { in.HealthCheckTimeoutSeconds = aws.Int32(31) }, "ValidationError", "Health check interval must be greater than the timeout."},
		"same timeout":   {func(in *awselbv2.CreateTargetGroupInput) { in.HealthCheckTimeoutSeconds = aws.Int32(30) }, "ValidationError", "Health check interval must be greater than the timeout."},
		"timeout of TCP": {func(in *awselbv2.CreateTargetGroupInput) {
			in.Protocol, in.HealthCheckTimeoutSeconds = elbv2types.ProtocolEnumTcp, aws.Int32(31)
		}, "ValidationError", "Health check timeout '31' must be smaller than or equal to the interval '30'"},
		"check port":    {func(in *awselbv2.CreateTargetGroupInput) { in.HealthCheckPort = aws.String("http") }, "ValidationError", "'http'"},
		"interval":      {func(in *awselbv2.CreateTargetGroupInput) { in.HealthCheckIntervalSeconds = aws.Int32(600) }, "ValidationError", "1 validation error detected: Value '600' at 'healthCheckIntervalSeconds' failed to satisfy constraint: Member must have value less than or equal to 300"},
		"range of port": {func(in *awselbv2.CreateTargetGroupInput) { in.Port = aws.Int32(0) }, "ValidationError", "1 validation error detected: Value '0' at 'port' failed to satisfy constraint: Member must have value greater than or equal to 1"},
		"tag": {func(in *awselbv2.CreateTargetGroupInput) {
			in.Tags = []elbv2types.Tag{{Key: aws.String("a"), Value: aws.String("!")}}
		}, "ValidationError", "1 validation error detected: Value '!' at 'tags.1.member.value' failed to satisfy constraint: Member must satisfy regular expression pattern: ^([\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]*)$"},
		"version": {func(in *awselbv2.CreateTargetGroupInput) { in.ProtocolVersion = aws.String("HTTP3") }, "ValidationError",
			"1 validation error detected: Value 'HTTP3' at 'protocolVersion' failed to satisfy constraint: Member must satisfy enum value set: [HTTP1, HTTP2, GRPC]"},
		"check path":     {func(in *awselbv2.CreateTargetGroupInput) { in.HealthCheckPath = aws.String("x") }, "ValidationError", "must begin with a '/'"},
		"check protocol": {func(in *awselbv2.CreateTargetGroupInput) { in.HealthCheckProtocol = "UDP" }, "ValidationError", "[HTTP, HTTPS, TCP]"},
		"code": {func(in *awselbv2.CreateTargetGroupInput) {
			in.Matcher = &elbv2types.Matcher{HttpCode: aws.String("200,500")}
		},
			"ValidationError", "Health check matcher HTTP code '200,500' must be within '200-499' inclusive"},
		"code of TCP": {func(in *awselbv2.CreateTargetGroupInput) {
			in.Protocol, in.HealthCheckProtocol, in.Matcher = elbv2types.ProtocolEnumTcp, elbv2types.ProtocolEnumHttp, &elbv2types.Matcher{HttpCode: aws.String("600")}
		}, "ValidationError", "Health check matcher HTTP code '600' must be within '200-599' inclusive"},
		"code of gRPC": {func(in *awselbv2.CreateTargetGroupInput) {
			in.ProtocolVersion, in.Matcher = aws.String("GRPC"), &elbv2types.Matcher{GrpcCode: aws.String("0-101")}
		}, "ValidationError", "Health check matcher GRPC code '0-101' must be within '0-99' inclusive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.CreateTargetGroup(ctx, in(tt.change))
			testkit.WantErrorWith(t, err, tt.code, tt.message)
		})
	}
	// Terraform sends members that are not set as empty values.
	empty := testkit.Must(w.CreateTargetGroup(ctx, in(func(in *awselbv2.CreateTargetGroupInput) {
		in.Name, in.ProtocolVersion = aws.String("empty"), aws.String("")
	})))(t).TargetGroups[0]
	if *empty.ProtocolVersion != "HTTP1" {
		t.Errorf("an empty protocol version: %+v", empty)
	}
	grpc := testkit.Must(w.CreateTargetGroup(ctx, in(func(in *awselbv2.CreateTargetGroupInput) {
		in.Name, in.ProtocolVersion, in.HealthCheckTimeoutSeconds = aws.String("grpc"), aws.String("GRPC"), aws.Int32(6)
	})))(t).TargetGroups[0]
	if *grpc.HealthCheckPath != "/AWS.ALB/healthcheck" || *grpc.Matcher.GrpcCode != "12" || grpc.Matcher.HttpCode != nil {
		t.Errorf("defaults of gRPC: %+v", grpc)
	}
	network := testkit.Must(w.CreateTargetGroup(ctx, in(func(in *awselbv2.CreateTargetGroupInput) {
		in.Name, in.Protocol = aws.String("tcp"), elbv2types.ProtocolEnumTcp
	})))(t).TargetGroups[0]
	// The acceptance tests of Terraform's AWS provider: TestAccELBV2TargetGroup_Stickiness_invalidALB and _invalidNLB.
	for _, tt := range []struct {
		group      *string
		attributes string
		message    string
	}{
		{network.TargetGroupArn, "stickiness.enabled=false stickiness.type=lb_cookie", "Stickiness type 'lb_cookie' is not supported for target groups with the TCP protocol"},
		{g.TargetGroupArn, "stickiness.enabled=true stickiness.type=source_ip", "Stickiness type 'source_ip' is not supported for target groups with the HTTP protocol"},
		{g.TargetGroupArn, "stickiness.enabled=true load_balancing.algorithm.type=weighted_random", "You cannot have both stickiness and weighted random algorithm enabled on the same target group."},
	} {
		request := &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: tt.group}
		for a := range strings.FieldsSeq(tt.attributes) {
			key, value, _ := strings.Cut(a, "=")
			request.Attributes = append(request.Attributes, elbv2types.TargetGroupAttribute{Key: &key, Value: &value})
		}
		_, err := w.ModifyTargetGroupAttributes(ctx, request)
		testkit.WantErrorWith(t, err, "InvalidConfigurationRequest", tt.message)
	}
	_, err := w.DescribeTargetGroups(ctx, &awselbv2.DescribeTargetGroupsInput{Names: []string{"nobody"}})
	testkit.WantErrorWith(t, err, "TargetGroupNotFound", "One or more target groups not found")
	changed := testkit.Must(w.ModifyTargetGroup(ctx, &awselbv2.ModifyTargetGroupInput{TargetGroupArn: g.TargetGroupArn, HealthCheckPath: aws.String("/healthz")}))(t).TargetGroups[0]
	if *changed.HealthCheckPath != "/healthz" || *changed.HealthCheckIntervalSeconds != 30 {
		t.Errorf("changed: %+v", changed)
	}
}

// The AWS Load Balancer Controller describes the tags of all rules of a listener.
func TestTagsOfDefaultRules(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	net := w.network("net")
	listener := w.listen(*net.LoadBalancerArn, elbv2types.ProtocolEnumTcp, 80, w.group("tcp", elbv2types.ProtocolEnumTcp, 82, ""))
	rule := *testkit.Must(w.DescribeRules(ctx, &awselbv2.DescribeRulesInput{ListenerArn: &listener}))(t).Rules[0].RuleArn
	want := func(arn string, want ...string) {
		t.Helper()
		var got []string
		for _, tag := range testkit.Must(w.DescribeTags(ctx, &awselbv2.DescribeTagsInput{ResourceArns: []string{arn}}))(t).TagDescriptions[0].Tags {
			got = append(got, *tag.Key+"="+*tag.Value)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s has the tags %q, want %q", arn, got, want)
		}
	}
	want(rule)
	testkit.Must(w.AddTags(ctx, &awselbv2.AddTagsInput{ResourceArns: []string{rule}, Tags: []elbv2types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))(t)
	want(rule, "team=a")
	want(listener)
	testkit.Must(w.RemoveTags(ctx, &awselbv2.RemoveTagsInput{ResourceArns: []string{rule}, TagKeys: []string{"team"}}))(t)
	want(rule)
	_, err := w.DescribeTags(ctx, &awselbv2.DescribeTagsInput{ResourceArns: []string{rule + "0"}})
	testkit.WantErrorWith(t, err, "RuleNotFound", "One or more rules not found")
}

func TestListenersAndRules(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	app, other, net := w.application("app"), w.application("other"), w.network("net")
	web, api := w.group("web", elbv2types.ProtocolEnumHttp, 80, ""), w.group("api", elbv2types.ProtocolEnumHttp, 81, "")
	tcp := w.group("tcp", elbv2types.ProtocolEnumTcp, 82, "")
	http := w.listen(*app.LoadBalancerArn, elbv2types.ProtocolEnumHttp, 80, web)
	w.listen(*net.LoadBalancerArn, elbv2types.ProtocolEnumTcp, 80, tcp)

	create := func(lb elbv2types.LoadBalancer, protocol elbv2types.ProtocolEnum, port int32, change func(*awselbv2.CreateListenerInput)) error {
		in := &awselbv2.CreateListenerInput{LoadBalancerArn: lb.LoadBalancerArn, Protocol: protocol, Port: &port, DefaultActions: forward(api)}
		if change != nil {
			change(in)
		}
		_, err := w.CreateListener(context.Background(), in)
		return err
	}
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttp, 80, nil), "DuplicateListener", "A listener already exists on this port for this load balancer '"+*app.LoadBalancerArn+"'")
	closed := *testkit.Must(w.ec2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.9.0.0/16")}))(t).Vpc.VpcId
	elsewhere := *testkit.Must(w.CreateTargetGroup(ctx, &awselbv2.CreateTargetGroupInput{
		Name: aws.String("elsewhere"), Protocol: elbv2types.ProtocolEnumHttp, Port: aws.Int32(80), VpcId: &closed,
	}))(t).TargetGroups[0].TargetGroupArn
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttp, 81, func(in *awselbv2.CreateListenerInput) { in.DefaultActions = forward(elsewhere) }), "InvalidConfigurationRequest", "Target group '"+elsewhere+"' is in a different VPC than load balancer '"+*app.LoadBalancerArn+"'")
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumTcp, 81, nil), "ValidationError", "Listener protocol 'TCP' must be one of 'HTTP, HTTPS'")
	testkit.WantErrorWith(t, create(net, elbv2types.ProtocolEnumTcp, 81, nil), "IncompatibleProtocols", "The listener and the following target groups have incompatible protocols: "+api)
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttps, 443, nil), "ValidationError", "A certificate must be specified for HTTPS listeners")
	testkit.WantErrorWith(t, create(other, elbv2types.ProtocolEnumHttp, 80, func(in *awselbv2.CreateListenerInput) { in.DefaultActions = forward(web) }), "TargetGroupAssociationLimit", "The following target groups cannot be associated with more than one load balancer: "+web)
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttp, 82, func(in *awselbv2.CreateListenerInput) { in.DefaultActions = forward(api + "0") }), "TargetGroupNotFound", "Target group '"+api+"0' not found")
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttp, 82, func(in *awselbv2.CreateListenerInput) { in.Port = nil }), "ValidationError", "A listener port must be specified")
	certificate := "arn:aws:acm:us-east-1:" + w.account + ":certificate/5d7e1d3f-6a0c-4f5e-9a50-0c3c8a1f2b77"
	secure := func(policy string) func(*awselbv2.CreateListenerInput) {
		return func(in *awselbv2.CreateListenerInput) {
			in.Certificates, in.SslPolicy = []elbv2types.Certificate{{CertificateArn: &certificate}}, &policy
		}
	}
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttps, 443, secure("ELBSecurityPolicy-1999")), "SSLPolicyNotFound", "SSL policy 'ELBSecurityPolicy-1999' not found")
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttp, 83, func(in *awselbv2.CreateListenerInput) { in.SslPolicy = aws.String("ELBSecurityPolicy-2016-08") }), "ValidationError", "An SSL policy cannot be specified for HTTP listeners")
	testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttps, 443, func(in *awselbv2.CreateListenerInput) {
		in.Certificates = []elbv2types.Certificate{{CertificateArn: aws.String("mine")}}
	}), "ValidationError", "Certificate ARN 'mine' is not valid")
	for _, none := range []string{
		"arn:aws:acm:us-east-1:" + w.account + ":certificate/placeholder",
		"arn:aws:acm:eu-west-1:" + w.account + ":certificate/5d7e1d3f-6a0c-4f5e-9a50-0c3c8a1f2b77",
		"arn:aws:acm:us-east-1:999999999999:certificate/5d7e1d3f-6a0c-4f5e-9a50-0c3c8a1f2b77",
		"arn:aws:iam::999999999999:server-certificate/web",
	} {
		testkit.WantErrorWith(t, create(app, elbv2types.ProtocolEnumHttps, 443, func(in *awselbv2.CreateListenerInput) {
			in.Certificates = []elbv2types.Certificate{{CertificateArn: &none}}
		}), "CertificateNotFound", "Certificate '"+none+"' not found")
	}
	ordered := func(first, second *int32) error {
		return create(app, elbv2types.ProtocolEnumHttps, 444, func(in *awselbv2.CreateListenerInput) {
			secure("ELBSecurityPolicy-TLS13-1-2-2021-06")(in)
			in.DefaultActions = append([]elbv2types.Action{{Type: elbv2types.ActionTypeEnumAuthenticateOidc, Order: first, AuthenticateOidcConfig: &elbv2types.AuthenticateOidcActionConfig{
				AuthorizationEndpoint: aws.String("https://example.com/a"), ClientId: aws.String("id"), ClientSecret: aws.String("secret"), Issuer: aws.String("https://example.com"),
				TokenEndpoint: aws.String("https://example.com/t"), UserInfoEndpoint: aws.String("https://example.com/u"),
			}}}, forward(api)...)
			in.DefaultActions[1].Order = second
		})
	}
	testkit.WantErrorWith(t, ordered(aws.Int32(2), aws.Int32(2)), "ValidationError", "Action order '2' was provided multiple times")
	testkit.WantErrorWith(t, ordered(nil, aws.Int32(1)), "ValidationError", "Action order '1' was provided multiple times") // the first is 1 by default
	if err := ordered(aws.Int32(1), aws.Int32(2)); err != nil {
		t.Error(err)
	}
	if err := create(app, elbv2types.ProtocolEnumHttps, 443, secure("ELBSecurityPolicy-TLS13-1-2-2021-06")); err != nil {
		t.Fatal(err)
	}
	for _, l := range testkit.Must(w.DescribeListeners(ctx, &awselbv2.DescribeListenersInput{LoadBalancerArn: app.LoadBalancerArn}))(t).Listeners {
		if m := l.MutualAuthentication; (m != nil && *m.Mode == "off") != (l.Protocol == elbv2types.ProtocolEnumHttps) {
			t.Errorf("mutual authentication of the %s listener: %+v", l.Protocol, m)
		}
	}

	path := func(p string) []elbv2types.RuleCondition {
		return []elbv2types.RuleCondition{{Field: aws.String("path-pattern"), Values: []string{p}}}
	}
	rule := testkit.Must(w.CreateRule(ctx, &awselbv2.CreateRuleInput{ListenerArn: &http, Priority: aws.Int32(10), Conditions: path("/api/*"), Actions: forward(api)}))(t).Rules[0]
	_, err := w.CreateRule(ctx, &awselbv2.CreateRuleInput{ListenerArn: &http, Priority: aws.Int32(10), Conditions: path("/x"), Actions: forward(api)})
	testkit.WantErrorWith(t, err, "PriorityInUse", "Priority '10' is currently in use")
	_, err = w.CreateRule(ctx, &awselbv2.CreateRuleInput{ListenerArn: &http, Priority: aws.Int32(11), Conditions: []elbv2types.RuleCondition{{Field: aws.String("moon")}}, Actions: forward(api)})
	testkit.WantErrorWith(t, err, "ValidationError", "Condition field 'moon' must be one of '[path-pattern,host-header,http-header,http-request-method,query-string,source-ip]'")
	second := testkit.Must(w.CreateRule(ctx, &awselbv2.CreateRuleInput{ListenerArn: &http, Priority: aws.Int32(5), Conditions: path("/y"), Actions: []elbv2types.Action{{
		Type: elbv2types.ActionTypeEnumFixedResponse, Order: aws.Int32(4), FixedResponseConfig: &elbv2types.FixedResponseActionConfig{StatusCode: aws.String("404")},
	}}}))(t).Rules[0]
	if *rule.Actions[0].Order != 1 || *second.Actions[0].Order != 4 {
		t.Errorf("the actions are the %d. and the %d., want 1 if none is given, and 4 as it was given", *rule.Actions[0].Order, *second.Actions[0].Order)
	}
	order := func() string {
		var out []string
		for _, r := range testkit.Must(w.DescribeRules(ctx, &awselbv2.DescribeRulesInput{ListenerArn: &http}))(t).Rules {
			out = append(out, *r.Priority)
		}
		return strings.Join(out, " ")
	}
	if got := order(); got != "5 10 default" {
		t.Errorf("rules %s", got)
	}
	_, err = w.SetRulePriorities(ctx, &awselbv2.SetRulePrioritiesInput{RulePriorities: []elbv2types.RulePriorityPair{{RuleArn: second.RuleArn, Priority: aws.Int32(10)}}})
	testkit.WantErrorWith(t, err, "PriorityInUse", "'10'")
	testkit.Must(w.SetRulePriorities(ctx, &awselbv2.SetRulePrioritiesInput{RulePriorities: []elbv2types.RulePriorityPair{
		{RuleArn: second.RuleArn, Priority: aws.Int32(10)}, {RuleArn: rule.RuleArn, Priority: aws.Int32(5)},
	}}))(t)
	all := testkit.Must(w.DescribeRules(ctx, &awselbv2.DescribeRulesInput{ListenerArn: &http}))(t).Rules
	if *all[0].RuleArn != *rule.RuleArn {
		t.Errorf("the rules did not change places: %v", all)
	}
	_, err = w.DeleteRule(ctx, &awselbv2.DeleteRuleInput{RuleArn: all[2].RuleArn})
	testkit.WantErrorWith(t, err, "OperationNotPermitted", "Default rule '"+*all[2].RuleArn+"' cannot be deleted")

	_, err = w.DeleteTargetGroup(ctx, &awselbv2.DeleteTargetGroupInput{TargetGroupArn: &api})
	testkit.WantErrorWith(t, err, "ResourceInUse", "Target group '"+api+"' is currently in use by a listener or a rule")
	testkit.Must(w.DeleteRule(ctx, &awselbv2.DeleteRuleInput{RuleArn: rule.RuleArn}))(t)
	testkit.Must(w.DeleteLoadBalancer(ctx, &awselbv2.DeleteLoadBalancerInput{LoadBalancerArn: app.LoadBalancerArn}))(t)
	for _, g := range []string{web, api} {
		testkit.Must(w.DeleteTargetGroup(ctx, &awselbv2.DeleteTargetGroupInput{TargetGroupArn: &g}))(t)
	}
	_, err = w.DescribeListeners(ctx, &awselbv2.DescribeListenersInput{ListenerArns: []string{http}})
	testkit.WantErrorWith(t, err, "ListenerNotFound", "One or more listeners not found")
	_, err = w.DescribeRules(ctx, &awselbv2.DescribeRulesInput{ListenerArn: &http, RuleArns: []string{*second.RuleArn}})
	testkit.WantErrorWith(t, err, "ValidationError", "Listener rule ARNs and a listener ARN cannot be specified at the same time")
	_, err = w.DescribeRules(ctx, &awselbv2.DescribeRulesInput{RuleArns: []string{*second.RuleArn}})
	testkit.WantErrorWith(t, err, "RuleNotFound", "One or more rules not found")
}
