package cloudformation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with CloudFormation and services in which stacks can create
// resources.
type world struct {
	*testkit.Server
	*awscloudformation.Client
	account string
	cfg     aws.Config
	front   awsapi.API
	config  cloudformation.Config
	// stackOf has the stacks of instances that call by their identity documents.
	stackOf map[string]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOn(t, nil)
}

// newWorldOn returns a world with its state in st, or in a new store if st is nil. Its server logs the expected errors.
func newWorldOn(t *testing.T, st *store.Store, expected ...string) *world {
	t.Helper()
	w := &world{stackOf: map[string]string{}}
	bytes, err := bytestore.Open(bytestore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bytes.Close() })
	blobs, err := blobstore.Open(blobstore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Store: st,
		Log:   testkit.Log(t, expected...),
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			w.front = front
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			machines := ec2.New(ec2.Config{Store: st, Log: testkit.Log(t)})
			queues := sqs.New(sqs.Config{Store: st, Bytes: bytes, Log: testkit.Log(t)})
			parameters := ssm.New(ssm.Config{Store: st, Log: testkit.Log(t)})
			objects := s3.New(s3.Config{Store: st, Blobs: blobs, Log: testkit.Log(t), Authorize: func(ctx context.Context, call *awsapi.Call, in any, targets ...authz.Target) error {
				return authorizer.AuthorizeTargets(ctx, call, in, targets...)
			}})
			sessions := sts.New(sts.Config{Store: st, Directory: users, Log: testkit.Log(t)})
			w.config = cloudformation.Config{
				Store: st, API: front, Log: testkit.Log(t),
				Assume: func(ctx context.Context, role, stack string) (awsapi.Principal, error) {
					r, err := users.RoleByARN(ctx, role)
					if err != nil || !users.TrustsServiceFor(r, "cloudformation.amazonaws.com", stack) {
						return awsapi.Principal{}, fmt.Errorf("no role %s: %w", role, err)
					}
					return sessions.RoleSession(ctx, role, "AWSCloudFormation")
				},
			}
			stacks := cloudformation.New(w.config)
			instance := func(_ context.Context, document, signature []byte) (awsapi.Principal, string, error) {
				id := string(document)
				if string(signature) != "signed" {
					return awsapi.Principal{}, "", errors.New("the signature is wrong")
				}
				return awsapi.Principal{Type: awsapi.InstanceCaller, Account: w.account, Name: id, Tags: map[string]string{"aws:cloudformation:stack-id": w.stackOf[id]}}, "us-east-1", nil
			}
			stacksModule := stacks.Module(instance)
			authorizer = authz.New(authz.Config{Services: []awsapi.Service{users.AWS(), machines.AWS(), queues.AWS(), parameters.AWS(), objects.AWS(), stacks.AWS()}, Policies: users.PoliciesOf, Store: st, Resolvers: map[string]authz.Resolver{
				"iam": users.Authz(), "ec2": machines.Authz(), "sqs": queues.Authz(), "ssm": parameters.Authz(), "s3": objects.Authz(), "cloudformation": stacksModule.Resolver,
			}})
			return []awsapi.Service{users.AWS(), machines.AWS(), queues.AWS(), parameters.AWS(), objects.AWS(), stacksModule.Service}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	w.account = w.Account(t)
	w.cfg = w.AWSConfig(w.account)
	w.Client = awscloudformation.NewFromConfig(w.cfg)
	return w
}

// newRunning returns a world whose CloudFormation works on stacks.
func newRunning(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	cancel, ended := w.run(w.front)
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return w
}

// run starts a service that works on stacks until cancel is called.
func (w *world) run(api awsapi.API) (cancel func(), ended chan error) {
	cfg := w.config
	cfg.API = api
	ctx, cancel := context.WithCancel(context.Background())
	ended = make(chan error, 1)
	go func() { ended <- cloudformation.New(cfg).Run(ctx) }()
	return cancel, ended
}

