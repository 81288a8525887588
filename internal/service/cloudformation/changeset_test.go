package cloudformation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// set creates a change set and returns its description.
func (w *world) set(t *testing.T, name, stack, typ, body string, change ...func(*awscloudformation.CreateChangeSetInput)) *awscloudformation.DescribeChangeSetOutput {
	t.Helper()
	in := &awscloudformation.CreateChangeSetInput{ChangeSetName: &name, StackName: &stack, ChangeSetType: cloudformationtypes.ChangeSetType(typ), TemplateBody: &body}
	for _, c := range change {
		c(in)
	}
	id := testkit.Must(w.CreateChangeSet(t.Context(), in))(t).Id
	return testkit.Must(w.DescribeChangeSet(t.Context(), &awscloudformation.DescribeChangeSetInput{ChangeSetName: id}))(t)
}

// brief summarizes a change set, with one line for each resource and each reason.
func brief(out *awscloudformation.DescribeChangeSetOutput) string {
	var lines []string
	for _, c := range out.Changes {
		r := c.ResourceChange
		line := string(r.Action) + " " + *r.LogicalResourceId + " " + string(r.Replacement) + " " + string(r.PolicyAction)
		for _, s := range r.Scope {
			line += " " + string(s)
		}
		lines = append(lines, line)
		for _, d := range r.Details {
			lines = append(lines, strings.Join([]string{" ", aws.ToString(d.Target.Name), string(d.Target.RequiresRecreation), string(d.Evaluation), string(d.ChangeSource), aws.ToString(d.CausingEntity)}, " "))
		}
	}
	return strings.Join(lines, "\n")
}

// TestChangeSets covers golden scenarios 12 and 13, and the life of change sets.
func TestChangeSets(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	set := w.set(t, "first", "new", "CREATE", parameters(`"Value": "a"`, `"Value": {"Ref": "A"}`))
	if set.Status != "CREATE_COMPLETE" || set.ExecutionStatus != "AVAILABLE" || brief(set) != "Add A  \nAdd B  " {
		t.Errorf("%+v\n%s", set, brief(set))
	}
	id := *set.StackId
	st := testkit.Must(w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: &id}))(t).Stacks[0]
	if st.StackStatus != "REVIEW_IN_PROGRESS" || *st.StackStatusReason != "User Initiated" {
		t.Errorf("%+v", st)
	}
	_, err := w.GetTemplateSummary(ctx, &awscloudformation.GetTemplateSummaryInput{StackName: &id})
	testkit.WantError(t, err, "ValidationError", "GetTemplateSummary cannot be called on REVIEW_IN_PROGRESS stacks.")
	testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: set.ChangeSetId}))(t)
	st = w.want(t, id, "CREATE_COMPLETE")
	if st.LastUpdatedTime == nil || aws.ToString(st.ChangeSetId) != *set.ChangeSetId {
		t.Errorf("%+v", st)
	}
	if script := w.script(t, id); !strings.HasPrefix(script, "S REVIEW_IN_PROGRESS User Initiated\nS CREATE_IN_PROGRESS User Initiated\n") {
		t.Error(script)
	}
	_, err = w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: set.ChangeSetId})
	testkit.WantError(t, err, "InvalidChangeSetStatus", "ChangeSet ["+*set.ChangeSetId+"] cannot be executed in its current status of [EXECUTE_COMPLETE]")

	same := w.set(t, "same", "new", "", parameters(`"Value": "a"`, `"Value": {"Ref": "A"}`))
	if same.Status != "FAILED" || same.ExecutionStatus != "UNAVAILABLE" || *same.StatusReason != "The submitted information didn't contain changes. Submit different information to create a change set." || len(same.Changes) != 0 {
		t.Errorf("%+v", same)
	}
	_, err = w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: aws.String("same"), StackName: aws.String("new")})
	testkit.WantError(t, err, "InvalidChangeSetStatus", "ChangeSet ["+*same.ChangeSetId+"] cannot be executed in its current status of [FAILED]")

	other := w.set(t, "other", "new", "UPDATE", parameters(`"Value": "b"`))
	next := w.set(t, "next", "new", "UPDATE", parameters(`"Value": "a2"`, `"Name": "/b", "Value": {"Ref": "A"}`, `"Value": {"Ref": "B"}`))
	if got, want := brief(next), "Modify A False  Properties\n  Value Never Static DirectModification \n"+
		"Modify B True ReplaceAndDelete Properties\n  Name Always Static DirectModification \nAdd C  "; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: aws.String("next"), StackName: aws.String("new")}))(t)
	w.want(t, id, "UPDATE_COMPLETE")
	for _, s := range testkit.Must(w.ListChangeSets(ctx, &awscloudformation.ListChangeSetsInput{StackName: &id}))(t).Summaries {
		want := map[string]string{"first": "EXECUTE_COMPLETE", "same": "UNAVAILABLE", "other": "OBSOLETE", "next": "EXECUTE_COMPLETE"}[*s.ChangeSetName]
		if string(s.ExecutionStatus) != want {
			t.Errorf("%s: %s, want %s", *s.ChangeSetName, s.ExecutionStatus, want)
		}
	}
	testkit.Must(w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: other.ChangeSetId}))(t)
	_, err = w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: other.ChangeSetId})
	testkit.WantError(t, err, "ChangeSetNotFound", "ChangeSet ["+*other.ChangeSetId+"] does not exist")
	_, err = w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: aws.String("other"), StackName: aws.String("new")})
	testkit.WantError(t, err, "ChangeSetNotFound", "ChangeSet [other] does not exist")
	testkit.Must(w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: aws.String("other"), StackName: aws.String("new")}))(t) // CDK does so
	_, err = w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: aws.String("other")})
	testkit.WantError(t, err, "ValidationError", "StackName must be specified if ChangeSetName is not specified as an ARN.")
	_, err = w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: aws.String("other"), StackName: aws.String("none")})
	testkit.WantError(t, err, "ValidationError", "Stack [none] does not exist")
	create := func(stack, typ string) error {
		_, err := w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{ChangeSetName: aws.String("cs"), StackName: &stack, ChangeSetType: cloudformationtypes.ChangeSetType(typ), TemplateBody: aws.String(parameters(`"Value": "a"`))})
		return err
	}
	testkit.WantError(t, create("new", "CREATE"), "ValidationError", "Stack [new] already exists and cannot be created again with the changeSet [cs].")
	testkit.WantError(t, create("none", "UPDATE"), "ValidationError", "Stack [none] does not exist")
	testkit.WantError(t, create("*x", "CREATE"), "ValidationError", "1 validation error detected: Value '*x' at 'stackName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z][-a-zA-Z0-9]*|arn:[-a-zA-Z0-9:/._+]*")
	long := strings.Repeat("x", 129)
	testkit.WantError(t, create(long, "CREATE"), "ValidationError", "1 validation error detected: Value '"+long+"' at 'stackName' failed to satisfy constraint: Member must have length less than or equal to 128")
	absent := "arn:aws:cloudformation:us-east-1:111122223333:stack/none/0"
	testkit.WantError(t, create(absent, "CREATE"), "ValidationError", "Stack ["+absent+"] does not exist")

	reviewed := w.set(t, "cs", "reviewed", "CREATE", parameters(`"Value": "a"`))
	if created := w.create(t, "reviewed", parameters(`"Value": "b"`)); created != *reviewed.StackId {
		t.Errorf("%s, was in review as %s", created, *reviewed.StackId)
	}
	w.want(t, *reviewed.StackId, "CREATE_COMPLETE")
	if now := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: reviewed.ChangeSetId}))(t); now.ExecutionStatus != "OBSOLETE" {
		t.Errorf("%s", now.ExecutionStatus)
	}
	unseen := w.set(t, "cs", "unseen", "CREATE", parameters(`"Value": "a"`))
	w.delete(t, *unseen.StackId)
	w.want(t, *unseen.StackId, "DELETE_COMPLETE")
}

