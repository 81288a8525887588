package cloudformation_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestImportExistingResources covers what `cdk bootstrap` asks for, so that a new CDKToolkit
// stack takes over the bucket that an old one has left.
func TestImportExistingResources(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	store := awsssm.NewFromConfig(w.cfg)
	testkit.Must(store.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("kept"), Type: "String", Value: aws.String("old")}))(t)
	body := func(policy, more string) string {
		return `{"Resources": {"P": {"Type": "AWS::SSM::Parameter", "DeletionPolicy": "` + policy + `", "Properties": {"Name": "kept", "Type": "String", "Value": "old"}}` + more + `}}`
	}
	// It reports whether the stack was created, and removes it.
	creates := func(stack, body string, asked bool) bool {
		set := w.set(t, "s", stack, "CREATE", body, func(in *awscloudformation.CreateChangeSetInput) {
			in.ImportExistingResources, in.Capabilities = &asked, []cloudformationtypes.Capability{"CAPABILITY_IAM"}
		})
		testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: set.ChangeSetId}))(t)
		st := w.settled(t, *set.StackId)
		if _, err := store.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("kept")}); err != nil {
			t.Errorf("%s: %v", stack, err)
		}
		w.delete(t, *set.StackId)
		w.want(t, *set.StackId, "DELETE_COMPLETE")
		return st.StackStatus == "CREATE_COMPLETE"
	}
	const fails = `, "F": {"Type": "AWS::SQS::QueuePolicy", "DependsOn": "P", "Properties": {"Queues": ["https://nowhere"], "PolicyDocument": {}}}`
	if creates("unasked", body("Retain", ""), false) || creates("deleting", body("Delete", ""), true) {
		t.Error("a stack has taken over a parameter that it may not")
	}
	if creates("failing", body("RetainExceptOnCreate", fails), true) {
		t.Error("the stack was created")
	}
	if !creates("taking", body("Retain", ""), true) {
		t.Error("the stack has not taken over the parameter")
	}
	// A custom resource has no schema that says what identifies it.
	existing := testkit.Must(awsiam.NewFromConfig(w.cfg).CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String("https://oidc.example.com")}))(t)
	if creates("custom", `Resources:`+provider+`
  OIDC:
    Type: Custom::AWSCDKOpenIdConnectProvider
    DeletionPolicy: Retain
    Properties: {ServiceToken: !GetAtt Provider.Arn, Url: https://oidc.example.com, ClientIDList: [sts.amazonaws.com]}
`, true) {
		t.Error("a stack has taken over", *existing.OpenIDConnectProviderArn)
	}
	owner := w.set(t, "s", "owner", "CREATE", body("Retain", ""), func(in *awscloudformation.CreateChangeSetInput) { in.ImportExistingResources = aws.Bool(true) })
	testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: owner.ChangeSetId}))(t)
	w.want(t, *owner.StackId, "CREATE_COMPLETE")
	if creates("other", body("Retain", ""), true) {
		t.Error("a stack has taken over a parameter of another stack")
	}
}
