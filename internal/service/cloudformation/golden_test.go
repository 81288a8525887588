package cloudformation_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// bootstrap has what the AWS CDK's bootstrap template has: conditions on lists, Fn::If with AWS::NoValue, a key that a
// parameter switches off, and roles that trust accounts of a list.
var bootstrap = `
Parameters:
  TrustedAccounts: {Type: CommaDelimitedList, Default: ''}
  CloudFormationExecutionPolicies: {Type: CommaDelimitedList, Default: ''}
  FileAssetsBucketName: {Type: String, Default: ''}
  FileAssetsBucketKmsKeyId: {Type: String, Default: ''}
  ContainerAssetsRepositoryName: {Type: String, Default: ''}
  Qualifier: {Type: String, Default: hnb659fds, AllowedPattern: '[A-Za-z0-9_-]{1,10}'}
  BootstrapVariant: {Type: String, Default: 'AWS CDK: Default Resources'}
Conditions:
  HasTrustedAccounts: !Not [!Equals ['', !Join ['', !Ref TrustedAccounts]]]
  HasExecutionPolicies: !Not [!Equals ['', !Join ['', !Ref CloudFormationExecutionPolicies]]]
  HasCustomFileAssetsBucketName: !Not [!Equals ['', !Ref FileAssetsBucketName]]
  CreateNewKey: !Equals ['', !Ref FileAssetsBucketKmsKeyId]
  UseAwsManagedKey: !Equals [AWS_MANAGED_KEY, !Ref FileAssetsBucketKmsKeyId]
Resources:
  FileAssetsBucketEncryptionKey:
    Type: AWS::KMS::Key
    Condition: CreateNewKey
    Properties: {KeyPolicy: {Version: '2012-10-17', Statement: [{Effect: Allow, Principal: {AWS: !Ref 'AWS::AccountId'}, Action: 'kms:*', Resource: '*'}]}}
  FileAssetsBucketEncryptionKeyAlias:
    Type: AWS::KMS::Alias
    Condition: CreateNewKey
    Properties: {AliasName: !Sub 'alias/cdk-${Qualifier}-assets-key', TargetKeyId: !Ref FileAssetsBucketEncryptionKey}
  StagingBucket:
    Type: AWS::S3::Bucket
    UpdateReplacePolicy: Retain
    DeletionPolicy: Retain
    Properties:
      BucketName: !If [HasCustomFileAssetsBucketName, !Ref FileAssetsBucketName, !Sub 'cdk-${Qualifier}-assets-${AWS::AccountId}-${AWS::Region}']
      BucketEncryption:
        ServerSideEncryptionConfiguration:
          - ServerSideEncryptionByDefault:
              SSEAlgorithm: aws:kms
              KMSMasterKeyID: !If [CreateNewKey, !GetAtt FileAssetsBucketEncryptionKey.Arn, !If [UseAwsManagedKey, !Ref 'AWS::NoValue', !Ref FileAssetsBucketKmsKeyId]]
      PublicAccessBlockConfiguration: {BlockPublicAcls: true, BlockPublicPolicy: true, IgnorePublicAcls: true, RestrictPublicBuckets: true}
      VersioningConfiguration: {Status: Enabled}
  StagingBucketPolicy:
    Type: AWS::S3::BucketPolicy
    Properties:
      Bucket: !Ref StagingBucket
      PolicyDocument:
        Version: '2012-10-17'
        Statement: [{Sid: AllowSSLRequestsOnly, Action: 's3:*', Effect: Deny, Resource: [!Sub '${StagingBucket.Arn}', !Sub '${StagingBucket.Arn}/*'], Condition: {Bool: {'aws:SecureTransport': 'false'}}, Principal: '*'}]
  ContainerAssetsRepository:
    Type: AWS::ECR::Repository
    Properties: {ImageTagMutability: IMMUTABLE, RepositoryName: !Sub 'cdk-${Qualifier}-container-assets-${AWS::AccountId}-${AWS::Region}'}
  CdkBootstrapVersion:
    Type: AWS::SSM::Parameter
    Properties: {Type: String, Name: !Sub '/cdk-bootstrap/${Qualifier}/version', Value: '21'}
` + roles("FilePublishing", "ImagePublishing", "Lookup", "Deployment", "CloudFormationExecution") + `
  FilePublishingRoleDefaultPolicy: {Type: AWS::IAM::Policy, Properties: {PolicyName: files, Roles: [!Ref FilePublishingRole], PolicyDocument: {Version: '2012-10-17', Statement: [{Effect: Allow, Action: 's3:*', Resource: !GetAtt StagingBucket.Arn}]}}}
  ImagePublishingRoleDefaultPolicy: {Type: AWS::IAM::Policy, Properties: {PolicyName: images, Roles: [!Ref ImagePublishingRole], PolicyDocument: {Version: '2012-10-17', Statement: [{Effect: Allow, Action: 'ecr:*', Resource: !GetAtt ContainerAssetsRepository.Arn}]}}}
Outputs:
  BucketName: {Value: !Ref StagingBucket}
  BootstrapVersion: {Value: !GetAtt CdkBootstrapVersion.Value}
`

