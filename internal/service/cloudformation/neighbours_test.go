package cloudformation_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const validated = `
Parameters: {Zone: {Type: 'AWS::Route53::HostedZone::Id'}}
Resources:
  C: {Type: AWS::CertificateManager::Certificate, Properties: {DomainName: shop.drydock.test, SubjectAlternativeNames: ['*.shop.drydock.test'], ValidationMethod: DNS, KeyAlgorithm: EC_prime256v1, DomainValidationOptions: [{DomainName: shop.drydock.test, HostedZoneId: !Ref Zone}]}}
Outputs: {C: {Value: !Ref C}}
`

// TestCertificate validates a certificate by a record in a hosted zone, which the certificate's deletion leaves behind,
// as on AWS.
func TestCertificate(t *testing.T) {
	w, ctx := newWide(t), t.Context()
	names := awsroute53.NewFromConfig(w.cfg)
	zone := testkit.Must(names.CreateHostedZone(ctx, &awsroute53.CreateHostedZoneInput{Name: aws.String("drydock.test"), CallerReference: aws.String("one")}))(t).HostedZone.Id
	records := func() int {
		return len(testkit.Must(names.ListResourceRecordSets(ctx, &awsroute53.ListResourceRecordSetsInput{HostedZoneId: zone}))(t).ResourceRecordSets)
	}
	before := records()
	given := []cloudformationtypes.Parameter{{ParameterKey: aws.String("Zone"), ParameterValue: aws.String(strings.TrimPrefix(*zone, "/hostedzone/"))}}
	id := w.create(t, "certificate", validated, func(in *awscloudformation.CreateStackInput) { in.Parameters = given })
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	if !strings.HasPrefix(out["C"], "arn:aws:acm:us-east-1:") || records() != before+1 {
		t.Errorf("%v, %d records", out, records())
	}
	if script := w.script(t, id); strings.Count(script, "C CREATE_IN_PROGRESS Content of DNS Record is: {Name: _") != 1 || !strings.Contains(script, ".shop.drydock.test.,Type: CNAME,Value: _") {
		t.Error(script)
	}
	changed := strings.Replace(validated, "KeyAlgorithm", "CertificateTransparencyLoggingPreference: DISABLED, KeyAlgorithm", 1)
	if _, script := w.update(t, id, changed, "UPDATE_COMPLETE", func(in *awscloudformation.UpdateStackInput) {
		in.Parameters, in.Tags = given, []cloudformationtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}}
	}); strings.Contains(script, "Requested update requires") {
		t.Error(script)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if records() != before+1 {
		t.Error("the record is deleted")
	}
	given[0].ParameterValue = aws.String("Z0")
	missing := w.create(t, "missing", validated, func(in *awscloudformation.CreateStackInput) { in.Parameters = given })
	if st := w.want(t, missing, "ROLLBACK_COMPLETE"); !strings.Contains(w.script(t, missing), "Parameter validation failed: parameter value Z0 for parameter name Zone does not exist") {
		t.Errorf("%+v", st)
	}
}

// TestSnapshots checks that a snapshot is made of a volume before its deletion. Other types ignore the policy, as on AWS.
// A change that a volume does not support is rolled back.
func TestSnapshots(t *testing.T) {
	w, ctx := newWide(t), t.Context()
	body := func(more string) string {
		return `
Resources:
  V: {Type: AWS::EC2::Volume, DeletionPolicy: Snapshot, Properties: {AvailabilityZone: us-east-1a, Size: 1` + more + `, Tags: [{Key: k, Value: v}]}}
  W: {Type: AWS::EC2::Volume, Properties: {AvailabilityZone: us-east-1a, Size: 1}}
  Q: {Type: AWS::SQS::Queue, DeletionPolicy: Snapshot}
`
	}
	snapshots := func() int {
		t.Helper()
		all := testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeSnapshots(ctx, &awsec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}))(t).Snapshots
		for _, s := range all {
			if len(s.Tags) != 1 || !strings.Contains(*s.Description, *s.VolumeId) {
				t.Errorf("%+v", s)
			}
		}
		return len(all)
	}
	id := w.create(t, "volumes", body(""))
	w.want(t, id, "CREATE_COMPLETE")
	_, script := w.update(t, id, body(", Encrypted: true"), "UPDATE_ROLLBACK_COMPLETE")
	if !strings.Contains(script, "V UPDATE_FAILED Resource handler returned message: \"Drydock does not implement changes of the property Encrypted of an existing AWS::EC2::Volume") {
		t.Error(script)
	}
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if n := snapshots(); n != 1 {
		t.Errorf("%d snapshots after the deletion", n)
	}
}

