// Package sts is the AWS Security Token Service: caller identity and temporary credentials.
// Temporary credentials are stateless. The session token is an encrypted description of the session
// that only this installation's store can decrypt, so a million sessions cost nothing and survive a
// restart.
//
// It looks up roles and policies only through Directory. No other service imports it.
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

// ErrTokenInvalid is returned for a session token that this installation did not issue, or that it
// issued with another access key.
var ErrTokenInvalid = errors.New("invalid session token")

// ErrTokenExpired is returned for a session that has ended.
var ErrTokenExpired = errors.New("expired session token")

// A Directory is what sts needs to know about IAM. iam.Service implements it.
type Directory interface {
	// RoleSession returns a role's unique ID and maximum session duration. ok is false if there is
	// no role with that ARN.
	RoleSession(ctx context.Context, roleARN string) (id string, maxSession time.Duration, ok bool)
	// UserExists reports whether the account has a user with that name and unique ID.
	UserExists(ctx context.Context, account, name, id string) bool
	// TagsOf returns the current tags of the user or role behind p.
	TagsOf(p awsapi.Principal) map[string]string
	// PolicyExists reports whether a managed policy is AWS's or the account's.
	PolicyExists(account, policyARN string) bool
	// OIDCProvider returns the ARN and the client IDs of the identity provider that account has
	// registered for an issuer, given without its scheme.
	OIDCProvider(ctx context.Context, account, issuer string) (providerARN string, clientIDs []string, ok bool)
	// SAMLProvider returns the metadata document of an account's SAML provider.
	SAMLProvider(ctx context.Context, account, name string) (metadata string, ok bool)
	// NewAccessKeyID returns a new access key ID for the account: AKIA… or ASIA….
	NewAccessKeyID(prefix, account string) string
	// SpendMFACode checks and uses up a code of a user's MFA device. known reports whether the user has the device, and
	// valid whether the code is the device's and was not used before.
	SpendMFACode(ctx context.Context, p awsapi.Principal, serial, code string) (known, valid bool, err error)
	// AccessKeyAccount returns the account in an access key ID.
	AccessKeyAccount(accessKeyID string) (account string, ok bool)
}

// Authorize checks whether a call may access targets. It returns nil if so, an *authz.Denial
// (possibly wrapped) if not, or another error if the check failed.
type Authorize func(ctx context.Context, call *awsapi.Call, in any, targets ...authz.Target) error

// Config has the settings and dependencies of a Service.
type Config struct {
	Store     *store.Store // required
	Directory Directory    // required
	// Authorize checks whether a call may access targets (authz.Authorizer's AuthorizeTargets). If
	// it is nil, no one may assume a role.
	Authorize Authorize
	// IssuerKeys returns the keys that verify web identity tokens. nil means that there are no
	// issuers.
	IssuerKeys IssuerKeys
	Clock      clock.Clock  // nil means the real clock
	Log        *slog.Logger // nil means slog.Default()
}

// A Service is STS for all accounts of the store.
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

// AWS declares the operations that the service answers. AssumeRole checks its authorization itself,
// because it must first validate the request and determine what the session inherits.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "sts", Handler: s, Authorization: authorization, Operations: []awsapi.Operation{
		{Name: "GetCallerIdentity"},
		{Name: "AssumeRole", Exempt: true, Members: "RoleArn RoleSessionName DurationSeconds ExternalId Policy PolicyArns Tags TransitiveTagKeys SourceIdentity SerialNumber TokenCode"},
		{Name: "AssumeRoleWithWebIdentity", Unsigned: true, WebIdentity: webIdentity, Members: "RoleArn RoleSessionName WebIdentityToken DurationSeconds Policy PolicyArns"},
		{Name: "AssumeRoleWithSAML", Unsigned: true, WebIdentity: samlIdentity, Members: "RoleArn PrincipalArn SAMLAssertion DurationSeconds Policy PolicyArns"},
		{Name: "GetSessionToken", Members: "DurationSeconds SerialNumber TokenCode"},
		{Name: "GetFederationToken", Members: "Name DurationSeconds Policy PolicyArns Tags"},
		{Name: "GetAccessKeyInfo", Members: "AccessKeyId"},
		{Name: "DecodeAuthorizationMessage", ReadOnly: true, Members: "EncodedMessage"},
	}}
}
