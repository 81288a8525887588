// Package testkit is the test door: a whole front door over a throw-away store,
// reached with the real SDK clients.
package testkit

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what a test server is made of.
type Config struct {
	// Store is the state; nil opens a new ephemeral store, closed with the test.
	Store *store.Store
	// Services builds the services over the store.
	Services func(*store.Store) []awsapi.Service
	// Lookup finds access keys that are no account number; nil knows none.
	Lookup sigv4.Lookup
	// Authorize decides; nil allows everything.
	Authorize func(ctx context.Context, call *awsapi.Call) policy.Decision
	// Clock is nil for the real clock.
	Clock clock.Clock
}

// A Server is a running front door.
type Server struct {
	URL   string
	Store *store.Store
}

// NewServer starts a front door that stops with the test.
func NewServer(t testing.TB, cfg Config) *Server { t.Helper(); t.Fatal("not written yet"); return nil }

// Account returns a fresh 12-digit account ID.
func (s *Server) Account(t testing.TB) string { t.Helper(); return "" }

// AWSConfig is an SDK configuration of account's root.
func (s *Server) AWSConfig(account string) aws.Config { return aws.Config{} }

// Eventually calls check until it returns nil, and fails the test with its last
// error when timeout has passed.
func Eventually(t testing.TB, timeout time.Duration, check func() error) { t.Helper() }