// TestSnapshotRefused checks that a volume is kept if its snapshot cannot be made for any reason.
func TestSnapshotRefused(t *testing.T) {
	w := newWorld(t)
	api := &refuser{API: w.front}
	cancel, ended := w.run(api)
	defer func() { cancel(); <-ended }()
	id := w.create(t, "volume", "Resources: {V: {Type: AWS::EC2::Volume, DeletionPolicy: Snapshot, Properties: {AvailabilityZone: us-east-1a, Size: 1}}}")
	w.want(t, id, "CREATE_COMPLETE")
	volumes := func() int {
		return len(testkit.Must(awsec2.NewFromConfig(w.cfg).DescribeVolumes(t.Context(), nil))(t).Volumes)
	}
	api.refuse.Store(func(in any) error {
		if _, ok := in.(*awsec2.CreateSnapshotInput); ok {
			return awserr.New("KMS.NotFoundException", "The key is gone")
		}
		return nil
	})
	w.delete(t, id)
	w.want(t, id, "DELETE_FAILED")
	if script := w.script(t, id); volumes() != 1 || !strings.Contains(script, "V DELETE_FAILED") || !strings.Contains(script, "The key is gone") {
		t.Error(script)
	}
	api.refuse.Store(func(any) error { return nil })
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	if volumes() != 0 {
		t.Error("the volume is still there")
	}
}

// TestNotifications checks that all events of a stack, and no others, are sent to its topic.
func TestNotifications(t *testing.T) {
	w, ctx := newWide(t), t.Context()
	topics, queues := awssns.NewFromConfig(w.cfg), awssqs.NewFromConfig(w.cfg)
	topic := testkit.Must(topics.CreateTopic(ctx, &awssns.CreateTopicInput{Name: aws.String("events")}))(t).TopicArn
	queue := testkit.Must(queues.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: aws.String("events")}))(t).QueueUrl
	testkit.Must(topics.Subscribe(ctx, &awssns.SubscribeInput{TopicArn: topic, Protocol: aws.String("sqs"), Endpoint: aws.String("arn:aws:sqs:us-east-1:" + w.account + ":events"), Attributes: map[string]string{"RawMessageDelivery": "true"}}))(t)
	id := w.create(t, "told", parameterTemplate, func(in *awscloudformation.CreateStackInput) {
		in.NotificationARNs, in.ClientRequestToken = []string{*topic}, aws.String("token")
	})
	w.want(t, id, "CREATE_COMPLETE")
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")
	script := strings.Split(w.script(t, id), "\n")
	var got []string
	var first string
	testkit.Eventually(t, 20*time.Second, func() error {
		for _, m := range testkit.Must(queues.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: queue, MaxNumberOfMessages: 10}))(t).Messages {
			fields := map[string]string{}
			for line := range strings.Lines(*m.Body) {
				name, value, _ := strings.Cut(strings.TrimSuffix(line, "'\n"), "='")
				fields[name] = value
			}
			if first == "" {
				first = *m.Body
			}
			name := fields["LogicalResourceId"]
			if name == "told" {
				name = "S"
			}
			got = append(got, strings.TrimSpace(name+" "+fields["ResourceStatus"]+" "+fields["ResourceStatusReason"]))
		}
		if len(got) < len(script) {
			return fmt.Errorf("%d of %d events", len(got), len(script))
		}
		return nil
	})
	slices.Sort(got)
	slices.Sort(script)
	if !slices.Equal(got, script) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(script, "\n"))
	}
	for _, want := range []string{"StackId='" + id + "'\nTimestamp='", "'\nNamespace='" + w.account + "'\n", "'\nStackName='told'\nClientRequestToken='"} {
		if !strings.Contains(first, want) {
			t.Errorf("%q is not in %s", want, first)
		}
	}
	quiet := w.create(t, "quiet", parameterTemplate)
	w.want(t, quiet, "CREATE_COMPLETE")
	if more := testkit.Must(queues.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: queue}))(t).Messages; len(more) != 0 {
		t.Errorf("%+v", more)
	}
}

