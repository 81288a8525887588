package cloudformation_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// update updates a stack with a template and waits for the end. It returns the stack and
// the script of the update.
func (w *world) update(t *testing.T, id, body string, status cloudformationtypes.StackStatus, change ...func(*awscloudformation.UpdateStackInput)) (cloudformationtypes.Stack, string) {
	t.Helper()
	before := w.script(t, id)
	in := &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: &body, Capabilities: []cloudformationtypes.Capability{"CAPABILITY_NAMED_IAM"}}
	for _, c := range change {
		c(in)
	}
	testkit.Must(w.UpdateStack(t.Context(), in))(t)
	st := w.want(t, id, status)
	return st, strings.TrimPrefix(w.script(t, id), before+"\n")
}

func wantScript(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func parameters(values ...string) string {
	var out []string
	for i, v := range values {
		if v != "" {
			out = append(out, fmt.Sprintf(`"%c": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", %s}}`, 'A'+i, v))
		}
	}
	return `{"Resources": {` + strings.Join(out, ", ") + `}, "Outputs": {"A": {"Value": {"Ref": "A"}}}}`
}

// TestUpdate covers golden scenarios 10 to 12.
func TestUpdate(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	queue := func(more string) string {
		return `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"` + more + `}}, "Outputs": {"URL": {"Value": {"Ref": "Q"}}}}`
	}
	id := w.create(t, "queue", queue(`, "Properties": {"QueueName": "one"}`))
	old := w.outputs(w.want(t, id, "CREATE_COMPLETE"))["URL"]
	st, script := w.update(t, id, queue(`, "Properties": {"QueueName": "two"}`), "UPDATE_COMPLETE")
	wantScript(t, script, `S UPDATE_IN_PROGRESS User Initiated
Q UPDATE_IN_PROGRESS Requested update requires the creation of a new physical resource; hence creating one.
Q UPDATE_IN_PROGRESS Resource creation Initiated
Q UPDATE_COMPLETE
S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS
Q DELETE_IN_PROGRESS
Q DELETE_COMPLETE
S UPDATE_COMPLETE`)
	if url := w.outputs(st)["URL"]; url == old || !strings.HasSuffix(url, "/two") || st.LastUpdatedTime == nil {
		t.Errorf("%s, then %+v", old, st)
	}
	queues := awssqs.NewFromConfig(w.cfg)
	if urls := testkit.Must(queues.ListQueues(ctx, &awssqs.ListQueuesInput{}))(t).QueueUrls; len(urls) != 1 {
		t.Errorf("%v", urls)
	}
	kept := queue(`, "UpdateReplacePolicy": "Retain", "Properties": {"QueueName": "two"}`)
	_, err := w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: &kept})
	testkit.WantError(t, err, "ValidationError", "No updates are to be performed.") // changing only a policy is not an update
	_, script = w.update(t, id, strings.ReplaceAll(kept, "two", "three"), "UPDATE_COMPLETE")
	if !strings.Contains(script, "Q DELETE_COMPLETE") { // the policy of the old resource applies
		t.Error(script)
	}
	_, script = w.update(t, id, strings.ReplaceAll(kept, "two", "four"), "UPDATE_COMPLETE")
	wantScript(t, script[strings.Index(script, "S UPDATE_COMPLETE_CLEANUP"):], "S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS\nQ DELETE_SKIPPED\nS UPDATE_COMPLETE")

	_, script = w.update(t, id, strings.ReplaceAll(kept, `"two"`, `"four", "Tags": [{"Key": "k", "Value": "v"}], "VisibilityTimeout": 45`), "UPDATE_COMPLETE")
	wantScript(t, script, `S UPDATE_IN_PROGRESS User Initiated
Q UPDATE_IN_PROGRESS
Q UPDATE_COMPLETE
S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS
S UPDATE_COMPLETE`)
	url := w.outputs(w.settled(t, id))["URL"]
	if a := testkit.Must(queues.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{"All"}}))(t); a.Attributes["VisibilityTimeout"] != "45" {
		t.Errorf("%v", a.Attributes)
	}
	_, script = w.update(t, id, kept, "UPDATE_COMPLETE", func(in *awscloudformation.UpdateStackInput) {
		in.TemplateBody, in.UsePreviousTemplate, in.Tags = nil, aws.Bool(true), []cloudformationtypes.Tag{{Key: aws.String("stack"), Value: aws.String("s")}}
	})
	if tags := testkit.Must(queues.ListQueueTags(ctx, &awssqs.ListQueueTagsInput{QueueUrl: &url}))(t).Tags; tags["stack"] != "s" || tags["k"] != "v" || !strings.Contains(script, "Q UPDATE_COMPLETE") {
		t.Errorf("%v\n%s", tags, script)
	}
	_, err = w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, UsePreviousTemplate: aws.Bool(true)})
	testkit.WantError(t, err, "ValidationError", "No updates are to be performed.")
	custom := strings.ReplaceAll(kept, `"two"`, `"four", "FifoQueue": "true"`)
	w.update(t, id, custom, "UPDATE_ROLLBACK_COMPLETE")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
}