func (w *world) create(t *testing.T, name, body string, change ...func(*awscloudformation.CreateStackInput)) string {
	t.Helper()
	in := &awscloudformation.CreateStackInput{StackName: &name, TemplateBody: &body, Capabilities: []cloudformationtypes.Capability{"CAPABILITY_NAMED_IAM"}}
	for _, c := range change {
		c(in)
	}
	return *testkit.Must(w.CreateStack(t.Context(), in))(t).StackId
}

// settled waits until a stack's operation has ended.
func (w *world) settled(t *testing.T, id string) cloudformationtypes.Stack {
	t.Helper()
	var out cloudformationtypes.Stack
	testkit.Eventually(t, 20*time.Second, func() error {
		all, err := w.DescribeStacks(t.Context(), &awscloudformation.DescribeStacksInput{StackName: &id})
		if err != nil {
			return err
		}
		if out = all.Stacks[0]; strings.HasSuffix(string(out.StackStatus), "_IN_PROGRESS") {
			return fmt.Errorf("%s", out.StackStatus)
		}
		return nil
	})
	return out
}

func (w *world) want(t *testing.T, id string, status cloudformationtypes.StackStatus) cloudformationtypes.Stack {
	t.Helper()
	st := w.settled(t, id)
	if st.StackStatus != status {
		t.Fatalf("%s: %s, want %s\n%s", *st.StackName, st.StackStatus, status, w.script(t, id))
	}
	return st
}

func (w *world) delete(t *testing.T, id string) {
	t.Helper()
	testkit.Must(w.DeleteStack(t.Context(), &awscloudformation.DeleteStackInput{StackName: &id}))(t)
}

// script returns the events of a stack, oldest first. S is the stack itself.
func (w *world) script(t *testing.T, id string) string {
	t.Helper()
	var lines []string
	pages := awscloudformation.NewDescribeStackEventsPaginator(w.Client, &awscloudformation.DescribeStackEventsInput{StackName: &id})
	for pages.HasMorePages() {
		for _, e := range testkit.Must(pages.NextPage(t.Context()))(t).StackEvents {
			name := *e.LogicalResourceId
			if *e.ResourceType == "AWS::CloudFormation::Stack" {
				name = "S"
			}
			line := name + " " + string(e.ResourceStatus)
			if e.ResourceStatusReason != nil {
				line += " " + *e.ResourceStatusReason
			}
			lines = append(lines, line)
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

func (w *world) outputs(st cloudformationtypes.Stack) map[string]string {
	out := map[string]string{}
	for _, o := range st.Outputs {
		out[*o.OutputKey] = *o.OutputValue
	}
	return out
}

// TestOneParameter covers golden scenario 1.
func TestOneParameter(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "one", `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}}, "Outputs": {"Name": {"Value": {"Ref": "P"}}, "V": {"Value": {"Fn::GetAtt": ["P", "Value"]}}}}`)
	if err := awscloudformation.NewStackCreateCompleteWaiter(w.Client).Wait(ctx, &awscloudformation.DescribeStacksInput{StackName: aws.String("one")}, time.Minute); err != nil {
		t.Fatal(err)
	}
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	if !strings.HasPrefix(out["Name"], "CFN-P-") || len(out["Name"]) != len("CFN-P-")+12 || out["V"] != "x" {
		t.Errorf("%v", out)
	}
	p, err := awsssm.NewFromConfig(w.cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String(out["Name"])})
	if err != nil || *p.Parameter.Value != "x" {
		t.Errorf("%+v, %v", p, err)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if got, want := w.script(t, id), `S CREATE_IN_PROGRESS User Initiated
P CREATE_IN_PROGRESS
P CREATE_IN_PROGRESS Resource creation Initiated
P CREATE_COMPLETE
S CREATE_COMPLETE
S DELETE_IN_PROGRESS User Initiated
P DELETE_IN_PROGRESS
P DELETE_COMPLETE
S DELETE_COMPLETE`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	_, err = w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: aws.String("one")})
	testkit.WantError(t, err, "ValidationError", "Stack with id one does not exist")
	_, err = w.DescribeStackEvents(ctx, &awscloudformation.DescribeStackEventsInput{StackName: aws.String("one")})
	testkit.WantError(t, err, "ValidationError", "Stack [one] does not exist")
	_, err = w.DescribeStackResource(ctx, &awscloudformation.DescribeStackResourceInput{StackName: aws.String("one"), LogicalResourceId: aws.String("P")})
	testkit.WantError(t, err, "ValidationError", "Stack 'one' does not exist")
	if _, err := w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: aws.String("one")}); err != nil {
		t.Error("a stack that is not there is deleted:", err)
	}
}