func roles(names ...string) string {
	out := ""
	for _, n := range names {
		out += fmt.Sprintf(`
  %[1]sRole:
    Type: AWS::IAM::Role
    Properties:
      RoleName: !Sub 'cdk-${Qualifier}-%[1]s'
      ManagedPolicyArns: !If [HasExecutionPolicies, !Ref CloudFormationExecutionPolicies, !Ref 'AWS::NoValue']
      AssumeRolePolicyDocument:
        Version: '2012-10-17'
        Statement:
          - {Effect: Allow, Principal: {AWS: !Ref 'AWS::AccountId'}, Action: 'sts:AssumeRole'}
          - !If [HasTrustedAccounts, {Effect: Allow, Principal: {AWS: !Ref TrustedAccounts}, Action: 'sts:AssumeRole'}, !Ref 'AWS::NoValue']
      Tags: [{Key: 'aws-cdk:bootstrap-role', Value: '%[1]s'}]`, n)
	}
	return out
}

// TestBootstrap covers golden scenario 20.
func TestBootstrap(t *testing.T) {
	w, ctx := newWide(t), t.Context()
	in := &awscloudformation.CreateChangeSetInput{
		StackName: aws.String("CDKToolkit"), ChangeSetName: aws.String("cdk-deploy-change-set"), ChangeSetType: "CREATE", TemplateBody: &bootstrap, Capabilities: []cloudformationtypes.Capability{"CAPABILITY_NAMED_IAM"},
		Parameters: []cloudformationtypes.Parameter{{ParameterKey: aws.String("FileAssetsBucketKmsKeyId"), ParameterValue: aws.String("AWS_MANAGED_KEY")}},
	}
	set := testkit.Must(w.CreateChangeSet(ctx, in))(t)
	types := map[string]int{}
	for _, c := range testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: set.Id}))(t).Changes {
		types[*c.ResourceChange.ResourceType]++
	}
	if types["AWS::IAM::Role"] != 5 || types["AWS::IAM::Policy"] != 2 || types["AWS::KMS::Key"] != 0 || types["AWS::S3::Bucket"] != 1 || types["AWS::ECR::Repository"] != 1 {
		t.Errorf("%v", types)
	}
	testkit.Must(w.ExecuteChangeSet(ctx, &awscloudformation.ExecuteChangeSetInput{ChangeSetName: set.Id}))(t)
	st := w.want(t, *set.StackId, "CREATE_COMPLETE")
	if out := w.outputs(st); out["BootstrapVersion"] != "21" || out["BucketName"] != "cdk-hnb659fds-assets-"+w.account+"-us-east-1" {
		t.Errorf("%v", out)
	}
	if keys := testkit.Must(awskms.NewFromConfig(w.cfg).ListKeys(ctx, nil))(t).Keys; len(keys) != 0 {
		t.Errorf("%+v", keys)
	}
	in.ChangeSetName, in.ChangeSetType = aws.String("again"), "UPDATE"
	again := testkit.Must(w.CreateChangeSet(ctx, in))(t)
	if d := testkit.Must(w.DescribeChangeSet(ctx, &awscloudformation.DescribeChangeSetInput{ChangeSetName: again.Id}))(t); d.Status != "FAILED" || !strings.HasPrefix(*d.StatusReason, "The submitted information didn't contain changes.") {
		t.Errorf("%s: %s", d.Status, aws.ToString(d.StatusReason))
	}
	if status, lines := w.drift(t, *set.StackId); status != "IN_SYNC" {
		t.Errorf("%s\n%s", status, lines)
	}
}

