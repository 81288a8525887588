// Package sts is the AWS Security Token Service: who am I, and temporary
// credentials. Temporary credentials are stateless: the session token is a
// sealed description of the session that only this installation's store can
// open, so a million sessions cost nothing and survive a restart.
//
// It knows roles only through Directory. Only internal/app may import it.
package sts

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// ErrTokenInvalid is returned for a session token that this installation did not
// issue, or not for that access key.
var ErrTokenInvalid = errors.New("invalid session token")

// ErrTokenExpired is returned for a session that has ended.
var ErrTokenExpired = errors.New("expired session token")

// A Directory is what sts must know of IAM. iam.Service is one.
type Directory interface {
	// RoleTrust returns a role's unique ID, parsed trust policy and longest
	// session; ok is false when there is no such role.
	RoleTrust(ctx context.Context, roleARN string) (id string, trust *policy.Document, maxSession time.Duration, ok bool)
	// Decide evaluates the policies of p, and nothing else, for one action.
	Decide(ctx context.Context, p awsapi.Principal, action, resource string) policy.Decision
	// NewAccessKeyID returns an access key ID of the account: AKIA… or ASIA….
	NewAccessKeyID(prefix, account string) string
	// AccessKeyAccount returns the account that an access key ID names.
	AccessKeyAccount(accessKeyID string) (account string, ok bool)
}

// Config is what a Service is made of.
type Config struct {
	Store     *store.Store // required
	Directory Directory    // required
	Clock     clock.Clock  // nil is the real clock
	Log       *slog.Logger // nil is slog.Default()
}

// A Service is STS for every account of the store.
type Service struct {
	store *store.Store
	dir   Directory
	clock clock.Clock
	log   *slog.Logger
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, dir: cfg.Directory, clock: cfg.Clock, log: cfg.Log}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

// Credentials are temporary credentials.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	Expiration                                 time.Time
	Principal                                  awsapi.Principal
}

// SessionOptions narrow or describe a role session. The zero value does neither.
type SessionOptions struct {
	Policies   []string // documents
	PolicyARNs []string
	Tags       map[string]string
}

// AWS declares the operations the service answers.
func (s *Service) AWS() awsapi.Service { return awsapi.Service{Name: "sts", Handler: s} }

// OpenSession returns the secret and the principal of temporary credentials, or
// ErrTokenInvalid or ErrTokenExpired.
func (s *Service) OpenSession(ctx context.Context, accessKeyID, sessionToken string) (secret string, p awsapi.Principal, err error) {
	return "", awsapi.Principal{}, errors.New("not written yet")
}

// IssueRoleSession returns credentials of a role without asking its trust policy:
// for AWS services that hold the role already, such as EC2 for an instance.
func (s *Service) IssueRoleSession(ctx context.Context, roleARN, sessionName string, duration time.Duration, opts SessionOptions) (Credentials, error) {
	return Credentials{}, errors.New("not written yet")
}
