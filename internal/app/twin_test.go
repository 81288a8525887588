package app

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/twin"
	"github.com/drydock-dev/drydock/internal/twin/recording"
	"github.com/drydock-dev/drydock/internal/twin/source"
)

// quickly reads another Drydock, which has no limits to spare.
var quickly = source.Options{Rate: 10_000}

func readTwin(t *testing.T, info api.DaemonInfo, key, secret string) *recording.Recording {
	t.Helper()
	return testkit.Must(source.Read(t.Context(), configFor(info, key, secret), quickly))(t)
}

func loadTwin(t *testing.T, info api.DaemonInfo, r *recording.Recording) api.Twin {
	t.Helper()
	out, err := sendTwin(t, info, r, false)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sendTwin(t *testing.T, info api.DaemonInfo, r *recording.Recording, replace bool) (api.Twin, error) {
	t.Helper()
	var b bytes.Buffer
	if err := twin.Send(r, &b); err != nil {
		t.Fatal(err)
	}
	return (&api.Client{Daemon: info}).ImportTwin(t.Context(), &b, api.ImportOptions{Replace: replace})
}

// answers are a recording's answers, comparable.
func answers(t *testing.T, r *recording.Recording) []string {
	t.Helper()
	var out []string
	for _, a := range r.Answers {
		for _, p := range a.Pages {
			var v bytes.Buffer
			if err := json.Indent(&v, p, "", " "); err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s %s\n%s", recording.Action(a.Service, a.Operation), a.Input, v.String()))
		}
	}
	slices.Sort(out)
	return out
}

// connections are what is asked about a network: between its machines, to AWS's services and to the internet.
func (w *netWorld) connections() []api.Connection {
	var out []api.Connection
	for _, from := range []string{w.machine, w.bystander, "laptop"} {
		for _, to := range []string{w.machine, w.bystander, "ec2.us-east-1.amazonaws.com", "s3.us-east-1.amazonaws.com", "h7.corp.internal", "198.51.100.7", w.balancer} {
			if from != to && to != "" && (from != "laptop" || strings.HasPrefix(to, "eni-")) {
				out = append(out, api.Connection{From: from, To: to, Port: "443", Protocol: "tcp"})
			}
		}
	}
	return out
}

func reached(t *testing.T, info api.DaemonInfo, account string, c api.Connection) api.ReachExplanation {
	t.Helper()
	return testkit.Must((&api.Client{Daemon: info}).WhyReach(t.Context(), api.Place{Account: account, Region: "us-east-1"}, c))(t)
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	return string(testkit.Must(json.MarshalIndent(v, "", " "))(t))
}

// A twin answers every read as its source does, and judges every connection the same, with the same reasons and fixes.
func TestTwinIsLikeItsSource(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	for i, kind := range []string{"public", "nat", "closed"} {
		t.Run(kind, func(t *testing.T) {
			account := fmt.Sprintf("41%010d", i)
			w := newNetWorld(t, from, account, kind)
			w.spoil(t, account, from)
			rec := readTwin(t, from, account, "test")
			if gaps := rec.Gaps(); len(gaps) > 0 {
				t.Fatalf("an administrator's recording has gaps: %v", gaps)
			}
			if made := loadTwin(t, to, rec); len(made.Gaps) > 0 || made.Account != account {
				t.Fatalf("loaded with gaps: %s", made.Text())
			}
			again := readTwin(t, to, account, "test")
			if diff := gocmp.Diff(answers(t, rec), answers(t, again)); diff != "" {
				t.Errorf("the twin answers otherwise (-source +twin):\n%s", diff)
			}
			if p, err := awsssm.NewFromConfig(configFor(to, account, "test")).GetParameter(t.Context(), &awsssm.GetParameterInput{Name: aws.String("/team/password")}); err == nil || !strings.Contains(err.Error(), "which drydock import does not read") {
				t.Errorf("the value of a parameter: %v, %v", p, err)
			}
			blocked := 0
			for _, c := range w.connections() {
				want, got := reached(t, from, account, c), reached(t, to, account, c)
				if !want.Reachable {
					blocked++
				}
				if diff := gocmp.Diff(asJSON(t, want), asJSON(t, got)); diff != "" {
					t.Errorf("%s to %s (-source +twin):\n%s", c.From, c.To, diff)
				}
			}
			if blocked == 0 {
				t.Error("nothing is blocked, so nothing was compared")
			}
		})
	}
}

// spoil adds what makes a network interesting: a group that refers to another, a prefix list, a network ACL, an
// elastic address, roles, policies and an identity provider.
func (w *netWorld) spoil(t *testing.T, account string, info api.DaemonInfo) {
	t.Helper()
	ctx := t.Context()
	w.allow(t, w.other, w.group)
	w.running(t)
	list := *testkit.Must(w.ec2.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{PrefixListName: aws.String("office"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5)}))(t).PrefixList.PrefixListId
	testkit.Must(w.ec2.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &w.group, IpPermissions: []ec2types.IpPermission{{
		IpProtocol: aws.String("tcp"), FromPort: aws.Int32(22), ToPort: aws.Int32(22), PrefixListIds: []ec2types.PrefixListId{{PrefixListId: &list}},
	}}}))(t)
	iam := awsiam.NewFromConfig(configFor(info, account, "test"))
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com","AWS":"arn:aws:iam::` + account + `:user/team/reader"},"Action":"sts:AssumeRole"}]}`
	testkit.Must(iam.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("reader"), Path: aws.String("/team/")}))(t)
	policy := *testkit.Must(iam.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("own"), PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}`)}))(t).Policy.Arn
	testkit.Must(iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("Node"), AssumeRolePolicyDocument: &trust, PermissionsBoundary: &policy, Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))(t)
	testkit.Must(iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: aws.String("Node"), PolicyArn: &policy}))(t)
	testkit.Must(iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: aws.String("Node"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEKSWorkerNodePolicy")}))(t)
	testkit.Must(iam.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: aws.String("Node"), PolicyName: aws.String("inline"), PolicyDocument: aws.String(`{"Statement":[{"Effect":"Deny","Action":"s3:PutObject","Resource":"*"}]}`)}))(t)
	testkit.Must(iam.CreateInstanceProfile(ctx, &awsiam.CreateInstanceProfileInput{InstanceProfileName: aws.String("Node")}))(t)
	testkit.Must(iam.AddRoleToInstanceProfile(ctx, &awsiam.AddRoleToInstanceProfileInput{InstanceProfileName: aws.String("Node"), RoleName: aws.String("Node")}))(t)
	w.keysAndNames(t, configFor(info, account, "test"))
	w.balance(t, configFor(info, account, "test"))
	w.scale(t, configFor(info, account, "test"))
	testkit.Must(iam.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String("https://oidc.example.com/id/1"), ClientIDList: []string{"sts.amazonaws.com"}}))(t)
}

// keysAndNames adds a key with an alias and a grant, a repository with a policy, and a private zone.
func (w *netWorld) keysAndNames(t *testing.T, cfg aws.Config) {
	t.Helper()
	ctx := t.Context()
	kms := awskms.NewFromConfig(cfg)
	key := testkit.Must(kms.CreateKey(ctx, &awskms.CreateKeyInput{Description: aws.String("volumes")}))(t).KeyMetadata.KeyId
	testkit.Must(kms.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: aws.String("alias/volumes"), TargetKeyId: key}))(t)
	testkit.Must(kms.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: key, GranteePrincipal: aws.String("arn:aws:iam::" + w.account + ":root"), Operations: []kmstypes.GrantOperation{kmstypes.GrantOperationDecrypt}}))(t)
	ecr := awsecr.NewFromConfig(cfg)
	testkit.Must(ecr.CreateRepository(ctx, &awsecr.CreateRepositoryInput{RepositoryName: aws.String("team/app")}))(t)
	testkit.Must(ecr.SetRepositoryPolicy(ctx, &awsecr.SetRepositoryPolicyInput{RepositoryName: aws.String("team/app"), PolicyText: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":"ecr:BatchGetImage","Condition":{"StringNotEquals":{"aws:SourceVpc":"` + w.vpc + `"}}}]}`)}))(t)
	route53 := awsroute53.NewFromConfig(cfg)
	zone := testkit.Must(route53.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{
		Name: aws.String("corp.internal"), CallerReference: aws.String("1"), VPC: &route53types.VPC{VPCId: &w.vpc, VPCRegion: route53types.VPCRegionUsEast1},
	}))(t).HostedZone.Id
	var changes []route53types.Change
	for i := range 150 { // more than a page
		changes = append(changes, route53types.Change{Action: route53types.ChangeActionCreate, ResourceRecordSet: &route53types.ResourceRecordSet{
			Name: aws.String(fmt.Sprintf("h%d.corp.internal", i)), Type: route53types.RRTypeA, TTL: aws.Int64(60), ResourceRecords: []route53types.ResourceRecord{{Value: aws.String(fmt.Sprintf("10.0.0.%d", i+5))}},
		}})
	}
	testkit.Must(route53.ChangeResourceRecordSets(ctx, &awsroute53.ChangeResourceRecordSetsInput{HostedZoneId: zone, ChangeBatch: &route53types.ChangeBatch{Changes: changes}}))(t)
}

