package controlplane_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

var account = controlplane.Key{
	Account: "111122223333", Name: "dev", Region: "eu-west-1", Version: "1.34",
	ServiceCIDR: "172.20.0.0/16", IPFamily: "ipv4",
}

// A config is everything that a Manager is created and started with.
type config struct {
	controlplane.Config
	controlplane.Hooks
}

// A world is a Manager that can be closed and opened again with the same data.
type world struct {
	*controlplane.Manager
	t     *testing.T
	cfg   config
	store *store.Store

	mu      sync.Mutex
	refused []string
}

func newWorld(t *testing.T, change func(*config)) *world {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true, Log: testlog.New(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	w := &world{t: t, store: st}
	w.cfg = config{controlplane.Config{
		Dir:   filepath.Join(t.TempDir(), "controlplanes"),
		Store: st,
		Log:   testlog.New(t),
		OnRefused: func(_ string, from netip.Addr, reason string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refused = append(w.refused, from.String()+": "+reason)
		},
	}, controlplane.Hooks{
		Authenticate: func(_ context.Context, planeID, token string) (authnv1.UserInfo, error) {
			if token != "good" {
				return authnv1.UserInfo{}, errors.New("not a good token")
			}
			return authnv1.UserInfo{Username: "alice", UID: principal("alice"), Groups: []string{planeID}}, nil
		},
		Authorize: func(_ context.Context, _ string, spec *authzv1.SubjectAccessReviewSpec) (allowed, denied bool, reason string) {
			return spec.User == "alice", spec.User == "mallory", "because of " + spec.User
		},
	}}
	if change != nil {
		change(&w.cfg)
	}
	w.open()
	return w
}

func (w *world) open() {
	w.t.Helper()
	m, err := controlplane.Open(w.t.Context(), w.cfg.Config)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := m.Start(w.t.Context(), w.cfg.Hooks); err != nil {
		w.t.Fatal(errors.Join(err, m.Close()))
	}
	w.Manager = m
	w.t.Cleanup(func() {
		if err := m.Close(); err != nil {
			w.t.Errorf("closing: %v", err)
		}
	})
}

func (w *world) reopen() {
	w.t.Helper()
	if err := w.Close(); err != nil {
		w.t.Fatal(err)
	}
	w.open()
}

// claim claims a plane and waits for it.
func (w *world) claim(owner string, key controlplane.Key) controlplane.Plane {
	w.t.Helper()
	p, err := w.Claim(w.t.Context(), owner, key)
	if err != nil {
		w.t.Fatal(err)
	}
	w.ready(p.ID)
	return p
}

func (w *world) ready(id string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := w.WaitReady(ctx, id); err != nil {
		w.t.Fatal(err)
	}
}

// get asks the plane's process with a client of the Manager's.
func (w *world) get(id, path string) string {
	w.t.Helper()
	cfg, err := w.RESTConfig(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return request(w.t, cfg, http.MethodGet, path, "")
}

func request(t *testing.T, cfg *rest.Config, method, path, body string) string {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, cfg.Host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (w *world) pid(id string) int {
	w.t.Helper()
	pid, err := strconv.Atoi(w.get(id, "/pid"))
	if err != nil {
		w.t.Fatal(err)
	}
	return pid
}

// viaEndpoint asks the plane as a user of this machine does, by its endpoint.
func viaEndpoint(ctx context.Context, p controlplane.Plane, path string) (string, error) {
	cas := x509.NewCertPool()
	cas.AppendCertsFromPEM(p.CAPEM)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: cas}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Endpoint+path, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// eventually calls fn until it returns nil.
func eventually(t *testing.T, fn func() error) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("still after a minute: %v", err)
		}
	}
}

// gone is nil when no process has the ID, or one that has ended.
func gone(pid int) error {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return nil
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if _, state, _ := strings.Cut(string(stat), ") "); err == nil && strings.HasPrefix(state, "Z") {
		return nil
	}
	return fmt.Errorf("process %d is there", pid)
}

// closed is nil when nobody listens at an endpoint.
func closed(ctx context.Context, endpoint string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(endpoint, "https://"))
	if err != nil {
		return nil
	}
	conn.Close()
	return fmt.Errorf("%s listens", endpoint)
}

// principal returns the UID of a user whom the authenticator has let in. Only about those the daemon is asked.
func principal(name string) string { return "aws-iam-authenticator:000000000000:" + name }
