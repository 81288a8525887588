package why

import "testing"

func TestPutPolicy(t *testing.T) {
	const statement = `{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/it's"}`
	const document = ` --policy-name request-r1 --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:GetObject","Resource":"arn:aws:s3:::b/it'\''s"}]}'`
	for _, tc := range []struct{ arn, want string }{
		{"arn:aws:iam::111122223333:user/dev", "aws iam put-user-policy --user-name dev" + document},
		{"arn:aws:iam::111122223333:role/eks/node", "aws iam put-role-policy --role-name node" + document},
		{"arn:aws:iam::111122223333:role/aws-service-role/eks.amazonaws.com/AWSServiceRoleForAmazonEKS", ""},
		{"arn:aws:iam::111122223333:root", ""},
		{"arn:aws:sts::111122223333:federated-user/dev", ""},
		{"", ""},
	} {
		if got := putPolicy("r1", tc.arn, statement); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.arn, got, tc.want)
		}
	}
}