// scale adds an Auto Scaling group whose instances count as more than one, and raises a quota.
func (w *netWorld) scale(t *testing.T, cfg aws.Config) {
	t.Helper()
	ctx := t.Context()
	limits, code := awsservicequotas.NewFromConfig(cfg), aws.String("L-1216C47A") // vCPUs of standard instances
	testkit.Must(limits.RequestServiceQuotaIncrease(ctx, &awsservicequotas.RequestServiceQuotaIncreaseInput{ServiceCode: aws.String("ec2"), QuotaCode: code, DesiredValue: aws.Float64(2000)}))(t)
	testkit.Eventually(t, 30*time.Second, func() error {
		if q := testkit.Must(limits.GetServiceQuota(ctx, &awsservicequotas.GetServiceQuotaInput{ServiceCode: aws.String("ec2"), QuotaCode: code}))(t).Quota; *q.Value != 2000 {
			return fmt.Errorf("the quota is %v", *q.Value)
		}
		return nil
	})
	scaling := awsautoscaling.NewFromConfig(cfg)
	testkit.Must(w.ec2.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("web"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{ImageId: aws.String(al2023Image), SecurityGroupIds: []string{w.other}}}))(t)
	testkit.Must(scaling.CreateLaunchConfiguration(ctx, &awsautoscaling.CreateLaunchConfigurationInput{LaunchConfigurationName: aws.String("old"), ImageId: aws.String(al2023Image), InstanceType: aws.String("t3.micro"), SecurityGroups: []string{w.other}}))(t)
	testkit.Must(scaling.CreateAutoScalingGroup(ctx, &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("old"), MinSize: aws.Int32(0), MaxSize: aws.Int32(1), DesiredCapacity: aws.Int32(0), VPCZoneIdentifier: &w.subnets[0], LaunchConfigurationName: aws.String("old"),
	}))(t)
	testkit.Must(scaling.CreateAutoScalingGroup(ctx, &awsautoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String("web"), MinSize: aws.Int32(0), MaxSize: aws.Int32(4), DesiredCapacity: aws.Int32(2), VPCZoneIdentifier: &w.subnets[0],
		MixedInstancesPolicy: &autoscalingtypes.MixedInstancesPolicy{LaunchTemplate: &autoscalingtypes.LaunchTemplate{
			LaunchTemplateSpecification: &autoscalingtypes.LaunchTemplateSpecification{LaunchTemplateName: aws.String("web"), Version: aws.String("1")},
			Overrides:                   []autoscalingtypes.LaunchTemplateOverrides{{InstanceType: aws.String("t3.micro"), WeightedCapacity: aws.String("2")}},
		}},
	}))(t)
	testkit.Must(scaling.PutScalingPolicy(ctx, &awsautoscaling.PutScalingPolicyInput{
		AutoScalingGroupName: aws.String("web"), PolicyName: aws.String("half"), PolicyType: aws.String("TargetTrackingScaling"), TargetTrackingConfiguration: &autoscalingtypes.TargetTrackingConfiguration{
			TargetValue: aws.Float64(50), PredefinedMetricSpecification: &autoscalingtypes.PredefinedMetricSpecification{PredefinedMetricType: autoscalingtypes.MetricTypeASGAverageCPUUtilization},
		},
	}))(t)
	testkit.Must(scaling.PutScheduledUpdateGroupAction(ctx, &awsautoscaling.PutScheduledUpdateGroupActionInput{AutoScalingGroupName: aws.String("web"), ScheduledActionName: aws.String("new-year"), Recurrence: aws.String("0 0 1 1 *"), DesiredCapacity: aws.Int32(4)}))(t)
	testkit.Eventually(t, 30*time.Second, func() error {
		g := testkit.Must(scaling.DescribeAutoScalingGroups(ctx, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{"web"}}))(t).AutoScalingGroups[0]
		if len(g.Instances) != 1 || g.Instances[0].LifecycleState != autoscalingtypes.LifecycleStateInService || aws.ToString(g.Instances[0].WeightedCapacity) != "2" {
			return fmt.Errorf("instances %v", g.Instances)
		}
		return nil
	})
}

