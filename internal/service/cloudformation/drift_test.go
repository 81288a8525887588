package cloudformation_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// drift detects drift on a stack and returns its status and the differences, one per line.
func (w *world) drift(t *testing.T, id string) (cloudformationtypes.StackDriftStatus, string) {
	t.Helper()
	detection := testkit.Must(w.DetectStackDrift(t.Context(), &awscloudformation.DetectStackDriftInput{StackName: &id}))(t)
	st := testkit.Must(w.DescribeStackDriftDetectionStatus(t.Context(), &awscloudformation.DescribeStackDriftDetectionStatusInput{StackDriftDetectionId: detection.StackDriftDetectionId}))(t)
	if st.DetectionStatus != "DETECTION_COMPLETE" || *st.StackId != id {
		t.Errorf("%s, %s: %s", st.DetectionStatus, *st.StackId, aws.ToString(st.DetectionStatusReason))
	}
	var lines []string
	drifted := 0
	for _, d := range testkit.Must(w.DescribeStackResourceDrifts(t.Context(), &awscloudformation.DescribeStackResourceDriftsInput{StackName: &id}))(t).StackResourceDrifts {
		if d.StackResourceDriftStatus != "IN_SYNC" {
			lines = append(lines, *d.LogicalResourceId+" "+string(d.StackResourceDriftStatus))
			drifted++
		}
		for _, p := range d.PropertyDifferences {
			lines = append(lines, *d.LogicalResourceId+" "+*p.PropertyPath+" "+string(p.DifferenceType)+" "+*p.ExpectedValue+" "+*p.ActualValue)
		}
	}
	if int(*st.DriftedStackResourceCount) != drifted {
		t.Errorf("%d resources drifted: %v", *st.DriftedStackResourceCount, lines)
	}
	return st.StackDriftStatus, strings.Join(lines, "\n")
}

