// Package testkit is the test harness: a complete AWS API server over a throw-away store, used through the real SDK
// clients. It also has helpers that tests share: waiting without sleeping, golden files, normalisers and a
// goroutine-leak check.
//
// Only tests import it. It does not depend on any service.
package testkit

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// Region is the region of AWSConfig.
const Region = "us-east-1"

// Config configures a test server. The zero Config is an AWS API server with no services.
type Config struct {
	// Store holds the state. Nil opens a new ephemeral store that is closed with the test.
	Store *store.Store
	// Services builds the services over the store.
	Services func(*store.Store) []awsapi.Service
	// Calling builds services that call one another, given the AWS API server
	// itself.
	Calling func(*store.Store, *server.Server) []awsapi.Service
	// Lookup finds access keys. Nil finds none. In any case, an account number is the access key of that account's
	// root user.
	Lookup sigv4.Lookup
	// Authorize authorizes calls. Nil allows everything.
	Authorize func(ctx context.Context, call *awsapi.Call) policy.Decision
	// AuthorizeInput is used instead of Authorize, like the daemon's authz.Authorizer.
	AuthorizeInput func(ctx context.Context, call *awsapi.Call, in any) error
	// Used records every signed call. Nil records none.
	Used func(ctx context.Context, call *awsapi.Call) error
	// Changing is called after each request that may have changed something. It may be nil.
	Changing func(ctx context.Context, call *awsapi.Call)
	// Origin returns the VPC endpoint and the address of a guest's connection. Nil means that there are no guests.
	Origin func(remote string) (awsapi.VPCEndpoint, netip.Addr)
	// Faults deliberately make calls fail. Nil means none fail.
	Faults *fault.Set
	// Clock is the server's clock; nil means the real clock.
	Clock clock.Clock
	// Journal may be nil.
	Journal *journal.Journal
	// TLS, if set, makes the same port serve https too.
	TLS *tls.Config
	// Internal answers /_drydock/ paths.
	Internal http.Handler
	// AllowHosts are the user's own names for the AWS API server.
	AllowHosts []string
	// MaxBody limits bodies. 0 means each service's own limit.
	MaxBody int64
	// Log receives log lines. Nil means testkit.Log, with which an internal failure fails the test.
	Log *slog.Logger
}

// A Server is a running AWS API server.
type Server struct {
	// URL is its http address.
	URL   string
	Store *store.Store
	// Front is the pipeline itself.
	Front *server.Server

	client *http.Client
	stop   func()
}

// Stop stops the server before the end of its test, and waits until it has stopped.
func (s *Server) Stop() { s.stop() }

// Log is testlog.New.
func Log(t testing.TB, expected ...string) *slog.Logger {
	t.Helper()
	return testlog.New(t, expected...)
}

// Store opens an empty store that is closed with the test.
func Store(t testing.TB) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true, Log: Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// NewServer starts an AWS API server that stops with the test.
func NewServer(t testing.TB, cfg Config) *Server {
	t.Helper()
	if cfg.Store == nil {
		st, err := store.Open(context.Background(), store.Config{Ephemeral: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Errorf("closing the store: %v", err)
			}
		})
		cfg.Store = st
	}
	if cfg.Log == nil {
		cfg.Log = Log(t)
	}
	if cfg.Authorize == nil {
		cfg.Authorize = func(context.Context, *awsapi.Call) policy.Decision { return policy.Decision{Allowed: true} }
	}
	authorize := func(ctx context.Context, call *awsapi.Call, _ any) error {
		if d := cfg.Authorize(ctx, call); !d.Allowed {
			return authz.Denied(call, d)
		}
		return nil
	}
	var services []awsapi.Service
	if cfg.Services != nil {
		services = cfg.Services(cfg.Store)
	}
	if cfg.AuthorizeInput != nil {
		authorize = cfg.AuthorizeInput
	}
	front, err := server.New(server.Config{
		Services:  services,
		Lookup:    lookup(cfg.Lookup),
		Authorize: authorize,
		Used:      cfg.Used,
		Changing:  cfg.Changing,
		Origin:    cfg.Origin,
		Changed:   cfg.Store.Changed,
		Journal:   cfg.Journal,
		Faults:    cfg.Faults,
		Clock:     cfg.Clock,
		Log:       cfg.Log,
		MaxBody:   cfg.MaxBody,
		Internal:  cfg.Internal,

		AllowHosts: cfg.AllowHosts,
	})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Calling != nil {
		if err := front.Register(cfg.Calling(cfg.Store, front)...); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := server.Listen(context.Background(), "127.0.0.1:0", cfg.TLS)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, ln, front, cfg.Log) }()
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serving: %v", err)
		}
		transport.CloseIdleConnections()
	})
	t.Cleanup(stop)
	return &Server{
		URL:    "http://" + ln.Addr().String(),
		Store:  cfg.Store,
		Front:  front,
		client: &http.Client{Transport: plainBody{transport}},
		stop:   stop,
	}
}