// balance adds load balancers of each type, with listeners, a rule and targets, and a parameter.
func (w *netWorld) balance(t *testing.T, cfg aws.Config) {
	t.Helper()
	ctx := t.Context()
	v2 := awselbv2.NewFromConfig(cfg)
	machine := testkit.Must(w.ec2.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{w.machine}}))(t).NetworkInterfaces[0].Attachment.InstanceId
	group := testkit.Must(v2.CreateTargetGroup(ctx, &awselbv2.CreateTargetGroupInput{Name: aws.String("web"), Protocol: elbv2types.ProtocolEnumHttp, Port: aws.Int32(80), VpcId: &w.vpc, HealthCheckPath: aws.String("/ready")}))(t).TargetGroups[0].TargetGroupArn
	testkit.Must(v2.ModifyTargetGroupAttributes(ctx, &awselbv2.ModifyTargetGroupAttributesInput{TargetGroupArn: group, Attributes: []elbv2types.TargetGroupAttribute{{Key: aws.String("stickiness.enabled"), Value: aws.String("true")}}}))(t)
	testkit.Must(v2.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: group, Targets: []elbv2types.TargetDescription{{Id: machine}}}))(t)
	raw := testkit.Must(v2.CreateTargetGroup(ctx, &awselbv2.CreateTargetGroupInput{Name: aws.String("raw"), Protocol: elbv2types.ProtocolEnumTcp, Port: aws.Int32(443), VpcId: &w.vpc, TargetType: elbv2types.TargetTypeEnumIp}))(t).TargetGroups[0].TargetGroupArn
	testkit.Must(v2.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: raw, Targets: []elbv2types.TargetDescription{{Id: aws.String("10.0.0.77")}}}))(t)
	for kind, port := range map[elbv2types.LoadBalancerTypeEnum]int32{elbv2types.LoadBalancerTypeEnumApplication: 80, elbv2types.LoadBalancerTypeEnumNetwork: 443} {
		lb := testkit.Must(v2.CreateLoadBalancer(ctx, &awselbv2.CreateLoadBalancerInput{
			Name: aws.String(string(kind)), Type: kind, Scheme: elbv2types.LoadBalancerSchemeEnumInternal, Subnets: w.subnets[:], SecurityGroups: []string{w.other}, Tags: []elbv2types.Tag{{Key: aws.String("kind"), Value: aws.String(string(kind))}},
		}))(t).LoadBalancers[0]
		listener := awselbv2.CreateListenerInput{LoadBalancerArn: lb.LoadBalancerArn, Port: &port, Protocol: elbv2types.ProtocolEnumTcp, DefaultActions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumForward, TargetGroupArn: raw}}}
		if kind == elbv2types.LoadBalancerTypeEnumApplication {
			listener.Protocol, listener.DefaultActions[0].TargetGroupArn = elbv2types.ProtocolEnumHttp, group
		}
		made := testkit.Must(v2.CreateListener(ctx, &listener))(t).Listeners[0].ListenerArn
		if kind == elbv2types.LoadBalancerTypeEnumApplication {
			first := testkit.Must(v2.DescribeRules(ctx, &awselbv2.DescribeRulesInput{ListenerArn: made}))(t).Rules[0].RuleArn // the default rule
			testkit.Must(v2.AddTags(ctx, &awselbv2.AddTagsInput{ResourceArns: []string{*first}, Tags: []elbv2types.Tag{{Key: aws.String("default"), Value: aws.String("rule")}}}))(t)
			testkit.Must(v2.CreateRule(ctx, &awselbv2.CreateRuleInput{
				ListenerArn: made, Priority: aws.Int32(7), Conditions: []elbv2types.RuleCondition{{Field: aws.String("path-pattern"), Values: []string{"/old/*"}}},
				Actions: []elbv2types.Action{{Type: elbv2types.ActionTypeEnumFixedResponse, FixedResponseConfig: &elbv2types.FixedResponseActionConfig{StatusCode: aws.String("410")}}},
			}))(t)
		} else {
			w.balancer = *lb.DNSName
		}
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		for _, lb := range testkit.Must(v2.DescribeLoadBalancers(ctx, &awselbv2.DescribeLoadBalancersInput{}))(t).LoadBalancers {
			if lb.State.Code != elbv2types.LoadBalancerStateEnumActive {
				return fmt.Errorf("%s is %s", *lb.LoadBalancerName, lb.State.Code)
			}
		}
		return nil
	})
	classic := awselb.NewFromConfig(cfg)
	testkit.Must(classic.CreateLoadBalancer(ctx, &awselb.CreateLoadBalancerInput{
		LoadBalancerName: aws.String("old"), Scheme: aws.String("internal"), Subnets: w.subnets[:1], SecurityGroups: []string{w.other}, Tags: []elbtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
		Listeners: []elbtypes.Listener{{Protocol: aws.String("tcp"), LoadBalancerPort: 443, InstancePort: aws.Int32(443)}},
	}))(t)
	testkit.Must(classic.RegisterInstancesWithLoadBalancer(ctx, &awselb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: aws.String("old"), Instances: []elbtypes.Instance{{InstanceId: machine}}}))(t)
	testkit.Must(awsssm.NewFromConfig(cfg).PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/team/password"), Value: aws.String("hunter2"), Type: ssmtypes.ParameterTypeSecureString}))(t)
	testkit.Must(awsssm.NewFromConfig(cfg).PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/team/expiring"), Value: aws.String("x"), Type: ssmtypes.ParameterTypeString, Tier: ssmtypes.ParameterTierAdvanced, Policies: aws.String(
		`[{"Type":"Expiration","Version":"1.0","Attributes":{"Timestamp":"2099-01-01T00:00:00Z"}},{"Type":"ExpirationNotification","Version":"1.0","Attributes":{"Before":"5","Unit":"Days"}}]`)}))(t)
}

