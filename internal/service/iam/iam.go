// Package iam is AWS Identity and Access Management: users and their access keys, groups, roles,
// policies, instance profiles and identity providers. It also looks up the owner of an access key
// (LookupAccessKey) and the policies that apply to a principal (PoliciesOf).
//
// It makes no decisions itself: package authz determines what a call requires, and package policy
// evaluates policies. It does not depend on other services; internal/app passes it to those that
// need roles. No other service imports it.
package iam

import (
	"cmp"
	"errors"
	"log/slog"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// ErrNoSuchKey is returned for an access key that does not exist or is inactive.
var ErrNoSuchKey = errors.New("no such access key")

// ErrNoSuchRole is returned for a role that does not exist.
var ErrNoSuchRole = errors.New("no such role")

// ErrNoSuchInstanceProfile is returned for an instance profile that does not exist.
var ErrNoSuchInstanceProfile = errors.New("no such instance profile")

// Config has the settings and dependencies of a Service.
type Config struct {
	Store *store.Store     // required
	Clock clock.WithTicker // nil means the real clock
	Log   *slog.Logger     // nil means slog.Default()
	// CertificateUsers returns the ARNs of the load balancers that use a server certificate, in one region or, if region
	// is empty, in all. If it is nil, certificates can always be deleted.
	CertificateUsers func(account, region, certificate string) []string
}

// A Service is IAM for all accounts of the store.
type Service struct {
	store  *store.Store
	clock  clock.WithTicker
	parsed documentCache
	used   usageLog
	log    *slog.Logger

	certificateUsers func(account, region, certificate string) []string
	// roleUsages is complete before the service is used.
	roleUsages []module.RoleUsage
}

// New returns the service. It writes nothing until EnsureAccount or a request.
func New(cfg Config) *Service {
	log := cmp.Or(cfg.Log, slog.Default())
	return &Service{store: cfg.Store, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}), log: log, parsed: documentCache{log: log}, certificateUsers: cfg.CertificateUsers}
}
