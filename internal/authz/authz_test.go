package authz_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// decide returns the answer to one call of a user with a policy, which must be valid.
func decide(t *testing.T, call awsapi.Call, in any, document, endpoint string) error {
	t.Helper()
	doc, err := policy.Parse(policy.Identity, document)
	if err != nil {
		t.Fatal(err)
	}
	a := authz.New(authz.Config{
		Services: services,
		Policies: func(awsapi.Principal) (policy.Policies, bool) {
			return policy.Policies{Identity: []policy.Source{{Name: "inline", Document: doc}}}, false
		},
		EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return endpoint, true },
	})
	call.Account, call.Region, call.Time = "111122223333", "us-east-1", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	call.SourceIP = netip.MustParseAddr("203.0.113.10")
	call.Principal = awsapi.Principal{
		Instance: call.Principal.Instance, Type: awsapi.IAMUser, Account: "111122223333", Name: "me", ARN: "arn:aws:iam::111122223333:user/me", UserID: "AIDAEXAMPLE",
		Tags: map[string]string{"team": "blue"},
	}
	return a.Authorize(t.Context(), &call, in)
}

func allow(action, resource, condition string) string {
	if condition != "" {
		condition = `,"Condition":` + condition
	}
	return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"` + action + `","Resource":"` + resource + `"` + condition + `}]}`
}

// TestConditionKeys: a call for each key that requests carry.
func TestConditionKeys(t *testing.T) {
	describe, vpcs := awsapi.Call{Service: "ec2", Operation: "DescribeVpcs", UserAgent: "aws-cli/2"}, &awsec2.DescribeVpcsInput{}
	tag := func(key, value string) *awsec2.CreateVpcInput {
		return &awsec2.CreateVpcInput{TagSpecifications: []ec2types.TagSpecification{tagged(ec2types.ResourceTypeVpc, key, value)}}
	}
	create := awsapi.Call{Service: "ec2", Operation: "CreateVpc"}
	secure := describe
	secure.TLS = true
	through := describe
	through.VPCEndpoint = awsapi.VPCEndpoint{ID: "vpce-1", VPCID: "vpc-1", Account: "444455556666", Region: "us-east-1"}
	parameters, stacks := through, through // one of a service whose requests say more about the endpoint, one of a service whose do not
	parameters.Service, parameters.Operation = "ssm", "DescribeParameters"
	stacks.Service, stacks.Operation = "cloudformation", "ListStacks"
	onInstance := through
	onInstance.Principal.Instance = awsapi.SourceInstance{
		ARN: "arn:aws:ec2:us-east-1:111122223333:instance/i-1", VPCID: "vpc-1", PrivateIP: "203.0.113.10", Delivery: "1.0",
	}
	elsewhere := onInstance
	elsewhere.VPCEndpoint.VPCID = "vpc-2"
	linked := describe
	linked.Referer = "https://example.com/"
	metadata := awsapi.Call{Service: "ec2", Operation: "ModifyInstanceMetadataOptions"}
	tokens := &awsec2.ModifyInstanceMetadataOptionsInput{InstanceId: aws.String("i-1"), HttpTokens: "optional"}
	peer := awsapi.Call{Service: "ec2", Operation: "CreateVpcPeeringConnection"}
	peers := &awsec2.CreateVpcPeeringConnectionInput{VpcId: aws.String("vpc-1"), PeerVpcId: aws.String("vpc-2"), PeerOwnerId: aws.String("444455556666")}
	endpoint := awsapi.Call{Service: "ec2", Operation: "CreateVpcEndpoint"}
	service := &awsec2.CreateVpcEndpointInput{VpcId: aws.String("vpc-1"), ServiceName: aws.String("com.amazonaws.us-east-1.s3")}
	logging := awsapi.Call{Service: "eks", Operation: "UpdateClusterConfig"}
	audit := &awseks.UpdateClusterConfigInput{Name: aws.String("dev"), Logging: &ekstypes.Logging{ClusterLogging: []ekstypes.LogSetup{{Enabled: aws.Bool(false), Types: []ekstypes.LogType{"audit"}}}}}
	group := awsapi.Call{Service: "autoscaling", Operation: "CreateAutoScalingGroup"}
	latest := &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"), LaunchTemplate: &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String("lt-1"), Version: aws.String("$Latest")},
	}
	for _, tt := range []struct {
		condition string
		call      awsapi.Call
		in        any
		allowed   bool
	}{
		{`{"StringEquals":{"aws:RequestedRegion":"us-east-1"}}`, describe, vpcs, true},
		{`{"StringEquals":{"aws:RequestedRegion":"eu-west-1"}}`, describe, vpcs, false},
		{`{"IpAddress":{"aws:SourceIp":"203.0.113.0/24"}}`, describe, vpcs, true},
		{`{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}`, describe, vpcs, false},
		{`{"IpAddress":{"aws:SourceIp":"203.0.113.0/24"}}`, through, vpcs, false},
		{`{"StringEquals":{"aws:SourceVpce":"vpce-1","aws:SourceVpc":"vpc-1"}}`, through, vpcs, true},
		{`{"StringEquals":{"aws:SourceVpce":"vpce-1"}}`, describe, vpcs, false},
		{`{"StringEquals":{"aws:VpceAccount":"444455556666"},"ArnEquals":{"aws:SourceVpcArn":"arn:aws:ec2:us-east-1:444455556666:vpc/vpc-1"}}`, stacks, &awscloudformation.ListStacksInput{}, true},
		{`{"StringEquals":{"aws:VpceAccount":"444455556666"}}`, parameters, &awsssm.DescribeParametersInput{}, false},
		{`{"Null":{"aws:SourceVpcArn":"true","aws:VpceAccount":"true"}}`, parameters, &awsssm.DescribeParametersInput{}, true},
		{`{"StringEquals":{"aws:SourceVpc":"${aws:Ec2InstanceSourceVpc}","aws:VpcSourceIp":"${aws:Ec2InstanceSourcePrivateIPv4}"}}`, onInstance, vpcs, true},
		{`{"StringEquals":{"aws:SourceVpc":"${aws:Ec2InstanceSourceVpc}"}}`, elsewhere, vpcs, false},
		{`{"ArnLike":{"ec2:SourceInstanceARN":"arn:aws:ec2:*:*:instance/i-1"}}`, onInstance, vpcs, true},
		{`{"Null":{"ec2:SourceInstanceARN":"true","ec2:RoleDelivery":"true","aws:Ec2InstanceSourceVpc":"true"}}`, describe, vpcs, true},
		{`{"NumericLessThan":{"ec2:RoleDelivery":"2.0"}}`, onInstance, vpcs, true},
		{`{"NumericLessThan":{"ec2:RoleDelivery":"2.0"}}`, describe, vpcs, false},
		{`{"StringLike":{"aws:Referer":"https://example.com/*"}}`, linked, vpcs, true},
		{`{"StringEquals":{"ec2:Attribute/HttpTokens":"required"}}`, metadata, tokens, false},
		{`{"StringEquals":{"ec2:Attribute/HttpTokens":"optional"},"ForAllValues:StringEquals":{"ec2:Attribute":"HttpTokens"}}`, metadata, tokens, true},
		{`{"Null":{"ec2:Attribute/HttpEndpoint":"true"}}`, metadata, tokens, true},
		{`{"ArnEqualsIfExists":{"ec2:AccepterVpc":"arn:aws:ec2:us-east-1:444455556666:vpc/vpc-2","ec2:RequesterVpc":"arn:aws:ec2:us-east-1:111122223333:vpc/vpc-1"}}`, peer, peers, true},
		{`{"ArnEqualsIfExists":{"ec2:AccepterVpc":"arn:aws:ec2:us-east-1:111122223333:vpc/vpc-2"}}`, peer, peers, false},
		{`{"StringEqualsIfExists":{"ec2:VpceServiceOwner":"amazon","ec2:VpceServiceRegion":"us-east-1"}}`, endpoint, service, true},
		{`{"Null":{"ec2:Attribute":"true"}}`, metadata, &awsec2.ModifyInstanceMetadataOptionsInput{InstanceId: aws.String("i-1")}, true},
		{`{"Bool":{"eks:loggingType/audit":"false"}}`, logging, audit, true},
		{`{"Null":{"eks:loggingType/api":"true"}}`, logging, audit, true},
		{`{"Bool":{"autoscaling:LaunchTemplateVersionSpecified":"true"}}`, group, latest, false},
		{`{"Bool":{"aws:SecureTransport":"true"}}`, secure, vpcs, true},
		{`{"Bool":{"aws:SecureTransport":"true"}}`, describe, vpcs, false},
		{`{"StringLike":{"aws:UserAgent":"aws-cli/*"}}`, describe, vpcs, true},
		{`{"DateLessThan":{"aws:CurrentTime":"2026-04-01T00:00:00Z"}}`, describe, vpcs, true},
		{`{"NumericLessThan":{"aws:EpochTime":"1"}}`, describe, vpcs, false},
		{`{"StringEquals":{"aws:PrincipalTag/Team":"blue","aws:username":"me","aws:PrincipalType":"User","aws:userid":"AIDAEXAMPLE"}}`, describe, vpcs, true},
		{`{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/me"}}`, describe, vpcs, true},
		{`{"Null":{"aws:MultiFactorAuthPresent":"true"}}`, describe, vpcs, true},
		{`{"Bool":{"aws:MultiFactorAuthPresent":"true"}}`, describe, vpcs, false},
		{`{"StringEquals":{"aws:PrincipalOrgID":"o-1"}}`, describe, vpcs, false},
		{`{"StringEquals":{"ec2:Region":"us-east-1"}}`, describe, vpcs, true},
		{`{"StringEquals":{"aws:RequestTag/Team":"blue"}}`, create, tag("team", "blue"), true},
		{`{"StringEquals":{"aws:RequestTag/team":"blue"}}`, create, tag("team", "red"), false},
		{`{"ForAllValues:StringEquals":{"aws:TagKeys":["team"]}}`, create, tag("cost", "1"), false},
		{`{"StringEquals":{"aws:ResourceAccount":"111122223333"}}`, create, &awsec2.CreateVpcInput{}, true},
	} {
		t.Run(tt.condition, func(t *testing.T) {
			err := decide(t, tt.call, tt.in, allow("*", "*", tt.condition), "")
			if (err == nil) != tt.allowed {
				t.Errorf("allowed %v, want %v: %v", err == nil, tt.allowed, err)
			}
		})
	}
}

