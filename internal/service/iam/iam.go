// Package iam is AWS Identity and Access Management: users and their access
// keys, roles, policies, instance profiles and identity providers. It also
// answers the front door's two questions, whose key is this (LookupAccessKey)
// and may they (Authorize), from the store's view.
//
// It decides nothing itself: package policy evaluates, this package gathers the
// policies that apply. It knows no other service; internal/app hands it to those
// that need roles. Only internal/app may import it.
package iam

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

// ErrNoSuchKey is returned for an access key that does not exist or is inactive.
var ErrNoSuchKey = errors.New("no such access key")

// ErrNoSuchRole is returned for a role that does not exist.
var ErrNoSuchRole = errors.New("no such role")

// ErrNoSuchInstanceProfile is returned for an instance profile that does not exist.
var ErrNoSuchInstanceProfile = errors.New("no such instance profile")

// Config is what a Service is made of.
type Config struct {
	Store *store.Store // required
	Clock clock.Clock  // nil is the real clock
	Log   *slog.Logger // nil is slog.Default()
}

// A Service is IAM for every account of the store.
type Service struct {
	store *store.Store
	clock clock.Clock
	log   *slog.Logger
}

// New returns the service. It writes nothing until EnsureAccount or a request.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, clock: cfg.Clock, log: cfg.Log}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

// A Role is what other parts of Drydock may know of a role.
type Role struct {
	Account string
	Name    string
	Path    string // "/" or "/a/b/"
	ARN     string // with the path
	ID      string // AROA…
	// Trust is the trust policy's document.
	Trust string
	// MaxSession limits AssumeRole's DurationSeconds.
	MaxSession time.Duration
	// AttachedPolicies are the ARNs of attached managed policies.
	AttachedPolicies []string
}

// AWS declares the operations the service answers.
func (s *Service) AWS() awsapi.Service { return awsapi.Service{Name: "iam", Handler: s} }

// EnsureAccount makes the account unless it exists. The default account gets
// the user admin with AdministratorAccess and the access key test/test.
func (s *Service) EnsureAccount(ctx context.Context, account string) error {
	return errors.New("not written yet")
}

// LookupAccessKey returns the secret and the owner of a long-term access key. A
// 12-digit number is that account's root, whose secret is DefaultSecret; the
// account is made on first use. Any other key that is unknown or inactive is
// ErrNoSuchKey.
func (s *Service) LookupAccessKey(ctx context.Context, accessKeyID string) (secret string, p awsapi.Principal, err error) {
	return "", awsapi.Principal{}, errors.New("not written yet")
}

// RoleByARN returns the role with that ARN, path included, or ErrNoSuchRole.
func (s *Service) RoleByARN(ctx context.Context, arn string) (Role, error) {
	return Role{}, errors.New("not written yet")
}

// RoleByName returns a role of an account, or ErrNoSuchRole.
func (s *Service) RoleByName(ctx context.Context, account, name string) (Role, error) {
	return Role{}, errors.New("not written yet")
}

// InstanceProfileRole returns an instance profile's ARN and ID and its role. The
// profile is named by its name or ARN; ErrNoSuchInstanceProfile if there is none
// in account. A profile without a role returns ErrNoSuchRole.
func (s *Service) InstanceProfileRole(ctx context.Context, account, nameOrARN string) (InstanceProfile, Role, error) {
	return InstanceProfile{}, Role{}, errors.New("not written yet")
}

// An InstanceProfile is what EC2 may know of one.
type InstanceProfile struct {
	Name, ARN, ID string
}

// TrustsService reports whether role's trust policy lets an AWS service, named
// as in eks.amazonaws.com, assume it.
func (s *Service) TrustsService(role Role, service string) bool { return false }

// Authorize decides whether the caller may do what call says.
func (s *Service) Authorize(ctx context.Context, call *awsapi.Call) policy.Decision {
	return policy.Decision{}
}
