package cloudformation_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// inner is the template of a nested stack. An invalid Type makes the creation of a resource fail.
const inner = `
Parameters: {V: {Type: String}, Type: {Type: String, Default: String}}
Resources:
  P: {Type: AWS::SSM::Parameter, Properties: {Type: !Ref Type, Value: !Ref V}}
  Q: {Type: AWS::SSM::Parameter, DependsOn: P, Properties: {Type: String, Value: q}}
Outputs: {Name: {Value: !Ref P}, Value: {Value: !GetAtt P.Value}}
`

func outer(url, value, more string) string {
	return fmt.Sprintf(`
Resources:
  N: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: '%s', Parameters: {V: %s}, Tags: [{Key: own, Value: tag}]}}
  U: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !Sub '${N.Outputs.Value}-used'%s}}
Outputs: {Inner: {Value: !GetAtt N.Outputs.Name}, Child: {Value: !Ref N}, Used: {Value: !GetAtt U.Value}}
`, url, value, more)
}

// TestNested creates, updates and deletes a nested stack with its parent.
func TestNested(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	url := w.put(t, "templates", "inner", inner)
	id := w.create(t, "outer", outer(url, "1", ""), func(in *awscloudformation.CreateStackInput) {
		in.Tags = []cloudformationtypes.Tag{{Key: aws.String("stack"), Value: aws.String("tag")}}
		in.ClientRequestToken = aws.String("create-1")
	})
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	child := out["Child"]
	name := strings.Split(child, "/")[1]
	if suffix, ok := strings.CutPrefix(name, "outer-N-"); !ok || suffix != strings.ToUpper(suffix) || len(suffix) != 12 || out["Used"] != "1-used" || !strings.HasPrefix(out["Inner"], "CFN-P-") {
		t.Errorf("%v", out)
	}
	st := w.want(t, child, "CREATE_COMPLETE")
	if aws.ToString(st.ParentId) != id || aws.ToString(st.RootId) != id || len(st.Tags) != 2 || aws.ToBool(st.DisableRollback) {
		t.Errorf("%+v", st)
	}
	wantScript(t, w.script(t, id), `S CREATE_IN_PROGRESS User Initiated
S CREATE_IN_PROGRESS
S CREATE_IN_PROGRESS Resource creation Initiated
S CREATE_COMPLETE
U CREATE_IN_PROGRESS
U CREATE_IN_PROGRESS Resource creation Initiated
U CREATE_COMPLETE
S CREATE_COMPLETE`)
	for _, e := range testkit.Must(w.DescribeStackEvents(ctx, &awscloudformation.DescribeStackEventsInput{StackName: &child}))(t).StackEvents {
		if *e.ClientRequestToken != "create-1" {
			t.Errorf("%+v", e)
		}
	}
	_, err := w.UpdateTerminationProtection(ctx, &awscloudformation.UpdateTerminationProtectionInput{StackName: &child, EnableTerminationProtection: aws.Bool(true)})
	testkit.WantErrorWith(t, err, "ValidationError", "nested stack")

	// The parent's update updates the nested stack, which cleans up when the parent does.
	_, script := w.update(t, id, outer(url, "2", ""), "UPDATE_COMPLETE")
	wantScript(t, script, `S UPDATE_IN_PROGRESS User Initiated
S UPDATE_IN_PROGRESS
S UPDATE_COMPLETE
U UPDATE_IN_PROGRESS
U UPDATE_COMPLETE
S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS
S UPDATE_IN_PROGRESS
S UPDATE_COMPLETE
S UPDATE_COMPLETE`)
	w.want(t, child, "UPDATE_COMPLETE")

	// A changed template in S3 updates the nested stack; an unchanged one does not.
	w.put(t, "templates", "inner", strings.Replace(inner, "Value: q", "Value: r", 1))
	_, script = w.update(t, id, outer(url, "2", ""), "UPDATE_COMPLETE")
	if strings.Contains(script, "U ") || !strings.Contains(w.script(t, child), "Q UPDATE_COMPLETE") {
		t.Errorf("%s\n%s", script, w.script(t, child))
	}
	before := w.script(t, child)
	w.update(t, id, outer(url, "2", ""), "UPDATE_COMPLETE")
	wantScript(t, w.script(t, child), before)

	// The nested stack can be updated directly.
	testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &child, UsePreviousTemplate: aws.Bool(true), Parameters: []cloudformationtypes.Parameter{{ParameterKey: aws.String("V"), ParameterValue: aws.String("3")}}}))(t)
	w.want(t, child, "UPDATE_COMPLETE")

	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	w.want(t, child, "DELETE_COMPLETE")
	_, err = w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: &name})
	testkit.WantError(t, err, "ValidationError", "Stack with id "+name+" does not exist") // localstack/localstack, api/test_nested_stacks.snapshot.json
	w.nothing(t)
}