// TestOrder covers golden scenario 2: resources are created and deleted in the order of
// their references, not of the template.
func TestOrder(t *testing.T) {
	w := newRunning(t)
	p := func(v string) string {
		return `{"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": ` + v + `}}`
	}
	id := w.create(t, "order", `{"Resources": {"C": `+p(`{"Ref": "B"}`)+`, "A": `+p(`"x"`)+`, "B": `+p(`{"Fn::Sub": "${A}"}`)+`}}`)
	w.want(t, id, "CREATE_COMPLETE")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	var order []string
	for line := range strings.Lines(w.script(t, id)) {
		if name, status, _ := strings.Cut(strings.TrimSpace(line), " "); name != "S" && strings.HasSuffix(status, "COMPLETE") {
			order = append(order, name)
		}
	}
	if got := strings.Join(order, ""); got != "ABCCBA" {
		t.Error(got)
	}
}

// TestRefusals covers golden scenarios 3 to 6, and other requests that do not create a stack.
func TestRefusals(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	role := func(name string) string {
		return `{"Resources": {"R": {"Type": "AWS::IAM::Role", "Properties": {` + name + `"AssumeRolePolicyDocument": {}}}}}`
	}
	const queue = `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`
	for _, tt := range []struct {
		body, code, text string
		change           func(*awscloudformation.CreateStackInput)
	}{
		{`{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Ref": "Nothing"}}}}}`, "ValidationError", "Template format error: Unresolved resource dependencies [Nothing] in the Resources block of the template", nil},
		{`{"Resources": {"SG1": {"Type": "AWS::EC2::SecurityGroup", "Properties": {"X": {"Ref": "SG2"}}}, "SG2": {"Type": "AWS::EC2::SecurityGroup", "Properties": {"X": {"Ref": "SG1"}}}}}`, "ValidationError", "Circular dependency between resources: [SG1, SG2]", nil},
		{role(`"RoleName": "r", `), "InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_NAMED_IAM]", nil},
		{role(""), "InsufficientCapabilitiesException", "Requires capabilities : [CAPABILITY_IAM]", nil},
		{`{"Resources": {"A": {"Type": "AWS::X::Y"}, "B": {"Type": "AWS::Z::W"}}}`, "ValidationError", "Template format error: Unrecognized resource types: [AWS::X::Y, AWS::Z::W]", nil},
		{strings.Repeat(" ", 51201), "ValidationError", "1 validation error detected: Value '…", nil},
		{queue, "ValidationError", "1 validation error detected: Value '*x' at 'stackName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*", func(in *awscloudformation.CreateStackInput) { in.StackName = aws.String("*x") }},
		{queue, "ValidationError", "1 validation error detected: Value 'aws:x' at 'tags' failed to satisfy constraint: the prefix aws: is reserved", func(in *awscloudformation.CreateStackInput) {
			in.Tags = []cloudformationtypes.Tag{{Key: aws.String("aws:x"), Value: aws.String("y")}}
		}},
		{queue, "ValidationError", "1 validation error detected: Value at 'tags' failed to satisfy constraint: Member must have length less than or equal to 50", func(in *awscloudformation.CreateStackInput) {
			for i := range 51 {
				in.Tags = append(in.Tags, cloudformationtypes.Tag{Key: aws.String(fmt.Sprint("k", i)), Value: aws.String("v")})
			}
		}},
		{queue, "ValidationError", "Role arn:aws:iam::111122223333:role/none is invalid or cannot be assumed", func(in *awscloudformation.CreateStackInput) {
			in.RoleARN = aws.String("arn:aws:iam::111122223333:role/none")
		}},
		{queue, "NotImplemented", "Drydock does not implement the deployment mode EXPRESS; to see what it implements: drydock supports cloudformation CreateStack", func(in *awscloudformation.CreateStackInput) {
			in.DeploymentConfig = &cloudformationtypes.DeploymentConfig{Mode: cloudformationtypes.DeploymentConfigModeExpress}
		}},
	} {
		in := &awscloudformation.CreateStackInput{StackName: aws.String("x"), TemplateBody: &tt.body}
		if tt.change != nil {
			tt.change(in)
		}
		_, err := w.CreateStack(ctx, in)
		testkit.WantError(t, err, tt.code, tt.text)
	}
	if all := testkit.Must(w.ListStacks(ctx, nil))(t); len(all.StackSummaries) != 0 {
		t.Errorf("%+v", all.StackSummaries)
	}
	// CDK's program names the default mode in every call.
	id := w.create(t, "there", queue, func(in *awscloudformation.CreateStackInput) {
		in.DeploymentConfig = &cloudformationtypes.DeploymentConfig{Mode: cloudformationtypes.DeploymentConfigModeStandard}
	})
	w.want(t, id, "CREATE_COMPLETE")
	_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("there"), TemplateBody: aws.String(queue)})
	testkit.WantError(t, err, "AlreadyExistsException", "Stack [there] already exists")
}

