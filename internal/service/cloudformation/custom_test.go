package cloudformation_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// provider is what the CDK adds to a template for its own custom resources.
const provider = `
  ProviderRole:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument: {Version: 2012-10-17, Statement: [{Action: sts:AssumeRole, Effect: Allow, Principal: {Service: lambda.amazonaws.com}}]}
      ManagedPolicyArns: [!Sub "arn:${AWS::Partition}:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"]
  Provider:
    Type: AWS::Lambda::Function
    DependsOn: [ProviderRole]
    Properties:
      Code: {S3Bucket: !Sub "cdk-hnb659fds-assets-${AWS::AccountId}-${AWS::Region}", S3Key: one.zip}
      Timeout: 900
      MemorySize: 128
      Handler: __entrypoint__.handler
      Role: !GetAtt ProviderRole.Arn
      Runtime: nodejs22.x
`

// ofCustomResources reports whether a type is one of those that the tests in this file create.
func ofCustomResources(typ string) bool {
	return strings.HasPrefix(typ, "Custom::") || typ == "AWS::CloudFormation::CustomResource" || typ == "AWS::Lambda::Function"
}

// TestRestrictedDefaultGroup deploys the VPC of a CDK app, which removes the rules of the
// default security group.
func TestRestrictedDefaultGroup(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	body := `Resources:` + provider + `
  VPC: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}
  Restrict:
    Type: Custom::VpcRestrictDefaultSG
    Properties: {ServiceToken: !GetAtt Provider.Arn, DefaultSecurityGroupId: !GetAtt VPC.DefaultSecurityGroup, Account: !Ref AWS::AccountId}
Outputs:
  Group: {Value: !GetAtt VPC.DefaultSecurityGroup}
  Function: {Value: !Ref Provider}
  VPC: {Value: !Ref VPC}
`
	id := w.create(t, "app", body)
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	if !strings.HasPrefix(out["Function"], "app-Provider-") {
		t.Error(out)
	}
	machines := awsec2.NewFromConfig(w.cfg)
	rules := func() int {
		t.Helper()
		return len(testkit.Must(machines.DescribeSecurityGroupRules(ctx, &awsec2.DescribeSecurityGroupRulesInput{
			Filters: []ec2types.Filter{{Name: aws.String("group-id"), Values: []string{out["Group"]}}},
		}))(t).SecurityGroupRules)
	}
	if n := rules(); n != 0 {
		t.Errorf("the default security group has %d rules", n)
	}
	// A newer CDK has other code.
	w.update(t, id, strings.Replace(body, "one.zip", "two.zip", 1), "UPDATE_COMPLETE")
	without := strings.Replace(body, "  Restrict:\n", "  Restrict:\n    DeletionPolicy: Delete\n    Condition: Off\n", 1) + "Conditions: {Off: !Equals [a, b]}\n"
	w.update(t, id, without, "UPDATE_COMPLETE")
	if n := rules(); n != 2 {
		t.Errorf("the default security group has %d rules after the resource was removed, want both of EC2's", n)
	}
	w.update(t, id, body, "UPDATE_COMPLETE")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
}

// TestJSONOfTheCDK creates the role of a service account as the CDK does: the keys of a condition are known
// only when another resource exists, so a custom resource returns them.
func TestJSONOfTheCDK(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "json", `Resources:`+provider+`
  Issuer: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: oidc.example.com}}
  OIDC:
    Type: Custom::AWSCDKOpenIdConnectProvider
    Properties: {ServiceToken: !GetAtt Provider.Arn, Url: https://oidc.example.com, ClientIDList: [sts.amazonaws.com], ThumbprintList: [0123456789abcdef0123456789abcdef01234567], CodeHash: abc}
  Keys:
    Type: Custom::AWSCDKCfnJson
    Properties: {ServiceToken: !GetAtt Provider.Arn, Value: !Sub '{"${Issuer.Value}:aud": "sts.amazonaws.com"}'}
  Text:
    Type: Custom::AWSCDKCfnJsonStringify
    Properties: {ServiceToken: !GetAtt Provider.Arn, Value: {a: [1, !Ref AWS::Region]}}
  Role:
    Type: AWS::IAM::Role
    Properties:
      RoleName: web
      AssumeRolePolicyDocument: {Version: 2012-10-17, Statement: [{Action: sts:AssumeRoleWithWebIdentity, Effect: Allow, Principal: {Federated: !Ref OIDC}, Condition: {StringEquals: !GetAtt Keys.Value}}]}
Outputs: {Text: {Value: !GetAtt Text.Value}}
`)
	if out := w.outputs(w.want(t, id, "CREATE_COMPLETE")); out["Text"] != `{"a":["1","us-east-1"]}` {
		t.Error(out)
	}
	role := testkit.Must(awsiam.NewFromConfig(w.cfg).GetRole(ctx, &awsiam.GetRoleInput{RoleName: aws.String("web")}))(t)
	if text := aws.ToString(role.Role.AssumeRolePolicyDocument); !strings.Contains(text, "oidc.example.com%3Aaud%22%3A%22sts.amazonaws.com") || !strings.Contains(text, "oidc-provider%2Foidc.example.com") {
		t.Error(text)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if list := testkit.Must(awsiam.NewFromConfig(w.cfg).ListOpenIDConnectProviders(ctx, nil))(t); len(list.OpenIDConnectProviderList) != 0 {
		t.Error(list.OpenIDConnectProviderList)
	}
}

