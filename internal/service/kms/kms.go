// Package kms answers the Key Management Service: keys with real key material, aliases, key
// policies, grants, rotation, encryption, signatures and message authentication codes.
//
// Like all other secrets of Drydock, key material is in the store: whoever can read the data folder
// can read it. A ciphertext contains the key's account, region and ID and the version of the
// material (blob.go), authenticated together with the encryption context. Old ciphertexts can
// therefore be decrypted after a rotation, and never with another key.
//
//	CreateKey ─► Enabled ◄─► Disabled
//	                └──► ScheduleKeyDeletion ─► PendingDeletion ─► (the window passes) ─► gone
//	                                                └──► CancelKeyDeletion ─► Disabled
//
// Package authz decides who may use a key, based on the key policy, on IAM policies where the key
// policy allows that, and on grants (authz*.go define the checks). AWS managed keys are created
// when they are first used.
//
// Imported key material, custom key stores and multi-Region keys are not supported. Only the
// composition root imports the package.
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
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// Allowed reports whether the caller of ctx could perform an action on a key if the key were as
	// given. It prevents key policies that lock out their author. nil means that everything is
	// allowed.
	Allowed func(ctx context.Context, t authz.Target, key authz.Resource) bool
	// PrincipalExists reports whether policies and grants may name the user, role or account with
	// an ARN. nil means that all exist.
	PrincipalExists func(ctx context.Context, arn string) bool
	Clock           clock.WithTicker // nil means the real clock
	Log             *slog.Logger     // nil means slog.Default
}

// Service is the Key Management Service. Its methods can be called in process with an awsapi.Call
// for the account and region. They do not check authorization.
type Service struct {
	cfg   Config
	store *store.Store
	clock clock.WithTicker
	log   *slog.Logger
	docs  policy.Documents
}

// New returns the service. Call Run to delete and rotate keys when due.
func New(cfg Config) *Service {
	return &Service{cfg: cfg, store: cfg.Store, clock: cmp.Or[clock.WithTicker](cfg.Clock, clock.RealClock{}), log: cmp.Or(cfg.Log, slog.Default())}
}

func (s *Service) now() time.Time { return timing.Stamp(s.clock) }

// scope is an account and region.
type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(resource string) string { return arn.New("kms", sc.Region, sc.Account, resource) }

func (sc scope) keyARN(id string) string { return sc.arn("key/" + id) }