// TestUpdateOrder checks that resources are added, changed and removed in the order of
// their references, and that a value that becomes known during the update changes the
// resources that refer to it.
func TestUpdateOrder(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "order", parameters(`"Value": "a"`, `"Value": {"Ref": "A"}`, `"Value": {"Ref": "A"}`))
	w.want(t, id, "CREATE_COMPLETE")
	st, script := w.update(t, id, parameters(`"Name": "new", "Value": "a"`, `"Value": {"Ref": "A"}`, "", `"Value": {"Fn::GetAtt": ["B", "Value"]}`), "UPDATE_COMPLETE")
	wantScript(t, script, `S UPDATE_IN_PROGRESS User Initiated
A UPDATE_IN_PROGRESS Requested update requires the creation of a new physical resource; hence creating one.
A UPDATE_IN_PROGRESS Resource creation Initiated
A UPDATE_COMPLETE
B UPDATE_IN_PROGRESS
B UPDATE_COMPLETE
D CREATE_IN_PROGRESS
D CREATE_IN_PROGRESS Resource creation Initiated
D CREATE_COMPLETE
S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS
C DELETE_IN_PROGRESS
C DELETE_COMPLETE
A DELETE_IN_PROGRESS
A DELETE_COMPLETE
S UPDATE_COMPLETE`)
	if w.outputs(st)["A"] != "new" {
		t.Errorf("%v", w.outputs(st))
	}
	var have []string
	for _, r := range testkit.Must(w.DescribeStackResources(ctx, &awscloudformation.DescribeStackResourcesInput{StackName: &id}))(t).StackResources {
		have = append(have, *r.LogicalResourceId+" "+string(r.ResourceStatus))
		if v := testkit.Must(awsssm.NewFromConfig(w.cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: r.PhysicalResourceId}))(t); *r.LogicalResourceId == "D" && *v.Parameter.Value != "new" {
			t.Errorf("%+v", v.Parameter)
		}
	}
	if got := strings.Join(have, ", "); got != "A UPDATE_COMPLETE, B UPDATE_COMPLETE, D CREATE_COMPLETE" {
		t.Error(got)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if left := testkit.Must(awsssm.NewFromConfig(w.cfg).DescribeParameters(ctx, &awsssm.DescribeParametersInput{}))(t).Parameters; len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

// TestUpdateRollback checks that a failed update is rolled back: changed resources are
// changed back, replaced ones are the old ones again, and added ones are deleted.
func TestUpdateRollback(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "back", parameters(`"Value": "a"`, `"Value": {"Fn::GetAtt": ["A", "Value"]}`, `"Value": {"Ref": "B"}`))
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	next := parameters(`"Value": "a2"`, `"Name": "/b", "Value": {"Fn::GetAtt": ["A", "Value"]}`, `"Value": {"Ref": "B"}`, `"Value": {"Fn::Sub": "${B} ${C}"}`,
		`"AllowedPattern": "^no$", "Value": {"Ref": "D"}`)
	st, script := w.update(t, id, next, "UPDATE_ROLLBACK_COMPLETE")
	from := strings.Index(script, "S UPDATE_ROLLBACK_IN_PROGRESS")
	wantScript(t, script[from:], `S UPDATE_ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [E]. 
A UPDATE_IN_PROGRESS
A UPDATE_COMPLETE
B UPDATE_COMPLETE
C UPDATE_IN_PROGRESS
C UPDATE_COMPLETE
S UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS
D DELETE_IN_PROGRESS
D DELETE_COMPLETE
B DELETE_IN_PROGRESS
B DELETE_COMPLETE
S UPDATE_ROLLBACK_COMPLETE`)
	if !strings.Contains(script[:from], "E CREATE_FAILED Resource handler returned message") || w.outputs(st)["A"] != out["A"] {
		t.Errorf("%s\n%v", script, w.outputs(st))
	}
	values := func() string {
		var out []string
		for _, r := range testkit.Must(w.DescribeStackResources(ctx, &awscloudformation.DescribeStackResourcesInput{StackName: &id}))(t).StackResources {
			p := testkit.Must(awsssm.NewFromConfig(w.cfg).GetParameter(ctx, &awsssm.GetParameterInput{Name: r.PhysicalResourceId}))(t).Parameter
			v := *p.Value
			if strings.HasPrefix(v, "CFN-") {
				v = v[:len("CFN-B-")]
			}
			out = append(out, *r.LogicalResourceId+"="+v)
		}
		return strings.Join(out, " ")
	}
	if got := values(); got != "A=a B=a C=CFN-B-" {
		t.Error(got)
	}
	if got := *testkit.Must(w.GetTemplate(ctx, &awscloudformation.GetTemplateInput{StackName: &id}))(t).TemplateBody; strings.Contains(got, "a2") {
		t.Errorf("the template is not what it was: %s", got)
	}

	// Without a rollback everything stays as it is until another update or a rollback is requested.
	keep := func(in *awscloudformation.UpdateStackInput) { in.DisableRollback = aws.Bool(true) }
	st, _ = w.update(t, id, next, "UPDATE_FAILED", keep)
	if *st.StackStatusReason != "The following resource(s) failed to create: [E]. " {
		t.Errorf("%q", *st.StackStatusReason)
	}
	testkit.Must(w.RollbackStack(ctx, &awscloudformation.RollbackStackInput{StackName: &id}))(t)
	w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
	if got := values(); got != "A=a B=a C=CFN-B-" {
		t.Error(got)
	}
	w.update(t, id, next, "UPDATE_FAILED", keep)
	w.update(t, id, parameters(`"Value": "a3"`, `"Value": {"Fn::GetAtt": ["A", "Value"]}`), "UPDATE_COMPLETE")
	if got := values(); got != "A=a3 B=a3" {
		t.Error(got)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if left := testkit.Must(awsssm.NewFromConfig(w.cfg).DescribeParameters(ctx, &awsssm.DescribeParametersInput{}))(t).Parameters; len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

// TestUpdateRefusals covers the update of golden scenario 14, and updates that a state or a
// policy refuses.
func TestUpdateRefusals(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	export := func(v string) string {
		return `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "` + v + `"}}}, "Outputs": {"O": {"Value": {"Fn::GetAtt": ["P", "Value"]}, "Export": {"Name": "E"}}}}`
	}
	x := w.create(t, "x", export("one"))
	w.want(t, x, "CREATE_COMPLETE")
	y := w.create(t, "y", `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::ImportValue": "E"}}}}}`)
	w.want(t, y, "CREATE_COMPLETE")
	_, script := w.update(t, x, export("two"), "UPDATE_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "S UPDATE_ROLLBACK_IN_PROGRESS Export E cannot be updated as it is in use by y") {
		t.Error(script)
	}
	w.update(t, y, `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "own"}}}}`, "UPDATE_COMPLETE")
	w.update(t, x, export("two"), "UPDATE_COMPLETE") // nothing imports it any more

	testkit.Must(w.SetStackPolicy(ctx, &awscloudformation.SetStackPolicyInput{StackName: &x, StackPolicyBody: aws.String(
		`{"Statement": [{"Effect": "Deny", "Principal": "*", "Action": "Update:*", "Resource": "LogicalResourceId/P"}, {"Effect": "Allow", "Principal": "*", "Action": "Update:*", "Resource": "*"}]}`)}))(t)
	_, script = w.update(t, x, export("three"), "UPDATE_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "P UPDATE_FAILED Action denied by stack policy: Statement [#1] does not allow [Update:Modify] for resource [LogicalResourceId/P]; \n") {
		t.Error(script)
	}
	_, script = w.update(t, x, strings.ReplaceAll(export("two"), `"P"`, `"R"`), "UPDATE_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "does not allow [Update:Delete] for resource [LogicalResourceId/P]") {
		t.Error(script)
	}
	w.update(t, x, export("three"), "UPDATE_COMPLETE", func(in *awscloudformation.UpdateStackInput) {
		in.StackPolicyDuringUpdateBody = aws.String(`{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "Update:Modify", "Resource": "*"}}`)
	})
	if p := testkit.Must(w.GetStackPolicy(ctx, &awscloudformation.GetStackPolicyInput{StackName: &x}))(t); p.StackPolicyBody == nil {
		t.Error("the policy during the update is the stack's")
	}
	_, err := w.SetStackPolicy(ctx, &awscloudformation.SetStackPolicyInput{StackName: &x, StackPolicyBody: aws.String(`{"Statement": [{}]}`)})
	testkit.WantError(t, err, "ValidationError", "Error validating stack policy: Invalid stack policy")
	_, err = w.CancelUpdateStack(ctx, &awscloudformation.CancelUpdateStackInput{StackName: &x})
	testkit.WantError(t, err, "ValidationError", "CancelUpdateStack cannot be called from current stack status")
	_, err = w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &x, TemplateBody: aws.String(`{"Resources": {"P": {"Type": "AWS::SQS::Queue"}}}`)})
	testkit.WantError(t, err, "ValidationError", "Update of resource type is not permitted. The new template modifies resource type of the following resources: [P]")
	_, err = w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: aws.String("none"), TemplateBody: aws.String(export("x"))})
	testkit.WantError(t, err, "ValidationError", "Stack with id none does not exist")
	failed := w.create(t, "failed", `{"Resources": {"P": {"Type": "AWS::SSM::Parameter"}}}`)
	w.want(t, failed, "ROLLBACK_COMPLETE")
	_, err = w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &failed, TemplateBody: aws.String(export("x"))})
	testkit.WantError(t, err, "ValidationError", "Stack:"+failed+" is in ROLLBACK_COMPLETE state and can not be updated.")
}