// TestRollback covers golden scenarios 7 to 9.
func TestRollback(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "key", `{"Parameters": {"Key": {"Type": "AWS::EC2::KeyPair::KeyName", "Default": "none"}}, "Resources": {"P": {"Type": "AWS::SQS::Queue"}}}`)
	w.want(t, id, "ROLLBACK_COMPLETE")
	if got, want := w.script(t, id), `S CREATE_IN_PROGRESS User Initiated
S ROLLBACK_IN_PROGRESS Parameter validation failed: parameter value none for parameter name Key does not exist. Rollback requested by user.
S ROLLBACK_COMPLETE`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}

	const outside = `
Resources:
  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  N: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref V, CidrBlock: 10.1.0.0/24}}
  Z: {Type: AWS::SSM::Parameter, DependsOn: N, Properties: {Type: String, Value: x}}`
	id = w.create(t, "outside", outside)
	st := w.want(t, id, "ROLLBACK_COMPLETE")
	script := w.script(t, id)
	for _, want := range []string{
		`N CREATE_FAILED Resource handler returned message: "The CIDR '10.1.0.0/24' is invalid. (Service: Ec2, Status Code: 400, Request ID: `,
		"S ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [N]. Rollback requested by user.\nV DELETE_IN_PROGRESS\nV DELETE_COMPLETE\nS ROLLBACK_COMPLETE",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("%s\nis not in\n%s", want, script)
		}
	}
	if strings.Contains(script, "Z ") || st.DeletionTime == nil {
		t.Errorf("%s\n%+v", script, st)
	}
	// The stack still has its tags.
	if !slices.ContainsFunc(cloudformation.New(w.config).Module(nil).Tagging.Resources(w.account, testkit.Region), func(r module.Resource) bool { return r.ARN == id }) {
		t.Error("the stack cannot be found by its tags")
	}
	network := awsec2.NewFromConfig(w.cfg)
	if vpcs := testkit.Must(network.DescribeVpcs(ctx, nil))(t); slices.ContainsFunc(vpcs.Vpcs, func(v ec2types.Vpc) bool { return *v.CidrBlock == "10.0.0.0/16" }) {
		t.Errorf("%+v", vpcs.Vpcs)
	}

	id = w.create(t, "stays", outside, func(in *awscloudformation.CreateStackInput) { in.OnFailure = "DO_NOTHING" })
	if st := w.want(t, id, "CREATE_FAILED"); *st.StackStatusReason != "The following resource(s) failed to create: [N]. " {
		t.Errorf("%q", *st.StackStatusReason)
	}
	stays := func() bool {
		return slices.ContainsFunc(testkit.Must(network.DescribeVpcs(ctx, nil))(t).Vpcs, func(v ec2types.Vpc) bool { return *v.CidrBlock == "10.0.0.0/16" })
	}
	if !stays() {
		t.Error("the VPC is deleted")
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if stays() {
		t.Error("the VPC is left")
	}
	// A sibling in progress is cancelled.
	id = w.create(t, "siblings", outside+`
  H: {Type: AWS::CloudFormation::WaitConditionHandle}
  W: {Type: AWS::CloudFormation::WaitCondition, Properties: {Handle: !Ref H, Timeout: 3600}}`)
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "W CREATE_FAILED Resource creation cancelled\n") || !strings.Contains(script, "S ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [N, W]. Rollback requested by user.\n") {
		t.Error(script)
	}
	id = w.create(t, "goes", outside, func(in *awscloudformation.CreateStackInput) { in.OnFailure = "DELETE" })
	w.want(t, id, "DELETE_COMPLETE")
}