// TestNotificationsAreRetried checks that the events of a stack are sent even if its role cannot be assumed for a while.
func TestNotificationsAreRetried(t *testing.T) {
	w := newWorld(t)
	api := &publishing{API: w.front}
	assume := w.config.Assume
	var refusals atomic.Int64
	w.config.Assume = func(ctx context.Context, role, stack string) (awsapi.Principal, error) {
		if refusals.Add(-1) >= 0 {
			return awsapi.Principal{}, errors.New("not now")
		}
		return assume(ctx, role, stack)
	}
	trust := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":"cloudformation.amazonaws.com"},"Action":"sts:AssumeRole"}}`
	role := testkit.Must(awsiam.NewFromConfig(w.cfg).CreateRole(t.Context(), &awsiam.CreateRoleInput{RoleName: aws.String("deployer"), AssumeRolePolicyDocument: &trust}))(t).Role
	w.create(t, "told", `{"Resources": {"Q": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}}`, func(in *awscloudformation.CreateStackInput) {
		in.NotificationARNs, in.RoleARN = []string{"arn:aws:sns:us-east-1:" + w.account + ":events"}, role.Arn
	})
	refusals.Store(2)
	cancel, ended := w.run(api)
	defer func() { cancel(); <-ended }()
	testkit.Eventually(t, 20*time.Second, func() error {
		if api.first.Load() == nil {
			return errors.New("nothing is published")
		}
		return nil
	})
	if first := *api.first.Load(); !strings.Contains(first, "ResourceStatus='CREATE_IN_PROGRESS'") || !strings.Contains(first, "ResourceStatusReason='User Initiated'") {
		t.Error(first)
	}
}

// publishing is an API that notes the first message to a topic.
type publishing struct {
	awsapi.API
	first atomic.Pointer[string]
}

func (p *publishing) Call(ctx context.Context, in any) (any, error) {
	if in, ok := in.(*awssns.PublishInput); ok {
		p.first.CompareAndSwap(nil, in.Message)
		return &awssns.PublishOutput{}, nil
	}
	return p.API.Call(ctx, in)
}

const refused = `
Resources:
  G: {Type: AWS::Logs::LogGroup}
  F: {Type: AWS::Logs::SubscriptionFilter, Properties: {LogGroupName: !Ref G, FilterPattern: '', DestinationArn: 'arn:aws:lambda:us-east-1:111122223333:function:f'}}
`

// TestRefusedByService checks that resources fail with the services' own reasons.
func TestRefusedByService(t *testing.T) {
	w := newWide(t)
	for name, tt := range map[string]struct{ body, want string }{
		"filter":    {refused, "PutSubscriptionFilter. Drydock does not have the services that a subscription filter sends events to: Kinesis, Firehose and Lambda."},
		"protocol":  {"Resources: {T: {Type: AWS::SNS::Topic, Properties: {Subscription: [{Protocol: email, Endpoint: a@example.com}]}}}", "Drydock does not implement the protocol email"},
		"fifo":      {"Resources: {T: {Type: AWS::SNS::Topic, Properties: {FifoTopic: true}}}", "Drydock does not implement FIFO topics"},
		"encrypted": {"Resources: {T: {Type: AWS::SNS::Topic, Properties: {KmsMasterKeyId: alias/a}}}", "Drydock does not implement the property KmsMasterKeyId of AWS::SNS::Topic"},
		"email":     {"Resources: {C: {Type: AWS::CertificateManager::Certificate, Properties: {DomainName: example.com}}}", "Drydock does not implement the validation method EMAIL"},
		"replicas":  {"Resources: {S: {Type: AWS::SecretsManager::Secret, Properties: {ReplicaRegions: [{Region: us-west-2}]}}}", "Drydock does not implement the property ReplicaRegions of AWS::SecretsManager::Secret"},
		"both":      {"Resources: {S: {Type: AWS::SecretsManager::Secret, Properties: {SecretString: a, GenerateSecretString: {}}}}", "You can't specify both GenerateSecretString and SecretString"},
	} {
		id := w.create(t, name, tt.body)
		w.want(t, id, "ROLLBACK_COMPLETE")
		if script := w.script(t, id); !strings.Contains(script, tt.want) {
			t.Errorf("%s: %s", name, script)
		}
	}
}