// TestUnknownKeysFailClosed: a key that the action has but that cannot be resolved never allows, denies, and is
// named.
func TestUnknownKeysFailClosed(t *testing.T) {
	snapshot := awsapi.Call{Service: "ec2", Operation: "CreateSnapshot"}
	in := &awsec2.CreateSnapshotInput{VolumeId: aws.String("vol-1")}
	for name, document := range map[string]string{
		"allow": allow("ec2:*", "*", `{"StringEquals":{"ec2:SourceAvailabilityZone":"us-east-1a"}}`),
		"deny":  `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"ec2:*","Resource":"*","Condition":{"StringEquals":{"ec2:SourceAvailabilityZone":"x"}}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			var d *authz.Denial
			if err := decide(t, snapshot, in, document, ""); !errors.As(err, &d) || len(d.Decision.UnknownKeys) != 1 || d.Decision.UnknownKeys[0] != "ec2:sourceavailabilityzone" {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestDenialsWithoutResource: Route 53 names no resource if the action has none. https://github.com/kubernetes-sigs/external-dns/issues/4219
func TestDenialsWithoutResource(t *testing.T) {
	call := awsapi.Call{Service: "route53", Operation: "ListHostedZones"}
	want := " is not authorized to perform: route53:ListHostedZones because no identity-based policy allows the route53:ListHostedZones action"
	if err := decide(t, call, &awsroute53.ListHostedZonesInput{}, allow("s3:*", "*", ""), ""); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q in it", err, want)
	}
}

// TestEndpointPolicies checks that a VPC endpoint's policy limits every caller who uses the endpoint.
func TestEndpointPolicies(t *testing.T) {
	call := awsapi.Call{Service: "ec2", Operation: "DescribeVpcs", VPCEndpoint: awsapi.VPCEndpoint{ID: "vpce-1", VPCID: "vpc-1"}}
	all := allow("*", "*", "")
	endpoint := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"ec2:DescribeVpcs","Resource":"*"}]}`
	if err := decide(t, call, &awsec2.DescribeVpcsInput{}, all, endpoint); err != nil {
		t.Error(err)
	}
	call.Operation = "DescribeSubnets"
	if err := decide(t, call, &awsec2.DescribeSubnetsInput{}, all, endpoint); err == nil || !strings.Contains(err.Error(), "because no VPC endpoint policy allows the ec2:DescribeSubnets action") {
		t.Error(err)
	}
}

// TestEndpointPoliciesBindEveryCaller: the policy of the endpoint that a connection came through applies to the keys
// of another account, to signatures for other regions and to the root of the endpoint's own account. An endpoint that
// no longer exists allows nothing.
func TestEndpointPoliciesBindEveryCaller(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	stranger, _ := w.root(t)
	denied := w.user(t, root, "denied", `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"sts:*","Resource":"*"}]}`)
	vpc := must[*awsec2.CreateVpcOutput](t)(root.ec2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})).Vpc
	endpoint := must[*awsec2.CreateVpcEndpointOutput](t)(root.ec2.CreateVpcEndpoint(ctx, &awsec2.CreateVpcEndpointInput{
		VpcId: vpc.VpcId, ServiceName: aws.String("com.amazonaws.us-east-1.s3"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"ec2:DescribeVpcs","Resource":"*"}]}`),
	})).VpcEndpoint
	w.through = awsapi.VPCEndpoint{ID: *endpoint.VpcEndpointId, VPCID: *vpc.VpcId, Account: account, Region: testkit.Region}
	elsewhere := func(o *awsec2.Options) { o.Region = "eu-west-1" }
	for _, tt := range []struct {
		name   string
		client *awsec2.Client
		opts   []func(*awsec2.Options)
	}{
		{"the account's root", root.ec2, nil},
		{"the account's root, signing for another region", root.ec2, []func(*awsec2.Options){elsewhere}},
		{"another account's root", stranger.ec2, nil},
		{"another account's root, signing for another region", stranger.ec2, []func(*awsec2.Options){elsewhere}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := tt.client.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}, tt.opts...); err != nil {
				t.Errorf("what the policy allows: %v", err)
			}
			_, err := tt.client.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{}, tt.opts...)
			if err == nil || !strings.Contains(err.Error(), "because no VPC endpoint policy allows the ec2:DescribeSubnets action") {
				t.Errorf("what it does not allow: %v", err)
			}
		})
	}
	// Actions that need no permission, and that the caller's policies cannot deny, can still be denied by an
	// endpoint's policy.
	calls := map[string]func(c caller) error{
		"GetCallerIdentity": func(c caller) error { _, err := c.sts.GetCallerIdentity(ctx, nil); return err },
		"GetSessionToken":   func(c caller) error { _, err := c.sts.GetSessionToken(ctx, nil); return err },
	}
	for _, who := range []caller{root, denied} {
		for name, call := range calls {
			err := call(who)
			if code(err) != "AccessDenied" || !strings.Contains(err.Error(), "because no VPC endpoint policy allows the sts:"+name+" action") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	through := w.through
	w.through = awsapi.VPCEndpoint{}
	for name, call := range calls {
		if err := call(denied); err != nil {
			t.Errorf("%s through no endpoint: %v", name, err)
		}
	}
	w.through = through
	w.through.ID = "vpce-0123456789abcdef0"
	if _, err := root.ec2.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{}); err == nil || !strings.Contains(err.Error(), "no VPC endpoint policy allows") {
		t.Errorf("through an endpoint that is gone: %v", err)
	}
}

// TestTagsOfOtherCase: tag keys are case-sensitive and condition keys are not. A second tag whose key differs only in
// case does not hide the first from a deny.
func TestTagsOfOtherCase(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, _ := w.root(t)
	user := w.user(t, root, "u", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:*","Resource":"*"},
		{"Effect":"Deny","Action":"ec2:DeleteVpc","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/team":"locked"}}},
		{"Effect":"Deny","Action":"ec2:CreateVpc","Resource":"*","Condition":{"StringEquals":{"aws:RequestTag/team":"locked"}}}]}`)
	input := &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), TagSpecifications: []ec2types.TagSpecification{{
		ResourceType: ec2types.ResourceTypeVpc, Tags: []ec2types.Tag{
			{Key: aws.String("team"), Value: aws.String("locked")}, {Key: aws.String("Team"), Value: aws.String("open")}, {Key: aws.String("TEAM"), Value: aws.String("open")},
		},
	}}}
	vpc := must[*awsec2.CreateVpcOutput](t)(root.ec2.CreateVpc(ctx, input)).Vpc
	for range 20 { // a map's order varies
		if _, err := user.ec2.DeleteVpc(ctx, &awsec2.DeleteVpcInput{VpcId: vpc.VpcId}); err == nil || !strings.Contains(err.Error(), "explicit deny") {
			t.Fatalf("deleting: %v", err)
		}
		if _, err := user.ec2.CreateVpc(ctx, input); err == nil || !strings.Contains(err.Error(), "explicit deny") {
			t.Fatalf("making: %v", err)
		}
	}
}

