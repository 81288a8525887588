package cloudformation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drydock-dev/drydock/internal/testkit"
)

const parameterTemplate = `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "x"}}}}`

// put writes an object, in a bucket that it creates if necessary, and returns its URL.
func (w *world) put(t *testing.T, bucket, key, text string) string {
	t.Helper()
	client := awss3.NewFromConfig(w.cfg, func(o *awss3.Options) { o.UsePathStyle = true })
	_, _ = client.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: &bucket}) // it may be there
	testkit.Must(client.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(text)}))(t)
	return "https://" + bucket + ".s3.us-east-1.amazonaws.com/" + key
}

// user creates a user with a policy, and returns a configuration with the user's keys.
func (w *world) user(t *testing.T, name, policy string) aws.Config {
	t.Helper()
	users := awsiam.NewFromConfig(w.cfg)
	testkit.Must(users.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: &name}))(t)
	testkit.Must(users.PutUserPolicy(t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(t)
	key := testkit.Must(users.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(t).AccessKey
	return w.AWSConfigWith(aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: *key.AccessKeyId, SecretAccessKey: *key.SecretAccessKey}, nil
	}))
}

func (w *world) createAt(t *testing.T, name, url string, change ...func(*awscloudformation.CreateStackInput)) string {
	t.Helper()
	return w.create(t, name, "", append(change, func(in *awscloudformation.CreateStackInput) { in.TemplateBody, in.TemplateURL = nil, &url })...)
}