// TestSecretReferences refers to secrets, which no record, event or description may show.
func TestSecretReferences(t *testing.T) {
	w, ctx := newWide(t), t.Context()
	secrets := awssm.NewFromConfig(w.cfg)
	secret := testkit.Must(secrets.CreateSecret(ctx, &awssm.CreateSecretInput{Name: aws.String("db"), SecretString: aws.String(`{"password": "hush-1", "port": 5432}`)}))(t).ARN
	parameters := awsssm.NewFromConfig(w.cfg)
	put := func(name, value, typ string) {
		t.Helper()
		testkit.Must(parameters.PutParameter(ctx, &awsssm.PutParameterInput{Name: &name, Value: &value, Type: "String", Overwrite: aws.Bool(typ == "")}))(t)
	}
	put("/plain", "one", "String")
	testkit.Must(parameters.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/login"), Value: aws.String("Secret-hush-9"), Type: "SecureString"}))(t)
	body := `
Parameters: {Secret: {Type: String}, Note: {Type: String, Default: a}}
Resources:
  Q: {Type: AWS::SQS::Queue, Properties: {Tags: [
    {Key: key, Value: '{{resolve:secretsmanager:db:SecretString:password}}'},
    {Key: number, Value: !Join ['', ['{{resolve:secretsmanager:', !Ref Secret, ':SecretString:port}}']]},
    {Key: stage, Value: !Sub '${Note}-{{resolve:secretsmanager:${Secret}:SecretString:password:AWSCURRENT}}'},
    {Key: plain, Value: '{{resolve:ssm:/plain}}'}, {Key: version, Value: '{{resolve:ssm:/plain:1}}'}]}}
  U: {Type: AWS::IAM::User, Properties: {LoginProfile: {Password: '{{resolve:ssm-secure:/login:1}}'}}}
  P: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: '{{resolve:secretsmanager:db:SecretString:password}}'}}
  Copy: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !GetAtt P.Value}}
  G: {Type: AWS::SecretsManager::Secret, Properties: {GenerateSecretString: {SecretStringTemplate: '{"user": "{{resolve:secretsmanager:db:SecretString:password}}"}', GenerateStringKey: made}, Tags: [{Key: plain, Value: '{{resolve:ssm:/plain}}'}]}}
Outputs: {Q: {Value: !Ref Q}, G: {Value: !Ref G}, Copy: {Value: !Ref Copy}, P: {Value: !GetAtt P.Value}, Hidden: {Value: !Sub '{{resolve:secretsmanager:${Secret}:SecretString:password}}'}}
`
	given := []cloudformationtypes.Parameter{{ParameterKey: aws.String("Secret"), ParameterValue: secret}}
	id := w.create(t, "refers", body, func(in *awscloudformation.CreateStackInput) { in.Parameters = given })
	out := w.outputs(w.want(t, id, "CREATE_COMPLETE"))
	queues := awssqs.NewFromConfig(w.cfg)
	tags := func() string {
		got := testkit.Must(queues.ListQueueTags(ctx, &awssqs.ListQueueTagsInput{QueueUrl: aws.String(out["Q"])}))(t).Tags
		return fmt.Sprint(got["key"], " ", got["number"], " ", got["stage"], " ", got["plain"], " ", got["version"])
	}
	if got := tags(); got != "hush-1 5432 a-hush-1 one one" {
		t.Error(got)
	}
	// [seen] https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/689
	if out["Hidden"] != "{{resolve:secretsmanager:"+*secret+":SecretString:password}}" {
		t.Error(out["Hidden"])
	}
	if value := *testkit.Must(parameters.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String(out["Copy"])}))(t).Parameter.Value; value != "hush-1" || out["P"] != "{{resolve:secretsmanager:db:SecretString:password}}" {
		t.Errorf("the attribute of a parameter: %q, the parameter with its value: %q", out["P"], value)
	}
	generated := func() string {
		return *testkit.Must(secrets.GetSecretValue(ctx, &awssm.GetSecretValueInput{SecretId: aws.String(out["G"])}))(t).SecretString
	}
	before := generated()
	if users := testkit.Must(awsiam.NewFromConfig(w.cfg).ListUsers(ctx, nil))(t).Users; len(users) != 1 {
		t.Errorf("%+v", users)
	}
	// A changed secret by itself does not change the stack; a changed plain parameter does.
	testkit.Must(secrets.PutSecretValue(ctx, &awssm.PutSecretValueInput{SecretId: secret, SecretString: aws.String(`{"password": "hush-2", "port": 5432}`)}))(t)
	update := &awscloudformation.UpdateStackInput{StackName: &id, TemplateBody: &body, Parameters: given, Capabilities: []cloudformationtypes.Capability{"CAPABILITY_NAMED_IAM"}}
	_, err := w.UpdateStack(ctx, update)
	testkit.WantError(t, err, "ValidationError", "No updates are to be performed.")
	put("/plain", "two", "")
	testkit.Must(w.UpdateStack(ctx, update))(t)
	w.want(t, id, "UPDATE_COMPLETE")
	if got := tags(); got != "hush-2 5432 a-hush-2 two one" {
		t.Errorf("after the update: %s", got)
	}
	if got := generated(); got != before || !strings.Contains(got, "hush-1") {
		t.Errorf("an update of a secret's tags has replaced %s by %s", before, got)
	}
	if status, lines := w.drift(t, id); status != "IN_SYNC" {
		t.Errorf("%s:\n%s", status, lines)
	}
	shown := w.script(t, id) + fmt.Sprint(testkit.Must(w.DescribeStackResource(ctx, &awscloudformation.DescribeStackResourceInput{StackName: &id, LogicalResourceId: aws.String("Q")}))(t).StackResourceDetail)
	for _, e := range testkit.Must(w.DescribeStackEvents(ctx, &awscloudformation.DescribeStackEventsInput{StackName: &id}))(t).StackEvents {
		shown += aws.ToString(e.ResourceProperties)
	}
	if strings.Contains(shown, "hush") || !strings.Contains(shown, "{{resolve:secretsmanager:db:SecretString:password}}") {
		t.Error(shown)
	}
	// The stack can be deleted without the secret.
	testkit.Must(secrets.DeleteSecret(ctx, &awssm.DeleteSecretInput{SecretId: secret, ForceDeleteWithoutRecovery: aws.Bool(true)}))(t)
	w.delete(t, id)
	w.want(t, id, "DELETE_COMPLETE")

	queue := func(value string) string {
		return `{"Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"Tags": [{"Key": "k", "Value": "` + value + `"}]}}}}`
	}
	for value, want := range map[string]string{
		"{{resolve:ssm-secure:/login:}}":             "Incorrect format is used in the following SSM reference: [{{resolve:ssm-secure:/login:}}]",
		"{{resolve:ssm:/a b}}":                       "Incorrect format is used in the following SSM reference: [{{resolve:ssm:/a b}}]",
		"{{resolve:ssm-secure:/login:1}}":            "SSM Secure reference is not supported in: [AWS::SQS::Queue/Properties/Tags]",
		strings.Repeat("{{resolve:ssm:/plain}}", 61): "Template error: the template has 61 dynamic references, more than the maximum of 60",
	} {
		_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("bad"), TemplateBody: aws.String(queue(value))})
		testkit.WantError(t, err, "ValidationError", want)
	}
	testkit.Must(secrets.CreateSecret(ctx, &awssm.CreateSecretInput{Name: aws.String("text"), SecretString: aws.String("hush-3")}))(t)
	testkit.Must(secrets.CreateSecret(ctx, &awssm.CreateSecretInput{Name: aws.String("json"), SecretString: aws.String("{}")}))(t)
	n := 0
	for value, want := range map[string]string{
		"{{resolve:secretsmanager:none}}":                  "Q CREATE_FAILED Secrets Manager can't find the specified secret. (Service: AWSSecretsManager; Status Code: 400; Error Code: ResourceNotFoundException; Request ID: ",
		"{{resolve:secretsmanager:text:SecretString:key}}": "Q CREATE_FAILED Could not parse SecretString JSON",
		"{{resolve:secretsmanager:json:SecretString:key}}": "Q CREATE_FAILED Could not find a value associated with JSONKey in SecretString",
		"{{resolve:secretsmanager:text:SecretBinary}}":     "Q CREATE_FAILED the dynamic reference {{resolve:secretsmanager:text:SecretBinary}} must name SecretString, not SecretBinary",
	} {
		n++
		id := w.create(t, fmt.Sprintf("bad%d", n), queue(value))
		w.want(t, id, "ROLLBACK_COMPLETE")
		if script := w.script(t, id); !strings.Contains(script, want) {
			t.Errorf("%s: %s", value, script)
		}
	}
	many := w.create(t, "many", `{"Parameters": {"P": {"Type": "String", "Default": "`+strings.Repeat("{{resolve:ssm:/plain}}", 100)+`"}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"QueueName": {"Fn::Join": ["", [`+strings.Repeat(`{"Ref": "P"}, `, 99)+`"x"]]}}}}}`)
	w.want(t, many, "ROLLBACK_COMPLETE")
	if script := w.script(t, many); !strings.Contains(script, "Q CREATE_FAILED Template error: more than 600 dynamic references") {
		t.Error(script)
	}
	// Whoever writes a plain parameter cannot choose which secrets the stack's creator reads.
	for i, value := range []string{"{{resolve:secretsmanager:text}}", base64.StdEncoding.EncodeToString([]byte("{{resolve:secretsmanager:text}}")), "a{{res"} {
		name := fmt.Sprintf("/chosen/%d", i)
		put(name, value, "String")
		for j, body := range []string{queue("{{resolve:ssm:" + name + "}}"), `{"Parameters": {"P": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "` + name + `"}}, "Resources": {"Q": {"Type": "AWS::SQS::Queue", "Properties": {"Tags": [{"Key": "k", "Value": {"Ref": "P"}}]}}}}`} {
			want := "The value of the SSM parameter [" + name + "] contains a dynamic reference"
			if j == 1 {
				_, err := w.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("chosen"), TemplateBody: &body})
				testkit.WantErrorWith(t, err, "ValidationError", want)
				continue
			}
			id := w.create(t, fmt.Sprintf("chosen%d", i), body)
			w.want(t, id, "ROLLBACK_COMPLETE")
			if script := w.script(t, id); !strings.Contains(script, "Q CREATE_FAILED") || !strings.Contains(script, want) {
				t.Error(script)
			}
		}
	}
	// No message shows a secret, not even one that contains another secret.
	testkit.Must(secrets.CreateSecret(ctx, &awssm.CreateSecretInput{Name: aws.String("long"), SecretString: aws.String("hush-3-and-more")}))(t)
	testkit.Must(secrets.CreateSecret(ctx, &awssm.CreateSecretInput{Name: aws.String("reserved"), SecretString: aws.String("aws:hush")}))(t)
	for i, tt := range []struct{ properties, plain, secret, want string }{
		{"AWS::SNS::Subscription, Properties: {TopicArn: !Ref T, Protocol: sqs, Endpoint: 'arn:aws:sqs:us-east-1:" + w.account + ":q', FilterPolicyScope: '%s'}", "loud", "{{resolve:secretsmanager:text}} {{resolve:secretsmanager:long}}", "FilterPolicyScope: Invalid value [%s]"},
		{"AWS::SSM::Parameter, Properties: {Type: '%s', Value: v}", "loud", "{{resolve:secretsmanager:text}}", "%s is not a valid enum value"},
		{"AWS::SQS::Queue, Properties: {Tags: [{Key: '%s', Value: v}]}", "aws:loud", "{{resolve:secretsmanager:reserved}}", "aws: prefixed tag key names are not allowed for external use: %s"},
	} {
		for j, given := range []string{tt.plain, tt.secret} {
			shown := []string{tt.plain, strings.Join(slices.Repeat([]string{"****"}, strings.Count(tt.secret, "{{")), " ")}[j]
			id := w.create(t, fmt.Sprintf("echo%d%d", i, j), "Resources:\n  T: {Type: AWS::SNS::Topic}\n  E: {Type: "+fmt.Sprintf(tt.properties, given)+"}\n")
			w.want(t, id, "ROLLBACK_COMPLETE")
			if script := w.script(t, id); strings.Contains(script, "hush") || !strings.Contains(script, fmt.Sprintf(tt.want, shown)) {
				t.Error(script)
			}
		}
	}
}
