package controlplane_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

func TestClaimGivesAnOwnerOnePlane(t *testing.T) {
	w := newWorld(t, nil)
	first := w.claim("arn:one", account)
	again := w.claim("arn:one", account)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("claimed twice (-first +again):\n%s", diff)
	}
	other := w.claim("arn:other", account)
	if other.ID == first.ID {
		t.Error("two owners have one plane")
	}
	if got := len(w.Planes()); got != 2 {
		t.Errorf("%d planes, want 2", got)
	}

	if len(first.ID) != 32 || strings.Trim(first.ID, "0123456789ABCDEF") != "" {
		t.Errorf("ID %q is not 32 upper-case hexadecimal digits", first.ID)
	}
	if want := "https://oidc.eks.eu-west-1.amazonaws.com/id/" + first.ID; first.Issuer != want {
		t.Errorf("issuer %q, want %q", first.Issuer, want)
	}
	if !strings.HasPrefix(first.AWSHost, first.ID+".") || !strings.HasSuffix(first.AWSHost, ".eu-west-1.eks.amazonaws.com") {
		t.Errorf("AWS host %q", first.AWSHost)
	}
	var got launch.Config
	if err := json.Unmarshal([]byte(w.get(first.ID, "/config")), &got); err != nil {
		t.Fatal(err)
	}
	want := launch.Config{
		Dir: filepath.Join(w.cfg.Dir, first.ID), Version: "1.34", GitVersion: first.GitVersion,
		Etcd:        launch.Etcd{Endpoints: w.store.EtcdAccess().Endpoints, Prefix: w.store.ClusterPrefix(first.ID)},
		ServiceCIDR: "172.20.0.0/16", Issuer: first.Issuer, AWSHost: first.AWSHost,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the child's configuration (-want +got):\n%s", diff)
	}
}

