// Package iam is AWS Identity and Access Management: users and their access
// keys, groups, roles, policies, instance profiles and identity providers. It
// also answers, from the store's view, whose key is this (LookupAccessKey) and
// which policies bind them (PoliciesOf).
//
// It decides nothing itself: package authz says what a call needs and package
// policy evaluates. It does not depend on other services; internal/app passes
// it to those that need roles. No other service imports it.
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

// Config is what a Service is made of.
type Config struct {
	Store *store.Store     // required
	Clock clock.WithTicker // nil is the real clock
	Log   *slog.Logger     // nil is slog.Default()
}

// A Service is IAM for every account of the store.
type Service struct {
	store  *store.Store
	clock  clock.WithTicker
	parsed documentCache
	used   usageLog
	log    *slog.Logger
	// roleUsages is complete before anything runs.
	roleUsages []module.RoleUsage
}

// New returns the service. It writes nothing until EnsureAccount or a request.
func New(cfg Config) *Service {
	log := cmp.Or(cfg.Log, slog.Default())
	return &Service{store: cfg.Store, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}), log: log, parsed: documentCache{log: log}}
}