// running waits until all instances run.
func (w *netWorld) running(t *testing.T) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error {
		out, err := w.ec2.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{})
		if err != nil {
			return err
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				if i.State.Name != ec2types.InstanceStateNameRunning {
					return fmt.Errorf("%s is %s", *i.InstanceId, i.State.Name)
				}
			}
		}
		return nil
	})
}

// denied makes a user of an account who may do everything but some actions, and returns an access key.
func denied(t *testing.T, info api.DaemonInfo, account string, actions ...string) (key, secret string) {
	t.Helper()
	iam := awsiam.NewFromConfig(configFor(info, account, "test"))
	name := "without-" + strings.ReplaceAll(strings.Join(actions, "-"), ":", "-")
	testkit.Must(iam.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: &name}))(t)
	testkit.Must(iam.PutUserPolicy(t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":["` + strings.Join(actions, `","`) + `"],"Resource":"*"}]}`)}))(t)
	k := testkit.Must(iam.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(t).AccessKey
	return *k.AccessKeyId, *k.SecretAccessKey
}

// Each read is denied in turn. Verdicts become unknown, or stay what they are; none becomes another one.
func TestTwinNeverGuesses(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	const account = "420000000000"
	w := newNetWorld(t, from, account, "closed")
	w.spoil(t, account, from)
	// The ACL of one subnet lets nothing in, so that something is blocked by each kind of filter.
	w.ownACL(t, true)
	w.entry(t, 1, false, false, "6", 443, 443)
	type question struct {
		connection api.Connection
		want       api.ReachExplanation
	}
	var questions []question
	for _, c := range w.connections() {
		questions = append(questions, question{c, reached(t, from, account, c)})
	}
	asked := map[string]bool{}
	for _, a := range readTwin(t, from, account, "test").Answers {
		asked[recording.Action(a.Service, a.Operation)] = true
	}
	unknowns := map[string]int{}
	for _, op := range twin.Operations() {
		action := recording.Action(op.Service, op.Name)
		if op.Service == "sts" || !asked[action] {
			continue // needs no permission, the account has nothing of the kind, or both generations of load balancers have it
		}
		delete(asked, action)
		key, secret := denied(t, from, account, action)
		rec := readTwin(t, from, key, secret)
		if gaps := rec.Gaps(); len(gaps) == 0 || gaps[0].Action() != action || !gaps[0].IsDenied() {
			t.Errorf("without %s the gaps are %v", action, gaps)
		}
		made := loadTwin(t, to, rec)
		if !slices.ContainsFunc(made.Gaps, func(g string) bool { return strings.Contains(g, "the source did not allow "+action) }) {
			t.Errorf("without %s the twin does not say so: %s", action, made.Text())
		}
		for _, q := range questions {
			got := reached(t, to, account, q.connection)
			switch {
			case len(got.Unknown) > 0:
				unknowns[action]++
				if !strings.Contains(got.Text(), "unknown: the source did not allow "+action) || got.Reachable || len(got.Fixes) > 0 {
					t.Errorf("without %s: %s", action, got.Text())
				}
			case got.Reachable != q.want.Reachable || !slices.EqualFunc(got.Explanations, q.want.Explanations, func(g, w reach.Explanation) bool { return g.Code == w.Code }) &&
				(len(got.Explanations) == 0 || len(got.Fixes) > 0 || !subset(got.Explanations, q.want.Explanations)):
				t.Errorf("without %s, %s to %s is guessed.\nsource: %s\ntwin: %s", action, q.connection.From, q.connection.To, q.want.Text(), got.Text())
			}
		}
	}
	for _, action := range []string{"ec2:DescribeSecurityGroups", "ec2:DescribeNetworkAcls", "ec2:DescribeRouteTables", "ec2:DescribeVpcEndpoints", "ec2:DescribeVpcAttribute",
		"elasticloadbalancing:DescribeLoadBalancers", "elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth"} {
		if unknowns[action] == 0 {
			t.Errorf("without %s nothing is unknown", action)
		}
	}
	// What one filter blocks is blocked, whatever the other would say.
	for _, action := range []string{"ec2:DescribeSecurityGroups", "ec2:DescribeNetworkAcls"} {
		if unknowns[action] == len(questions) {
			t.Errorf("without %s everything is unknown", action)
		}
	}
	for _, action := range []string{"iam:GetAccountAuthorizationDetails", "ec2:DescribeSecurityGroupRules", "ec2:DescribeInstanceAttribute"} {
		if unknowns[action] > 0 {
			t.Errorf("reachability does not depend on %s, but %d verdicts are unknown", action, unknowns[action])
		}
	}
}

// subset reports whether all explanations are also the source's.
func subset(got, source []reach.Explanation) bool {
	return !slices.ContainsFunc(got, func(g reach.Explanation) bool {
		return !slices.ContainsFunc(source, func(s reach.Explanation) bool { return g.Code == s.Code && g.Text == s.Text })
	})
}

// transit attaches the network and another one to a transit gateway, and returns the interface of a machine in the other.
// The gateway also has a static blackhole and a reference to a prefix list.
func (w *netWorld) transit(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	other := &netWorld{account: w.account, ec2: w.ec2}
	other.vpc = *testkit.Must(w.ec2.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.1.0.0/16")}))(t).Vpc.VpcId
	other.subnets[0], other.group = other.subnet(t, "10.1.0.0/24", "us-east-1a"), other.newGroup(t, "machine")
	other.table = *testkit.Must(w.ec2.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: &other.vpc}))(t).RouteTable.RouteTableId
	testkit.Must(w.ec2.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: &other.table, SubnetId: &other.subnets[0]}))(t)
	testkit.Must(w.ec2.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &other.group, IpProtocol: aws.String("tcp"), FromPort: aws.Int32(443), ToPort: aws.Int32(443), CidrIp: aws.String("10.0.0.0/16")}))(t)
	g := testkit.Must(w.ec2.CreateTransitGateway(ctx, &awsec2.CreateTransitGatewayInput{}))(t).TransitGateway
	settled := func(what string, state func() string) {
		t.Helper()
		testkit.Eventually(t, 20*time.Second, func() error {
			if s := state(); s != "available" {
				return fmt.Errorf("%s is %s", what, s)
			}
			return nil
		})
	}
	settled("the gateway", func() string {
		return string(testkit.Must(w.ec2.DescribeTransitGateways(ctx, &awsec2.DescribeTransitGatewaysInput{}))(t).TransitGateways[0].State)
	})
	settled("its route table", func() string {
		return string(testkit.Must(w.ec2.DescribeTransitGatewayRouteTables(ctx, &awsec2.DescribeTransitGatewayRouteTablesInput{}))(t).TransitGatewayRouteTables[0].State)
	})
	table := g.Options.AssociationDefaultRouteTableId
	var at string
	for _, v := range []*netWorld{w, other} {
		at = *testkit.Must(w.ec2.CreateTransitGatewayVpcAttachment(ctx, &awsec2.CreateTransitGatewayVpcAttachmentInput{TransitGatewayId: g.TransitGatewayId, VpcId: &v.vpc, SubnetIds: v.subnets[:1]}))(t).TransitGatewayVpcAttachment.TransitGatewayAttachmentId
		settled(at, func() string {
			return string(testkit.Must(w.ec2.DescribeTransitGatewayVpcAttachments(ctx, &awsec2.DescribeTransitGatewayVpcAttachmentsInput{TransitGatewayAttachmentIds: []string{at}}))(t).TransitGatewayVpcAttachments[0].State)
		})
		testkit.Must(w.ec2.CreateRoute(ctx, &awsec2.CreateRouteInput{RouteTableId: &v.table, DestinationCidrBlock: aws.String("10.0.0.0/8"), TransitGatewayId: g.TransitGatewayId}))(t)
	}
	testkit.Must(w.ec2.CreateTransitGatewayRoute(ctx, &awsec2.CreateTransitGatewayRouteInput{TransitGatewayRouteTableId: table, DestinationCidrBlock: aws.String("10.1.7.0/24"), Blackhole: aws.Bool(true)}))(t)
	list := testkit.Must(w.ec2.CreateManagedPrefixList(ctx, &awsec2.CreateManagedPrefixListInput{
		PrefixListName: aws.String("far"), AddressFamily: aws.String("IPv4"), MaxEntries: aws.Int32(5), Entries: []ec2types.AddPrefixListEntry{{Cidr: aws.String("10.9.0.0/16")}},
	}))(t).PrefixList.PrefixListId
	testkit.Must(w.ec2.CreateTransitGatewayPrefixListReference(ctx, &awsec2.CreateTransitGatewayPrefixListReferenceInput{TransitGatewayRouteTableId: table, PrefixListId: list, TransitGatewayAttachmentId: &at}))(t)
	return other.launch(t, "", 0, other.group)
}

