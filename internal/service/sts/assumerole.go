package sts

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

const (
	defaultRoleSession = time.Hour
	// maxChained limits sessions of roles that are assumed with temporary credentials, including
	// those of GetSessionToken:
	// https://github.com/mmmorris1975/aws-runas/issues/11
	maxChained = time.Hour
	// serviceSession is how long the roles of instances and pods last, which their services
	// assume without saying so. The limit of the role does not bind services.
	serviceSession = 6 * time.Hour
)

// AssumeRole issues a role's credentials to principals that its trust policy
// names. AWS's own services call it, too (awsapi.AsServicePrincipal): EC2 for instances, EKS
// for pods.
func (s *Service) AssumeRole(ctx context.Context, in *awssts.AssumeRoleInput) (*awssts.AssumeRoleOutput, error) {
	caller := awsapi.CallFrom(ctx).Principal
	opts, err := checkAssumeRole(in)
	if err != nil {
		return nil, err
	}
	switch caller.Type {
	case awsapi.Root:
		return nil, rootMayNot()
	case awsapi.FederatedUser:
		return nil, sessionsMayNot("AssumeRole")
	}
	if err := opts.inherit(caller); err != nil {
		return nil, err
	}
	keys := opts.keys()
	keys["sts:rolesessionname"] = []string{*in.RoleSessionName}
	if in.ExternalId != nil {
		keys["sts:externalid"] = []string{*in.ExternalId}
	}
	targets := opts.targets("sts:AssumeRole", "role", *in.RoleArn, keys)
	// The MFA device counts for this call only: the role's session does not have it.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_mfa_configure-api-require.html
	call := *awsapi.CallFrom(ctx)
	if call.Principal, err = s.withMFA(ctx, caller, in.SerialNumber, in.TokenCode); err != nil {
		return nil, err
	}
	if err := asCaller(caller, s.authorize(ctx, &call, in, targets...)); err != nil {
		return nil, err
	}
	if caller.SourceIdentity != "" && opts.SourceIdentity != caller.SourceIdentity {
		return nil, accessDenied(caller, policy.Decision{Action: "sts:SetSourceIdentity", Resource: *in.RoleArn})
	}
	id, longest, ok := s.dir.RoleSession(ctx, *in.RoleArn)
	if !ok {
		return nil, accessDenied(caller, policy.Decision{Action: "sts:AssumeRole", Resource: *in.RoleArn}) // deleted in the meantime
	}
	usual := defaultRoleSession
	if caller.Type == awsapi.AWSService {
		usual, longest = serviceSession, serviceSession
	}
	duration, err := sessionDuration(in.DurationSeconds, usual, longest)
	if err != nil {
		return nil, err
	}
	if isTemporary(caller) && duration > maxChained {
		return nil, longerThanChain()
	}
	role := rolePrincipal(*in.RoleArn, id, *in.RoleSessionName, opts)
	if caller.Type == awsapi.AWSService {
		role.Instance = caller.Instance
	}
	if err := s.checkSessionPolicies(role.Account, opts); err != nil {
		return nil, err
	}
	creds, err := s.issue(ctx, role, "", duration)
	if err != nil {
		return nil, err
	}
	out := &awssts.AssumeRoleOutput{
		Credentials: outCredentials(creds), AssumedRoleUser: outRoleUser(creds),
		//lint:ignore SA1019 clients of today still read it
		PackedPolicySize: packedSize(opts),
	}
	if opts.SourceIdentity != "" {
		out.SourceIdentity = &opts.SourceIdentity
	}
	return out, nil
}

// asCaller words a denial as STS does, and keeps the reason.
func asCaller(caller awsapi.Principal, err error) error {
	if denial := (*authz.Denial)(nil); errors.As(err, &denial) {
		return errors.Join(accessDenied(caller, denial.Decision), denial)
	}
	return err
}

// sessionDuration returns the requested duration of a role session.
func sessionDuration(seconds *int32, usual, longest time.Duration) (time.Duration, error) {
	duration := usual
	if seconds != nil {
		duration = time.Duration(*seconds) * time.Second
	}
	if duration > longest {
		return 0, longerThanRole()
	}
	return duration, nil
}

// checkAssumeRole checks the request on its own.
func checkAssumeRole(in *awssts.AssumeRoleInput) (SessionOptions, error) {
	opts := session(in.Policy, in.PolicyArns, in.Tags)
	opts.SourceIdentity, opts.TransitiveTagKeys = aws.ToString(in.SourceIdentity), in.TransitiveTagKeys
	if a, err := arn.Parse(*in.RoleArn); err != nil || a.Service != "iam" {
		return opts, invalidARN(*in.RoleArn)
	}
	for _, k := range in.TransitiveTagKeys {
		if !hasFold(opts.Tags, k) {
			return opts, transitiveTagMissing()
		}
	}
	return opts, checkSession(opts, in.Tags)
}

func outCredentials(c Credentials) *ststypes.Credentials {
	return &ststypes.Credentials{
		AccessKeyId: &c.AccessKeyID, SecretAccessKey: &c.SecretAccessKey, SessionToken: &c.SessionToken, Expiration: aws.Time(c.Expiration),
	}
}

func outRoleUser(c Credentials) *ststypes.AssumedRoleUser {
	return &ststypes.AssumedRoleUser{Arn: &c.Principal.ARN, AssumedRoleId: &c.Principal.UserID}
}
