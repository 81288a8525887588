package sts

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/saml"
)

const (
	withSAML = "sts:AssumeRoleWithSAML"
	// samlAttribute begins the names of the attributes that STS reads.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_providers_create_saml_assertions.html
	samlAttribute = "https://aws.amazon.com/SAML/Attributes/"
	// redeem is how soon a response must be presented.
	redeem = 5 * time.Minute
)

// samlIdentity returns the federated user for CloudTrail's event.
func samlIdentity(in, out any) awsapi.WebIdentity {
	who := awsapi.WebIdentity{SAML: true}
	if i, ok := in.(*awssts.AssumeRoleWithSAMLInput); ok {
		role, _ := arn.Parse(aws.ToString(i.RoleArn))
		who.Account = role.Account
	}
	if o, ok := out.(*awssts.AssumeRoleWithSAMLOutput); ok && o != nil {
		who.Provider, who.Subject = aws.ToString(o.NameQualifier), aws.ToString(o.Subject)
	}
	return who
}

// AssumeRoleWithSAML issues credentials of a role to a user whom an identity provider of the role's account has
// authenticated. The request is not signed; the provider's response in it is.
func (s *Service) AssumeRoleWithSAML(ctx context.Context, in *awssts.AssumeRoleWithSAMLInput) (*awssts.AssumeRoleWithSAMLOutput, error) {
	opts := session(in.Policy, in.PolicyArns, nil)
	role, err := arn.Parse(*in.RoleArn)
	if err != nil || role.Service != "iam" {
		return nil, invalidARN(*in.RoleArn)
	}
	provider, err := arn.Parse(*in.PrincipalArn)
	name, ok := strings.CutPrefix(provider.Resource, "saml-provider/")
	if err != nil || !ok || provider.Service != "iam" {
		return nil, invalidARN(*in.PrincipalArn)
	}
	if err := checkSession(opts, nil); err != nil {
		return nil, err
	}
	now := s.clock.Now()
	a, err := s.readResponse(ctx, provider.Account, name, *in.SAMLAssertion, now)
	if err != nil {
		return nil, err
	}
	if provider.Account != role.Account || !pairs(a.Attributes[samlAttribute+"Role"], *in.RoleArn, *in.PrincipalArn) {
		return nil, notBySAML()
	}
	sessionName, err := describeSAML(a, &opts)
	if err != nil {
		return nil, err
	}
	opts.FederatedProvider = *in.PrincipalArn
	sum := sha1.Sum([]byte(a.Issuer + provider.Account + "/" + name)) // AWS's identifier of issuer and provider
	qualifier := base64.StdEncoding.EncodeToString(sum[:])
	keys := opts.keys()
	maps.Copy(keys, map[string][]string{
		"saml:aud": {a.Recipient}, "saml:iss": {a.Issuer}, "saml:sub": {a.Subject}, "saml:sub_type": {a.SubjectType},
		"saml:doc": {provider.Account + "/" + name}, "saml:namequalifier": {qualifier},
		"aws:federatedprovider": {*in.PrincipalArn}, "sts:rolesessionname": {sessionName},
	})
	call := *awsapi.CallFrom(ctx) // the subject of the assertion
	call.Principal = awsapi.Principal{Type: awsapi.AnonymousCaller, FederatedProvider: *in.PrincipalArn, UserID: qualifier + ":" + a.Subject}
	err = s.authorize(ctx, &call, in, opts.targets(withSAML, "role", *in.RoleArn, keys)...)
	if denial := (*authz.Denial)(nil); errors.As(err, &denial) {
		return nil, errors.Join(notBySAML(), denial)
	}
	if err != nil {
		return nil, err
	}
	id, longest, ok := s.dir.RoleSession(ctx, *in.RoleArn)
	if !ok {
		return nil, notBySAML() // deleted in the meantime
	}
	duration, err := sessionDuration(in.DurationSeconds, defaultRoleSession, longest)
	if err != nil {
		return nil, err
	}
	if !a.SessionEnd.IsZero() { // the shorter one counts
		if duration = min(duration, a.SessionEnd.Sub(now)); duration <= 0 {
			return nil, samlExpired()
		}
	}
	if err := s.checkSessionPolicies(role.Account, opts); err != nil {
		return nil, err
	}
	creds, err := s.issue(ctx, rolePrincipal(*in.RoleArn, id, sessionName, opts), "", duration)
	if err != nil {
		return nil, err
	}
	out := &awssts.AssumeRoleWithSAMLOutput{
		Credentials: outCredentials(creds), AssumedRoleUser: outRoleUser(creds),
		Audience: &a.Recipient, Issuer: &a.Issuer, Subject: &a.Subject, SubjectType: &a.SubjectType, NameQualifier: &qualifier,
		//lint:ignore SA1019 clients of today still read it
		PackedPolicySize: packedSize(opts),
	}
	if opts.SourceIdentity != "" {
		out.SourceIdentity = &opts.SourceIdentity
	}
	return out, nil
}