// A transit gateway is copied with its attachments and routes. If a part of it may not be read, what depends on it is
// unknown, and nothing else is.
func TestTwinOfATransitGateway(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	const account = "450000000000"
	w := newNetWorld(t, from, account, "public")
	far := w.transit(t)
	w.running(t)
	connections := []api.Connection{
		{From: w.machine, To: far, Port: "443", Protocol: "tcp"}, {From: far, To: w.machine, Port: "443", Protocol: "tcp"}, {From: w.machine, To: "10.1.7.9", Port: "443", Protocol: "tcp"},
		{From: w.machine, To: "10.9.0.9", Port: "443", Protocol: "tcp"}, {From: w.machine, To: "198.51.100.7", Port: "443", Protocol: "tcp"},
	}
	rec := readTwin(t, from, account, "test")
	if gaps := rec.Gaps(); len(gaps) > 0 {
		t.Fatalf("gaps: %v", gaps)
	}
	loadTwin(t, to, rec)
	if diff := gocmp.Diff(answers(t, rec), answers(t, readTwin(t, to, account, "test"))); diff != "" {
		t.Errorf("the twin answers otherwise (-source +twin):\n%s", diff)
	}
	var want []api.ReachExplanation
	for _, c := range connections {
		want = append(want, reached(t, from, account, c))
		if diff := gocmp.Diff(asJSON(t, want[len(want)-1]), asJSON(t, reached(t, to, account, c))); diff != "" {
			t.Errorf("%s to %s (-source +twin):\n%s", c.From, c.To, diff)
		}
	}
	if !want[0].Reachable || want[1].Reachable || want[2].Reachable {
		t.Errorf("the network is not as it should be: %s", want[0].Text())
	}
	for _, op := range twin.Operations() {
		if !strings.Contains(op.Name, "TransitGateway") {
			continue
		}
		action := recording.Action(op.Service, op.Name)
		key, secret := denied(t, from, account, action)
		loadTwin(t, to, readTwin(t, from, key, secret))
		for i, c := range connections {
			got := reached(t, to, account, c)
			through := strings.Contains(want[i].Text(), "tgw-")
			switch {
			case len(got.Unknown) > 0 && through:
			case len(got.Unknown) > 0:
				t.Errorf("without %s, %s to %s is unknown, although it does not lead through the gateway: %s", action, c.From, c.To, got.Text())
			case got.Reachable != want[i].Reachable || len(got.Explanations) > 0 && got.Explanations[0].Code != want[i].Explanations[0].Code:
				t.Errorf("without %s, %s to %s is guessed.\nsource: %s\ntwin: %s", action, c.From, c.To, want[i].Text(), got.Text())
			}
		}
	}
}