func TestClaimRefusesWhatCannotRun(t *testing.T) {
	w := newWorld(t, nil)
	for _, tc := range []struct {
		name   string
		owner  string
		change func(*controlplane.Key)
		want   string
	}{
		{"no owner", "", func(*controlplane.Key) {}, "owner"},
		{"unknown version", "o", func(k *controlplane.Key) { k.Version = "1.12" }, `no Kubernetes version "1.12"`},
		{"a control plane needs a region", "o", func(k *controlplane.Key) { k.Region = "" }, "a control plane needs a region"},
		{"bad service CIDR", "o", func(k *controlplane.Key) { k.ServiceCIDR = "many" }, "service CIDR"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			key := account
			tc.change(&key)
			_, err := w.Claim(t.Context(), tc.owner, key)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
	if got := w.Planes(); got != nil {
		t.Errorf("planes are left: %v", got)
	}
}

func TestTheCertificateIsValidForEveryNameOfTheEndpoint(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	conn, err := w.Dial(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	cas := x509.NewCertPool()
	cas.AppendCertsFromPEM(p.CAPEM)
	tc := tls.Client(conn, &tls.Config{RootCAs: cas, ServerName: p.AWSHost})
	if err := tc.HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	cert := tc.ConnectionState().PeerCertificates[0]
	for _, name := range []string{
		p.AWSHost, strings.ToLower(p.AWSHost), "127.0.0.1", "localhost", "172.20.0.1",
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
	} {
		if err := cert.VerifyHostname(name); err != nil {
			t.Error(err)
		}
	}
}

func TestClientsOfTheManager(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	if got := w.get(p.ID, "/whoami"); got != "drydock system:masters" {
		t.Errorf("RESTConfig is %q", got)
	}
	cfg, err := w.AnonymousRESTConfig(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got := request(t, cfg, "GET", "/whoami", ""); got != "" {
		t.Errorf("AnonymousRESTConfig is %q", got)
	}
	if got, err := viaEndpoint(t.Context(), p, "/pid"); err != nil || got != w.get(p.ID, "/pid") {
		t.Errorf("the endpoint leads to %q, %v", got, err)
	}
	for _, call := range map[string]func() error{
		"RESTConfig": func() error { _, err := w.RESTConfig("X"); return err },
		"Dial":       func() error { _, err := w.Dial(t.Context(), "X"); return err },
		"WaitReady":  func() error { return w.WaitReady(t.Context(), "X") },
		"Status":     func() error { _, err := w.Status("X"); return err },
		"SetAccess":  func() error { return w.SetAccess(t.Context(), "X", controlplane.Access{}) },
		"Get":        func() error { _, err := w.Get("X"); return err },
		"JWKS":       func() error { _, err := w.JWKS("X"); return err },
	} {
		if err := call(); !errors.Is(err, controlplane.ErrNotFound) {
			t.Errorf("unknown plane: %v", err)
		}
	}
}

// A twin that is imported again has a new plane with the old one's ID. Clients of the old plane fail.
func TestAPlaneWithTheIDOfAReleasedOne(t *testing.T) {
	w := newWorld(t, nil)
	const id = "0123456789ABCDEF0123456789ABCDEF"
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if !closed(w.Released(id)) {
		t.Error("a plane that does not exist is not released")
	}
	if _, err := w.Adopt(t.Context(), "o", account, id, ""); err != nil {
		t.Fatal(err)
	}
	w.ready(id)
	old := w.Released(id)
	stale, err := w.RESTConfig(id)
	if err != nil || closed(old) {
		t.Fatal("released, or ", err)
	}
	var releases errgroup.Group
	for range 4 {
		releases.Go(func() error { return w.Release(t.Context(), id) })
	}
	if err := releases.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Adopt(t.Context(), "new", account, id, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.ReleaseOf(t.Context(), id, "o"); err != nil { // who believes that the old plane is still there
		t.Fatal(err)
	}
	w.ready(id)
	if !closed(old) || closed(w.Released(id)) {
		t.Errorf("old plane released: %t, new plane released: %t", closed(old), closed(w.Released(id)))
	}
	client, err := rest.HTTPClientFor(stale)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Get(stale.Host + "/whoami"); !errors.Is(err, controlplane.ErrNotFound) {
		t.Errorf("a client of the old plane: %v", err)
	}
	if got := w.get(id, "/whoami"); got != "drydock system:masters" {
		t.Errorf("a client of the new plane is %q", got)
	}
}

func TestTheManagersCertificateLastsAsLongAsItsAuthority(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	cfg, err := w.RESTConfig(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	transport, ok := cfg.Transport.(*http.Transport)
	if !ok {
		t.Fatalf("the transport is a %T", cfg.Transport)
	}
	cert, err := transport.TLSClientConfig.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(p.CAPEM)
	authority, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if !cert.Leaf.NotAfter.Equal(authority.NotAfter) {
		t.Errorf("the certificate is good until %v, its authority until %v", cert.Leaf.NotAfter, authority.NotAfter)
	}
}

func TestEndpointAccess(t *testing.T) {
	prefixes := func(ss ...string) (out []netip.Prefix) {
		for _, s := range ss {
			out = append(out, netip.MustParsePrefix(s))
		}
		return out
	}
	w := newWorld(t, func(c *config) { c.RefusalPatience = -1 })
	p := w.claim("o", account)
	for _, tc := range []struct {
		name    string
		access  controlplane.Access
		refused string
	}{
		{"public for all", controlplane.Access{Public: true}, ""},
		{"public for the world", controlplane.Access{Public: true, PublicCIDRs: prefixes("0.0.0.0/0")}, ""},
		{"public for the client", controlplane.Access{Public: true, PublicCIDRs: prefixes("198.51.100.0/24", "203.0.113.8/30")}, ""},
		{"public for others", controlplane.Access{Public: true, PublicCIDRs: prefixes("198.51.100.0/24")}, "203.0.113.10: 203.0.113.10 is not in the cluster's public access CIDRs"},
		{"the real address does not count", controlplane.Access{Public: true, PublicCIDRs: prefixes("127.0.0.0/8")}, "203.0.113.10: 203.0.113.10 is not in the cluster's public access CIDRs"},
		{"private only", controlplane.Access{Private: true}, "203.0.113.10: the cluster's endpoint has no public access"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w.refused = nil
			if err := w.SetAccess(t.Context(), p.ID, tc.access); err != nil {
				t.Fatal(err)
			}
			_, err := viaEndpoint(t.Context(), p, "/pid")
			if tc.refused == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, io.EOF) {
				t.Errorf("error %v, want a reset", err)
			}
			eventually(t, func() error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if diff := cmp.Diff([]string{tc.refused}, w.refused); diff != "" {
					return errors.New(diff)
				}
				return nil
			})
			w.get(p.ID, "/pid") // from inside there is always access
		})
	}
	w.reopen()
	w.ready(p.ID)
	if _, err := viaEndpoint(t.Context(), p, "/pid"); err == nil {
		t.Error("the endpoint access is forgotten")
	}
}

// A refused client gets no answer until it leaves or the time is over. A slow test would
// be one that waits for the real thirty seconds.
func TestRefusedClientsGetNoAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		refusal time.Duration // the Manager's patience
		client  time.Duration // the client's
		timeout bool
	}{
		"the client leaves first": {time.Hour, 200 * time.Millisecond, true},
		"it is reset in the end":  {200 * time.Millisecond, time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *config) { c.RefusalPatience = tc.refusal })
			p := w.claim("o", account)
			if err := w.SetAccess(t.Context(), p.ID, controlplane.Access{Private: true}); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), tc.client)
			defer cancel()
			began := time.Now()
			_, err := viaEndpoint(ctx, p, "/pid")
			if took := time.Since(began); err == nil || errors.Is(err, context.DeadlineExceeded) != tc.timeout || took < min(tc.refusal, tc.client) {
				t.Errorf("after %v: %v", took, err)
			}
			ctx, cancel = context.WithTimeout(t.Context(), tc.client)
			defer cancel()
			began = time.Now()
			_, err = w.DialPublic(ctx, p.ID)
			if _, refused := errors.AsType[*controlplane.RefusedError](err); !refused || time.Since(began) < min(tc.refusal, tc.client) {
				t.Errorf("by its name, after %v: %v", time.Since(began), err)
			}
			if err := w.SetAccess(t.Context(), p.ID, controlplane.Access{Public: true}); err != nil {
				t.Fatal(err)
			}
			conn, err := w.DialPublic(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			conn.Close()
			eventually(t, func() error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if len(w.refused) != 2 {
					return fmt.Errorf("recorded %q", w.refused)
				}
				return nil
			})
		})
	}
}