func TestMalformedProperties(t *testing.T) {
	w := newRunning(t)
	id := w.create(t, "bad", `{"Resources": {"Q": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Foo": "x"}}}}`)
	w.want(t, id, "ROLLBACK_COMPLETE")
	if got, want := w.script(t, id), `S CREATE_IN_PROGRESS User Initiated
Q CREATE_IN_PROGRESS
Q CREATE_FAILED Properties validation failed for resource Q with message: [#: required key [Value] not found, #: extraneous key [Foo] is not permitted]
S ROLLBACK_IN_PROGRESS Validation failed for following resources: [Q]. Rollback requested by user.
S ROLLBACK_COMPLETE`; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	// A property that AWS has and Drydock does not honour is never silently dropped.
	id = w.create(t, "not", `{"Resources": {"V": {"Type": "AWS::EC2::VPC", "Properties": {"Ipv4IpamPoolId": "ipam-pool-1", "Ipv4NetmaskLength": 24}}}}`)
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "V CREATE_FAILED Resource handler returned message: \"Drydock does not implement ") {
		t.Error(script)
	}
}

// TestExports covers golden scenario 14.
func TestExports(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	x := w.create(t, "x", `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}, "Outputs": {"O": {"Value": {"Fn::GetAtt": ["Q", "Arn"]}, "Export": {"Name": {"Fn::Sub": "${AWS::StackName}::Arn"}}}}}`)
	arn := w.outputs(w.want(t, x, "CREATE_COMPLETE"))["O"]
	y := w.create(t, "y", `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::ImportValue": "x::Arn"}}}}, "Outputs": {"O": {"Value": {"Fn::GetAtt": ["P", "Value"]}}}}`)
	if got := w.outputs(w.want(t, y, "CREATE_COMPLETE"))["O"]; got != arn {
		t.Errorf("%s, want %s", got, arn)
	}
	if out := testkit.Must(w.ListExports(ctx, nil))(t); len(out.Exports) != 1 || *out.Exports[0].Name != "x::Arn" || *out.Exports[0].Value != arn {
		t.Errorf("%+v", out.Exports)
	}
	if out := testkit.Must(w.ListImports(ctx, &awscloudformation.ListImportsInput{ExportName: aws.String("x::Arn")}))(t); len(out.Imports) != 1 || out.Imports[0] != "y" {
		t.Errorf("%+v", out.Imports)
	}
	_, err := w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &x})
	testkit.WantError(t, err, "ValidationError", "Export x::Arn cannot be deleted as it is in use by y")
	z := w.create(t, "z", `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}, "Outputs": {"O": {"Value": "v", "Export": {"Name": "x::Arn"}}}}`)
	if st := w.want(t, z, "ROLLBACK_COMPLETE"); !strings.Contains(w.script(t, z), "S ROLLBACK_IN_PROGRESS Export with name x::Arn is already exported by stack x. Rollback requested by user.") {
		t.Errorf("%+v", st)
	}
	n := w.create(t, "n", `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::ImportValue": "none"}}}}}`)
	w.want(t, n, "ROLLBACK_COMPLETE")
	if script := w.script(t, n); !strings.Contains(script, "P CREATE_FAILED No export named none found.") {
		t.Error(script)
	}
	w.delete(t, y)
	w.want(t, y, "DELETE_COMPLETE")
	w.delete(t, x)
	w.want(t, x, "DELETE_COMPLETE")
}