// nothing checks that no parameter is left.
func (w *world) nothing(t *testing.T) {
	t.Helper()
	if left := testkit.Must(awsssm.NewFromConfig(w.cfg).DescribeParameters(t.Context(), &awsssm.DescribeParametersInput{}))(t).Parameters; len(left) > 0 {
		t.Errorf("left are %+v", left)
	}
}

// TestNestedFailures rolls back creations and updates of parents and of their nested stacks.
func TestNestedFailures(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	url := w.put(t, "templates", "inner", inner)
	bad := w.put(t, "templates", "bad", strings.Replace(inner, "Default: String", "Default: SecureString", 1))
	id := w.create(t, "bad", outer(bad, "1", ""))
	w.want(t, id, "ROLLBACK_COMPLETE")
	script := w.script(t, id)
	child := script[strings.Index(script, "Embedded stack ")+len("Embedded stack "):]
	child = child[:strings.IndexByte(child, ' ')]
	if !strings.Contains(script, "S CREATE_FAILED Embedded stack "+child+" was not successfully created: ") || !strings.Contains(script, "S ROLLBACK_IN_PROGRESS The following resource(s) failed to create: [N]. Rollback requested by user.\n") {
		t.Error(script)
	}
	w.want(t, child, "DELETE_COMPLETE")
	if script := w.script(t, child); !strings.Contains(script, "S CREATE_FAILED ") || strings.Contains(script, "Rollback") {
		t.Error(script)
	}
	w.delete(t, id)
	for _, tt := range []struct{ url, text string }{
		{"https://templates.s3.amazonaws.com/none", "N CREATE_FAILED S3 error: The specified key does not exist.\n"},
		{"https://example.com/none", "N CREATE_FAILED TemplateURL must be a supported URL."},
		{w.put(t, "templates", "role", `{"Resources": {"R": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}}}`), "N CREATE_FAILED Requires capabilities : [CAPABILITY_IAM]"},
	} {
		id := w.create(t, "refused", `{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "`+tt.url+`"}}}}`, func(in *awscloudformation.CreateStackInput) { in.Capabilities = nil })
		w.want(t, id, "ROLLBACK_COMPLETE")
		if script := w.resourceScript(t, id); !strings.Contains(script, tt.text) {
			t.Error(script)
		}
		w.delete(t, id)
		w.want(t, id, "DELETE_COMPLETE")
	}

	// A fault in the parent rolls back what the nested stack has done, including what it would have deleted.
	id = w.create(t, "good", outer(url, "1", ""))
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	less := w.put(t, "templates", "less", strings.Replace(inner, "Q: {Type: AWS::SSM::Parameter, DependsOn: P, Properties: {Type: String, Value: q}}", "R: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: r}}", 1))
	st, script := w.update(t, id, outer(less, "2", ", Name: 'not allowed!'"), "UPDATE_ROLLBACK_COMPLETE")
	if now := w.outputs(st); now["Used"] != out["Used"] || now["Child"] != out["Child"] {
		t.Errorf("%v, then %v", out, now)
	}
	child = out["Child"]
	w.want(t, child, "UPDATE_ROLLBACK_COMPLETE")
	lines := w.script(t, child)
	lines = lines[strings.Index(lines, "S UPDATE_IN_PROGRESS"):]
	for _, line := range []string{"S UPDATE_COMPLETE_CLEANUP_IN_PROGRESS\nS UPDATE_ROLLBACK_IN_PROGRESS\nP UPDATE_IN_PROGRESS\nP UPDATE_COMPLETE\nS UPDATE_ROLLBACK_COMPLETE_CLEANUP_IN_PROGRESS\nR DELETE_IN_PROGRESS\nR DELETE_COMPLETE\nS UPDATE_ROLLBACK_COMPLETE"} {
		if !strings.Contains(lines, line) {
			t.Errorf("%s\n%s", lines, script)
		}
	}
	if v := w.outputs(w.settled(t, child))["Value"]; v != "1" {
		t.Error(v)
	}

	// A fault in the nested stack rolls both back.
	_, script = w.update(t, id, outer(bad, "2", ""), "UPDATE_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "S UPDATE_FAILED Embedded stack "+child+" was not successfully updated. Currently in UPDATE_ROLLBACK_IN_PROGRESS with reason: The following resource(s) failed to ") &&
		!strings.Contains(script, "S UPDATE_FAILED Embedded stack "+child+" was not successfully updated. Currently in UPDATE_ROLLBACK_COMPLETE") {
		t.Error(script)
	}
	w.want(t, child, "UPDATE_ROLLBACK_COMPLETE")
	set := testkit.Must(w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: &id, ChangeSetName: aws.String("same"), TemplateBody: aws.String(outer(url, "1", ""))}))(t)
	changes := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: set.Id}))(t).Changes
	if len(changes) != 2 || *changes[0].ResourceChange.LogicalResourceId != "N" || changes[0].ResourceChange.Details[0].ChangeSource != "Automatic" || *changes[1].ResourceChange.Details[0].CausingEntity != "N.Outputs.Value" {
		t.Errorf("%+v", changes)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")

	// A template that includes itself does not nest forever.
	self := w.put(t, "templates", "self", `{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "https://templates.s3.amazonaws.com/self"}}}}`)
	id = w.createAt(t, "self", self)
	w.want(t, id, "ROLLBACK_COMPLETE")
	w.nothing(t)
}