// TestPreviousParameters covers a parameter that keeps its value, one that gets a new
// value, and one whose value in Parameter Store has changed.
func TestPreviousParameters(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	store := awsssm.NewFromConfig(w.cfg)
	put := func(v string) {
		testkit.Must(store.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/a"), Value: &v, Type: "String", Overwrite: aws.Bool(true)}))(t)
	}
	put("one")
	const body = `{"Parameters": {"A": {"Type": "AWS::SSM::Parameter::Value<String>"}, "B": {"Type": "String"}},
		"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::Sub": "${A} ${B}"}}}}, "Outputs": {"O": {"Value": {"Fn::GetAtt": ["P", "Value"]}}}}`
	id := w.create(t, "p", body, func(in *awscloudformation.CreateStackInput) {
		in.Parameters = []cloudformationtypes.Parameter{{ParameterKey: aws.String("A"), ParameterValue: aws.String("/a")}, {ParameterKey: aws.String("B"), ParameterValue: aws.String("b")}}
	})
	w.want(t, id, "CREATE_COMPLETE")
	previous := func(in *awscloudformation.UpdateStackInput) {
		in.TemplateBody, in.UsePreviousTemplate = nil, aws.Bool(true)
		in.Parameters = []cloudformationtypes.Parameter{{ParameterKey: aws.String("A"), UsePreviousValue: aws.Bool(true)}, {ParameterKey: aws.String("B"), UsePreviousValue: aws.Bool(true)}}
	}
	in := &awscloudformation.UpdateStackInput{StackName: &id}
	previous(in)
	_, err := w.UpdateStack(ctx, in)
	testkit.WantError(t, err, "ValidationError", "No updates are to be performed.")
	put("two")
	st, _ := w.update(t, id, "", "UPDATE_COMPLETE", previous)
	if got := w.outputs(st)["O"]; got != "two b" {
		t.Error(got)
	}
	st, _ = w.update(t, id, "", "UPDATE_COMPLETE", previous, func(in *awscloudformation.UpdateStackInput) {
		in.Parameters[1] = cloudformationtypes.Parameter{ParameterKey: aws.String("B"), ParameterValue: aws.String("c")}
	})
	if got := w.outputs(st)["O"]; got != "two c" {
		t.Error(got)
	}
}

// TestContinueUpdateRollback continues the failed rollback of an update without the
// resource that blocks it.
func TestContinueUpdateRollback(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	refuser := &refuser{API: w.front}
	cancel, ended := w.run(refuser)
	defer func() { cancel(); <-ended }()
	id := w.create(t, "stuck", parameters(`"Value": "a"`, `"Value": "b"`))
	w.want(t, id, "CREATE_COMPLETE")
	name := w.outputs(w.settled(t, id))["A"]
	keep := func(in *awscloudformation.UpdateStackInput) { in.DisableRollback = aws.Bool(true) }
	w.update(t, id, parameters(`"Value": "a2"`, `"Value": {"Fn::Sub": "${A}2"}, "AllowedPattern": "^no$"`), "UPDATE_FAILED", keep)
	refuser.refuse.Store(func(in any) error {
		if p, ok := in.(*awsssm.PutParameterInput); ok && *p.Name == name {
			return awserr.New("AccessDeniedException", "not now")
		}
		return nil
	})
	testkit.Must(w.RollbackStack(ctx, &awscloudformation.RollbackStackInput{StackName: &id}))(t)
	st := w.want(t, id, "UPDATE_ROLLBACK_FAILED")
	if *st.StackStatusReason != "The following resource(s) failed to update: [A]. " {
		t.Fatalf("%q\n%s", *st.StackStatusReason, w.script(t, id))
	}
	_, err := w.ContinueUpdateRollback(ctx, &awscloudformation.ContinueUpdateRollbackInput{StackName: &id, ResourcesToSkip: []string{"B"}})
	testkit.WantErrorWith(t, err, "ValidationError", "Resource B cannot be skipped")
	testkit.Must(w.ContinueUpdateRollback(ctx, &awscloudformation.ContinueUpdateRollbackInput{StackName: &id}))(t)
	w.want(t, id, "UPDATE_ROLLBACK_FAILED")
	testkit.Must(w.ContinueUpdateRollback(ctx, &awscloudformation.ContinueUpdateRollbackInput{StackName: &id, ResourcesToSkip: []string{"A"}}))(t)
	w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
}

// TestUndeletedResourceComesBack declares a queue again after an update that could not delete it. If the queue has been
// deleted by hand since, that update fails, and its rollback deletes what is left instead of restoring the queue.
func TestUndeletedResourceComesBack(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	api := &refuser{API: w.front}
	cancel, ended := w.run(api)
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	queue := func(delay int) string {
		return fmt.Sprintf("Resources: {A: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: with}}, Q: {Type: AWS::SQS::Queue, Properties: {DelaySeconds: %d}}}\nOutputs: {URL: {Value: !Ref Q}}", delay)
	}
	without := "Resources: {A: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: without}}}"
	var id string
	status := func() cloudformationtypes.ResourceStatus {
		return testkit.Must(w.DescribeStackResource(ctx, &awscloudformation.DescribeStackResourceInput{StackName: &id, LogicalResourceId: aws.String("Q")}))(t).StackResourceDetail.ResourceStatus
	}
	undeleted := func() {
		api.refuse.Store(func(in any) error {
			if _, ok := in.(*awssqs.DeleteQueueInput); ok {
				return awserr.New("AccessDenied", "not now")
			}
			return nil
		})
		w.update(t, id, without, "UPDATE_COMPLETE")
		if got := status(); got != "DELETE_FAILED" {
			t.Fatalf("Q is %s", got)
		}
		api.refuse.Store(func(any) error { return nil })
	}
	id = w.create(t, "undeleted", queue(1))
	url := w.outputs(w.want(t, id, "CREATE_COMPLETE"))["URL"]

	undeleted()
	st, _ := w.update(t, id, queue(1), "UPDATE_COMPLETE")
	if got := status(); got != "UPDATE_COMPLETE" || w.outputs(st)["URL"] != url {
		t.Errorf("Q is %s, with outputs %v", got, w.outputs(st))
	}

	undeleted()
	testkit.Must(awssqs.NewFromConfig(w.cfg).DeleteQueue(ctx, &awssqs.DeleteQueueInput{QueueUrl: &url}))(t)
	_, script := w.update(t, id, queue(2), "UPDATE_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "Q UPDATE_FAILED") || !strings.HasSuffix(script, "S UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS\nQ DELETE_IN_PROGRESS\nQ DELETE_COMPLETE\nS UPDATE_ROLLBACK_COMPLETE") {
		t.Error(script)
	}
	st, _ = w.update(t, id, queue(2), "UPDATE_COMPLETE")
	if again := w.outputs(st)["URL"]; again == "" || again == url || status() != "CREATE_COMPLETE" {
		t.Errorf("Q is %s, with outputs %v", status(), w.outputs(st))
	}
}

// A refuser is an API that fails the calls for which refuse returns an error.
type refuser struct {
	awsapi.API
	refuse atomic.Value // a func(in any) error
}

func (r *refuser) Call(ctx context.Context, in any) (any, error) {
	if refuse, ok := r.refuse.Load().(func(any) error); ok {
		if err := refuse(in); err != nil {
			return nil, err
		}
	}
	return r.API.Call(ctx, in)
}

// network2 is an update of the crash test's network. Its resources form a chain, too,
// because a daemon that is killed in the test still writes the results of its other
// goroutines.
const network2 = `
Resources:
  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16, EnableDnsHostnames: false, Tags: [{Key: k, Value: v}]}}
  N: {Type: AWS::EC2::Subnet, DependsOn: T, Properties: {VpcId: !Ref V, CidrBlock: 10.0.2.0/24}}
  I: {Type: AWS::EC2::InternetGateway, DependsOn: V}
  A: {Type: AWS::EC2::VPCGatewayAttachment, Properties: {VpcId: !Ref V, InternetGatewayId: !Ref I}}
  T: {Type: AWS::EC2::RouteTable, DependsOn: A, Properties: {VpcId: !Ref V}}
  R: {Type: AWS::EC2::Route, DependsOn: N, Properties: {RouteTableId: !Ref T, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref I}}
  L: {Type: AWS::EC2::SubnetRouteTableAssociation, DependsOn: R, Properties: {RouteTableId: !Ref T, SubnetId: !Ref N}}
  G: {Type: AWS::EC2::SecurityGroup, DependsOn: L, Properties: {GroupDescription: g2, VpcId: !Ref V, SecurityGroupIngress: [{IpProtocol: tcp, FromPort: 23, ToPort: '23', CidrIp: 10.0.0.0/8}]}}
  S: {Type: AWS::EC2::SecurityGroupIngress, Properties: {GroupId: !GetAtt G.GroupId, IpProtocol: -1, SourceSecurityGroupId: !Ref G}}
  K: {Type: AWS::EC2::LaunchTemplate, DependsOn: S, Properties: {LaunchTemplateData: {InstanceType: t3.small}}}
  Q: {Type: AWS::SQS::Queue, DependsOn: K, Properties: {VisibilityTimeout: 60}}
  M: {Type: AWS::SSM::Parameter, DependsOn: Q, Properties: {Type: String, Value: !GetAtt K.LatestVersionNumber}}
Outputs:
  Version: {Value: !GetAtt M.Value}
`

// TestUpdateKilledAnywhere kills a daemon before or after each call of an update. The next
// daemon must finish the update, or roll it back if it fails, and leave nothing that the
// update replaces or removes.
func TestUpdateKilledAnywhere(t *testing.T) {
	w := newWorld(t)
	before := w.what(t)
	for _, fails := range []bool{false, true} {
		body, want := network2, cloudformationtypes.StackStatusUpdateComplete
		if fails {
			body = strings.Replace(network2, "Outputs:", "  Z: {Type: AWS::EC2::Subnet, DependsOn: [M, L, S], Properties: {VpcId: !Ref V, CidrBlock: 10.1.0.0/24}}\nOutputs:", 1)
			want = cloudformationtypes.StackStatusUpdateRollbackComplete
		}
		for nth, survived := 1, false; !survived; nth++ {
			for _, after := range []bool{false, true} {
				var id string
				var created []string
				w.killed(t, nth, after, func() {
					id = w.create(t, fmt.Sprintf("u%t%d%t", fails, nth, after), network)
					w.want(t, id, "CREATE_COMPLETE")
					created = w.listed(t, id)
				}, func() {
					testkit.Must(w.UpdateStack(t.Context(), &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: &body, Capabilities: []cloudformationtypes.Capability{"CAPABILITY_IAM"}}))(t)
				}, func() <-chan struct{} { return w.final(t, id) }, func(lived bool) {
					survived = survived || lived
					w.want(t, id, want)
					// L is deleted before its replacement is created, so the rollback recreates it.
					listed := slices.DeleteFunc(w.listed(t, id), func(r string) bool { return strings.HasPrefix(r, "L=") })
					if created = slices.DeleteFunc(created, func(r string) bool { return strings.HasPrefix(r, "L=") }); fails && !slices.Equal(listed, created) {
						t.Errorf("%d, %t: %v, was %v\n%s", nth, after, listed, created, w.script(t, id))
					}
					expected := 8 + 2 // V N I T G K Q M, and the VPC's own route table and group
					if fails {
						expected = 11 + 2
					}
					if now := w.what(t); len(now)-len(before) != expected {
						t.Errorf("%d, %t: there are %d more: %v\n%s", nth, after, len(now)-len(before), slices.DeleteFunc(now, func(id string) bool { return slices.Contains(before, id) }), w.script(t, id))
					}
					w.delete(t, id)
					w.want(t, id, "DELETE_COMPLETE")
					if now := w.what(t); !slices.Equal(now, before) {
						t.Errorf("%d, %t: left are %v\n%s", nth, after, slices.DeleteFunc(now, func(id string) bool { return slices.Contains(before, id) }), w.script(t, id))
					}
				})
				if t.Failed() {
					return
				}
			}
		}
	}
}