// TestRetain covers golden scenario 19 without S3, and RetainResources of scenario 18.
func TestRetain(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "kept", `{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "DeletionPolicy": "Retain"}}, "Outputs": {"URL": {"Value": {"Ref": "Q"}}}}`,
		func(in *awscloudformation.CreateStackInput) { in.EnableTerminationProtection = aws.Bool(true) })
	url := w.outputs(w.want(t, id, "CREATE_COMPLETE"))["URL"]
	_, err := w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id})
	testkit.WantError(t, err, "ValidationError", "Stack [kept] cannot be deleted while TerminationProtection is enabled")
	testkit.Must(w.UpdateTerminationProtection(ctx, &awscloudformation.UpdateTerminationProtectionInput{StackName: aws.String("kept"), EnableTerminationProtection: aws.Bool(false)}))(t)
	_, err = w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id, RetainResources: []string{"Q"}})
	testkit.WantErrorWith(t, err, "ValidationError", "only when the stack is in the DELETE_FAILED state.")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "Q DELETE_SKIPPED\nS DELETE_COMPLETE") {
		t.Error(script)
	}
	testkit.Must(awssqs.NewFromConfig(w.cfg).GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &url}))(t)
}

// TestRights covers golden scenario 18: every call is made with the permissions of the
// caller who requested the stack, or of its role.
func TestRights(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	users := awsiam.NewFromConfig(w.cfg)
	user := func(name, policy string) *awscloudformation.Client {
		testkit.Must(users.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}))(t)
		testkit.Must(users.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(t)
		key := testkit.Must(users.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name}))(t).AccessKey
		return awscloudformation.NewFromConfig(w.AWSConfigWith(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: *key.AccessKeyId, SecretAccessKey: *key.SecretAccessKey}, nil
		})))
	}
	const queue = `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`
	poor := user("poor", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"cloudformation:*","Resource":"*"}}`)
	id := *testkit.Must(poor.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("poor"), TemplateBody: aws.String(queue)}))(t).StackId
	w.want(t, id, "ROLLBACK_COMPLETE")
	if script, want := w.script(t, id), `Q CREATE_FAILED Resource handler returned message: "User: arn:aws:iam::`+w.account+`:user/poor is not authorized to perform: sqs:createqueue on resource: `; !strings.Contains(strings.ToLower(script), strings.ToLower(want)) {
		t.Error(script)
	}

	trust := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"cloudformation.amazonaws.com"},"Action":"sts:AssumeRole"}}`
	role := testkit.Must(users.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("deployer"), AssumeRolePolicyDocument: &trust}))(t).Role
	testkit.Must(users.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: role.RoleName, PolicyName: aws.String("p"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sqs:*","Resource":"*"}}`)}))(t)
	_, err := poor.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("role"), TemplateBody: aws.String(queue), RoleARN: role.Arn})
	testkit.WantErrorWith(t, err, "AccessDenied", "is not authorized to perform: iam:PassRole on resource: "+*role.Arn)
	passer := user("passer", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["cloudformation:*","iam:PassRole"],"Resource":"*"}}`)
	id = *testkit.Must(passer.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("role"), TemplateBody: aws.String(queue), RoleARN: role.Arn}))(t).StackId
	w.want(t, id, "CREATE_COMPLETE")

	// The caller may create queues, but may not create roles or delete anything. The rollback has the same permissions
	// and fails.
	half := user("half", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["cloudformation:*","sqs:CreateQueue","sqs:Get*"],"Resource":"*"}}`)
	kept := id
	id = *testkit.Must(half.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("half"), Capabilities: []cloudformationtypes.Capability{"CAPABILITY_IAM"}, TemplateBody: aws.String(
		`{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}, "R": {"Type": "AWS::IAM::Role", "DependsOn": "Q", "Properties": {"AssumeRolePolicyDocument": ` + trust + `}}}}`)}))(t).StackId
	if st := w.want(t, id, "ROLLBACK_FAILED"); *st.StackStatusReason != "The following resource(s) failed to delete: [Q]. " {
		t.Errorf("%q", *st.StackStatusReason)
	}
	script := w.script(t, id)
	if want := `R CREATE_FAILED Resource handler returned message: "User: arn:aws:iam::` + w.account + `:user/half is not authorized to perform: iam:CreateRole on resource: arn:aws:iam::` + w.account + `:role/half-R-`; !strings.Contains(script, want) ||
		!strings.Contains(script, " because no identity-based policy allows the iam:CreateRole action (Service: Iam, Status Code: 403, Request ID: ") {
		t.Error(script)
	}
	testkit.Must(half.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id}))(t)
	w.want(t, id, "DELETE_FAILED")
	testkit.Must(half.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id, RetainResources: []string{"Q"}}))(t)
	w.want(t, id, "DELETE_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "Q DELETE_SKIPPED\nS DELETE_COMPLETE") {
		t.Error(script)
	}

	// Without permission to delete its resource, the stack stays until the resource is retained.
	id = kept
	testkit.Must(users.PutRolePolicy(ctx, &awsiam.PutRolePolicyInput{RoleName: role.RoleName, PolicyName: aws.String("p"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sqs:Get*","Resource":"*"}}`)}))(t)
	testkit.Must(passer.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id}))(t)
	if st := w.want(t, id, "DELETE_FAILED"); *st.StackStatusReason != "The following resource(s) failed to delete: [Q]. " {
		t.Errorf("%q", *st.StackStatusReason)
	}
	testkit.Must(passer.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id, RetainResources: []string{"Q"}}))(t)
	w.want(t, id, "DELETE_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "Q DELETE_SKIPPED") {
		t.Error(script)
	}
}

