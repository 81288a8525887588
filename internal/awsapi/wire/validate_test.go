package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

func TestValidate(t *testing.T) {
	own := map[string]*wire.Constraints{}
	for name, rows := range map[string][]awsapi.Constraint{
		"iam": {{At: "groupNameType pathType", Source: "a test", PatternText: func(path string) string { return "The specified value for " + path + " is invalid." }}},
		"kms": {
			{At: "ListAliases.Limit", Max: new(100.0), Source: "a test"},
			{At: "GrantTokenType", Min: new(2.0), Max: new(3.0), Pattern: "[a-z]+", Source: "a test"},
		},
		"elbv2": {{At: "CreateTargetGroup.ProtocolVersion", Enum: []string{"HTTP1", "GRPC"}, Source: "a test"}},
		"logs":  {{At: "PutRetentionPolicy.retentionInDays", Enum: []string{"1", "3"}, Source: "a test"}},
		"sqs":   {{At: "SendMessageBatch.Entries", Unchecked: awsapi.UncheckedRequired, Source: "a test"}},
		"ssm": {
			{At: "ParameterType", Unchecked: awsapi.UncheckedEnum, Source: "a test"},
			{At: "PutParameter.Value", Min: new(1.0), Source: "a test"},
		},
	} {
		var err error
		if own[name], err = wire.NewConstraints(service(t, name), rows); err != nil {
			t.Fatal(err)
		}
	}
	const failed = "' failed to satisfy constraint: "
	name, arn := aws.String("n"), aws.String("arn:aws:iam::111122223333:role/r")
	long := strings.Repeat("x", 65)
	for _, c := range []struct {
		name, op string
		in       any
		sent     string // members that the request carried, where it matters
		want     string
	}{
		{"nothing wrong", "iam.GetRole", &awsiam.GetRoleInput{RoleName: name}, "", ""},
		{"several", "iam.CreateRole", &awsiam.CreateRoleInput{RoleName: &long, MaxSessionDuration: aws.Int32(60)}, "",
			"ValidationError: 3 validation errors detected: Value '60' at 'maxSessionDuration" + failed + "Member must have value greater than or equal to 3600; Value '" + long +
				"' at 'roleName" + failed + "Member must have length less than or equal to 64; Value null at 'assumeRolePolicyDocument" + failed + "Member must not be null"},
		{"the framework's words before the service's own", "iam.CreateGroup", &awsiam.CreateGroupInput{GroupName: aws.String("a b"), Path: aws.String(strings.Repeat("x", 513))}, "",
			"ValidationError: 1 validation error detected: Value '" + strings.Repeat("x", 513) + "' at 'path" + failed + "Member must have length less than or equal to 512"},
		{"the service's own words", "iam.CreateGroup", &awsiam.CreateGroupInput{GroupName: aws.String("a b")}, "",
			"ValidationError: The specified value for groupName is invalid."},
		{"in a list of structures", "iam.TagRole", &awsiam.TagRoleInput{RoleName: name, Tags: []iamtypes.Tag{{Key: name, Value: name}, {Key: aws.String("!"), Value: name}}}, "",
			"ValidationError: 1 validation error detected: Value '!' at 'tags.2.member.key" + failed + `Member must satisfy regular expression pattern: [\p{L}\p{Z}\p{N}_.:/=+\-@]+`},
		{"in a list of texts", "kms.CreateGrant", &awskms.CreateGrantInput{KeyId: name, GranteePrincipal: arn, Operations: []kmstypes.GrantOperation{"Sign"}, GrantTokens: []string{"ab", "a"}}, "",
			"ValidationException: 1 validation error detected: Value '[ab, a]' at 'grantTokens" + failed + "Member must satisfy constraint: [Member must have length less than or equal to 3, Member must have length greater than or equal to 2, Member must satisfy regular expression pattern: [a-z]+]"},
		{"in a list of texts, by the model", "iam.SimulateCustomPolicy", &awsiam.SimulateCustomPolicyInput{PolicyInputList: []string{"{}"}, ActionNames: []string{"abc", "a"}}, "",
			"ValidationError: 1 validation error detected: Value '[abc, a]' at 'actionNames" + failed + "Member must satisfy constraint: [Member must have length less than or equal to 128, Member must have length greater than or equal to 3]"},
		{"a number", "ssm.SendCommand", &awsssm.SendCommandInput{DocumentName: aws.String("doc"), TimeoutSeconds: aws.Int32(1)}, "",
			"ValidationException: 1 validation error detected: Value '1' at 'timeoutSeconds" + failed + "Member must have value greater than or equal to 30"},
		{"in a map", "ssm.StartAutomationExecution", &awsssm.StartAutomationExecutionInput{DocumentName: aws.String("doc"), Parameters: map[string][]string{"": {"x"}, "k": {strings.Repeat("v", 513)}}}, "",
			"ValidationException: 2 validation errors detected: Value '{=[x], k=[" + strings.Repeat("v", 513) + "]}' at 'parameters" + failed + "Map keys must satisfy constraint: [Member must have length less than or equal to 50, Member must have length greater than or equal to 1]; " +
				"Value '[" + strings.Repeat("v", 513) + "]' at 'parameters.k.member" + failed + "Member must satisfy constraint: [Member must have length less than or equal to 512, Member must have length greater than or equal to 1]"},
		{"a secret of KMS", "kms.Encrypt", &awskms.EncryptInput{KeyId: name, Plaintext: make([]byte, 4097)}, "",
			"ValidationException: 1 validation error detected: Value at 'plaintext" + failed + "Member must have length less than or equal to 4096"},
		{"a secret of STS", "sts.AssumeRoleWithWebIdentity", &awssts.AssumeRoleWithWebIdentityInput{RoleArn: arn, RoleSessionName: aws.String("pod"), WebIdentityToken: name}, "",
			"ValidationError: 1 validation error detected: Value '***' at 'webIdentityToken" + failed + "Member must have length greater than or equal to 4"},
		{"a narrower maximum", "kms.ListAliases", &awskms.ListAliasesInput{Limit: aws.Int32(101)}, "",
			"ValidationException: 1 validation error detected: Value '101' at 'limit" + failed + "Member must have value less than or equal to 100"},
		{"the minimum of the model", "kms.ListAliases", &awskms.ListAliasesInput{Limit: aws.Int32(0)}, "",
			"ValidationException: 1 validation error detected: Value '0' at 'limit" + failed + "Member must have value greater than or equal to 1"},
		{"the maximum of another operation", "kms.ListKeys", &awskms.ListKeysInput{Limit: aws.Int32(101)}, "", ""},
		{"a number's values", "logs.PutRetentionPolicy", &awslogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: aws.Int32(2)}, "",
			"InvalidParameterException: 1 validation error detected: Value '2' at 'retentionInDays" + failed + "Member must satisfy enum value set: [1, 3]"},
		{"one of them", "logs.PutRetentionPolicy", &awslogs.PutRetentionPolicyInput{LogGroupName: name, RetentionInDays: aws.Int32(3)}, "", ""},
		{"values of a text without any in the model", "elbv2.CreateTargetGroup", &awselbv2.CreateTargetGroupInput{Name: name, ProtocolVersion: aws.String("HTTP3")}, "",
			"ValidationError: 1 validation error detected: Value 'HTTP3' at 'protocolVersion" + failed + "Member must satisfy enum value set: [HTTP1, GRPC]"},
		{"a secret of SSM", "ssm.PutParameter", &awsssm.PutParameterInput{Name: name, Value: aws.String("")}, "",
			"ValidationException: 1 validation error detected: Value at 'value" + failed + "Member must have length greater than or equal to 1"},
		{"no enumeration", "ssm.PutParameter", &awsssm.PutParameterInput{Name: name, Value: name, Type: "Text"}, "", ""},
		{"not required", "sqs.SendMessageBatch", &awssqs.SendMessageBatchInput{QueueUrl: name}, "", ""},
		{"required", "sqs.SendMessageBatch", &awssqs.SendMessageBatchInput{}, "", "MissingParameter: The request must contain the parameter QueueUrl"},
		{"a zero that was not sent", "autoscaling.DescribeScalingActivities", &awsautoscaling.DescribeScalingActivitiesInput{}, "", ""},
		{"an empty enumeration", "ssm.PutParameter", &awsssm.PutParameterInput{Name: name, Value: name}, "Tier",
			"ValidationException: 1 validation error detected: Value '' at 'tier" + failed + "Member must satisfy enum value set: [Standard, Advanced, Intelligent-Tiering]"},
		{"an empty enumeration value counts as absent in query protocols", "elbv2.CreateTargetGroup", &awselbv2.CreateTargetGroupInput{Name: name, ProtocolVersion: aws.String("")}, "ProtocolVersion", ""},
		{"none", "ssm.PutParameter", &awsssm.PutParameterInput{Name: name, Value: name}, "", ""},
		{"EC2 names the first", "ec2.CreateTags", &awsec2.CreateTagsInput{Tags: []ec2types.Tag{}}, "", "MissingParameter: The request must contain the parameter ResourceId"},
		{"EKS judges itself", "eks.ListClusters", &awseks.ListClustersInput{MaxResults: aws.Int32(1000)}, "", ""},
		{"EKS's missing members", "eks.DescribeCluster", &awseks.DescribeClusterInput{}, "",
			"InvalidParameterException: 1 validation error detected: Value null at 'name" + failed + "Member must not be null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			members := awsapi.Members{}
			for m := range strings.FieldsSeq(c.sent) {
				members.Add(m)
			}
			svc, _, _ := strings.Cut(c.op, ".")
			err := wire.Validate(operation(t, c.op), own[svc], c.in, members)
			got := ""
			if e := (*awserr.Error)(nil); errors.As(err, &e) {
				got = e.Code + ": " + e.Message
			} else if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// TestWrongConstraints: a row that is wrong, or that a newer model has made superfluous, is found on construction.
func TestWrongConstraints(t *testing.T) {
	text := func(string) string { return "" }
	for _, c := range []struct {
		row  awsapi.Constraint
		want string
	}{
		{awsapi.Constraint{At: "ListAliases.Limit", Max: new(100.0)}, "constraint on ListAliases.Limit: no source"},
		{awsapi.Constraint{At: "Colour", Max: new(1.0)}, "constraint on Colour: the API model has no such shape"},
		{awsapi.Constraint{At: "ListAliases.Colour", Max: new(1.0)}, "constraint on ListAliases.Colour: the API model has no such member"},
		{awsapi.Constraint{At: "ListColours.Limit", Max: new(1.0)}, "constraint on ListColours.Limit: the API model has no such member"},
		{awsapi.Constraint{At: "ListAliases.Limit ListAliases.Limit", Max: new(100.0)}, "constraint on ListAliases.Limit: there are two rows for it"},
		{awsapi.Constraint{At: "LimitType LimitType", Max: new(100.0)}, "constraint on LimitType: there are two rows for it"},
		{awsapi.Constraint{At: "LimitType", Max: new(1000.0)}, "constraint on LimitType: the API model says the same"},
		{awsapi.Constraint{At: "ListGrants.KeyId", Unchecked: awsapi.UncheckedPattern}, "constraint on ListGrants.KeyId: the API model has no pattern"},
		{awsapi.Constraint{At: "ListGrants.KeyId", Unchecked: awsapi.UncheckedEnum}, "constraint on ListGrants.KeyId: the API model has no enumeration"},
		{awsapi.Constraint{At: "ListKeys.Limit", Unchecked: awsapi.UncheckedRequired}, "constraint on ListKeys.Limit: the API model does not require it"},
		{awsapi.Constraint{At: "LimitType", Unchecked: awsapi.UncheckedRequired}, "constraint on LimitType: only members are required"},
		{awsapi.Constraint{At: "CreateGrant.Operations", Unchecked: awsapi.UncheckedSize}, "constraint on CreateGrant.Operations: the API model has no minimum and no maximum"},
		{awsapi.Constraint{At: "LimitType", Unchecked: "colour"}, `constraint on LimitType: there is no kind "colour" of constraints`},
		{awsapi.Constraint{At: "LimitType", PatternText: text}, "constraint on LimitType: the API model has no pattern"},
		{awsapi.Constraint{At: "KeyIdType", Pattern: "a(?!b)"}, "constraint on KeyIdType: Go cannot compile the pattern"},
	} {
		if !strings.HasSuffix(c.want, "no source") {
			c.row.Source = "a test"
		}
		if _, err := wire.NewConstraints(service(t, "kms"), []awsapi.Constraint{c.row}); err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c.row, err, c.want)
		}
	}
}
