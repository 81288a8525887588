package cloudformation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func existing(logical, typ, name, value string) cloudformationtypes.ResourceToImport {
	return cloudformationtypes.ResourceToImport{LogicalResourceId: &logical, ResourceType: &typ, ResourceIdentifier: map[string]string{name: value}}
}

// TestImport imports existing resources into a new stack and into an existing one.
func TestImport(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	queues, parameters := awssqs.NewFromConfig(w.cfg), awsssm.NewFromConfig(w.cfg)
	url := *testkit.Must(queues.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("old")}))(t).QueueUrl
	testkit.Must(parameters.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("old"), Type: "String", Value: aws.String("v")}))(t)
	queue := `"Q": {"Type": "AWS::SQS::Queue", "DeletionPolicy": "Delete", "Metadata": {"of": {"Ref": "AWS::StackName"}}, "Properties": {"QueueName": "old"}}`
	parameter := `"P": {"Type": "AWS::SSM::Parameter", "DeletionPolicy": "Retain", "Properties": {"Name": "old", "Type": "String", "Value": "v"}}`
	body := func(resources ...string) string { return `{"Resources": {` + strings.Join(resources, ", ") + `}}` }
	in := func(body string, resources ...cloudformationtypes.ResourceToImport) *awscloudformation.CreateChangeSetInput {
		return &awscloudformation.CreateChangeSetInput{StackName: aws.String("adopting"), ChangeSetName: aws.String("import"), ChangeSetType: "IMPORT", TemplateBody: &body, ResourcesToImport: resources}
	}
	q, p := existing("Q", "AWS::SQS::Queue", "QueueUrl", url), existing("P", "AWS::SSM::Parameter", "Name", "old")
	tagged := in(body(queue), q)
	tagged.Tags = []cloudformationtypes.Tag{{Key: aws.String("a"), Value: aws.String("b")}}
	update := in(body(queue), q)
	update.ChangeSetType = "CREATE"
	for _, tt := range []struct {
		in   *awscloudformation.CreateChangeSetInput
		text string
	}{
		{in(body(queue)), "ResourcesToImport must have at least one resource for a change set of the type IMPORT"},
		{in(body(strings.Replace(queue, `"DeletionPolicy": "Delete", `, "", 1)), q), "The following resources to import [Q] must have DeletionPolicy attribute specified in the template."},
		{in(body(queue, `"X": {"Type": "AWS::SQS::Queue"}`), q), "As part of the import operation, you cannot modify or add [X]"},
		{in(strings.TrimSuffix(body(queue), "}")+`, "Outputs": {"O": {"Value": {"Ref": "Q"}}}}`, q), "As part of the import operation, you cannot modify or add [Outputs]"},
		{tagged, "As part of the import operation, you cannot modify or add [Tags]"},
		{in(body(queue), existing("Q", "AWS::SQS::Queue", "QueueName", "old")), "The identifier [QueueName] of the resource Q to import must consist of [QueueUrl]"},
		{in(body(`"W": {"Type": "AWS::CloudFormation::WaitConditionHandle", "DeletionPolicy": "Retain"}`), existing("W", "AWS::CloudFormation::WaitConditionHandle", "Id", "x")), "ResourceTypes [AWS::CloudFormation::WaitConditionHandle] are not supported for Import"},
		{in(body(queue), p), "Resource P of type AWS::SSM::Parameter to import is not in the template"},
		{update, "ResourcesToImport is only for change sets of the type IMPORT"},
	} {
		_, err := w.CreateChangeSet(ctx, tt.in)
		testkit.WantError(t, err, "ValidationError", tt.text)
	}

	run := func(in *awscloudformation.CreateChangeSetInput, status cloudformationtypes.StackStatus) string {
		t.Helper()
		set := testkit.Must(w.CreateChangeSet(ctx, in))(t)
		for _, c := range testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: set.Id}))(t).Changes {
			if c.ResourceChange.Action != "Import" || aws.ToString(c.ResourceChange.PhysicalResourceId) == "" {
				t.Errorf("%+v", c.ResourceChange)
			}
		}
		before := w.script(t, *set.StackId)
		testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: set.Id}))(t)
		w.want(t, *set.StackId, status)
		script := strings.TrimPrefix(w.script(t, *set.StackId), before+"\n")
		if status == "IMPORT_COMPLETE" {
			if d := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: set.Id}))(t); d.ExecutionStatus != "EXECUTE_COMPLETE" {
				t.Errorf("%s", d.ExecutionStatus)
			}
		}
		return script
	}
	wantScript(t, run(in(body(queue), q), "IMPORT_COMPLETE"), `S IMPORT_IN_PROGRESS User Initiated
Q IMPORT_IN_PROGRESS Resource import started.
Q IMPORT_COMPLETE Resource import completed.
Q UPDATE_IN_PROGRESS Apply stack-level tags to imported resource if applicable.
Q UPDATE_COMPLETE
S IMPORT_COMPLETE`)
	id := *w.settled(t, *testkit.Must(w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: aws.String("adopting")}))(t).Stacks[0].StackId).StackId

	if r := testkit.Must(w.DescribeStackResource(ctx, &awscloudformation.DescribeStackResourceInput{StackName: &id, LogicalResourceId: aws.String("Q")}))(t).StackResourceDetail; aws.ToString(r.Metadata) != `{"of":"adopting"}` {
		t.Errorf("metadata %s", aws.ToString(r.Metadata))
	}

	// A resource that does not exist fails the import, which is rolled back.
	missing := strings.Replace(parameter, `"Name": "old"`, `"Name": "none"`, 1)
	fails := in(body(queue, missing), existing("P", "AWS::SSM::Parameter", "Name", "none"))
	fails.ChangeSetName = aws.String("fails")
	script := run(fails, "IMPORT_ROLLBACK_COMPLETE")
	reason := script[strings.Index(script, "(RequestToken"):]
	reason, _, _ = strings.Cut(reason, "\n")
	wantScript(t, script, `S IMPORT_IN_PROGRESS User Initiated
P IMPORT_IN_PROGRESS Resource import started.
P IMPORT_FAILED Resource handler returned message: "Resource of type 'AWS::SSM::Parameter' with identifier 'none' was not found." `+reason+`
S IMPORT_ROLLBACK_IN_PROGRESS The following resource(s) failed to import: [P]. 
P IMPORT_ROLLBACK_IN_PROGRESS
P IMPORT_ROLLBACK_COMPLETE
S IMPORT_ROLLBACK_COMPLETE`)

	// The next one goes into the existing stack, whose tags it gets.
	testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, UsePreviousTemplate: aws.Bool(true), Tags: []cloudformationtypes.Tag{{Key: aws.String("stack"), Value: aws.String("tag")}}}))(t)
	w.want(t, id, "UPDATE_COMPLETE")
	second := in(body(queue, parameter), p)
	second.ChangeSetName = aws.String("second")
	run(second, "IMPORT_COMPLETE")
	tags := testkit.Must(parameters.ListTagsForResource(ctx, &awsssm.ListTagsForResourceInput{ResourceType: "Parameter", ResourceId: aws.String("old")}))(t).TagList
	if len(tags) == 0 || *tags[0].Key != "stack" {
		t.Errorf("%+v", tags)
	}
	if status, lines := w.drift(t, id); status != "IN_SYNC" {
		t.Errorf("%s\n%s", status, lines)
	}
	other := in(body(queue), q)
	other.StackName = aws.String("other")
	script = run(other, "IMPORT_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "Q IMPORT_FAILED "+url+" already exists in stack "+id+"\n") {
		t.Error(script)
	}

	// From then on the resources belong to the stack.
	_, script = w.update(t, id, body(queue, strings.Replace(parameter, `"v"`, `"w"`, 1)), "UPDATE_COMPLETE")
	if !strings.Contains(script, "P UPDATE_COMPLETE") || *testkit.Must(parameters.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("old")}))(t).Parameter.Value != "w" {
		t.Error(script)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "P DELETE_SKIPPED") || !strings.Contains(script, "Q DELETE_COMPLETE") {
		t.Error(script)
	}
}