// Without GetAccountAuthorizationDetails, roles in use are read one by one, and only what is missing of them is unknown. The
// same is kept if that was asked for.
func TestTwinWithRolesReadOneByOne(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	const account = "460000000000"
	w := newNetWorld(t, from, account, "public")
	w.spoil(t, account, from)
	ctx := t.Context()
	testkit.Must(w.ec2.RunInstances(ctx, &awsec2.RunInstancesInput{
		ImageId: aws.String(al2023Image), InstanceType: ec2types.InstanceTypeT3Micro, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &w.subnets[0],
		IamInstanceProfile: &ec2types.IamInstanceProfileSpecification{Name: aws.String("Node")},
	}))(t)
	testkit.Must(awsiam.NewFromConfig(configFor(from, account, "test")).CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("unused"), AssumeRolePolicyDocument: aws.String(`{"Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)}))(t)
	w.running(t)
	role := "arn:aws:iam::" + account + ":role/Node"
	const details = "iam:GetAccountAuthorizationDetails"
	for _, tt := range []struct {
		name    string
		actions []string
		kept    string
		gap     string // about the role
	}{
		{"one by one", []string{details}, "", ""},
		{"without a policy", []string{details, "iam:GetPolicyVersion"}, "", "the source did not allow iam:GetPolicyVersion for arn:aws:iam::" + account + ":policy/own, a policy of " + role},
		{"without the list of inline policies", []string{details, "iam:ListRolePolicies"}, "", "the source did not allow iam:ListRolePolicies for " + role},
		{"only what is used", []string{"ec2:TerminateInstances"}, recording.UsedIAM, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, secret := denied(t, from, account, tt.actions...)
			opt := quickly
			opt.IAM = tt.kept
			made := loadTwin(t, to, testkit.Must(source.Read(ctx, configFor(from, key, secret), opt))(t))
			if tt.gap != "" && !slices.Contains(made.Gaps, tt.gap) {
				t.Errorf("gaps: %q", made.Gaps)
			}
			theirs, ours := awsiam.NewFromConfig(configFor(from, account, "test")), awsiam.NewFromConfig(configFor(to, account, "test"))
			in := &awsiam.SimulatePrincipalPolicyInput{PolicySourceArn: &role, ActionNames: []string{"s3:GetObject", "s3:PutObject", "ec2:DescribeInstances"}}
			want, got := testkit.Must(theirs.SimulatePrincipalPolicy(ctx, in))(t), testkit.Must(ours.SimulatePrincipalPolicy(ctx, in))(t)
			for i, r := range want.EvaluationResults {
				if tt.gap == "" && got.EvaluationResults[i].EvalDecision != r.EvalDecision {
					t.Errorf("%s is %s in the twin and %s at the source", *r.EvalActionName, got.EvaluationResults[i].EvalDecision, r.EvalDecision)
				}
			}
			if _, err := ours.GetRole(ctx, &awsiam.GetRoleInput{RoleName: aws.String("unused")}); err == nil {
				t.Error("a role that nothing uses was read")
			}
			testkit.Eventually(t, 20*time.Second, func() error { // it boots in the twin
				unknown := testkit.Must((&api.Client{Daemon: to}).WhyNode(ctx, api.Place{Account: account, Region: "us-east-1"}, w.instanceOf(t, "Node")))(t).Unknown
				if tt.gap == "" && len(unknown) > 0 || tt.gap != "" && !slices.Contains(unknown, tt.gap) {
					return fmt.Errorf("unknown: %q", unknown)
				}
				return nil
			})
		})
	}
}

// instanceOf returns the ID of the instance with an instance profile.
func (w *netWorld) instanceOf(t *testing.T, profile string) string {
	t.Helper()
	for _, r := range testkit.Must(w.ec2.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{}))(t).Reservations {
		for _, i := range r.Instances {
			if i.IamInstanceProfile != nil && strings.HasSuffix(*i.IamInstanceProfile.Arn, "/"+profile) {
				return *i.InstanceId
			}
		}
	}
	t.Fatal("there is no such instance")
	return ""
}

// An account that is in use and no twin stays as it is. A recording that cannot be loaded changes nothing.
func TestTwinOverwritesNothing(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	const account = "430000000000"
	newNetWorld(t, from, account, "public")
	rec := readTwin(t, from, account, "test")

	mine := awsec2.NewFromConfig(configFor(to, account, "test"))
	vpc := *testkit.Must(mine.CreateVpc(t.Context(), &awsec2.CreateVpcInput{CidrBlock: aws.String("10.9.0.0/16")}))(t).Vpc.VpcId
	_, err := sendTwin(t, to, rec, false)
	if refused, ok := errors.AsType[*api.Error](err); !ok || refused.Status != http.StatusConflict {
		t.Fatalf("got %v", err)
	}
	hostile := *rec
	hostile.Answers = slices.Clone(rec.Answers)
	i := slices.IndexFunc(hostile.Answers, func(a recording.Answer) bool { return a.Operation == "DescribeSubnets" })
	hostile.Answers[i].Pages = []json.RawMessage{regexp.MustCompile(`subnet-[0-9a-f]+`).ReplaceAll(hostile.Answers[i].Pages[0], []byte("../../x"))}
	if _, err := sendTwin(t, to, &hostile, true); err == nil || !strings.Contains(err.Error(), "ec2:DescribeSubnets") {
		t.Errorf("got %v", err)
	}
	if out := testkit.Must(mine.DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{VpcIds: []string{vpc}}))(t); len(out.Vpcs) != 1 {
		t.Error("the account was changed")
	}
	if _, err := sendTwin(t, to, rec, true); err != nil {
		t.Fatal(err)
	}
	if _, err := mine.DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{VpcIds: []string{vpc}}); err == nil {
		t.Error("--replace left the old VPC")
	}
	daemon := &api.Client{Daemon: to}
	if all := testkit.Must(daemon.Twins(t.Context()))(t); len(all) != 1 || all[0].Account != account {
		t.Errorf("twins: %v", all)
	}
	if _, err := sendTwin(t, to, rec, false); err != nil {
		t.Errorf("a twin is not loaded again: %v", err)
	}
	if err := daemon.Reset(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	if all := testkit.Must(daemon.Twins(t.Context()))(t); len(all) != 0 {
		t.Errorf("reset left %v", all)
	}
}

// The recording holds no credentials and no unmasked secrets of user data.
func TestRecordingHoldsNoSecrets(t *testing.T) {
	from := startDaemon(t)
	const account = "440000000000"
	w := newNetWorld(t, from, account, "public")
	script := "#!/bin/sh\nexport DB_PASSWORD=hunter2\n/etc/eks/bootstrap.sh prod --b64-cluster-ca LS0tLS1CRUdJTg==\n"
	testkit.Must(w.ec2.RunInstances(t.Context(), &awsec2.RunInstancesInput{
		ImageId: aws.String(al2023Image), InstanceType: ec2types.InstanceTypeT3Micro, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &w.subnets[0],
		UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(script))),
	}))(t)
	key, secret := denied(t, from, account, "ec2:TerminateInstances")
	rec := readTwin(t, from, key, secret)
	data := testkit.Must(recording.Pages[awsec2.DescribeInstanceAttributeInput, awsec2.DescribeInstanceAttributeOutput](rec, "ec2", "DescribeInstanceAttribute"))(t)
	found := false
	for _, p := range data {
		if p.Output.UserData == nil {
			continue
		}
		text := string(testkit.Must(base64.StdEncoding.DecodeString(aws.ToString(p.Output.UserData.Value)))(t))
		found = found || text == strings.Replace(script, "hunter2", "xxxxxx0", 1)
	}
	if !found {
		t.Error("the user data is not there, or not masked")
	}
	if g := rec.Gaps(); len(g) != 1 || g[0].Code != recording.Redacted {
		t.Errorf("gaps: %v", g)
	}
	var b bytes.Buffer
	if err := twin.Send(rec, &b); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), secret) || strings.Contains(b.String(), key) {
		t.Error("the recording has the caller's key")
	}
}

// The policies of an organization bind the twin of a member as they bind the member.
func TestTwinOfAMember(t *testing.T) {
	from, to := startDaemon(t), startDaemon(t)
	const account = "430000000000"
	rec := readTwin(t, from, account, "test")
	told := func(operation, input, output string) recording.Answer {
		return recording.Answer{Service: recording.Organizations, Operation: operation, Input: json.RawMessage(input), Pages: []json.RawMessage{json.RawMessage(output)}}
	}
	deny := `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"ec2:DescribeVolumes","Resource":"*"}]}`
	only := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ec2:*","iam:*"],"Resource":"*"}]}`
	content := func(s string) string { return string(testkit.Must(json.Marshal(s))(t)) }
	member := slices.Concat(rec.Answers, []recording.Answer{
		told("DescribeOrganization", `{}`, `{"Organization":{"Id":"o-1","MasterAccountId":"999999999999"}}`),
		told("ListParents", `{"ChildId":"`+account+`"}`, `{"Parents":[{"Id":"ou-1","Type":"ORGANIZATIONAL_UNIT"}]}`),
		told("ListParents", `{"ChildId":"ou-1"}`, `{"Parents":[{"Id":"r-1","Type":"ROOT"}]}`),
		told("ListPoliciesForTarget", `{"TargetId":"`+account+`"}`, `{"Policies":[{"Id":"p-FullAWSAccess","Type":"SERVICE_CONTROL_POLICY"},{"Id":"p-1","Type":"SERVICE_CONTROL_POLICY"}]}`),
		told("ListPoliciesForTarget", `{"TargetId":"ou-1"}`, `{"Policies":[{"Id":"p-2","Type":"SERVICE_CONTROL_POLICY"}]}`),
		told("ListPoliciesForTarget", `{"TargetId":"r-1"}`, `{"Policies":[{"Id":"p-FullAWSAccess","Type":"SERVICE_CONTROL_POLICY"}]}`),
		told("DescribePolicy", `{"PolicyId":"p-1"}`, `{"Policy":{"PolicySummary":{"Id":"p-1","Name":"no volumes","Type":"SERVICE_CONTROL_POLICY"},"Content":`+content(deny)+`}}`),
		told("DescribePolicy", `{"PolicyId":"p-2"}`, `{"Policy":{"PolicySummary":{"Id":"p-2","Name":"network","Type":"SERVICE_CONTROL_POLICY"},"Content":`+content(only)+`}}`),
	})
	// What was not read of a level does not deny anything.
	unread := slices.DeleteFunc(slices.Clone(member), func(a recording.Answer) bool { return strings.Contains(string(a.Input), "p-2") })
	loadTwin(t, to, &recording.Recording{Source: rec.Source, Answers: unread})
	if _, err := awskms.NewFromConfig(configFor(to, account, "test")).ListKeys(t.Context(), &awskms.ListKeysInput{}); err != nil {
		t.Errorf("a policy of the unit was not read: %v", err)
	}
	loadTwin(t, to, &recording.Recording{Source: rec.Source, Answers: member})
	cfg := configFor(to, account, "test")
	if _, err := awsec2.NewFromConfig(cfg).DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{}); err != nil {
		t.Error(err)
	}
	if _, err := awsec2.NewFromConfig(cfg).DescribeVolumes(t.Context(), &awsec2.DescribeVolumesInput{}); err == nil || !strings.Contains(err.Error(), "with an explicit deny in a service control policy") {
		t.Errorf("denied on the account: %v", err)
	}
	if _, err := awskms.NewFromConfig(cfg).ListKeys(t.Context(), &awskms.ListKeysInput{}); err == nil || !strings.Contains(err.Error(), "because no service control policy allows") {
		t.Errorf("not allowed on the unit: %v", err)
	}
}