// lookup returns a Lookup that, like the daemon's, asks next first, and also accepts every account's root user.
func lookup(next sigv4.Lookup) sigv4.Lookup {
	return func(ctx context.Context, key, token string) (cred sigv4.Credential, err error) {
		if err = sigv4.ErrUnknownKey; next != nil {
			cred, err = next(ctx, key, token)
		}
		if root, ok := sigv4.AccountRoot(key); ok && (err == nil || errors.Is(err, sigv4.ErrUnknownKey)) {
			return root, nil
		}
		return cred, err
	}
}

var accounts atomic.Int64

// Account returns a 12-digit account ID that no other test in the process uses. Tests share a server and are isolated
// by their accounts.
func (s *Server) Account(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("%012d", 100000000000+accounts.Add(1))
}

// AWSConfig returns an SDK configuration for account's root user at s, in Region, without retries.
func (s *Server) AWSConfig(account string) aws.Config {
	return s.AWSConfigWith(credentials.NewStaticCredentialsProvider(account, "any", ""))
}

// AWSConfigWith is AWSConfig with other credentials.
func (s *Server) AWSConfigWith(creds aws.CredentialsProvider) aws.Config {
	return aws.Config{
		Region:           Region,
		BaseEndpoint:     aws.String(s.URL),
		Credentials:      creds,
		HTTPClient:       s.client,
		RetryMaxAttempts: 1,
	}
}

// plainBody hides that smithy's request bodies implement WriteTo. net/http uses WriteTo to look for bytes beyond the
// announced length. smithy closes the body as soon as an answer begins, and its WriteTo then fails with io.EOF, which
// breaks the connection in the middle of a long answer. Users' clients retry that.
type plainBody struct{ next http.RoundTripper }

func (t plainBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && r.Body != http.NoBody {
		r = r.Clone(r.Context())
		r.Body = struct{ io.ReadCloser }{r.Body}
	}
	return t.next.RoundTrip(r)
}

// CloseIdleConnections makes http.Client.CloseIdleConnections work.
func (t plainBody) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Client is the HTTP client of AWSConfig.
func (s *Server) Client() *http.Client { return s.client }

// patience is the minimum time that Eventually waits. A deadline only exists to end a test that hangs, and no test
// may fail because its machine is busy.
const patience = time.Minute

// Eventually calls check until it returns nil. It fails the test with check's last error after timeout, or after a
// minute if that is longer.
func Eventually(t testing.TB, timeout time.Duration, check func() error) {
	t.Helper()
	timeout = max(timeout, patience)
	deadline := time.Now().Add(timeout)
	pause := time.Millisecond
	for {
		err := check()
		if err == nil {
			return
		}
		left := time.Until(deadline)
		if left <= 0 {
			t.Fatalf("not within %v: %v", timeout, err)
		}
		timer := time.NewTimer(min(pause, left))
		<-timer.C
		pause = min(2*pause, 100*time.Millisecond)
	}
}
