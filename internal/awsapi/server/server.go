// Package server is the pipeline every AWS request passes.
package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Config is what a Server is made of.
type Config struct {
	// Services answer the operations.
	Services []awsapi.Service
	// Lookup finds access keys. Required.
	Lookup sigv4.Lookup
	// Authorize decides whether call may happen. Required. InputFrom(ctx) is the
	// decoded request.
	Authorize func(ctx context.Context, call *awsapi.Call) policy.Decision
	// Changed returns a channel closed by the next change of any state
	// (store.Store.Changed). Nil: waiters are not held.
	Changed func() <-chan struct{}
	// Journal records calls and denials. Nil records nothing.
	Journal *journal.Journal
	// Clock is the time signatures are checked against; nil is the real clock.
	Clock clock.Clock
	// Log is for internal failures; nil is slog.Default().
	Log *slog.Logger
	// MaxBody limits request bodies, in bytes; 0 means each service's own limit.
	MaxBody int64
	// Internal answers paths under /_drydock/. Nil answers 404.
	Internal http.Handler
}

// A Server answers the AWS API.
type Server struct{}

// New checks that every declared operation has its handler.
func New(cfg Config) (*Server, error) { return nil, errors.New("not written yet") }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {}

type inputKey struct{}

// InputFrom returns the decoded input of the request that ctx belongs to, a
// pointer to the SDK's input struct, or nil.
func InputFrom(ctx context.Context) any { return ctx.Value(inputKey{}) }
