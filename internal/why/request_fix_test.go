package why

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/policy"
)

func TestFixRequest(t *testing.T) {
	add := policy.Change{Kind: policy.AddStatement, Type: policy.IdentityBased, Statement: `{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/it's"}`}
	boundary := policy.Change{Kind: policy.AddStatement, Type: policy.PermissionsBoundary, Statement: `{}`}
	one := []policy.Suggestion{{Changes: []policy.Change{boundary, add}}, {Changes: []policy.Change{add}}}
	const document = ` --policy-name request-r1 --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/it'\''s"}]}'`
	for _, tc := range []struct {
		arn         string
		suggestions []policy.Suggestion
		want        string
	}{
		{"arn:aws:iam::111122223333:user/dev", one, "aws iam put-user-policy --user-name dev" + document},
		{"arn:aws:iam::111122223333:role/eks/node", one, "aws iam put-role-policy --role-name node" + document},
		{"arn:aws:iam::111122223333:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS", one, ""},
		{"arn:aws:iam::111122223333:root", one, ""},
		{"arn:aws:sts::111122223333:federated-user/dev", one, ""},
		{"", one, ""},
		{"arn:aws:iam::111122223333:user/dev", one[:1], ""},
		{"arn:aws:iam::111122223333:user/dev", nil, ""},
	} {
		if got := fixRequest("r1", tc.arn, tc.suggestions); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.arn, got, tc.want)
		}
	}
}