// TestTemplateURL reads templates from S3 by the URLs that AWS accepts. The texts of the refusals are those recorded in
// localstack/localstack, api/test_templates.snapshot.json.
func TestTemplateURL(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	w.put(t, "templates", "some/one.json", parameterTemplate)
	for n, url := range []string{
		"https://templates.s3.amazonaws.com/some/one.json", "https://templates.s3.us-east-1.amazonaws.com/some/one.json", "https://s3.amazonaws.com/templates/some/one.json",
		"https://s3-us-east-1.amazonaws.com/templates/some/one.json", w.URL + "/templates/some/one.json",
	} {
		id := w.createAt(t, fmt.Sprintf("s%d", n), url)
		w.want(t, id, "CREATE_COMPLETE")
		if got := testkit.Must(w.GetTemplate(ctx, &awscloudformation.GetTemplateInput{StackName: &id}))(t); *got.TemplateBody != parameterTemplate {
			t.Errorf("%s: %s", url, *got.TemplateBody)
		}
	}
	for _, tt := range []struct{ url, text string }{
		{"s3://templates/some/one.json", "S3 error: Domain name specified in templates is not a valid S3 domain"},
		{"https://example.com/dummy.yml", "TemplateURL must be a supported URL."},
		{"https://templates.s3.example.com/one", "TemplateURL must be a supported URL."},
		{"http://169.254.169.254/latest", "TemplateURL must be a supported URL."},
		{"https://s3.amazonaws.com/templates", "TemplateURL must reference a valid S3 object to which you have access."},
		{"https://s3.amazonaws.com/templates/none", "S3 error: The specified key does not exist.\nFor more information check http://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"},
		{"https://nowhere.s3.amazonaws.com/none", "S3 error: The specified bucket does not exist\nFor more information check http://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html"},
		{w.put(t, "templates", "large", strings.Repeat(" ", 1_000_001)), "Template may not exceed 1000000 bytes in size."},
		{w.put(t, "templates", "bad", "{"), "Template format error: JSON not well-formed. (line 1, column 2)"},
	} {
		_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("refused"), TemplateURL: &tt.url})
		testkit.WantError(t, err, "ValidationError", tt.text)
		_, err = w.ValidateTemplate(ctx, &awscloudformation.ValidateTemplateInput{TemplateURL: &tt.url})
		testkit.WantError(t, err, "ValidationError", tt.text)
	}

	// The caller needs s3:GetObject.
	poor := awscloudformation.NewFromConfig(w.user(t, "poor", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"cloudformation:*","Resource":"*"}}`))
	url := "https://templates.s3.amazonaws.com/some/one.json"
	_, err := poor.GetTemplateSummary(ctx, &awscloudformation.GetTemplateSummaryInput{TemplateURL: &url})
	testkit.WantErrorWith(t, err, "ValidationError", "S3 error: Access Denied\n")

	// Updates, change sets and stack policies are read from S3, too.
	two := w.put(t, "templates", "two.json", strings.Replace(parameterTemplate, `"x"`, `"y"`, 1))
	set := testkit.Must(w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: aws.String("s0"), ChangeSetName: aws.String("set"), TemplateURL: &two}))(t)
	if d := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: set.Id}))(t); len(d.Changes) != 1 {
		t.Errorf("%+v", d)
	}
	policy := w.put(t, "templates", "policy.json", `{"Statement": [{"Effect": "Deny", "Action": "Update:*", "Principal": "*", "Resource": "*"}]}`)
	testkit.Must(w.SetStackPolicy(ctx, &awscloudformation.SetStackPolicyInput{StackName: aws.String("s0"), StackPolicyURL: &policy}))(t)
	testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: aws.String("s0"), TemplateURL: &two}))(t)
	w.want(t, *set.StackId, "UPDATE_ROLLBACK_COMPLETE")
	if script := w.script(t, *set.StackId); !strings.Contains(script, "P UPDATE_FAILED Action denied by stack policy: ") {
		t.Error(script)
	}
}

// TestLongTemplate creates a stack from a template that only S3 can pass, and updates it.
func TestLongTemplate(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	long := func(value string) string {
		return `{"Metadata": {"Pad": "` + strings.Repeat("p", 900_000) + `"}, "Resources": {"P": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "` + value + `"}}}}`
	}
	id := w.createAt(t, "long", w.put(t, "templates", "long", long("one")))
	w.want(t, id, "CREATE_COMPLETE")
	two := w.put(t, "templates", "two", long("two"))
	_, script := w.update(t, id, "", "UPDATE_COMPLETE", func(in *awscloudformation.UpdateStackInput) { in.TemplateBody, in.TemplateURL = nil, &two })
	if !strings.Contains(script, "P UPDATE_COMPLETE") {
		t.Error(script)
	}
	if got := testkit.Must(w.GetTemplate(ctx, &awscloudformation.GetTemplateInput{StackName: &id}))(t); *got.TemplateBody != long("two") {
		t.Errorf("%d bytes", len(*got.TemplateBody))
	}
	_, err := w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, UsePreviousTemplate: aws.Bool(true)})
	testkit.WantError(t, err, "ValidationError", "No updates are to be performed.")
}

// TestInclude includes parts from S3 at each place where AWS does: see localstack/localstack,
// test_change_set_fn_transform.snapshot.json and api/test_transformers.snapshot.json.
func TestInclude(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	w.put(t, "parts", "outputs", "Outputs:\n  Ref:\n    Value:\n      Ref: P\n")
	w.put(t, "parts", "resource", `{"Q": {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": "from a part"}}}`)
	w.put(t, "parts", "value.yaml", "Value: from_transformation\n")
	w.put(t, "parts", "short.yaml", "Value: !Ref P\n")
	w.put(t, "parts", "nested.yaml", "Fn::Transform: {Name: 'AWS::Include', Parameters: {Location: 's3://parts/value.yaml'}}\n")
	const body = `
Parameters: {Bucket: {Type: String}}
Transform: {Name: 'AWS::Include', Parameters: {Location: 's3://parts/outputs'}}
Resources:
  P:
    Type: AWS::SSM::Parameter
    Properties:
      Type: String
      'Fn::Transform': {Name: 'AWS::Include', Parameters: {Location: !Sub 's3://${Bucket}/value.yaml'}}
  'Fn::Transform': {Name: 'AWS::Include', Parameters: {Location: 's3://parts/resource'}}
`
	bucket := []cloudformationtypes.Parameter{{ParameterKey: aws.String("Bucket"), ParameterValue: aws.String("parts")}}
	id := w.create(t, "parts", body, func(in *awscloudformation.CreateStackInput) { in.Parameters = bucket })
	st := w.want(t, id, "CREATE_COMPLETE")
	if out := w.outputs(st); !strings.HasPrefix(out["Ref"], "CFN-P-") {
		t.Errorf("%v\n%s", out, w.script(t, id))
	}
	got := testkit.Must(w.GetTemplate(ctx, &awscloudformation.GetTemplateInput{StackName: &id}))(t)
	if want := `{"Parameters":{"Bucket":{"Type":"String"}},"Resources":{"P":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String","Value":"from_transformation"}},` +
		`"Q":{"Type":"AWS::SSM::Parameter","Properties":{"Type":"String","Value":"from a part"}}},"Outputs":{"Ref":{"Value":{"Ref":"P"}}}}`; *got.TemplateBody != want {
		t.Errorf("got %s\nwant %s", *got.TemplateBody, want)
	}
	got = testkit.Must(w.GetTemplate(ctx, &awscloudformation.GetTemplateInput{StackName: &id, TemplateStage: "Original"}))(t)
	if *got.TemplateBody != body {
		t.Error(*got.TemplateBody)
	}
	// An update reads the parts again.
	w.put(t, "parts", "value.yaml", "Value: changed\n")
	_, script := w.update(t, id, "", "UPDATE_COMPLETE", func(in *awscloudformation.UpdateStackInput) {
		in.TemplateBody, in.UsePreviousTemplate, in.Parameters = nil, aws.Bool(true), bucket
	})
	if !strings.Contains(script, "P UPDATE_COMPLETE") || strings.Contains(script, "Q") {
		t.Error(script)
	}

	for _, tt := range []struct{ location, text string }{
		{"s3://parts/short.yaml", "The specified S3 object's content should be valid Yaml/JSON"},
		{"s3://parts/nested.yaml", "The specified S3 object's content should be valid Yaml/JSON"},
		{"../local.yaml", "The location parameter is not a valid S3 uri."},
		{"s3://nowhere/x", "S3 bucket [nowhere] does not exist."},
		{"s3://parts/none", "The specified key does not exist."},
	} {
		bad := strings.Replace(body, "s3://parts/resource", tt.location, 1)
		// The events and the state of the change set match what users of AWS report.
		text := "Transform AWS::Include failed with: " + tt.text
		broken := w.create(t, "bad", bad, func(in *awscloudformation.CreateStackInput) { in.Parameters = bucket })
		w.want(t, broken, "ROLLBACK_COMPLETE")
		wantScript(t, w.script(t, broken), "S CREATE_IN_PROGRESS User Initiated\nS CREATE_IN_PROGRESS "+text+"\nS ROLLBACK_IN_PROGRESS "+strings.TrimSuffix(text, ".")+". Rollback requested by user.\nS ROLLBACK_COMPLETE")
		w.delete(t, broken)
		w.want(t, broken, "DELETE_COMPLETE")
		set := w.set(t, "set", "badset", "CREATE", bad, func(in *awscloudformation.CreateChangeSetInput) { in.Parameters = bucket })
		if set.Status != "FAILED" || set.ExecutionStatus != "UNAVAILABLE" || aws.ToString(set.StatusReason) != text {
			t.Errorf("%s, %s: %s", set.Status, set.ExecutionStatus, aws.ToString(set.StatusReason))
		}
		if st := testkit.Must(w.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: set.StackId}))(t).Stacks[0]; st.StackStatus != "REVIEW_IN_PROGRESS" {
			t.Error(st.StackStatus)
		}
		testkit.Must(w.DeleteChangeSet(ctx, &awscloudformation.DeleteChangeSetInput{ChangeSetName: set.ChangeSetId}))(t)
		_, script := w.update(t, id, bad, "UPDATE_ROLLBACK_COMPLETE", func(in *awscloudformation.UpdateStackInput) { in.Parameters = bucket })
		if !strings.HasPrefix(script, "S UPDATE_IN_PROGRESS User Initiated\nS UPDATE_ROLLBACK_IN_PROGRESS "+text+"\n") {
			t.Error(script)
		}
	}
	long := "Value: v\n#" + strings.Repeat("x", 600_000)
	w.put(t, "parts", "long.yaml", long)
	body2 := strings.ReplaceAll(strings.Replace(body, "s3://parts/resource", "s3://parts/long.yaml", 1), "s3://${Bucket}/value.yaml", "s3://${Bucket}/long.yaml")
	if set := w.set(t, "long", "badset", "CREATE", body2, func(in *awscloudformation.CreateChangeSetInput) { in.Parameters = bucket }); aws.ToString(set.StatusReason) != "Transform AWS::Include failed with: the included parts are too long" {
		t.Errorf("%s: %s", set.Status, aws.ToString(set.StatusReason))
	}
	// Transforms that need Lambda fail in the same way.
	serverless := `{"Transform": "AWS::Serverless-2016-10-31", "Globals": {}, "Resources": {"F": {"Type": "AWS::Serverless::Function"}}}`
	_, err := w.CreateChangeSet(ctx, &awscloudformation.CreateChangeSetInput{StackName: aws.String("sam"), ChangeSetName: aws.String("sam"), ChangeSetType: "CREATE", TemplateBody: &serverless})
	testkit.WantErrorWith(t, err, "InsufficientCapabilitiesException", "CAPABILITY_AUTO_EXPAND")
	set := w.set(t, "sam", "sam", "CREATE", serverless, func(in *awscloudformation.CreateChangeSetInput) {
		in.Capabilities = []cloudformationtypes.Capability{"CAPABILITY_AUTO_EXPAND"}
	})
	if set.Status != "FAILED" || !strings.HasPrefix(aws.ToString(set.StatusReason), "Drydock does not implement the transform AWS::Serverless-2016-10-31: ") {
		t.Errorf("%s: %s", set.Status, aws.ToString(set.StatusReason))
	}
	out := testkit.Must(w.ValidateTemplate(ctx, &awscloudformation.ValidateTemplateInput{TemplateBody: aws.String(body)}))(t)
	if len(out.Parameters) != 1 || len(out.DeclaredTransforms) != 1 {
		t.Errorf("%+v", out)
	}
}