// readResponse verifies the provider's response.
func (s *Service) readResponse(ctx context.Context, account, name, response string, now time.Time) (*saml.Assertion, error) {
	document, ok := s.dir.SAMLProvider(ctx, account, name)
	if !ok {
		return nil, noSAMLProvider()
	}
	m, err := saml.ParseMetadata(document)
	if err != nil {
		return nil, err // it was parsed when it was stored
	}
	raw, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(response), ""))
	if err != nil {
		return nil, malformedResponse()
	}
	a, err := m.Verify(raw, now)
	switch {
	case errors.Is(err, saml.ErrSignature):
		return nil, responseSignature()
	case errors.Is(err, saml.ErrIssuer):
		return nil, otherSAMLIssuer()
	case errors.Is(err, saml.ErrAudience), errors.Is(err, saml.ErrRecipient):
		return nil, otherSAMLAudience()
	case errors.Is(err, saml.ErrExpired):
		return nil, samlExpired()
	case errors.Is(err, saml.ErrStatus):
		return nil, samlRejected()
	case err != nil:
		return nil, malformedResponse()
	case !now.Before(a.Issued.Add(redeem)):
		return nil, samlExpired()
	}
	return a, nil
}

// pairs reports whether an assertion's roles include the role with the provider, in either order.
func pairs(roles []string, role, provider string) bool {
	return slices.ContainsFunc(roles, func(pair string) bool {
		a, b, ok := strings.Cut(pair, ",")
		a, b = strings.TrimSpace(a), strings.TrimSpace(b)
		return ok && (a == role && b == provider || a == provider && b == role)
	})
}

// describeSAML adds the assertion's tags and source identity to the session options, and returns the session's name.
func describeSAML(a *saml.Assertion, opts *SessionOptions) (sessionName string, err error) {
	one := func(name string) string {
		if v := a.Attributes[samlAttribute+name]; len(v) == 1 {
			return v[0]
		}
		return ""
	}
	switch sessionName = one("RoleSessionName"); {
	case sessionName == "":
		return "", noSAMLSessionName()
	case len(sessionName) < 2 || len(sessionName) > 64 || !sessionNameRE.MatchString(sessionName):
		return "", badSAMLSessionName()
	}
	t := idToken{source: one("SourceIdentity"), transitive: a.Attributes[samlAttribute+"TransitiveTagKeys"]}
	for name, values := range a.Attributes {
		key, ok := strings.CutPrefix(name, samlAttribute+"PrincipalTag:")
		if !ok {
			continue
		}
		if len(values) != 1 {
			return "", rejectedClaim("The principal tag %q must have exactly one value", key)
		}
		if t.tags == nil {
			t.tags = map[string]string{}
		}
		t.tags[key] = values[0]
	}
	return sessionName, t.describe(opts)
}