func TestClientRequestToken(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	const queue = `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`
	token := func(in *awscloudformation.CreateStackInput) { in.ClientRequestToken = aws.String("t-1") }
	id := w.create(t, "twice", queue, token)
	if again := w.create(t, "twice", queue, token); again != id {
		t.Errorf("%s, then %s", id, again)
	}
	_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("twice"), TemplateBody: aws.String(queue), ClientRequestToken: aws.String("t-1"), DisableRollback: aws.Bool(true)})
	testkit.WantErrorWith(t, err, "TokenAlreadyExistsException", "t-1")
	w.want(t, id, "CREATE_COMPLETE")
	for _, e := range testkit.Must(w.DescribeStackEvents(ctx, &awscloudformation.DescribeStackEventsInput{StackName: &id}))(t).StackEvents {
		if *e.ClientRequestToken != "t-1" {
			t.Errorf("%+v", e)
		}
	}
}

func TestSSMParametersAndNoEcho(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	testkit.Must(awsssm.NewFromConfig(w.cfg).PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/a"), Value: aws.String("found"), Type: "String"}))(t)
	testkit.Must(awsssm.NewFromConfig(w.cfg).PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/hidden"), Value: aws.String(`hush "stored"`), Type: "String"}))(t)
	id := w.create(t, "params", `{"Parameters": {"Stored": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/hidden", "NoEcho": true}, "A": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/a"}, "Secret": {"Type": "String", "NoEcho": true}},
		"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Description": {"Fn::Sub": "${Secret} ${Stored}"}, "Value": {"Ref": "A"}}}}, "Outputs": {"O": {"Value": {"Fn::GetAtt": ["P", "Value"]}}}}`,
		func(in *awscloudformation.CreateStackInput) {
			in.Parameters = []cloudformationtypes.Parameter{{ParameterKey: aws.String("Secret"), ParameterValue: aws.String("hush-hush")}}
		})
	st := w.want(t, id, "CREATE_COMPLETE")
	shown, _ := json.Marshal(st.Parameters)
	if w.outputs(st)["O"] != "found" || !strings.Contains(string(shown), `"ResolvedValue":"found"`) || strings.Contains(string(shown), "hush") {
		t.Errorf("%s %v", shown, w.outputs(st))
	}
	for _, e := range testkit.Must(w.DescribeStackEvents(ctx, &awscloudformation.DescribeStackEventsInput{StackName: &id}))(t).StackEvents {
		if e.ResourceProperties != nil && strings.Contains(*e.ResourceProperties, "hush") {
			t.Errorf("%s", *e.ResourceProperties)
		}
	}
	for _, typ := range []string{"Value<String>", "Name"} {
		_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("n"), TemplateBody: aws.String(`{"Parameters": {"A": {"Type": "AWS::SSM::Parameter::` + typ + `", "Default": "/none"}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`)})
		testkit.WantError(t, err, "ValidationError", "Unable to fetch parameters [/none] from parameter store for this account.")
	}
	// If Systems Manager itself fails, the error must not claim that the parameter is missing.
	cfg := w.config
	api := &refuser{API: w.front}
	cfg.API = api
	as := awsapi.WithCall(ctx, &awsapi.Call{Account: w.account, Region: "us-east-1"})
	api.refuse.Store(func(any) error { return awserr.New("ThrottlingException", "Rate exceeded") })
	for _, typ := range []string{"Value<String>", "Name"} {
		_, err := cloudformation.New(cfg).CreateStack(as, &awscloudformation.CreateStackInput{StackName: aws.String("n"), TemplateBody: aws.String(`{"Parameters": {"A": {"Type": "AWS::SSM::Parameter::` + typ + `", "Default": "/a"}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`)})
		testkit.WantError(t, err, "ThrottlingException", "Rate exceeded")
	}
	id = w.create(t, "named", `{"Parameters": {"A": {"Type": "AWS::SSM::Parameter::Name", "Default": "/a"}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue"}}, "Outputs": {"O": {"Value": {"Ref": "A"}}}}`)
	if out := w.outputs(w.want(t, id, "CREATE_COMPLETE")); out["O"] != "/a" {
		t.Errorf("%v", out)
	}
}