// TestImportKilledAnywhere kills a daemon before or after each call of an import, and once before the first.
func TestImportKilledAnywhere(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	parameters := awsssm.NewFromConfig(w.cfg)
	for _, fails := range []bool{false, true} {
		for nth, survived := 1, false; !survived; nth++ {
			for _, after := range []bool{false, true} {
				name := fmt.Sprintf("i%t%d%t", fails, nth, after)
				body := `{"Resources": {`
				var list []cloudformationtypes.ResourceToImport
				for n := range 3 {
					id, parameter := fmt.Sprintf("P%d", n), fmt.Sprintf("%s-%d", name, n)
					body += fmt.Sprintf(`%q: {"Type": "AWS::SSM::Parameter", "DeletionPolicy": "Delete", "Properties": {"Name": %q, "Type": "String", "Value": "v"}}, `, id, parameter)
					list = append(list, existing(id, "AWS::SSM::Parameter", "Name", parameter))
					if n < 2 || !fails {
						testkit.Must(parameters.PutParameter(ctx, &awsssm.PutParameterInput{Name: &parameter, Type: "String", Value: aws.String("v")}))(t)
					}
				}
				body = strings.TrimSuffix(body, ", ") + "}}"
				var id string
				w.killed(t, nth, after, func() {
					id = w.create(t, name, parametersOnly)
					w.want(t, id, "CREATE_COMPLETE")
					testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, UsePreviousTemplate: aws.Bool(true), Tags: team}))(t)
					w.want(t, id, "UPDATE_COMPLETE")
				}, func() {
					whole := strings.Replace(body, `{"Resources": {`, strings.TrimSuffix(parametersOnly, "}}")+", ", 1)
					set := testkit.Must(w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: &id, ChangeSetName: aws.String("import"), ChangeSetType: "IMPORT", TemplateBody: &whole, ResourcesToImport: list}))(t)
					testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: set.Id}))(t)
				}, func() <-chan struct{} { return w.final(t, id) }, func(lived bool) {
					survived = survived || lived
					status, listed, left := cloudformationtypes.StackStatusImportComplete, 4, 0
					if fails {
						status, listed, left = "IMPORT_ROLLBACK_COMPLETE", 1, 2
					}
					w.want(t, id, status)
					if have := w.listed(t, id); len(have) != listed {
						t.Errorf("%d, %t: %v\n%s", nth, after, have, w.script(t, id))
					}
					for n := range 3 {
						if fails {
							break
						}
						tags := testkit.Must(parameters.ListTagsForResource(ctx, &awsssm.ListTagsForResourceInput{ResourceType: "Parameter", ResourceId: aws.String(fmt.Sprintf("%s-%d", name, n))}))(t).TagList
						if !slices.ContainsFunc(tags, func(tag ssmtypes.Tag) bool { return *tag.Key == "team" }) {
							t.Errorf("%d, %t: the stack's tags are missing: %+v", nth, after, tags)
						}
					}
					w.delete(t, id)
					w.want(t, id, "DELETE_COMPLETE")
					all := testkit.Must(parameters.DescribeParameters(ctx, nil))(t).Parameters
					if len(all) != left {
						t.Errorf("%d, %t: %d parameters are left, want %d", nth, after, len(all), left)
					}
					for _, p := range all {
						testkit.Must(parameters.DeleteParameter(ctx, &awsssm.DeleteParameterInput{Name: p.Name}))(t)
					}
				})
				if t.Failed() {
					return
				}
			}
		}
	}
}

const parametersOnly = `{"Resources": {"Own": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "v"}}}}`
