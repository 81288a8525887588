package iam_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// Anyone can sign with any account number. Only a request that names an operation and can be
// decoded creates the account. Trust policies show whether it exists.
func TestInvalidRequestsMakeNoAccounts(t *testing.T) {
	w := newWorld(t)
	root, _ := w.root(t)
	stranger := w.Account(t)
	// Users of unknown accounts cannot be checked.
	known := func(role string) error {
		_, err := root.CreateRole(t.Context(), &awsiam.CreateRoleInput{
			RoleName: &role, AssumeRolePolicyDocument: aws.String(strings.ReplaceAll(ec2Trust, `"Service":"ec2.amazonaws.com"`, `"AWS":"arn:aws:iam::`+stranger+`:user/nobody"`)),
		})
		return err
	}
	for _, tt := range []struct{ name, service, region, body string }{
		{"an unknown service", "nonsense", "us-east-1", "Action=ListUsers&Version=2010-05-08"},
		{"an unknown region", "iam", "nowhere-1", "Action=ListUsers&Version=2010-05-08"},
		{"an unknown operation", "iam", "us-east-1", "Action=Nonsense&Version=2010-05-08"},
		{"an operation that is not handled", "iam", "us-east-1", "Action=GenerateOrganizationsAccessReport&Version=2010-05-08"},
		{"no operation", "iam", "us-east-1", "Version=2010-05-08"},
		{"input that cannot be decoded", "iam", "us-east-1", "Action=ListUsers&Version=2010-05-08&MaxItems=many"},
		{"a member that nobody honours", "iam", "us-east-1", "Action=ListUsers&Version=2010-05-08&Nonsense=1"},
		{"a body too large", "iam", "us-east-1", strings.Repeat("x", 8<<20)},
		{"a body of another hash", "iam", "us-east-1", "Action=ListUsers&Version=2010-05-08"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL, strings.NewReader(tt.body))
		check(t, err)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if tt.name == "a body of another hash" {
			req.Header.Set("X-Amz-Content-Sha256", strings.Repeat("0", 64))
		}
		check(t, v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: stranger, SecretAccessKey: "any"}, req, strings.Repeat("0", 64), tt.service, tt.region, time.Now()))
		resp, err := w.Client().Do(req)
		check(t, err)
		check(t, resp.Body.Close())
		if resp.StatusCode < 400 {
			t.Errorf("%s: %s", tt.name, resp.Status)
		}
		if err := known(strings.ReplaceAll(tt.name, " ", "-")); err != nil {
			t.Fatalf("%s made the account: %v", tt.name, err)
		}
	}
	_, err := awsiam.NewFromConfig(w.AWSConfig(stranger)).ListUsers(t.Context(), &awsiam.ListUsersInput{})
	check(t, err)
	testkit.WantError(t, known("valid"), "MalformedPolicyDocument", "")
}