// TestChangeSetDetails checks the reasons for a change of a resource: a parameter, an
// attribute of another resource, or a tag.
func TestChangeSetDetails(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	body := `{"Parameters": {"P": {"Type": "String"}, "Secret": {"Type": "String", "NoEcho": true, "Default": "hush-hush"}}, "Resources": {
		"A": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Name": {"Ref": "P"}, "Value": "v", "Description": {"Ref": "Secret"}}},
		"B": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::GetAtt": ["A", "Value"]}}},
		"C": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::GetAtt": ["B", "Value"]}}},
		"Q": {"Type": "AWS::SQS::Queue", "Properties": {"Tags": [{"Key": "k", "Value": {"Ref": "P"}}]}},
		"U": {"Type": "AWS::SQS::Queue"}}}`
	p := func(v string) []cloudformationtypes.Parameter {
		return []cloudformationtypes.Parameter{{ParameterKey: aws.String("P"), ParameterValue: &v}}
	}
	id := w.create(t, "details", body, func(in *awscloudformation.CreateStackInput) { in.Parameters = p("/one") })
	w.want(t, id, "CREATE_COMPLETE")
	set := w.set(t, "cs", "details", "UPDATE", body, func(in *awscloudformation.CreateChangeSetInput) { in.Parameters = p("/two") })
	if got, want := brief(set), `Modify A True ReplaceAndDelete Properties
  Name Always Static ParameterReference P
  Name Always Dynamic DirectModification `+`
Modify B False  Properties
  Value Never Static ResourceAttribute A.Value
Modify C False  Properties
  Value Never Dynamic ResourceAttribute B.Value
Modify Q False  Tags
   Never Static ParameterReference P
   Never Dynamic DirectModification `; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if set.Changes[0].ResourceChange.AfterContext != nil || set.Changes[0].ResourceChange.Details[0].Target.AfterValue != nil {
		t.Errorf("%+v", set.Changes[0].ResourceChange)
	}
	full := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: set.ChangeSetId, IncludePropertyValues: aws.Bool(true)}))(t)
	first := full.Changes[0].ResourceChange
	var after struct{ Properties map[string]string }
	if err := json.Unmarshal([]byte(*first.AfterContext), &after); err != nil || after.Properties["Name"] != "/two" || after.Properties["Description"] != "****" {
		t.Errorf("%s, %v", *first.AfterContext, err)
	}
	if target := first.Details[0].Target; *target.Path != "/Properties/Name" || *target.BeforeValue != "/one" || *target.AfterValue != "/two" || target.AttributeChangeType != "Modify" {
		t.Errorf("%+v", target)
	}
	if v := full.Changes[1].ResourceChange.Details[0].Target.AfterValue; *v != "{{changeSet:KNOWN_AFTER_APPLY}}" {
		t.Error(*v)
	}
	if err := awscloudformation.NewChangeSetCreateCompleteWaiter(w.Client).Wait(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: set.ChangeSetId}, time.Minute); err != nil {
		t.Error(err)
	}
}