// TestRetainedBucket covers golden scenario 19.
func TestRetainedBucket(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "kept", `{"Resources": {"B": {"Type": "AWS::S3::Bucket", "DeletionPolicy": "Retain"}}, "Outputs": {"Name": {"Value": {"Ref": "B"}}}}`,
		func(in *awscloudformation.CreateStackInput) { in.EnableTerminationProtection = aws.Bool(true) })
	name := w.outputs(w.want(t, id, "CREATE_COMPLETE"))["Name"]
	if !strings.HasPrefix(name, "kept-b-") || name != strings.ToLower(name) {
		t.Error(name)
	}
	_, err := w.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: &id})
	testkit.WantError(t, err, "ValidationError", "Stack [kept] cannot be deleted while TerminationProtection is enabled")
	testkit.Must(w.UpdateTerminationProtection(ctx, &awscloudformation.UpdateTerminationProtectionInput{StackName: &id, EnableTerminationProtection: aws.Bool(false)}))(t)
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if script := w.script(t, id); !strings.Contains(script, "B DELETE_SKIPPED\nS DELETE_COMPLETE") {
		t.Error(script)
	}
	testkit.Must(awss3.NewFromConfig(w.cfg, func(o *awss3.Options) { o.UsePathStyle = true }).HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: &name}))(t)
}

// TestManyRemoved removes more resources in one update than one transaction can write.
func TestManyRemoved(t *testing.T) {
	w := newRunning(t)
	handles := func(n int) string {
		var out []string
		for i := range n {
			out = append(out, fmt.Sprintf(`"H%d": {"Type": "AWS::CloudFormation::WaitConditionHandle"}`, i))
		}
		return `{"Resources": {` + strings.Join(out, ",") + `}}`
	}
	id := w.create(t, "many", handles(120))
	w.want(t, id, "CREATE_COMPLETE")
	w.update(t, id, handles(1), "UPDATE_COMPLETE")
	if left := testkit.Must(w.ListStackResources(t.Context(), &awscloudformation.ListStackResourcesInput{StackName: &id}))(t).StackResourceSummaries; len(left) != 1 {
		t.Errorf("%d resources are left", len(left))
	}
}

// TestForgotten forgets a stack with more records than one transaction can write, some time after its deletion.
func TestForgotten(t *testing.T) {
	w := newWorld(t)
	clock := clocktesting.NewFakeClock(time.Now())
	w.config.Clock = clock
	cancel, ended := w.run(w.front)
	defer func() { cancel(); <-ended }()
	var handles []string
	for i := range 40 {
		handles = append(handles, fmt.Sprintf(`"H%d": {"Type": "AWS::CloudFormation::WaitConditionHandle"}`, i))
	}
	id := w.create(t, "many", `{"Resources": {`+strings.Join(handles, ",")+`}}`)
	w.want(t, id, "CREATE_COMPLETE")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	testkit.Eventually(t, 20*time.Second, func() error {
		clock.Step(24 * time.Hour)
		if _, err := w.DescribeStacks(t.Context(), &awscloudformation.DescribeStacksInput{StackName: &id}); err == nil {
			return errors.New("the stack is still known")
		}
		return nil
	})
}

// TestSignalTimeoutLimit refuses to wait for signals longer than AWS does.
func TestSignalTimeoutLimit(t *testing.T) {
	w := newRunning(t)
	for name, tt := range map[string]struct{ body, reason string }{
		"policy":    {waiting(`, "CreationPolicy": {"ResourceSignal": {"Timeout": "PT12H1S"}}`), "CreationPolicy: Timeout PT12H1S must be a duration of at most PT12H"},
		"condition": {waiting(`, "Properties": {"Handle": "h", "Timeout": "43201"}`), "Value for Timeout property must be less than 43200"},
	} {
		id := w.create(t, name, tt.body)
		w.want(t, id, "ROLLBACK_COMPLETE")
		if script := w.script(t, id); !strings.Contains(script, "W CREATE_FAILED "+tt.reason+"\n") {
			t.Error(script)
		}
	}
}