func TestValidateTemplate(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	body := `{"Description": "d", "Parameters": {"P": {"Type": "String", "NoEcho": true, "Default": "x"}}, "Resources": {"R": {"Type": "AWS::IAM::Role"}, "Q": {"Type": "AWS::SQS::Queue"}}, "Metadata": {"M": [1]}}`
	v := testkit.Must(w.ValidateTemplate(ctx, &awscloudformation.ValidateTemplateInput{TemplateBody: &body}))(t)
	if *v.Description != "d" || !*v.Parameters[0].NoEcho || v.Capabilities[0] != "CAPABILITY_IAM" || *v.CapabilitiesReason != "The following resource(s) require capabilities: [AWS::IAM::Role]" {
		t.Errorf("%+v", v)
	}
	s := testkit.Must(w.GetTemplateSummary(ctx, &awscloudformation.GetTemplateSummaryInput{TemplateBody: &body}))(t)
	if !slices.Equal(s.ResourceTypes, []string{"AWS::IAM::Role", "AWS::SQS::Queue"}) || *s.Metadata != `{"M":[1]}` || *s.ResourceIdentifierSummaries[0].ResourceType != "AWS::IAM::Role" {
		t.Errorf("%+v", s)
	}
}

func TestEveryTypeHasASchema(t *testing.T) {
	listed, err := os.ReadFile("types.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := os.ReadFile("schemas.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	for line := range strings.Lines(string(lines)) {
		var s struct {
			Type       string
			Properties map[string]any
		}
		if err := json.Unmarshal([]byte(line), &s); err != nil || len(s.Properties) == 0 {
			t.Errorf("%.80s: %v", line, err)
		}
		have = append(have, s.Type)
	}
	want := slices.DeleteFunc(cloudformation.Types(), func(typ string) bool { // CDK's own, and those with any properties
		return typ == "AWS::CDK::Metadata" || ofCustomResources(typ)
	})
	if !slices.Equal(have, want) || !slices.Equal(strings.Fields(string(listed)), want) {
		t.Errorf("schemas of %v, handlers of %v: list the types in types.txt and run tools/cfngen", have, want)
	}
}
