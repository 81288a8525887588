package sts_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestKeysOfAssumeRole checks the condition keys of AssumeRole in a role's trust policy and in the
// caller's policy: those that every call has, those of the role, and those of the request.
// https://docs.aws.amazon.com/service-authorization/latest/reference/list_awssecuritytokenservice.html
func TestKeysOfAssumeRole(t *testing.T) {
	for _, c := range []struct {
		name, condition string
		change          func(*awssts.AssumeRoleInput)
		refused         bool
	}{
		{name: "source address", condition: `{"IpAddress":{"aws:SourceIp":"127.0.0.0/8"}}`},
		{name: "another source address", condition: `{"IpAddress":{"aws:SourceIp":"10.0.0.0/8"}}`, refused: true},
		{name: "region", condition: `{"StringEquals":{"aws:RequestedRegion":"us-east-1"}}`},
		{name: "another region", condition: `{"StringEquals":{"aws:RequestedRegion":"eu-west-1"}}`, refused: true},
		{name: "caller", condition: `{"ArnLike":{"aws:PrincipalArn":"arn:aws:iam::*:user/ann"},"StringEquals":{"aws:PrincipalType":"User","aws:username":"ann"}}`},
		{name: "long-term keys", condition: `{"Null":{"aws:TokenIssueTime":"true"}}`},
		{name: "no second factor", condition: `{"Bool":{"aws:MultiFactorAuthPresent":"true"}}`, refused: true},
		{name: "tag of the role", condition: `{"StringEquals":{"aws:ResourceTag/team":"blue"}}`},
		{name: "tag of the role as IAM names it", condition: `{"StringEquals":{"iam:ResourceTag/team":"blue"}}`},
		{name: "another tag of the role", condition: `{"StringEquals":{"aws:ResourceTag/team":"green"}}`, refused: true},
		{name: "session name", condition: `{"StringEquals":{"sts:RoleSessionName":"work"}}`},
		{name: "another session name", condition: `{"StringEquals":{"sts:RoleSessionName":"${aws:username}"}}`, refused: true},
		{
			name: "external ID", condition: `{"StringEquals":{"sts:ExternalId":"x1"}}`,
			change: func(in *awssts.AssumeRoleInput) { in.ExternalId = aws.String("x1") },
		},
		{name: "no external ID", condition: `{"StringEquals":{"sts:ExternalId":"x1"}}`, refused: true},
		{name: "absent external ID", condition: `{"Null":{"sts:ExternalId":"true"}}`},
		{name: "absent keys of other providers", condition: `{"Null":{"accounts.google.com:sub":"true","saml:sub_type":"true"}}`},
		{
			name: "session tags", condition: `{"StringEquals":{"aws:RequestTag/Team":"blue"},"ForAllValues:StringEquals":{"aws:TagKeys":["team"],"sts:TransitiveTagKeys":["team"]}}`,
			change: func(in *awssts.AssumeRoleInput) {
				in.Tags, in.TransitiveTagKeys = []ststypes.Tag{{Key: aws.String("team"), Value: aws.String("blue")}}, []string{"team"}
			},
		},
		{
			name: "another session tag", condition: `{"ForAllValues:StringEquals":{"aws:TagKeys":["team"]}}`,
			change: func(in *awssts.AssumeRoleInput) {
				in.Tags = []ststypes.Tag{{Key: aws.String("x"), Value: aws.String("y")}}
			},
			refused: true,
		},
		{
			name: "source identity", condition: `{"StringLike":{"sts:SourceIdentity":"a*"}}`,
			change: func(in *awssts.AssumeRoleInput) { in.SourceIdentity = aws.String("ann") },
		},
		{name: "no source identity", condition: `{"StringLike":{"sts:SourceIdentity":"a*"}}`, refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx := context.Background()
			w := newWorld(t)
			root, account := w.root(t)
			ann := w.user(t, root, "ann")
			const actions = `["sts:AssumeRole","sts:TagSession","sts:SetSourceIdentity"]`
			for name, condition := range map[string]string{"trusting": c.condition, "open": "{}"} {
				doc := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"` + account + `"},"Action":` + actions + `,"Condition":` + condition + `}}`
				must(t, second(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{
					RoleName: &name, Path: aws.String("/p/"), AssumeRolePolicyDocument: &doc, Tags: []iamtypes.Tag{{Key: aws.String("team"), Value: aws.String("blue")}},
				})))
			}
			// First the trust policy has the condition, then the caller's policy.
			for role, condition := range map[string]string{"trusting": "{}", "open": c.condition} {
				doc := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":` + actions + `,"Resource":"*","Condition":` + condition + `}}`
				must(t, second(root.iam.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("p"), PolicyDocument: &doc})))
				change := c.change
				if change == nil {
					change = func(*awssts.AssumeRoleInput) {}
				}
				if _, err := ann.assume(roleARN(account, role), change); c.refused {
					testkit.WantError(t, err, "AccessDenied", "")
				} else if err != nil {
					t.Errorf("%s: %v", role, err)
				}
			}
		})
	}
}
