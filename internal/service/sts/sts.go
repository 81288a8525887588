// Package sts is the AWS Security Token Service: who am I, and temporary
// credentials. Temporary credentials are stateless: the session token is a
// sealed description of the session that only this installation's store can
// open, so a million sessions cost nothing and survive a restart.
//
// It knows roles and policies only through Directory. No other service imports it.
package sts

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// ErrTokenInvalid is returned for a session token that this installation did not
// issue, or not for that access key.
var ErrTokenInvalid = errors.New("invalid session token")

// ErrTokenExpired is returned for a session that has ended.
var ErrTokenExpired = errors.New("expired session token")

// A Directory is what sts must know of IAM. iam.Service is one.
type Directory interface {
	// RoleSession returns a role's unique ID and longest session; ok is false when
	// there is no role with that ARN.
	RoleSession(ctx context.Context, roleARN string) (id string, maxSession time.Duration, ok bool)
	// UserExists reports whether the account's user of that name has that unique ID.
	UserExists(ctx context.Context, account, name, id string) bool
	// TagsOf returns the tags of the user or role behind p, as they are now.
	TagsOf(p awsapi.Principal) map[string]string
	// PolicyExists reports whether a managed policy is AWS's or account's.
	PolicyExists(account, policyARN string) bool
	// OIDCProvider returns the ARN and the client IDs of the identity provider that
	// account has registered for an issuer, which is named without its scheme.
	OIDCProvider(ctx context.Context, account, issuer string) (providerARN string, clientIDs []string, ok bool)
	// NewAccessKeyID returns an access key ID of the account: AKIA… or ASIA….
	NewAccessKeyID(prefix, account string) string
	// AccessKeyAccount returns the account that an access key ID names.
	AccessKeyAccount(accessKeyID string) (account string, ok bool)
}

// Authorize is how STS asks whether a call may touch targets: nil, an error that is
// an *authz.Denial, or what went wrong.
type Authorize func(ctx context.Context, call *awsapi.Call, in any, targets ...authz.Target) error

// Config is what a Service is made of.
type Config struct {
	Store     *store.Store // required
	Directory Directory    // required
	// Authorize decides whether a call may touch targets (authz.Authorizer's
	// AuthorizeTargets). If it is nil, nobody may assume a role.
	Authorize Authorize
	// IssuerKeys finds the keys that verify web identity tokens; nil means that
	// there are no issuers.
	IssuerKeys IssuerKeys
	Clock      clock.Clock  // nil is the real clock
	Log        *slog.Logger // nil is slog.Default()
}

// A Service is STS for every account of the store.
type Service struct {
	store      *store.Store
	dir        Directory
	authorize  Authorize
	issuerKeys IssuerKeys
	clock      clock.Clock
	log        *slog.Logger
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, dir: cfg.Directory, authorize: cfg.Authorize, issuerKeys: cfg.IssuerKeys,
		clock: cmp.Or[clock.Clock](cfg.Clock, clock.RealClock{}), log: cmp.Or(cfg.Log, slog.Default())}
	if s.authorize == nil {
		s.authorize = func(context.Context, *awsapi.Call, any, ...authz.Target) error {
			return errors.New("sts: no authorizer for assuming roles is configured")
		}
	}
	return s
}

// AWS declares the operations the service answers. AssumeRole asks by itself
// whether it is allowed, when it knows that the request is sound and what the
// session inherits.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "sts", Handler: s, Operations: []awsapi.Operation{
		{Name: "GetCallerIdentity"},
		{Name: "AssumeRole", Exempt: true, Members: "RoleArn RoleSessionName DurationSeconds ExternalId Policy PolicyArns Tags TransitiveTagKeys SourceIdentity"},
		{Name: "AssumeRoleWithWebIdentity", Unsigned: true, WebIdentity: webIdentity, Members: "RoleArn RoleSessionName WebIdentityToken DurationSeconds Policy PolicyArns"},
		{Name: "GetSessionToken", Members: "DurationSeconds"},
		{Name: "GetFederationToken", Members: "Name DurationSeconds Policy PolicyArns Tags"},
		{Name: "GetAccessKeyInfo", Members: "AccessKeyId"},
		{Name: "DecodeAuthorizationMessage", ReadOnly: true, Members: "EncodedMessage"},
	}}
}
