package sts

import (
	"context"
	"errors"
	"maps"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

// Claims in a token have the same format as the corresponding members of the API.
var (
	sessionNameRE = regexp.MustCompile(`^[\w+=,.@-]*$`)
	tagKeyRE      = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]+$`)
	tagValueRE    = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)
)

const withWebIdentity = "sts:AssumeRoleWithWebIdentity"

// webIdentity returns the web identity for CloudTrail's event. The identity comes from the
// response, the account from the role's ARN; it is empty if the ARN is malformed.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/cloudtrail-integration.html#cloudtrail-integration_examples-sts-api
func webIdentity(in, out any) awsapi.WebIdentity {
	var who awsapi.WebIdentity
	if i, ok := in.(*awssts.AssumeRoleWithWebIdentityInput); ok {
		role, _ := arn.Parse(aws.ToString(i.RoleArn))
		who.Account = role.Account
	}
	if o, ok := out.(*awssts.AssumeRoleWithWebIdentityOutput); ok && o != nil {
		who.Provider, who.Audience, who.Subject = aws.ToString(o.Provider), aws.ToString(o.Audience), aws.ToString(o.SubjectFromWebIdentityToken)
	}
	return who
}

// AssumeRoleWithWebIdentity issues credentials of a role to a user authenticated by an identity
// provider of the role's account. With a cluster's issuer, that is a pod with its service account.
// The request is not signed; the token authenticates the caller.
func (s *Service) AssumeRoleWithWebIdentity(ctx context.Context, in *awssts.AssumeRoleWithWebIdentityInput) (*awssts.AssumeRoleWithWebIdentityOutput, error) {
	opts := session(in.Policy, in.PolicyArns, nil)
	role, err := arn.Parse(*in.RoleArn)
	if err != nil || role.Service != "iam" {
		return nil, invalidARN(*in.RoleArn)
	}
	if err := checkSession(opts, nil); err != nil {
		return nil, err
	}
	token, err := s.readToken(ctx, role.Account, *in.WebIdentityToken)
	if err != nil {
		return nil, err
	}
	if err := token.describe(&opts); err != nil {
		return nil, err
	}
	keys := opts.keys()
	maps.Copy(keys, token.keys())
	keys["sts:rolesessionname"] = []string{*in.RoleSessionName}
	call := *awsapi.CallFrom(ctx) // the subject in the token
	call.Principal = awsapi.Principal{
		Type: awsapi.AnonymousCaller, FederatedProvider: token.providerARN,
		UserID: token.providerARN + ":" + token.audience + ":" + token.subject,
	}
	err = s.authorize(ctx, &call, in, opts.targets(withWebIdentity, "role", *in.RoleArn, keys)...)
	if denial := (*authz.Denial)(nil); errors.As(err, &denial) {
		return nil, errors.Join(notByWebIdentity(), denial)
	}
	if err != nil {
		return nil, err
	}
	id, longest, ok := s.dir.RoleSession(ctx, *in.RoleArn)
	if !ok {
		return nil, notByWebIdentity() // deleted in the meantime
	}
	duration, err := sessionDuration(in.DurationSeconds, defaultRoleSession, longest)
	if err != nil {
		return nil, err
	}
	if err := s.checkSessionPolicies(role.Account, opts); err != nil {
		return nil, err
	}
	creds, err := s.issue(ctx, rolePrincipal(*in.RoleArn, id, *in.RoleSessionName, opts), "", duration)
	if err != nil {
		return nil, err
	}
	out := &awssts.AssumeRoleWithWebIdentityOutput{
		Credentials: outCredentials(creds), AssumedRoleUser: outRoleUser(creds),
		SubjectFromWebIdentityToken: &token.subject, Audience: &token.audience, Provider: &token.providerARN,
		//lint:ignore SA1019 clients of today still read it
		PackedPolicySize: packedSize(opts),
	}
	if opts.SourceIdentity != "" {
		out.SourceIdentity = &opts.SourceIdentity
	}
	return out, nil
}

// describe adds the token's tags, source identity and provider to the session options.
func (t *idToken) describe(opts *SessionOptions) error {
	if t.source != "" && (len(t.source) < 2 || len(t.source) > 64 || !sessionNameRE.MatchString(t.source)) {
		return rejectedClaim("The source identity %q is not valid", t.source)
	}
	if len(t.tags) > maxSessionTags {
		return rejectedClaim("The token has more than %d session tags", maxSessionTags)
	}
	valid := func(s string, most int, re *regexp.Regexp) bool { return len(s) <= most && re.MatchString(s) }
	for k, v := range t.tags {
		if !valid(k, 128, tagKeyRE) || !valid(v, 256, tagValueRE) {
			return rejectedClaim("The session tag %q is not valid", k)
		}
	}
	for _, k := range t.transitive {
		if !hasFold(t.tags, k) {
			return transitiveTagMissing()
		}
	}
	opts.Tags, opts.TransitiveTagKeys = t.tags, t.transitive
	opts.SourceIdentity, opts.FederatedProvider = t.source, t.providerARN
	return nil
}