// TestRolesInsideRequestsArePassed: a role deep inside a request is passed like any other, and needs iam:PassRole for
// the service that gets it.
func TestRolesInsideRequestsArePassed(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	power := "arn:aws:iam::" + account + ":role/power"
	for name, tt := range map[string]struct {
		service string
		call    func(c caller) error
	}{
		"a lifecycle hook of a new group": {"autoscaling.amazonaws.com", func(c caller) error {
			_, err := awsautoscaling.NewFromConfig(c.cfg).CreateAutoScalingGroup(ctx, &awsautoscaling.CreateAutoScalingGroupInput{
				AutoScalingGroupName: aws.String("g"), MinSize: aws.Int32(0), MaxSize: aws.Int32(0), LaunchConfigurationName: aws.String("none"),
				LifecycleHookSpecificationList: []autoscalingtypes.LifecycleHookSpecification{{
					LifecycleHookName: aws.String("h"), LifecycleTransition: aws.String("autoscaling:EC2_INSTANCE_LAUNCHING"), RoleARN: &power,
					NotificationTargetARN: aws.String("arn:aws:sqs:us-east-1:" + account + ":q"),
				}},
			})
			return err
		}},
		"the delivery of flow logs": {"vpc-flow-logs.amazonaws.com", func(c caller) error {
			_, err := c.ec2.CreateFlowLogs(ctx, &awsec2.CreateFlowLogsInput{
				ResourceIds: []string{"vpc-0123456789abcdef0"}, ResourceType: ec2types.FlowLogsResourceTypeVpc, TrafficType: ec2types.TrafficTypeAll,
				LogGroupName: aws.String("g"), DeliverLogsPermissionArn: &power,
			})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			user, _, _ := strings.Cut(tt.service, ".")
			if err := tt.call(w.user(t, root, user, allow("*:Create*", "*", ""))); err == nil || !strings.Contains(err.Error(), "is not authorized to perform: iam:PassRole on resource: "+power) {
				t.Errorf("without iam:PassRole: %v", err)
			}
			document := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*:Create*","Resource":"*"},
				{"Effect":"Allow","Action":"iam:PassRole","Resource":"*","Condition":{"StringEquals":{"iam:PassedToService":"` + tt.service + `"}}}]}`
			if err := tt.call(w.user(t, root, user+"-passes", document)); err != nil && strings.Contains(err.Error(), "not authorized") {
				t.Errorf("with iam:PassRole: %v", err)
			}
		})
	}
}

// TestLaunchersNeedTheLaunch: an Auto Scaling group launches on its creator's behalf, and the creator must not get
// more from it than from launches of its own.
func TestLaunchersNeedTheLaunch(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	root, account := w.root(t)
	must[*awsiam.CreateRoleOutput](t)(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("power"), AssumeRolePolicyDocument: aws.String(ec2Trust)}))
	must[*awsiam.CreateInstanceProfileOutput](t)(root.iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("power")}))
	must[*awsiam.AddRoleToInstanceProfileOutput](t)(root.iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("power"), RoleName: aws.String("power")}))
	must[*awsec2.CreateLaunchTemplateOutput](t)(root.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: aws.String("power-lt"),
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: aws.String("ami-0123456789abcdef0"), IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("power")},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: ec2types.ResourceTypeInstance, Tags: tags("team", "blue")}},
		},
	}))
	u := w.user(t, root, "u", allow("autoscaling:*", "*", ""))
	creds := must[aws.Credentials](t)(u.cfg.Credentials.Retrieve(ctx))
	_, p, err := w.iam.LookupAccessKey(ctx, creds.AccessKeyID)
	if err != nil {
		t.Fatal(err)
	}
	group := &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("g"),
		LaunchTemplate:       &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String("power-lt")},
	}
	nodes := &awseks.CreateNodegroupInput{
		ClusterName: aws.String("dev"), NodegroupName: aws.String("n"), NodeRole: aws.String("arn:aws:iam::" + account + ":role/nodes"),
		LaunchTemplate: &ekstypes.LaunchTemplateSpecification{Name: aws.String("power-lt"), Version: aws.String("1")},
	}
	const noLaunch, noTemplate = "You are not authorized to launch instances with this launch template.", "You are not authorized to use launch template: power-lt"
	for _, tt := range []struct {
		service, operation string
		in                 any
		actions            string // what the caller may do
		refused, message   string // the action, and the beginning of the answer
	}{
		{"autoscaling", "CreateAutoScalingGroup", group, `"autoscaling:*"`, "ec2:RunInstances", noTemplate},
		{"autoscaling", "CreateAutoScalingGroup", group, `"autoscaling:*","ec2:RunInstances"`, "iam:PassRole", noTemplate},
		{"autoscaling", "CreateAutoScalingGroup", group, `"autoscaling:*","ec2:RunInstances","iam:PassRole"`, "ec2:CreateTags", noTemplate},
		{"autoscaling", "CreateAutoScalingGroup", group, `"autoscaling:*","ec2:RunInstances","ec2:CreateTags","iam:PassRole"`, "", ""},
		{"eks", "CreateNodegroup", nodes, `"eks:*"`, "iam:PassRole", "User: "},
		{"eks", "CreateNodegroup", nodes, `"eks:*","iam:PassRole"`, "ec2:RunInstances", noLaunch},
		{"eks", "CreateNodegroup", nodes, `"eks:*","iam:PassRole","ec2:RunInstances"`, "ec2:CreateTags", noLaunch},
		{"eks", "CreateNodegroup", nodes, `"eks:*","iam:PassRole","ec2:RunInstances","ec2:CreateTags"`, "", ""},
		{"eks", "CreateNodegroup", &awseks.CreateNodegroupInput{ClusterName: nodes.ClusterName, NodegroupName: nodes.NodegroupName, NodeRole: nodes.NodeRole}, `"eks:*","iam:PassRole"`, "", ""},
		{"eks", "CreateCluster", &awseks.CreateClusterInput{Name: aws.String("dev"), RoleArn: nodes.NodeRole}, `"eks:*"`, "iam:PassRole", "User: "},
		{"eks", "CreateCluster", &awseks.CreateClusterInput{Name: aws.String("dev"), RoleArn: nodes.NodeRole}, `"eks:*","iam:PassRole"`, "", ""},
	} {
		t.Run(tt.operation+" by "+tt.actions, func(t *testing.T) {
			call := &awsapi.Call{Service: tt.service, Operation: tt.operation, Account: account, Region: "us-east-1", Principal: p, Time: time.Now()}
			doc := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":[` + tt.actions + `],"Resource":"*"}]}`
			must[*awsiam.PutUserPolicyOutput](t)(root.iam.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("u"), PolicyName: aws.String("inline"), PolicyDocument: &doc}))
			err := w.authorizer.Authorize(ctx, call, tt.in)
			var d *authz.Denial
			switch {
			case tt.refused == "" && err != nil:
				t.Error(err)
			case tt.refused != "" && (!errors.As(err, &d) || d.Decision.Action != tt.refused || !strings.HasPrefix(d.Render().Message, tt.message)):
				t.Errorf("%v, want %s refused", err, tt.refused)
			}
		})
	}
}