// TestDrift changes resources behind a stack's back.
func TestDrift(t *testing.T) {
	w, ctx := newRunning(t), t.Context()
	id := w.create(t, "drift", `
Resources:
  P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: secret, Description: d}}
  D: {Type: AWS::SQS::Queue}
  Q:
    Type: AWS::SQS::Queue
    Properties:
      DelaySeconds: '20'
      RedrivePolicy: {deadLetterTargetArn: !GetAtt D.Arn, maxReceiveCount: 10}
      Tags: [{Key: a, Value: b}]
  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16, EnableDnsHostnames: true}}
  G:
    Type: AWS::EC2::SecurityGroup
    Properties:
      GroupDescription: g
      VpcId: !Ref V
      SecurityGroupIngress: [{IpProtocol: tcp, FromPort: '22', ToPort: 22, CidrIp: 10.0.0.0/8}, {IpProtocol: -1, CidrIp: 10.1.0.0/16}]
  S: {Type: AWS::EC2::SecurityGroupIngress, Properties: {GroupId: !Ref G, IpProtocol: udp, FromPort: 53, ToPort: 53, CidrIp: 10.0.0.0/8}}
  R:
    Type: AWS::IAM::Role
    Properties:
      AssumeRolePolicyDocument: {Version: 2012-10-17, Statement: [{Effect: Allow, Principal: {Service: [ec2.amazonaws.com]}, Action: ['sts:AssumeRole']}]}
  W: {Type: AWS::CloudFormation::WaitConditionHandle}
Outputs: {P: {Value: !Ref P}, Q: {Value: !Ref Q}, D: {Value: !Ref D}, G: {Value: !Ref G}}
`, func(in *awscloudformation.CreateStackInput) {
		in.Tags = []cloudformationtypes.Tag{{Key: aws.String("stack"), Value: aws.String("tag")}}
	})
	st := w.want(t, id, "CREATE_COMPLETE")
	if st.DriftInformation.StackDriftStatus != "NOT_CHECKED" {
		t.Errorf("%+v", st.DriftInformation)
	}
	if status, lines := w.drift(t, id); status != "IN_SYNC" || lines != "" {
		t.Errorf("%s\n%s", status, lines)
	}
	out := w.outputs(st)
	queues, parameters := awssqs.NewFromConfig(w.cfg), awsssm.NewFromConfig(w.cfg)
	testkit.Must(queues.SetQueueAttributes(ctx, &awssqs.SetQueueAttributesInput{QueueUrl: aws.String(out["Q"]), Attributes: map[string]string{
		"DelaySeconds": "120", "RedrivePolicy": `{"deadLetterTargetArn": "arn:aws:sqs:us-east-1:` + w.account + `:` + out["D"][strings.LastIndexByte(out["D"], '/')+1:] + `", "maxReceiveCount": 12}`,
	}}))(t)
	testkit.Must(queues.TagQueue(ctx, &awssqs.TagQueueInput{QueueUrl: aws.String(out["Q"]), Tags: map[string]string{"c": "d"}}))(t)
	testkit.Must(awsec2.NewFromConfig(w.cfg).AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: aws.String(out["G"]), IpPermissions: []ec2types.IpPermission{
		{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(80), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}},
	}}))(t)
	testkit.Must(parameters.DeleteParameter(ctx, &awsssm.DeleteParameterInput{Name: aws.String(out["P"])}))(t)
	status, lines := w.drift(t, id)
	rule, _, _ := strings.Cut(lines[strings.Index(lines, "G /SecurityGroupIngress/"):], " ADD")
	if status != "DRIFTED" {
		t.Error(status)
	}
	wantScript(t, lines, `G MODIFIED
`+rule+` ADD null {"CidrIp":"0.0.0.0/0","IpProtocol":"tcp","FromPort":80,"ToPort":80}
P DELETED
Q MODIFIED
Q /DelaySeconds NOT_EQUAL 20 120
Q /RedrivePolicy/maxReceiveCount NOT_EQUAL 10 12
Q /Tags/1 ADD null {"Key":"c","Value":"d"}`)
	one := testkit.Must(w.DetectStackResourceDrift(ctx, &awscloudformation.DetectStackResourceDriftInput{StackName: &id, LogicalResourceId: aws.String("Q")}))(t).StackResourceDrift
	if one.StackResourceDriftStatus != "MODIFIED" || !strings.Contains(*one.ExpectedProperties, `"DelaySeconds":"20"`) || !strings.Contains(*one.ActualProperties, `"DelaySeconds":"120"`) {
		t.Errorf("%+v", one)
	}
	_, err := w.DetectStackResourceDrift(ctx, &awscloudformation.DetectStackResourceDriftInput{StackName: &id, LogicalResourceId: aws.String("W")})
	testkit.WantErrorWith(t, err, "ValidationError", "AWS::CloudFormation::WaitConditionHandle")
	if st := w.settled(t, id); st.DriftInformation.StackDriftStatus != "DRIFTED" || st.DriftInformation.LastCheckTimestamp == nil {
		t.Errorf("%+v", st.DriftInformation)
	}
	for _, r := range testkit.Must(w.DescribeStackResources(ctx, &awscloudformation.DescribeStackResourcesInput{StackName: &id}))(t).StackResources {
		want := map[string]cloudformationtypes.StackResourceDriftStatus{"G": "MODIFIED", "P": "DELETED", "Q": "MODIFIED", "W": "NOT_CHECKED", "S": "NOT_CHECKED"}[*r.LogicalResourceId]
		if got := r.DriftInformation.StackResourceDriftStatus; got != want && (want != "" || got != "IN_SYNC") {
			t.Errorf("%s: %s", *r.LogicalResourceId, got)
		}
	}
	// Only the last detections are kept.
	oldest := testkit.Must(w.DetectStackDrift(ctx, &awscloudformation.DetectStackDriftInput{StackName: &id, LogicalResourceIds: []string{"Q"}}))(t)
	for range 20 {
		testkit.Must(w.DetectStackDrift(ctx, &awscloudformation.DetectStackDriftInput{StackName: &id, LogicalResourceIds: []string{"Q"}}))(t)
	}
	_, err = w.DescribeStackDriftDetectionStatus(ctx, &awscloudformation.DescribeStackDriftDetectionStatusInput{StackDriftDetectionId: oldest.StackDriftDetectionId})
	testkit.WantErrorWith(t, err, "ValidationError", *oldest.StackDriftDetectionId)
	// Detecting drift needs permission to read the resources.
	poor := awscloudformation.NewFromConfig(w.user(t, "poor", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["cloudformation:*","sqs:*","ssm:*","iam:*"],"Resource":"*"}}`))
	detection := testkit.Must(poor.DetectStackDrift(ctx, &awscloudformation.DetectStackDriftInput{StackName: &id, LogicalResourceIds: []string{"V", "G", "Q"}}))(t)
	if d := testkit.Must(poor.DescribeStackDriftDetectionStatus(ctx, &awscloudformation.DescribeStackDriftDetectionStatusInput{StackDriftDetectionId: detection.StackDriftDetectionId}))(t); d.DetectionStatus != "DETECTION_FAILED" || *d.DetectionStatusReason != "Failed to detect drift on resources [G, V]" || d.StackDriftStatus != "DRIFTED" {
		t.Errorf("%+v", d)
	}
	// The detection itself needs a permission for the stack, as the service authorization reference says.
	only := awscloudformation.NewFromConfig(w.user(t, "only", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"cloudformation:DetectStackDrift","Resource":"`+id+`"},{"Effect":"Allow","Action":"sqs:*","Resource":"*"}]}`))
	detection = testkit.Must(only.DetectStackDrift(ctx, &awscloudformation.DetectStackDriftInput{StackName: &id, LogicalResourceIds: []string{"Q"}}))(t)
	if d := testkit.Must(w.DescribeStackDriftDetectionStatus(ctx, &awscloudformation.DescribeStackDriftDetectionStatusInput{StackDriftDetectionId: detection.StackDriftDetectionId}))(t); d.DetectionStatus != "DETECTION_COMPLETE" {
		t.Errorf("%+v", d)
	}
	_, err = only.DetectStackResourceDrift(ctx, &awscloudformation.DetectStackResourceDriftInput{StackName: &id, LogicalResourceId: aws.String("Q")})
	testkit.WantErrorWith(t, err, "AccessDenied", "is not authorized to perform: cloudformation:DetectStackResourceDrift on resource: "+id+" because no identity-based policy allows")
	other := w.create(t, "other", `{"Resources": {"Q": {"Type": "AWS::SQS::Queue"}}}`)
	_, err = only.DetectStackDrift(ctx, &awscloudformation.DetectStackDriftInput{StackName: &other})
	testkit.WantErrorWith(t, err, "AccessDenied", "cloudformation:DetectStackDrift on resource: "+other)
}
