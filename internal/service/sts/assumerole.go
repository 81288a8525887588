package sts

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

const (
	defaultRoleSession = time.Hour
	// maxChained limits the session of a role that was assumed with temporary
	// credentials, those of GetSessionToken included:
	// https://github.com/mmmorris1975/aws-runas/issues/11
	maxChained = time.Hour
)

// AssumeRole issues credentials of a role to whom its trust policy names.
func (s *Service) AssumeRole(ctx context.Context, in *awssts.AssumeRoleInput) (*awssts.AssumeRoleOutput, error) {
	caller := awsapi.CallFrom(ctx).Principal
	opts, err := checkAssumeRole(in)
	if err != nil {
		return nil, err
	}
	if caller.Type == awsapi.Root {
		return nil, rootMayNot()
	}
	id, trust, longest, ok := s.dir.RoleTrust(ctx, *in.RoleArn)
	if !ok {
		return nil, accessDenied(caller, policy.Decision{Action: "sts:AssumeRole", Resource: *in.RoleArn})
	}
	actions := []string{"sts:AssumeRole"}
	if len(in.Tags) > 0 {
		actions = append(actions, "sts:TagSession")
	}
	for _, action := range actions {
		if d := s.mayAssume(ctx, caller, action, in, trust); !d.Allowed {
			return nil, accessDenied(caller, d)
		}
	}
	duration := defaultRoleSession
	if in.DurationSeconds != nil {
		duration = time.Duration(*in.DurationSeconds) * time.Second
	}
	if duration > longest {
		return nil, longerThanRole()
	}
	if isTemporary(caller) && duration > maxChained {
		return nil, longerThanChain()
	}
	creds, err := s.issue(ctx, rolePrincipal(*in.RoleArn, id, *in.RoleSessionName, opts), "", duration)
	if err != nil {
		return nil, err
	}
	return &awssts.AssumeRoleOutput{
		Credentials: outCredentials(creds),
		AssumedRoleUser: &ststypes.AssumedRoleUser{
			Arn: &creds.Principal.ARN, AssumedRoleId: &creds.Principal.UserID,
		},
		//lint:ignore SA1019 clients of today still read it
		PackedPolicySize: packedSize(opts),
	}, nil
}

// mayAssume asks both sides. Within the role's account it is enough that the
// trust policy names the caller itself; if it names the account, or the caller
// is of another one, the caller's own policies must allow it too.
func (s *Service) mayAssume(ctx context.Context, caller awsapi.Principal, action string, in *awssts.AssumeRoleInput, trust *policy.Document) policy.Decision {
	known := map[string][]string{
		"sts:externalid":       nil,
		"sts:rolesessionname":  {*in.RoleSessionName},
		"aws:principalaccount": {caller.Account},
		"aws:principalarn":     {caller.ARN},
		"aws:userid":           {caller.UserID},
		"aws:sourceaccount":    nil,
		"aws:sourcearn":        nil,
	}
	if caller.RoleARN != "" {
		known["aws:principalarn"] = []string{caller.RoleARN}
	}
	if in.ExternalId != nil {
		known["sts:externalid"] = []string{*in.ExternalId}
	}
	trusted, grant := policy.EvaluateTrust(policy.Request{
		Action: action, Resource: *in.RoleArn, Context: policy.Context{Values: known, Unknown: policy.AnyKey},
		Principal: policy.Principal{Account: caller.Account, ARN: caller.ARN, RoleARN: caller.RoleARN, ID: caller.UserID},
	}, trust)
	own := s.dir.Decide(ctx, caller, action, *in.RoleArn)
	role, _ := arn.Parse(*in.RoleArn) // it exists
	narrowed := len(caller.SessionPolicies)+len(caller.SessionPolicyARNs) > 0
	switch {
	case own.ExplicitDeny || !own.Allowed && narrowed:
		return own
	case !trusted.Allowed:
		return trusted
	case grant >= policy.RoleGrant && role.Account == caller.Account:
		return trusted
	}
	return own
}

// checkAssumeRole checks the request by itself.
func checkAssumeRole(in *awssts.AssumeRoleInput) (SessionOptions, error) {
	var c checks
	c.text("roleArn", *in.RoleArn, 20, 2048, nil, "")
	c.text("roleSessionName", *in.RoleSessionName, 2, 64, sessionNameRE, `[\w+=,.@-]*`)
	c.between("durationSeconds", in.DurationSeconds, 900, 43200)
	if in.ExternalId != nil {
		c.text("externalId", *in.ExternalId, 2, 1224, externalIDRE, `[\w+=,.@:\/-]*`)
	}
	opts := c.session(in.Policy, in.PolicyArns, in.Tags)
	if err := c.err(); err != nil {
		return opts, err
	}
	if a, err := arn.Parse(*in.RoleArn); err != nil || a.Service != "iam" {
		return opts, invalidARN(*in.RoleArn)
	}
	return opts, checkSession(opts, in.Tags)
}

func outCredentials(c Credentials) *ststypes.Credentials {
	return &ststypes.Credentials{
		AccessKeyId: &c.AccessKeyID, SecretAccessKey: &c.SecretAccessKey, SessionToken: &c.SessionToken, Expiration: aws.Time(c.Expiration),
	}
}