func TestAKilledProcessIsReplacedBehindTheEndpoint(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	old := w.pid(p.ID)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		_, err := viaEndpoint(t.Context(), p, "/pid") // held until the next process is ready
		return err
	})
	eventually(t, func() error {
		s, err := w.Status(p.ID)
		if err == nil && (s.State != controlplane.Ready || s.Restarts != 1 || s.PID == old) {
			err = errors.New("status " + string(s.State) + ": " + s.Reason)
		}
		return err
	})
	if got := w.pid(p.ID); got == old {
		t.Error("clients of the Manager still reach the old process")
	}
}

func TestAPlaneThatDoesNotStartSaysWhy(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	wish := launch.Files(filepath.Join(w.cfg.Dir, p.ID)).FlexVolumes()
	if err := os.Mkdir(wish, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(w.pid(p.ID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		s, err := w.Status(p.ID)
		if err != nil {
			return err
		}
		if s.State != controlplane.Failed || !strings.Contains(s.Reason, "exit status 1: no such luck") ||
			!strings.HasSuffix(s.LogTail, "the last line of the log") {
			return errors.New(string(s.State) + ": " + s.Reason + ": " + s.LogTail)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := w.WaitReady(ctx, p.ID); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("WaitReady: %v", err)
	}
	if err := os.Remove(wish); err != nil {
		t.Fatal(err)
	}
	w.ready(p.ID)
}

func TestPlanesSurviveTheDaemon(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	pid := w.pid(p.ID)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gone(pid); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if err := closed(t.Context(), p.Endpoint); err != nil {
		t.Errorf("after Close: %v", err)
	}
	if _, err := w.Claim(t.Context(), "o", account); err == nil {
		t.Error("a closed Manager takes claims")
	}
	w.open()
	got, err := w.Get(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("the plane has changed (-before +after):\n%s", diff)
	}
	if _, err := viaEndpoint(t.Context(), p, "/pid"); err != nil { // held until ready
		t.Error(err)
	}
}

func TestATakenPortIsReplaced(t *testing.T) {
	w := newWorld(t, func(cfg *config) { cfg.Log = testlog.New(t, "the port of a cluster's endpoint is in use") })
	p := w.claim("o", account)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	squatter, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", strings.TrimPrefix(p.Endpoint, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	defer squatter.Close()
	w.open()
	got, err := w.Get(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got.Endpoint == p.Endpoint {
		t.Fatal("the endpoint is the same")
	}
	if _, err := viaEndpoint(t.Context(), got, "/pid"); err != nil {
		t.Error(err)
	}
}

func TestReleaseLeavesNothing(t *testing.T) {
	for _, tc := range []struct {
		name    string
		release func(t *testing.T, w *world, p controlplane.Plane)
	}{
		{"at once", func(t *testing.T, w *world, p controlplane.Plane) {
			if err := w.Release(t.Context(), p.ID); err != nil {
				t.Fatal(err)
			}
		}},
		{"by account", func(t *testing.T, w *world, p controlplane.Plane) {
			if err := w.ReleaseAll(t.Context(), "999999999999"); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Get(p.ID); err != nil {
				t.Fatalf("another account's reset: %v", err)
			}
			if err := w.ReleaseAll(t.Context(), p.Key.Account); err != nil {
				t.Fatal(err)
			}
		}},
		{"after the store was reset", func(t *testing.T, w *world, p controlplane.Plane) {
			if err := w.store.Reset(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			if err := w.ReleaseAll(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}},
		{"by the next daemon", func(t *testing.T, w *world, p controlplane.Plane) {
			if err := controlplane.BeginRelease(t.Context(), w.Manager, p.ID); err != nil {
				t.Fatal(err)
			}
			w.reopen()
			eventually(t, func() error {
				if _, err := w.Get(p.ID); err == nil {
					return errors.New("the plane is there")
				}
				return nil
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, nil)
			before, err := w.store.CountKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			p := w.claim("o", account)
			pid := w.pid(p.ID)
			tc.release(t, w, p)
			if err := errors.Join(gone(pid), closed(t.Context(), p.Endpoint)); err != nil {
				t.Error(err)
			}
			if left, _ := os.ReadDir(w.cfg.Dir); len(left) > 0 {
				t.Errorf("files are left: %v", left)
			}
			if got := w.Planes(); got != nil {
				t.Errorf("planes are left: %v", got)
			}
			w.reopen()
			if got := w.Planes(); got != nil {
				t.Errorf("planes come back: %v", got)
			}
			// The store may keep a mark of the deletion itself.
			if after, err := w.store.CountKeys(t.Context()); err != nil || after > before+4 {
				t.Errorf("%d keys, %v; before there were %d", after, err, before)
			}
			if err := w.Release(t.Context(), p.ID); err != nil {
				t.Errorf("released again: %v", err)
			}
			again := w.claim("o", account)
			if again.ID == p.ID {
				t.Error("the owner gets the released plane again")
			}
		})
	}
}

// A reset that is interrupted by a crash removes records and leaves the API server's keys.
func TestStateWithoutARecordIsRemoved(t *testing.T) {
	w := newWorld(t, nil)
	kept := w.claim("o", account)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: w.store.EtcdAccess().Endpoints, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	const forgotten = "00112233445566778899AABBCCDDEEFF"
	for _, id := range []string{kept.ID, forgotten} {
		if _, err := etcd.Put(t.Context(), w.store.ClusterPrefix(id)+"/pods/default/web", "x"); err != nil {
			t.Fatal(err)
		}
	}
	w.reopen()
	eventually(t, func() error {
		if n, err := w.store.CountClusterKeys(t.Context(), forgotten); err != nil || n != 0 {
			return fmt.Errorf("%d keys of a forgotten plane, %w", n, err)
		}
		return nil
	})
	if n, err := w.store.CountClusterKeys(t.Context(), kept.ID); err != nil || n != 1 {
		t.Errorf("%d keys of the plane with a record, %v", n, err)
	}
}

// A plane whose record or keys cannot be read does not run, and keeps its state, because a newer Drydock may be able
// to read them.
func TestUnreadablePlanesKeepTheirState(t *testing.T) {
	for _, typ := range []string{"plane", "secret"} {
		t.Run(typ, func(t *testing.T) {
			w := newWorld(t, nil)
			good, bad := w.claim("good", account), w.claim("bad", account)
			etcd, err := clientv3.New(clientv3.Config{Endpoints: w.store.EtcdAccess().Endpoints, Logger: zap.NewNop()})
			if err != nil {
				t.Fatal(err)
			}
			defer etcd.Close()
			if _, err := etcd.Put(t.Context(), w.store.ClusterPrefix(bad.ID)+"/pods/default/web", "x"); err != nil {
				t.Fatal(err)
			}
			err = w.store.Update(t.Context(), func(tx *store.Tx) error {
				damaged := store.NewCollection[string]("controlplane", typ)
				return damaged.Put(tx, store.Key{Account: "drydock", ID: bad.ID}, "not an object")
			})
			if err != nil {
				t.Fatal(err)
			}
			w.reopen()
			if _, err := w.Get(good.ID); err != nil {
				t.Errorf("the other plane: %v", err)
			}
			if _, err := w.Get(bad.ID); !errors.Is(err, controlplane.ErrNotFound) {
				t.Errorf("the unreadable plane runs: %v", err)
			}
			// Strays are removed in the background, before the Manager has closed.
			w.reopen()
			if n, err := w.store.CountClusterKeys(t.Context(), bad.ID); err != nil || n != 1 {
				t.Errorf("%d keys of the unreadable plane are left, %v", n, err)
			}
		})
	}
}

// Authorities expire after ten years. Opening data of that age reissues them, with the same key and name, so that
// certificates signed by them remain valid.
func TestExpiredAuthoritiesAreIssuedAnew(t *testing.T) {
	past := time.Now().AddDate(-11, 0, 0)
	w := newWorld(t, func(cfg *config) { cfg.Clock = clocktesting.NewFakeClock(past) })
	old, err := w.Claim(t.Context(), "old", account)
	if err != nil {
		t.Fatal(err)
	}
	parse := func(caPEM []byte) *x509.Certificate {
		t.Helper()
		block, _ := pem.Decode(caPEM)
		if block == nil {
			t.Fatalf("no certificate: %s", caPEM)
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	before := parse(old.CAPEM)
	if before.NotAfter.After(time.Now()) {
		t.Fatalf("the certificate of the past is good until %s", before.NotAfter)
	}
	w.cfg.Clock = nil
	w.reopen()
	renewed, err := w.Get(old.ID)
	if err != nil {
		t.Fatal(err)
	}
	after := parse(renewed.CAPEM)
	if after.NotAfter.Before(time.Now().AddDate(9, 0, 0)) {
		t.Errorf("the authority is good until %s", after.NotAfter)
	}
	if !bytes.Equal(after.RawSubject, before.RawSubject) || !bytes.Equal(after.RawSubjectPublicKeyInfo, before.RawSubjectPublicKeyInfo) {
		t.Error("the authority has another name or key")
	}
	w.ready(old.ID) // by TLS
	again := w.claim("old", account)
	w.reopen()
	if kept, err := w.Get(old.ID); err != nil || !bytes.Equal(kept.CAPEM, again.CAPEM) {
		t.Errorf("the renewed authority is not kept: %v", err)
	}
}
