package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

func TestValidate(t *testing.T) {
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
			"ValidationError: The specified value for groupName is invalid. It must contain only alphanumeric characters and/or the following: +=,.@_-"},
		{"in a list of structures", "iam.TagRole", &awsiam.TagRoleInput{RoleName: name, Tags: []iamtypes.Tag{{Key: name, Value: name}, {Key: aws.String("!"), Value: name}}}, "",
			"ValidationError: 1 validation error detected: Value '!' at 'tags.2.member.key" + failed + `Member must satisfy regular expression pattern: [\p{L}\p{Z}\p{N}_.:/=+\-@]+`},
		{"in a list of texts", "kms.CreateGrant", &awskms.CreateGrantInput{KeyId: name, GranteePrincipal: arn, Operations: []kmstypes.GrantOperation{"Sign"}, GrantTokens: []string{"a", ""}}, "",
			"ValidationException: 1 validation error detected: Value '[a, ]' at 'grantTokens" + failed + "Member must satisfy constraint: [Member must have length less than or equal to 8192, Member must have length greater than or equal to 1]"},
		{"a number", "ssm.SendCommand", &awsssm.SendCommandInput{DocumentName: aws.String("doc"), TimeoutSeconds: aws.Int32(1)}, "",
			"ValidationException: 1 validation error detected: Value '1' at 'timeoutSeconds" + failed + "Member must have value greater than or equal to 30"},
		{"in a map", "ssm.StartAutomationExecution", &awsssm.StartAutomationExecutionInput{DocumentName: aws.String("doc"), Parameters: map[string][]string{"": {"x"}, "k": {strings.Repeat("v", 513)}}}, "",
			"ValidationException: 2 validation errors detected: Value '{=[x], k=[" + strings.Repeat("v", 513) + "]}' at 'parameters" + failed + "Map keys must satisfy constraint: [Member must have length less than or equal to 50, Member must have length greater than or equal to 1]; " +
				"Value '[" + strings.Repeat("v", 513) + "]' at 'parameters.k.member" + failed + "Member must satisfy constraint: [Member must have length less than or equal to 512, Member must have length greater than or equal to 1]"},
		{"a secret of KMS", "kms.Encrypt", &awskms.EncryptInput{KeyId: name, Plaintext: make([]byte, 4097)}, "",
			"ValidationException: 1 validation error detected: Value at 'plaintext" + failed + "Member must have length less than or equal to 4096"},
		{"a secret of STS", "sts.AssumeRoleWithWebIdentity", &awssts.AssumeRoleWithWebIdentityInput{RoleArn: arn, RoleSessionName: aws.String("pod"), WebIdentityToken: name}, "",
			"ValidationError: 1 validation error detected: Value '***' at 'webIdentityToken" + failed + "Member must have length greater than or equal to 4"},
		{"a zero that was not sent", "autoscaling.DescribeScalingActivities", &awsautoscaling.DescribeScalingActivitiesInput{}, "", ""},
		{"an empty enumeration", "ssm.PutParameter", &awsssm.PutParameterInput{Name: name, Value: name}, "Type",
			"ValidationException: 1 validation error detected: Value '' at 'type" + failed + "Member must satisfy enum value set: [String, StringList, SecureString]"},
		{"of a query protocol it is none", "elbv2.CreateTargetGroup", &awselbv2.CreateTargetGroupInput{Name: name}, "ProtocolVersion", ""},
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
			err := wire.Validate(operation(t, c.op), c.in, members)
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