// listed returns the logical and physical IDs of a stack's resources.
func (w *world) listed(t *testing.T, id string) (out []string) {
	t.Helper()
	for _, r := range testkit.Must(w.DescribeStackResources(t.Context(), &awscloudformation.DescribeStackResourcesInput{StackName: &id}))(t).StackResources {
		out = append(out, *r.LogicalResourceId+"="+aws.ToString(r.PhysicalResourceId))
	}
	return out
}

// TestCancelUpdate cancels a stack's update while it runs.
func TestCancelUpdate(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	cancel, ended := w.run(w.front)
	id := w.create(t, "cancelled", parameters(`"Value": "a"`, `"Value": {"Ref": "A"}`))
	w.want(t, id, "CREATE_COMPLETE")
	// Stop the daemon, so that the update makes no progress.
	cancel()
	<-ended
	testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: aws.String(parameters(`"Value": "a2"`, `"Value": "b"`))}))(t)
	testkit.Must(w.CancelUpdateStack(ctx, &awscloudformation.CancelUpdateStackInput{StackName: &id}))(t)
	cancel, ended = w.run(w.front)
	w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
	_, err := w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id})
	if err != nil {
		t.Error(err)
	}
	w.want(t, id, "DELETE_COMPLETE")
	cancel()
	<-ended
}
