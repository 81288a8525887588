// Package kms answers the Key Management Service: keys with real key material,
// aliases, key policies, grants, rotation, encryption, signatures and message
// authentication codes.
//
// Key material is in the store, as every other secret of Drydock's: who reads the
// data folder reads it. A ciphertext carries the key's account, region and ID and the
// version of the material (blob.go), authenticated together with the encryption
// context, so that old ciphertexts decrypt after a rotation and none decrypts under
// another key.
//
//	CreateKey ─► Enabled ◄─► Disabled
//	                └──► ScheduleKeyDeletion ─► PendingDeletion ─► (the window passes) ─► gone
//	                                                └──► CancelKeyDeletion ─► Disabled
//
// Who may use a key is decided by package authz: the key policy, IAM policies where
// the key policy lets them, and grants (authz*.go say what is asked of whom). AWS
// managed keys are made when they are first used.
//
// Imported material, custom key stores and multi-Region keys are not there. Only
// the composition root imports the package.
package kms

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// Allowed decides whether the caller of ctx could do something to a key, if that
	// were as given: a key policy must leave its author in. Nil: yes.
	Allowed func(ctx context.Context, t authz.Target, key authz.Resource) bool
	// PrincipalExists reports whether the ARN of a user, role or account is one that
	// policies and grants may name. Nil: all are.
	PrincipalExists func(ctx context.Context, arn string) bool
	Clock           clock.WithTicker // nil: the real one
	Log             *slog.Logger     // nil: slog.Default
}

// Service is the Key Management Service. Its methods may be called in process, with
// an awsapi.Call of whose account and region is meant; they do not authorize.
type Service struct {
	cfg   Config
	store *store.Store
	clock clock.WithTicker
	log   *slog.Logger
	docs  documents
}

// New returns the service. Call Run to make keys end and rotate.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, store: cfg.Store, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}), log: cmp.Or(cfg.Log, slog.Default())}
}

func (s *Service) now() time.Time { return timing.Stamp(s.clock) }

// scope is an account and region.
type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(resource string) string { return arn.New("kms", sc.Region, sc.Account, resource) }

func (sc scope) keyARN(id string) string { return sc.arn("key/" + id) }
