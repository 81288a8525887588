package sts

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

const (
	defaultTokenSession = 12 * time.Hour
	// maxRootToken is the maximum duration of root's sessions. Longer requests are shortened to it.
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_GetSessionToken.html
	maxRootToken = time.Hour
)

// GetSessionToken issues temporary credentials of the caller.
func (s *Service) GetSessionToken(ctx context.Context, in *awssts.GetSessionTokenInput) (*awssts.GetSessionTokenOutput, error) {
	caller := awsapi.CallFrom(ctx).Principal
	if isTemporary(caller) {
		return nil, sessionsMayNot("GetSessionToken")
	}
	proven, err := s.withMFA(ctx, caller, in.SerialNumber, in.TokenCode)
	if err != nil {
		return nil, err
	}
	creds, err := s.issue(ctx, proven, voucher(caller), tokenDuration(caller, in.DurationSeconds))
	if err != nil {
		return nil, err
	}
	return &awssts.GetSessionTokenOutput{Credentials: outCredentials(creds)}, nil
}

// withMFA returns the caller, who has proved to have an MFA device if the request has a code of it.
func (s *Service) withMFA(ctx context.Context, caller awsapi.Principal, serial, code *string) (awsapi.Principal, error) {
	if serial == nil && code == nil {
		return caller, nil
	}
	if serial == nil || code == nil {
		return caller, mfaIncomplete()
	}
	switch known, valid, err := s.dir.SpendMFACode(ctx, caller, *serial, *code); {
	case err != nil:
		return caller, err
	case !known:
		return caller, mfaUnknown()
	case !valid:
		return caller, mfaInvalid()
	}
	caller.MFAAt = s.clock.Now().UTC().Truncate(time.Second)
	return caller, nil
}

// GetFederationToken issues credentials of a federated user, with those of the caller's permissions
// that the session policies allow.
func (s *Service) GetFederationToken(ctx context.Context, in *awssts.GetFederationTokenInput) (*awssts.GetFederationTokenOutput, error) {
	caller := awsapi.CallFrom(ctx).Principal
	opts := session(in.Policy, in.PolicyArns, in.Tags)
	if err := checkSession(opts, in.Tags); err != nil {
		return nil, err
	}
	if isTemporary(caller) {
		return nil, sessionsMayNot("GetFederationToken")
	}
	p := awsapi.Principal{
		Type: awsapi.FederatedUser, Account: caller.Account,
		ARN:    arn.New("sts", "", caller.Account, "federated-user/"+*in.Name),
		UserID: caller.Account + ":" + *in.Name, Name: caller.Name, SessionName: *in.Name,
		SessionPolicies: opts.Policies, SessionPolicyARNs: opts.PolicyARNs, SessionTags: opts.Tags,
	}
	if len(opts.Tags) > 0 {
		tagging := authz.Target{Action: "sts:TagSession", Type: "federated-user", ID: p.ARN, Keys: opts.keys(), AllKeys: true}
		if err := asCaller(caller, s.authorize(ctx, awsapi.CallFrom(ctx), in, tagging)); err != nil {
			return nil, err
		}
	}
	if err := s.checkSessionPolicies(caller.Account, opts); err != nil {
		return nil, err
	}
	creds, err := s.issue(ctx, p, voucher(caller), tokenDuration(caller, in.DurationSeconds))
	if err != nil {
		return nil, err
	}
	return &awssts.GetFederationTokenOutput{
		Credentials:   outCredentials(creds),
		FederatedUser: &ststypes.FederatedUser{Arn: aws.String(p.ARN), FederatedUserId: aws.String(p.UserID)},
		//lint:ignore SA1019 clients of today still read it
		PackedPolicySize: packedSize(opts),
	}, nil
}

// isTemporary reports whether the caller uses temporary credentials.
func isTemporary(p awsapi.Principal) bool { return !p.IssuedAt.IsZero() }

// voucher returns the caller's unique ID if the caller is a user.
func voucher(caller awsapi.Principal) string {
	if caller.Type == awsapi.IAMUser {
		return caller.UserID
	}
	return ""
}

func tokenDuration(caller awsapi.Principal, seconds *int32) time.Duration {
	d := defaultTokenSession
	if seconds != nil {
		d = time.Duration(*seconds) * time.Second
	}
	if caller.Type == awsapi.Root {
		d = min(d, maxRootToken)
	}
	return d
}