// resourceScript is like script, but also has the logical IDs of nested stacks.
func (w *world) resourceScript(t *testing.T, id string) string {
	t.Helper()
	var out []string
	for _, e := range testkit.Must(w.DescribeStackEvents(t.Context(), &awscloudformation.DescribeStackEventsInput{StackName: &id}))(t).StackEvents {
		out = append(out, *e.LogicalResourceId+" "+string(e.ResourceStatus)+" "+aws.ToString(e.ResourceStatusReason))
	}
	return strings.Join(out, "\n")
}

// TestNestedRights checks that a nested stack is created with the permissions of the parent's caller or role.
func TestNestedRights(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	url := w.put(t, "templates", "inner", inner)
	body := `{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "` + url + `", "Parameters": {"V": "1"}}}}}`
	allow := func(actions, resource string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":` + actions + `,"Resource":"` + resource + `"},{"Effect":"Allow","Action":"cloudformation:*","Resource":"arn:aws:cloudformation:*:*:stack/p*/*"}]}`
	}
	for name, policy := range map[string]struct{ policy, reason string }{
		"p1":         {allow(`["ssm:*"]`, "*"), "N CREATE_FAILED S3 error: Access Denied"},
		"p2":         {allow(`["s3:GetObject"]`, "*"), "is not authorized to perform: ssm:PutParameter"},
		"p3":         {strings.Replace(allow(`["s3:GetObject","ssm:*"]`, "*"), "stack/p*/*", "stack/p3/*", 1), "is not authorized to perform: cloudformation:CreateStack on resource: arn:aws:cloudformation:us-east-1:" + w.account + ":stack/p3-N-"},
		"permitted4": {allow(`["s3:GetObject","ssm:*"]`, "*"), ""},
	} {
		client := awscloudformation.NewFromConfig(w.user(t, name, policy.policy))
		id := *testkit.Must(client.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: &name, TemplateBody: &body, OnFailure: "DO_NOTHING"}))(t).StackId
		st := w.settled(t, id)
		script := w.resourceScript(t, id)
		for _, r := range testkit.Must(w.DescribeStackResources(ctx, &awscloudformation.DescribeStackResourcesInput{StackName: &id}))(t).StackResources {
			if r.PhysicalResourceId != nil {
				script += "\n" + w.resourceScript(t, *r.PhysicalResourceId)
			}
		}
		if (policy.reason == "") != (st.StackStatus == "CREATE_COMPLETE") || !strings.Contains(script, policy.reason) {
			t.Errorf("%s: %s\n%s", name, st.StackStatus, script)
		}
	}
}

// TestNestedKilledAnywhere kills a daemon before or after each of its calls, while it creates, updates and deletes a
// stack with a nested one. The next daemon must go on with both.
func TestNestedKilledAnywhere(t *testing.T) {
	w := newWorld(t)
	url := w.put(t, "templates", "inner", inner)
	more := w.put(t, "templates", "more", strings.Replace(inner, "Outputs:", "  R: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: r}}\nOutputs:", 1))
	parameters := func() int {
		return len(testkit.Must(awsssm.NewFromConfig(w.cfg).DescribeParameters(t.Context(), &awsssm.DescribeParametersInput{}))(t).Parameters)
	}
	for nth, survived := 1, false; !survived; nth++ {
		for _, after := range []bool{false, true} {
			k := &killer{API: w.front, nth: nth, after: after, dead: make(chan struct{})}
			killed, ready := make(chan struct{}), make(chan struct{})
			var cancel, next func()
			var ended, nextEnded chan error
			k.kill = func() { <-ready; cancel(); close(killed) }
			cancel, ended = w.run(k)
			close(ready)
			settled := func(id string, status cloudformationtypes.StackStatus) cloudformationtypes.Stack {
				if next == nil {
					select {
					case <-killed:
						next, nextEnded = w.run(w.front)
					case <-w.final(t, id):
					}
				}
				return w.want(t, id, status)
			}
			id := w.create(t, fmt.Sprintf("k%d%t", nth, after), outer(url, "1", ""))
			child := w.outputs(settled(id, "CREATE_COMPLETE"))["Child"]
			if n := parameters(); n != 3 {
				t.Errorf("%d, %t: %d parameters", nth, after, n)
			}
			testkit.Must(w.UpdateStack(t.Context(), &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: aws.String(outer(more, "2", ""))}))(t)
			if out := w.outputs(settled(id, "UPDATE_COMPLETE")); out["Used"] != "2-used" || out["Child"] != child || parameters() != 4 {
				t.Errorf("%d, %t: %v, %d parameters", nth, after, out, parameters())
			}
			w.want(t, child, "UPDATE_COMPLETE")
			testkit.Must(w.UpdateStack(t.Context(), &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: aws.String(outer(url, "3", ", Name: 'not allowed!'"))}))(t)
			if out := w.outputs(settled(id, "UPDATE_ROLLBACK_COMPLETE")); out["Used"] != "2-used" || out["Child"] != child || parameters() != 4 {
				t.Errorf("%d, %t: %v, %d parameters", nth, after, out, parameters())
			}
			w.want(t, child, "UPDATE_ROLLBACK_COMPLETE")
			w.delete(t, id)
			settled(id, "DELETE_COMPLETE")
			survived = next == nil
			w.nothing(t)
			close(k.dead)
			cancel()
			<-ended
			if next != nil {
				next()
				<-nextEnded
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestNestedChangeSets checks change sets that include nested stacks.
func TestNestedChangeSets(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	url := w.put(t, "templates", "inner", inner)
	create := func(kind cloudformationtypes.ChangeSetType, name, body string) *awscloudformation.DescribeChangeSetOutput {
		t.Helper()
		out := testkit.Must(w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: aws.String("sets"), ChangeSetName: &name, ChangeSetType: kind, TemplateBody: &body, IncludeNestedStacks: aws.Bool(true)}))(t)
		return testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: out.Id}))(t)
	}
	root := create("CREATE", "first", outer(url, "1", ""))
	link := root.Changes[0].ResourceChange.ChangeSetId
	if link == nil || !aws.ToBool(root.IncludeNestedStacks) {
		t.Fatalf("%+v", root.Changes[0].ResourceChange)
	}
	child := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: link}))(t)
	if len(child.Changes) != 2 || aws.ToString(child.ParentChangeSetId) != *root.ChangeSetId || aws.ToString(child.RootChangeSetId) != *root.ChangeSetId || !strings.HasPrefix(*child.StackName, "sets-N-") {
		t.Errorf("%+v", child)
	}
	if st := testkit.Must(w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: child.StackId}))(t).Stacks[0]; st.StackStatus != "REVIEW_IN_PROGRESS" || aws.ToString(st.ParentId) != *root.StackId {
		t.Errorf("%+v", st)
	}
	_, err := w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: link})
	testkit.WantErrorWith(t, err, "ValidationError", *root.ChangeSetId)
	testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: root.ChangeSetId}))(t)
	if out := w.outputs(w.want(t, *root.StackId, "CREATE_COMPLETE")); out["Child"] != *child.StackId {
		t.Errorf("%v, not %s", out, *child.StackId)
	}
	w.want(t, *child.StackId, "CREATE_COMPLETE")

	if d := create("UPDATE", "same", outer(url, "1", "")); d.Status != "FAILED" || !strings.HasPrefix(*d.StatusReason, "The submitted information didn't contain changes.") {
		t.Errorf("%s: %+v", aws.ToString(d.StatusReason), d.Changes)
	}
	w.put(t, "templates", "inner", strings.Replace(inner, "Value: q", "Value: r", 1))
	second := create("UPDATE", "second", outer(url, "1", ""))
	link = second.Changes[0].ResourceChange.ChangeSetId
	if link == nil {
		t.Fatalf("%+v", second.Changes)
	}
	if child := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: link}))(t); len(child.Changes) != 1 || *child.Changes[0].ResourceChange.LogicalResourceId != "Q" {
		t.Errorf("%+v", child.Changes)
	}
	testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: second.ChangeSetId}))(t)
	w.want(t, *root.StackId, "UPDATE_COMPLETE")
	if script := w.script(t, *child.StackId); !strings.Contains(script, "Q UPDATE_COMPLETE") {
		t.Error(script)
	}

	// A change set that is deleted leaves nothing behind, and one whose nested stack cannot be planned fails.
	other := `{"Resources": {"N": {"Type": "AWS::CloudFormation::Stack", "Properties": {"TemplateURL": "` + url + `", "Parameters": {"V": "1"}}}}}`
	out := testkit.Must(w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: aws.String("dropped"), ChangeSetName: aws.String("set"), ChangeSetType: "CREATE", TemplateBody: &other, IncludeNestedStacks: aws.Bool(true)}))(t)
	testkit.Must(w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: out.Id}))(t)
	out = testkit.Must(w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: aws.String("dropped"), ChangeSetName: aws.String("set"), ChangeSetType: "CREATE", TemplateBody: &other, IncludeNestedStacks: aws.Bool(true)}))(t)
	w.delete(t, "dropped")
	w.want(t, *out.StackId, "DELETE_COMPLETE")
	for _, st := range testkit.Must(w.DescribeStacks(ctx, nil))(t).Stacks {
		if strings.HasPrefix(*st.StackName, "dropped-") {
			t.Errorf("%s is left", *st.StackName)
		}
	}
	bad := create("UPDATE", "bad", outer("https://templates.s3.amazonaws.com/none", "1", ""))
	if bad.Status != "FAILED" || !strings.HasPrefix(aws.ToString(bad.StatusReason), "S3 error: The specified key does not exist.") {
		t.Errorf("%s: %s", bad.Status, aws.ToString(bad.StatusReason))
	}
}

// TestManyNestedChangeSets makes change sets with more nested stacks than one transaction can delete or mark as
// executed. Two change sets of one stack share the nested stacks in review.
func TestManyNestedChangeSets(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	url := w.put(t, "templates", "inner", inner)
	many := func(n int) string {
		body := "Resources:\n"
		for i := range n {
			body += fmt.Sprintf("  N%d: {Type: AWS::CloudFormation::Stack, Properties: {TemplateURL: '%s', Parameters: {V: v}}}\n", i, url)
		}
		return body
	}
	set := func(stack, name string, n int) (*awscloudformation.CreateChangeSetOutput, error) {
		return w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: &stack, ChangeSetName: &name, ChangeSetType: "CREATE", TemplateBody: aws.String(many(n)), IncludeNestedStacks: aws.Bool(true)})
	}
	review := func(stack string) (n int) {
		pages := awscloudformation.NewDescribeStacksPaginator(w.Client, nil)
		for pages.HasMorePages() {
			for _, st := range testkit.Must(pages.NextPage(ctx))(t).Stacks {
				if strings.HasPrefix(*st.StackName, stack+"-") {
					n++
				}
			}
		}
		return n
	}
	first := testkit.Must(set("many", "one", 40))(t)
	if _, err := set("many", "one", 3); err == nil {
		t.Error("a second change set has the same name")
	}
	if n := review("many"); n != 40 {
		t.Errorf("%d nested stacks", n)
	}
	for _, st := range testkit.Must(w.DescribeStacks(ctx, nil))(t).Stacks {
		if st.ParentId == nil {
			continue
		}
		if sets := testkit.Must(w.ListChangeSets(ctx, &awscloudformation.ListChangeSetsInput{StackName: st.StackId}))(t).Summaries; len(sets) != 1 {
			t.Errorf("%s has %d change sets", *st.StackName, len(sets))
		}
	}
	second := testkit.Must(set("many", "two", 2))(t)
	testkit.Must(w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: first.Id}))(t)
	if n := review("many"); n != 2 {
		t.Errorf("%d nested stacks are left, want those of the second change set", n)
	}
	testkit.Must(w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: second.Id}))(t)
	if n := review("many"); n != 0 {
		t.Errorf("%d nested stacks are left", n)
	}
	testkit.Must(set("many", "three", 40))(t)
	w.delete(t, *first.StackId)
	w.want(t, *first.StackId, "DELETE_COMPLETE")
	if n := review("many"); n != 0 {
		t.Errorf("%d nested stacks are left", n)
	}
	large := testkit.Must(set("large", "one", 101))(t)
	testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: large.Id}))(t)
	w.want(t, *large.StackId, "CREATE_COMPLETE")
	w.delete(t, *large.StackId)
	w.want(t, *large.StackId, "DELETE_COMPLETE")
}