// holder is a service whose resources have policies of their own.
type holder struct{ resource authz.Resource }

func (holder) HoldsPolicies() {}

func (h holder) Resource(context.Context, string, string, string, string) (authz.Resource, bool) {
	return h.resource, true
}

// TestPoliciesOfResources: a resource's own policy can grant access on its own within the account; across accounts
// the caller needs a policy, too. It also applies to root.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic_policy-eval-basics-cross-account.html
func TestPoliciesOfResources(t *testing.T) {
	const own, other = "111122223333", "444455556666"
	statement := func(effect, principal string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"` + effect + `","Principal":` + principal + `,"Action":"sqs:SendMessage","Resource":"*"}]}`
	}
	me := `{"AWS":"arn:aws:iam::` + own + `:user/me"}`
	for _, tt := range []struct {
		name, owner, identity, resource string
		root, required, allowed         bool
	}{
		{name: "no policy", owner: own},
		{name: "its own policy", owner: own, resource: statement("Allow", me), allowed: true},
		{name: "its own policy names the account", owner: own, resource: statement("Allow", `{"AWS":"`+own+`"}`)},
		{name: "the caller's policy", owner: own, identity: allow("sqs:*", "*", ""), allowed: true},
		{name: "its own policy denies", owner: own, identity: allow("sqs:*", "*", ""), resource: statement("Deny", `"*"`)},
		{name: "of a key, the caller's policy", owner: own, identity: allow("sqs:*", "*", ""), required: true, resource: statement("Allow", `{"AWS":"`+other+`"}`)},
		{name: "another account's, the caller's policy", owner: other, identity: allow("sqs:*", "*", "")},
		{name: "another account's, its own policy", owner: other, resource: statement("Allow", me)},
		{name: "another account's, both", owner: other, identity: allow("sqs:*", "*", ""), resource: statement("Allow", me), allowed: true},
		{name: "root", owner: own, root: true, allowed: true},
		{name: "root is denied", owner: own, root: true, resource: statement("Deny", `"*"`)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := authz.Resource{ARN: "arn:aws:sqs:us-east-1:" + tt.owner + ":q", PolicyRequired: tt.required}
			if tt.resource != "" {
				doc, err := policy.Parse(policy.Resource, tt.resource)
				if err != nil {
					t.Fatal(err)
				}
				r.Policy = &policy.Source{Name: "policy of q", Document: doc}
			}
			a := authz.New(authz.Config{
				Policies: func(awsapi.Principal) (out policy.Policies, root bool) {
					if tt.identity != "" {
						doc, err := policy.Parse(policy.Identity, tt.identity)
						if err != nil {
							t.Fatal(err)
						}
						out.Identity = []policy.Source{{Name: "inline", Document: doc}}
					}
					return out, tt.root
				},
				Resolvers: map[string]authz.Resolver{"sqs": holder{r}},
			})
			call := &awsapi.Call{Service: "sqs", Operation: "SendMessage", Account: own, Region: "us-east-1", Time: time.Now()}
			call.Principal = awsapi.Principal{Type: awsapi.IAMUser, Account: own, Name: "me", ARN: "arn:aws:iam::" + own + ":user/me", UserID: "AIDAEXAMPLE"}
			if tt.root {
				call.Principal = awsapi.Principal{Type: awsapi.Root, Account: own, ARN: "arn:aws:iam::" + own + ":root", UserID: own}
			}
			err := a.Authorize(t.Context(), call, &queueInput{QueueName: aws.String("q")})
			if (err == nil) != tt.allowed {
				t.Errorf("%v, want allowed %v", err, tt.allowed)
			}
		})
	}
}

// queueInput is the input of an operation of a service that is not handled yet.
type queueInput struct{ QueueName *string }

// TestAlternatives: a request that names a resource in several ways is checked on all that it names, whichever one
// its handler uses.
func TestAlternatives(t *testing.T) {
	a := authz.New(authz.Config{Services: services})
	for op, in := range map[string]any{
		"AuthorizeSecurityGroupIngress": &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: aws.String("a"), GroupName: aws.String("b")},
		"RevokeSecurityGroupIngress":    &awsec2.RevokeSecurityGroupIngressInput{GroupId: aws.String("a"), GroupName: aws.String("b")},
		"ReleaseAddress":                &awsec2.ReleaseAddressInput{AllocationId: aws.String("a"), PublicIp: aws.String("b")},
		"AssociateAddress":              &awsec2.AssociateAddressInput{AllocationId: aws.String("a"), PublicIp: aws.String("b")},
		"DisassociateAddress":           &awsec2.DisassociateAddressInput{AssociationId: aws.String("a"), PublicIp: aws.String("b")},
		"DeleteLaunchTemplate":          &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: aws.String("a"), LaunchTemplateName: aws.String("b")},
	} {
		named := map[string]string{} // by the type of resource
		for _, c := range a.Checks(t.Context(), &awsapi.Call{Service: "ec2", Operation: op}, in) {
			kind, id, _ := strings.Cut(c.Resource, "/")
			named[kind] += id
		}
		if len(named) == 0 {
			t.Errorf("%s is not checked", op)
		}
		for kind, ids := range named {
			if ids != "ab" {
				t.Errorf("%s is checked on %s %q", op, kind, ids)
			}
		}
	}
}
