package sts_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/saml/samltest"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const samlAttribute = "https://aws.amazon.com/SAML/Attributes/"

// A samlWorld has a provider and a role that trusts it.
type samlWorld struct {
	*world
	idp            *samltest.Provider
	root           caller
	role, provider string
}

func newSAMLWorld(t *testing.T) *samlWorld {
	t.Helper()
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	idp, err := samltest.New("https://idp.example/metadata", w.clock.Now())
	must(t, err)
	p, err := root.iam.CreateSAMLProvider(ctx, &awsiam.CreateSAMLProviderInput{Name: aws.String("Corp"), SAMLMetadataDocument: aws.String(idp.Metadata())})
	must(t, err)
	if want := "arn:aws:iam::" + account + ":saml-provider/Corp"; *p.SAMLProviderArn != want {
		t.Errorf("the provider is %s, want %s", *p.SAMLProviderArn, want)
	}
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Federated":"` + *p.SAMLProviderArn + `"},
		"Action":["sts:AssumeRoleWithSAML","sts:TagSession"],"Condition":{"StringEquals":{"saml:aud":"https://signin.aws.amazon.com/saml","saml:sub_type":"persistent"},"StringLike":{"saml:sub":"a*"}}}]}`
	role, err := root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("federated"), AssumeRolePolicyDocument: &trust})
	must(t, err)
	return &samlWorld{w, idp, root, *role.Role.Arn, *p.SAMLProviderArn}
}

// assume signs a response and presents it without credentials.
func (w *samlWorld) assume(t *testing.T, r samltest.Response) (*awssts.AssumeRoleWithSAMLOutput, error) {
	t.Helper()
	if r.Now.IsZero() {
		r.Now = w.clock.Now()
	}
	attributes := map[string][]string{samlAttribute + "Role": {w.role + "," + w.provider}, samlAttribute + "RoleSessionName": {"ada@corp"}}
	for k, v := range r.Attributes {
		attributes[samlAttribute+k] = v
	}
	r.Attributes = attributes
	doc, err := w.idp.Sign(r)
	must(t, err)
	text, err := samltest.Encode(doc)
	must(t, err)
	return w.as("", "", "").sts.AssumeRoleWithSAML(context.Background(), &awssts.AssumeRoleWithSAMLInput{RoleArn: &w.role, PrincipalArn: &w.provider, SAMLAssertion: &text})
}

// A user whom the provider has authenticated gets credentials of a role that trusts the provider, with the tags and the
// name in the response.
func TestAssumeRoleWithSAML(t *testing.T) {
	w := newSAMLWorld(t)
	ctx := context.Background()
	out, err := w.assume(t, samltest.Response{Attributes: map[string][]string{"PrincipalTag:team": {"blue"}}})
	must(t, err)
	if *out.Subject != "ada" || *out.SubjectType != "persistent" || *out.Issuer != "https://idp.example/metadata" || *out.Audience != "https://signin.aws.amazon.com/saml" || *out.NameQualifier == "" {
		t.Errorf("%+v", out)
	}
	who, err := w.with(out.Credentials).sts.GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})
	must(t, err)
	if !strings.HasSuffix(*who.Arn, ":assumed-role/federated/ada@corp") {
		t.Errorf("the caller is %s", *who.Arn)
	}

	for name, tt := range map[string]struct {
		response   samltest.Response
		code, text string
	}{
		"another subject":       {samltest.Response{Subject: "eve"}, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithSAML"},
		"no such role for her":  {samltest.Response{Attributes: map[string][]string{"Role": {w.role + "x," + w.provider}}}, "AccessDenied", "Not authorized to perform sts:AssumeRoleWithSAML"},
		"no session name":       {samltest.Response{Attributes: map[string][]string{"RoleSessionName": nil}}, "InvalidIdentityToken", "RoleSessionName is required in AuthnResponse"},
		"a bad session name":    {samltest.Response{Attributes: map[string][]string{"RoleSessionName": {"a b"}}}, "InvalidIdentityToken", "RoleSessionName in AuthnResponse must match [a-zA-Z_0-9+=,.@-]{2,64}"},
		"unsigned":              {samltest.Response{Unsigned: true}, "InvalidIdentityToken", "Response signature invalid"},
		"another issuer":        {samltest.Response{Issuer: "https://evil.example"}, "InvalidIdentityToken", "Issuer not present in specified provider"},
		"another audience":      {samltest.Response{Audience: "urn:other"}, "InvalidIdentityToken", "Response does not contain the required audience."},
		"late":                  {samltest.Response{Now: w.clock.Now().Add(-6 * time.Minute), Lasts: time.Hour}, "ExpiredTokenException", "Token must be redeemed within 5 minutes of issuance"},
		"a tag that is refused": {samltest.Response{Attributes: map[string][]string{"PrincipalTag:team": {"a", "b"}}}, "IDPRejectedClaim", `The principal tag "team" must have exactly one value`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.assume(t, tt.response)
			testkit.WantError(t, err, tt.code, tt.text)
		})
	}
	must(t, second(w.root.iam.DeleteSAMLProvider(ctx, &awsiam.DeleteSAMLProviderInput{SAMLProviderArn: &w.provider})))
	_, err = w.assume(t, samltest.Response{})
	testkit.WantError(t, err, "InvalidIdentityToken", "Specified provider doesn't exist")
}