// TestInvalidAfterTransforms submits templates that turn out to be invalid when their transforms have run. AWS has
// already accepted the request by then.
func TestInvalidAfterTransforms(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	w.put(t, "parts", "reference", `{"Type": "String", "Value": {"Ref": "Nothing"}}`)
	const extended = "Transform: AWS::LanguageExtensions\nResources:\n"
	id := w.create(t, "good", extended+"  P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: {'Fn::ToJsonString': [1]}}}")
	w.want(t, id, "CREATE_COMPLETE")
	for name, tt := range map[string]struct{ body, want string }{
		"include":    {"Resources:\n  P: {Type: AWS::SSM::Parameter, Properties: {'Fn::Transform': {Name: 'AWS::Include', Parameters: {Location: 's3://parts/reference'}}}}", "Template format error: Unresolved resource dependencies [Nothing] in the Resources block of the template"},
		"reference":  {extended + "  P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !Ref Nothing}}", "Template format error: Unresolved resource dependencies [Nothing] in the Resources block of the template"},
		"output":     {extended + "  P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: a}}\nOutputs: {O: {Value: !Ref Nothing}}", "Unresolved resource dependencies [Nothing] in the Outputs block of the template"},
		"type":       {extended + "  'Fn::ForEach::Loop': [I, [A, B], {'X${I}': {Type: 'AWS::X::Y'}}]", "Template format error: Unrecognized resource types: [AWS::X::Y]"},
		"capability": {extended + "  'Fn::ForEach::Loop': [I, [A], {'R${I}': {Type: 'AWS::IAM::Role', Properties: {AssumeRolePolicyDocument: {}}}}]", "Requires capabilities : [CAPABILITY_IAM]"},
	} {
		broken := w.create(t, name, tt.body, func(in *awscloudformation.CreateStackInput) { in.Capabilities = nil })
		w.want(t, broken, "ROLLBACK_COMPLETE")
		if script := w.script(t, broken); !strings.Contains(script, "\nS ROLLBACK_IN_PROGRESS "+tt.want+". Rollback requested by user.\n") {
			t.Errorf("%s: %s", name, script)
		}
		set := w.set(t, name, name+"-set", "CREATE", tt.body)
		if set.Status != "FAILED" || set.ExecutionStatus != "UNAVAILABLE" || aws.ToString(set.StatusReason) != tt.want {
			t.Errorf("%s: %s, %s: %s", name, set.Status, set.ExecutionStatus, aws.ToString(set.StatusReason))
		}
		testkit.Must(w.UpdateStack(ctx, &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: &tt.body}))(t)
		w.want(t, id, "UPDATE_ROLLBACK_COMPLETE")
	}
}
