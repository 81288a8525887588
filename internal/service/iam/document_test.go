package iam_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// Documents that AWS rejects, through every operation that takes one.
func TestBadDocumentsAreRefused(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	_, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann")})
	check(t, err)
	good := testkit.Must(c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("good"), PolicyDocument: aws.String(readerDoc)}))(t).Policy.Arn
	statement := func(s string) string { return `{"Version":"2012-10-17","Statement":[` + s + `]}` }
	allow := `{"Effect":"Allow","Action":"iam:GetUser","Resource":"*"}`
	for _, tt := range []struct{ name, doc, message string }{
		{"no JSON", `{`, ""},
		{"not an object", `[]`, "Syntax errors in policy."},
		{"a key twice", `{"Version":"2012-10-17","Version":"2012-10-17","Statement":[` + allow + `]}`, ""},
		{"a key twice inside", statement(`{"Effect":"Deny","Effect":"Allow","Action":"iam:GetUser","Resource":"*"}`), ""},
		{"nested a thousand deep", `{"Version":"2012-10-17","Statement":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`, ""},
		{"two statements of one name", statement(`{"Sid":"A",` + allow[1:] + `,{"Sid":"A",` + allow[1:]), "Statement IDs (SID) in a single policy must be unique."},
		{"a principal", statement(`{"Principal":"*",` + allow[1:]), "Policy document should not specify a principal."},
		{"no vendor", statement(`{"Effect":"Allow","Action":"GetUser","Resource":"*"}`), "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc."},
		{"no resource", statement(`{"Effect":"Allow","Action":"iam:GetUser"}`), "Policy statement must contain resources."},
		{"no ARN", statement(`{"Effect":"Allow","Action":"iam:GetUser","Resource":"ann"}`), `Resource ann must be in ARN format or "*".`},
		{"an unknown operator", statement(`{"Condition":{"StringAlmost":{"aws:username":"a"}},` + allow[1:]), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("bad"), PolicyDocument: &tt.doc})
			testkit.WantError(t, err, "MalformedPolicyDocument", tt.message)
			_, err = c.CreatePolicyVersion(ctx, &awsiam.CreatePolicyVersionInput{PolicyArn: good, PolicyDocument: &tt.doc})
			testkit.WantError(t, err, "MalformedPolicyDocument", tt.message)
			_, err = c.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("bad"), PolicyDocument: &tt.doc})
			testkit.WantError(t, err, "MalformedPolicyDocument", tt.message)
		})
	}
	big := func(bytes int) *string {
		return aws.String(statement(`{"Effect":"Allow","Action":["iam:` + strings.Repeat("x", bytes) + `"],"Resource":"*"}`))
	}
	_, err = c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("big"), PolicyDocument: big(6144)})
	testkit.WantError(t, err, "LimitExceeded", "Cannot exceed quota for PolicySize: 6144")
	_, err = c.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("big"), PolicyDocument: big(2048)})
	testkit.WantError(t, err, "LimitExceeded", "Maximum policy size of 2048 bytes exceeded for user ann")
	_, err = c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("big"), PolicyDocument: big(131072)})
	testkit.WantError(t, err, "ValidationError", "")
	// White space does not count.
	roomy := strings.Replace(readerDoc, ",", ","+strings.Repeat(" \n", 4000), 1)
	_, err = c.CreatePolicy(ctx, &awsiam.CreatePolicyInput{PolicyName: aws.String("roomy"), PolicyDocument: &roomy})
	check(t, err)
}

// An account's quotas are AWS's.
func TestQuotasOfAnAccount(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	create := func(i int) error {
		_, err := c.CreateOpenIDConnectProvider(ctx, &awsiam.CreateOpenIDConnectProviderInput{Url: aws.String(fmt.Sprintf("https://id.example/%d", i)), ClientIDList: []string{"a"}})
		return err
	}
	for i := range 100 {
		check(t, create(i))
	}
	testkit.WantError(t, create(100), "LimitExceeded", "Cannot exceed quota for OpenIdConnectProvidersPerAccount: 100")
}
