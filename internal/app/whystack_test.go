package app

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A stackWorld is an account with stacks, and a user without permissions.
type stackWorld struct {
	info    api.DaemonInfo
	account string
	root    *awscloudformation.Client
	user    *awscloudformation.Client
	iam     *awsiam.Client
	client  *api.Client
}

func newStackWorld(t *testing.T) *stackWorld {
	t.Helper()
	const account = "111122223333"
	w := &stackWorld{info: startDaemon(t), account: account}
	w.client = &api.Client{Daemon: w.info}
	cfg := configFor(w.info, account, "test")
	w.root, w.iam = awscloudformation.NewFromConfig(cfg), awsiam.NewFromConfig(cfg)
	testkit.Must(w.iam.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: aws.String("dev")}))(t)
	key := testkit.Must(w.iam.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: aws.String("dev")}))(t).AccessKey
	w.user = awscloudformation.NewFromConfig(configFor(w.info, *key.AccessKeyId, *key.SecretAccessKey))
	w.allow(t, `["cloudformation:*","sqs:CreateQueue","sqs:GetQueue*","sqs:DeleteQueue"]`)
	return w
}

// allow lets the user do something.
func (w *stackWorld) allow(t *testing.T, actions string) {
	t.Helper()
	testkit.Must(w.iam.PutUserPolicy(t.Context(), &awsiam.PutUserPolicyInput{
		UserName: aws.String("dev"), PolicyName: aws.String("own"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":` + actions + `,"Resource":"*"}]}`),
	}))(t)
}

func (w *stackWorld) create(t *testing.T, as *awscloudformation.Client, name, body string, change ...func(*awscloudformation.CreateStackInput)) string {
	t.Helper()
	in := &awscloudformation.CreateStackInput{StackName: &name, TemplateBody: &body, Capabilities: []cloudformationtypes.Capability{"CAPABILITY_NAMED_IAM"}}
	for _, c := range change {
		c(in)
	}
	id := *testkit.Must(as.CreateStack(t.Context(), in))(t).StackId
	w.settle(t, id)
	return id
}

// settle waits until nothing is in progress, and returns the status.
func (w *stackWorld) settle(t *testing.T, id string) (status string) {
	t.Helper()
	testkit.Eventually(t, 30*time.Second, func() error {
		out, err := w.root.DescribeStacks(t.Context(), &awscloudformation.DescribeStacksInput{StackName: &id})
		if err != nil {
			return err
		}
		if status = string(out.Stacks[0].StackStatus); strings.HasSuffix(status, "_IN_PROGRESS") {
			return errInProgress(status)
		}
		return nil
	})
	return status
}

type errInProgress string

func (e errInProgress) Error() string { return string(e) }

func (w *stackWorld) why(t *testing.T, name string) api.StackExplanation {
	t.Helper()
	return testkit.Must(w.client.WhyStack(t.Context(), api.Place{Account: w.account, Region: "us-east-1"}, name))(t)
}

// firstFix returns the first fix of the first step that failed.
func firstFix(t *testing.T, e api.StackExplanation) advice.Fix {
	t.Helper()
	for _, s := range e.Steps {
		if s.State == api.StepFailed && s.Reason != nil && len(s.Reason.Fixes) > 0 {
			return s.Reason.Fixes[0]
		}
	}
	t.Fatalf("there is no fix\n%s", e.Text())
	return advice.Fix{}
}

const threeQueues = `
Resources:
  First: {Type: AWS::SQS::Queue}
  Second: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !GetAtt First.Arn}}
  Third: {Type: AWS::SQS::Queue, DependsOn: Second}
`

// silentNode is a node in a subnet without a way out, whose stack waits for its signal.
const silentNode = `
Parameters:
  Image: {Type: 'AWS::SSM::Parameter::Value<AWS::EC2::Image::Id>', Default: /aws/service/eks/optimized-ami/1.32/amazon-linux-2/recommended/image_id}
Resources:
  Net: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  Part: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Net, CidrBlock: 10.0.0.0/24}}
  Node:
    Type: AWS::EC2::Instance
    CreationPolicy: {ResourceSignal: {Timeout: PT1S}}
    Properties:
      ImageId: !Ref Image
      InstanceType: m5.large
      NetworkInterfaces: [{DeviceIndex: 0, SubnetId: !Ref Part, AssociatePublicIpAddress: true}]
      UserData: {'Fn::Base64': !Sub "#!/bin/bash\nset -e\ncfn-signal --stack ${AWS::StackName} --resource Node --region us-east-1\n"}
`

// TestWhyStack checks what `drydock why stack` prints for each kind of failure, and runs the commands that it prints.
func TestWhyStack(t *testing.T) {
	w := newStackWorld(t)
	ctx := t.Context()
	var b strings.Builder
	n := testkit.NewNormalizer().Hide("ACCOUNT", w.account).Hide("NAME", `[A-Za-z]+-[A-Z][A-Za-z]*-[A-Za-z0-9]{12}\b`)
	took, at := regexp.MustCompile(` in \d+s\b|for \d+s\b`), regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+Z`)
	explain := func(title, name string, healthy bool) api.StackExplanation {
		t.Helper()
		e := w.why(t, name)
		if e.Healthy != healthy {
			t.Errorf("%s: healthy is %t", title, e.Healthy)
		}
		b.WriteString("== " + title + "\n" + n.Replace(at.ReplaceAllString(took.ReplaceAllString(e.Text(), ""), "TIME")) + "\n")
		return e
	}
	paste := func(e api.StackExplanation) {
		t.Helper()
		if out, ok := pasted(t, w.info, w.account, "test", firstFix(t, e)); !ok {
			t.Errorf("%s\n%s", out, e.Text())
		}
	}

	refused := w.create(t, w.user, "refused", threeQueues)
	e := explain("a call that the caller may not make", "refused", false)
	if len(e.Failures) != 1 || e.Failures[0].Request == nil || e.Failures[0].Call.Operation != "PutParameter" {
		t.Errorf("%+v", e.Failures)
	}
	paste(e)
	explain("the same after the printed fix", "refused", true)
	explain("the stack that the fix deleted, by its ARN", refused, false)

	testkit.Must(w.iam.CreateRole(ctx, &awsiam.CreateRoleInput{
		RoleName:                 aws.String("deployer"),
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"cloudformation.amazonaws.com"},"Action":"sts:AssumeRole"}]}`),
	}))(t)
	testkit.Must(w.iam.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{
		RoleName: aws.String("deployer"), PolicyName: aws.String("own"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sqs:*","Resource":"*"}]}`),
	}))(t)
	w.create(t, w.root, "kept", threeQueues, func(in *awscloudformation.CreateStackInput) {
		in.OnFailure, in.RoleARN = "DO_NOTHING", aws.String("arn:aws:iam::"+w.account+":role/deployer")
	})
	paste(explain("a failed creation that is kept, with the permissions of a role", "kept", false))
	explain("the same after the printed fix", "kept", true)

	set := testkit.Must(w.client.SetFault(ctx, fault.Fault{Kind: fault.Error, Account: w.account, Region: "us-east-1", Operation: "sqs:CreateQueue"}))(t)
	w.create(t, w.root, "faulty", `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`)
	n.Hide("FAULT", set.ID)
	explain("a deliberate fault", "faulty", false)
	testkit.Must(w.client.ClearFaults(ctx, api.Place{Account: w.account, Region: "us-east-1"}, "", set.ID))(t)
	paste(explain("the same when the fault is over", "faulty", false))
	explain("the same after the printed retry", "faulty", true)

	w.create(t, w.root, "silent", silentNode, func(in *awscloudformation.CreateStackInput) { in.OnFailure = "DO_NOTHING" })
	explain("an instance that sends no signal", "silent", false)
	w.create(t, w.root, "gone", silentNode)
	explain("the same after the rollback", "gone", false)

	w.create(t, w.root, "range", `
Resources:
  Net: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  Part: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Net, CidrBlock: 10.1.0.0/24}}
  Other: {Type: AWS::EC2::RouteTable, DependsOn: Part, Properties: {VpcId: !Ref Net}}
`)
	explain("a value that the service refuses", "range", false)

	group := w.create(t, w.root, "held", `
Resources:
  Net: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  Part: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref Net, CidrBlock: 10.0.0.0/24}}
  Role:
    Type: AWS::IAM::Role
    DependsOn: Part
    Properties: {AssumeRolePolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: ec2.amazonaws.com}, Action: 'sts:AssumeRole'}]}}
Outputs:
  Net: {Value: !Ref Net, Export: {Name: net}}
`, func(in *awscloudformation.CreateStackInput) { in.EnableTerminationProtection = aws.Bool(true) })
	w.create(t, w.root, "user", `
Resources: {Name: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !ImportValue net}}}
`)
	explain("a stack that cannot be deleted", "held", true)
	testkit.Must(w.root.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: aws.String("user")}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if status := w.why(t, "held"); len(status.Notes) > 1 {
			return errInProgress("still imported")
		}
		return nil
	})
	testkit.Must(w.root.UpdateTerminationProtection(ctx, &awscloudformation.UpdateTerminationProtectionInput{StackName: &group, EnableTerminationProtection: aws.Bool(false)}))(t)
	role := ""
	for _, r := range w.why(t, group).Resources {
		if r.LogicalID == "Role" {
			role = r.PhysicalID
		}
	}
	testkit.Must(w.iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: &role, PolicyArn: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")}))(t)
	testkit.Must(w.root.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &group}))(t)
	if got := w.settle(t, group); got != "DELETE_FAILED" {
		t.Errorf("status %s", got)
	}
	paste(explain("what is in the way of a deletion", "held", false))
	explain("the same after the printed fix", group, true)

	fresh := w.create(t, w.user, "update", `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`)
	testkit.Must(w.user.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &fresh, TemplateBody: aws.String(strings.ReplaceAll(threeQueues, "Second", "Later"))}))(t)
	w.settle(t, fresh)
	e = explain("an update that was rolled back", "update", false)
	paste(e)
	explain("the same after the printed fix", "update", false)

	testkit.Golden(t, "why_stack.golden", b.String())

	if _, err := w.client.WhyStack(ctx, api.Place{Account: w.account, Region: "us-east-1"}, "nothing"); err == nil || !strings.Contains(err.Error(), "no stack nothing is in us-east-1") {
		t.Errorf("%v", err)
	}
	names := testkit.Must(w.client.Stacks(ctx, api.Place{Account: w.account, Region: "us-east-1"}))(t)
	if len(names) != 7 {
		t.Errorf("%v", names)
	}
}