func TestCustomResourcesWithoutAProvider(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	for _, tt := range []struct{ typ, properties, want string }{
		{"Custom::Mine", `ServiceToken: "arn:aws:lambda:us-east-1:123456789012:function:mine"`, "CREATE_FAILED Custom::Mine needs the provider arn:aws:lambda:us-east-1:123456789012:function:mine, but Drydock does not send requests"},
		{"AWS::CloudFormation::CustomResource", `ServiceToken: "arn:aws:sns:us-east-1:123456789012:topic", Other: 1`, "CREATE_FAILED AWS::CloudFormation::CustomResource needs the provider arn:aws:sns:us-east-1:123456789012:topic"},
		{"AWS::CloudFormation::CustomResource", `Other: 1`, "[#: required key [ServiceToken] not found]"},
		{"Custom::Mine", `Other: 1`, "[#: required key [ServiceToken] not found]"},
		{"Custom::Mine", `ServiceToken: "arn:aws:lambda:eu-west-1:123456789012:function:mine"`, "CREATE_FAILED Invalid service token."},
		{"Custom::AWSCDKCfnJson", `ServiceToken: mine, Value: "{}"`, "CREATE_FAILED Invalid service token."},
	} {
		id := w.create(t, "custom", fmt.Sprintf("Resources: {C: {Type: %q, Properties: {%s}}}", tt.typ, tt.properties))
		w.want(t, id, "ROLLBACK_COMPLETE")
		if script := w.script(t, id); !strings.Contains(script, tt.want) {
			t.Errorf("%s %s:\n%s", tt.typ, tt.properties, script)
		}
		w.delete(t, id)
		w.want(t, id, "DELETE_COMPLETE")
	}
	for _, resources := range []string{
		provider, // nothing uses the function
		provider + "  C: {Type: Custom::Mine, Properties: {ServiceToken: !GetAtt Provider.Arn}}\n",
		provider + "  C: {Type: Custom::AWSCDKCfnJson, Properties: {ServiceToken: !GetAtt Provider.Arn, Value: !GetAtt Provider.Arn}}\n",
	} {
		_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("function"), TemplateBody: aws.String("Resources:" + resources), Capabilities: []cloudformationtypes.Capability{"CAPABILITY_IAM"}})
		testkit.WantErrorWith(t, err, "ValidationError", "Template format error: Unrecognized resource types: [AWS::Lambda::Function]. Drydock has no AWS Lambda;")
	}
}

// TestEmptiedBucket deletes the objects of a bucket with the CDK's tag, and of no other.
func TestEmptiedBucket(t *testing.T) {
	w, ctx := &world{}, t.Context()
	blobs, err := blobstore.Open(blobstore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	var run []func(context.Context) error
	w.Server = testkit.NewServer(t, testkit.Config{Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
		buckets := s3.New(s3.Config{Store: st, Blobs: blobs, Log: testkit.Log(t), Authorize: func(context.Context, *awsapi.Call, any, ...authz.Target) error { return nil }})
		stacks := cloudformation.New(cloudformation.Config{Store: st, API: front, Log: testkit.Log(t)})
		run = append(run, stacks.Run)
		return []awsapi.Service{iam.New(iam.Config{Store: st, Log: testkit.Log(t)}).AWS(), buckets.AWS(), stacks.AWS()}
	}})
	w.account = w.Account(t)
	w.cfg = w.AWSConfig(w.account)
	w.Client = awscloudformation.NewFromConfig(w.cfg)
	testkit.Run(t, run...)
	objects := awss3.NewFromConfig(w.cfg, func(o *awss3.Options) { o.UsePathStyle = true })
	put := func(bucket string) {
		t.Helper()
		testkit.Must(objects.PutObject(ctx, &awss3.PutObjectInput{Bucket: &bucket, Key: aws.String("k"), Body: bytes.NewReader([]byte("v"))}))(t)
	}
	for _, bucket := range []string{"kept", "emptied"} {
		testkit.Must(objects.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: &bucket}))(t)
		put(bucket)
	}
	testkit.Must(objects.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: aws.String("emptied"), VersioningConfiguration: &s3types.VersioningConfiguration{Status: s3types.BucketVersioningStatusEnabled}}))(t)
	put("emptied")
	testkit.Must(objects.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: aws.String("emptied"), Key: aws.String("k")}))(t)
	testkit.Must(objects.PutBucketTagging(ctx, &awss3.PutBucketTaggingInput{Bucket: aws.String("emptied"), Tagging: &s3types.Tagging{TagSet: []s3types.Tag{{Key: aws.String("aws-cdk:auto-delete-objects"), Value: aws.String("true")}}}}))(t)

	custom := func(id, bucket string) string {
		return fmt.Sprintf("  %s: {Type: Custom::S3AutoDeleteObjects, Properties: {ServiceToken: !GetAtt Provider.Arn, BucketName: %s}}\n", id, bucket)
	}
	id := w.create(t, "buckets", "Resources:"+provider+custom("A", "kept")+custom("B", "emptied")+custom("C", "missing"))
	w.want(t, id, "CREATE_COMPLETE")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	for bucket, want := range map[string]int{"kept": 1, "emptied": 0} {
		list := testkit.Must(objects.ListObjectVersions(ctx, &awss3.ListObjectVersionsInput{Bucket: &bucket}))(t)
		if n := len(list.Versions) + len(list.DeleteMarkers); n != want {
			t.Errorf("%s has %d versions, want %d", bucket, n, want)
		}
	}
}
