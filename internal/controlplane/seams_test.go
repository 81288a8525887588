package controlplane_test

import (
	"context"
	"crypto/rsa"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

func TestTheTokenWebhookAsksForThePlane(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	for _, tc := range []struct {
		token string
		want  authnv1.TokenReviewStatus
	}{
		{"good", authnv1.TokenReviewStatus{Authenticated: true, User: authnv1.UserInfo{Username: "alice", UID: principal("alice"), Groups: []string{p.ID}}}},
		{"bad", authnv1.TokenReviewStatus{Error: "not a good token"}},
	} {
		t.Run(tc.token, func(t *testing.T) {
			answer := w.review(p.ID, "/token-review", `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenReview","spec":{"token":"`+tc.token+`"}}`)
			var got authnv1.TokenReview
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatalf("%v: %s", err, answer)
			}
			if got.Kind != "TokenReview" || got.APIVersion != "authentication.k8s.io/v1" || got.Spec.Token != "" {
				t.Errorf("answer %s", answer)
			}
			if diff := cmp.Diff(tc.want, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheAuthorizationWebhookHasThreeAnswers(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	for _, tc := range []struct {
		user string
		want authzv1.SubjectAccessReviewStatus
	}{
		{"alice", authzv1.SubjectAccessReviewStatus{Allowed: true, Reason: "because of alice"}},
		{"mallory", authzv1.SubjectAccessReviewStatus{Denied: true, Reason: "because of mallory"}},
		{"bob", authzv1.SubjectAccessReviewStatus{Reason: "because of bob"}},
	} {
		t.Run(tc.user, func(t *testing.T) {
			answer := w.review(p.ID, "/access-review", `{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{"user":"`+tc.user+`"}}`)
			var got authzv1.SubjectAccessReview
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatalf("%v: %s", err, answer)
			}
			if diff := cmp.Diff(tc.want, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

// The pod identity webhook admits every pod, changed or, if anything fails, unchanged.
func TestTheAdmissionWebhookRefusesNothing(t *testing.T) {
	w := newWorld(t, func(cfg *config) {
		cfg.Log = testlog.New(t, "err=no luck", "err=json: cannot unmarshal array")
		cfg.MutatePod = func(_ context.Context, planeID, namespace string, pod *corev1.Pod) ([]byte, error) {
			switch pod.Name {
			case "cart":
				return []byte(planeID + " " + namespace), nil
			case "broken":
				return nil, errors.New("no luck")
			}
			return nil, nil
		}
	})
	p := w.claim("o", account)
	jsonPatch := admissionv1.PatchTypeJSONPatch
	for _, tc := range []struct {
		name, request string
		want          admissionv1.AdmissionResponse
	}{
		{"changed", `{"uid":"1","namespace":"shop","object":{"metadata":{"name":"cart"}}}`,
			admissionv1.AdmissionResponse{UID: "1", Allowed: true, Patch: []byte(p.ID + " shop"), PatchType: &jsonPatch}},
		{"unchanged", `{"uid":"2","namespace":"shop","object":{"metadata":{"name":"plain"}}}`, admissionv1.AdmissionResponse{UID: "2", Allowed: true}},
		{"an error", `{"uid":"3","object":{"metadata":{"name":"broken"}}}`, admissionv1.AdmissionResponse{UID: "3", Allowed: true}},
		{"no pod", `{"uid":"4","object":[]}`, admissionv1.AdmissionResponse{UID: "4", Allowed: true}},
		{"no request", `null`, admissionv1.AdmissionResponse{Allowed: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			answer := w.review(p.ID, "/admission-review", `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":`+tc.request+`}`)
			var got admissionv1.AdmissionReview
			if err := json.Unmarshal([]byte(answer), &got); err != nil {
				t.Fatalf("%v: %s", err, answer)
			}
			if diff := cmp.Diff(&tc.want, got.Response); diff != "" || got.Kind != "AdmissionReview" {
				t.Errorf("kind %q, response (-want +got):\n%s", got.Kind, diff)
			}
		})
	}
}

func TestOnlyChildrenReachTheWebhooks(t *testing.T) {
	w := newWorld(t, nil)
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, controlplane.WebhookURL(w.Manager)+"/authenticate", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err == nil {
		resp.Body.Close()
		t.Errorf("a client without certificate got status %s", resp.Status)
	}
}

func (w *world) review(id, path, body string) string {
	w.t.Helper()
	cfg, err := w.RESTConfig(id)
	if err != nil {
		w.t.Fatal(err)
	}
	return request(w.t, cfg, http.MethodPost, path, body)
}

func TestControlPlanesReachNodesThroughTheDaemon(t *testing.T) {
	dial := "/dial?" + url.Values{"to": {"10.0.3.7:10250"}, "say": {"hello"}}.Encode()
	t.Run("by default nothing is behind an address", func(t *testing.T) {
		w := newWorld(t, nil)
		p := w.claim("o", account)
		if got := w.get(p.ID, dial); !strings.HasPrefix(got, "503 pods on simulated nodes run nothing: ") {
			t.Errorf("answer %q", got)
		}
	})
	t.Run("a reason stays on one line", func(t *testing.T) {
		w := newWorld(t, func(cfg *config) {
			cfg.DialCluster = func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("no way\r\nX-Evil: 1")
			}
		})
		p := w.claim("o", account)
		if got := w.get(p.ID, dial); got != "503 no way  X-Evil: 1" {
			t.Errorf("answer %q", got)
		}
	})
	t.Run("bytes travel both ways", func(t *testing.T) {
		var planeID, address string
		w := newWorld(t, func(cfg *config) {
			cfg.DialCluster = func(_ context.Context, id, addr string) (net.Conn, error) {
				planeID, address = id, addr
				return echo(t)
			}
		})
		p := w.claim("o", account)
		if got := w.get(p.ID, dial); got != "you said hello" {
			t.Errorf("answer %q", got)
		}
		if planeID != p.ID || address != "10.0.3.7:10250" {
			t.Errorf("dialled %s of %s", address, planeID)
		}
	})
	t.Run("a long data folder", func(t *testing.T) {
		w := newWorld(t, func(cfg *config) {
			cfg.Dir = filepath.Join(cfg.Dir, strings.Repeat("long", 30))
		})
		p := w.claim("o", account)
		if got := w.get(p.ID, dial); !strings.HasPrefix(got, "503 ") {
			t.Errorf("answer %q", got)
		}
	})
}

// echo returns a connection to a server that repeats what it receives.
func echo(t *testing.T) (net.Conn, error) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer l.Close()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		return nil, err
	}
	server, err := l.Accept()
	if err != nil {
		return nil, err
	}
	go func() {
		b, _ := io.ReadAll(server)
		_, _ = io.WriteString(server, "you said "+string(b))
		server.Close()
	}()
	return conn, nil
}

func TestTheIssuerPublishesTheKeyThatSigns(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	server := httptest.NewServer(w.OIDCHandler())
	defer server.Close()
	fetch := func(path string) (int, []byte) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b
	}

	_, b := fetch("/id/" + p.ID + "/.well-known/openid-configuration")
	var discovery map[string]any
	if err := json.Unmarshal(b, &discovery); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"issuer": p.Issuer, "jwks_uri": p.Issuer + "/keys",
		"authorization_endpoint":                "urn:kubernetes:programmatic_authorization",
		"response_types_supported":              []any{"id_token"},
		"subject_types_supported":               []any{"public"},
		"claims_supported":                      []any{"sub", "iss"},
		"id_token_signing_alg_values_supported": []any{"RS256"},
	}
	if diff := cmp.Diff(want, discovery); diff != "" {
		t.Errorf("discovery (-want +got):\n%s", diff)
	}

	_, served := fetch("/id/" + p.ID + "/keys")
	direct, err := w.JWKS(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(direct), string(served)); diff != "" {
		t.Errorf("JWKS and the served keys differ:\n%s", diff)
	}
	var keys struct {
		Keys []struct{ Kty, Alg, Use, Kid, N, E string }
	}
	if err := json.Unmarshal(served, &keys); err != nil || len(keys.Keys) != 1 {
		t.Fatalf("keys %s, %v", served, err)
	}
	key := keys.Keys[0]
	if key.Kty != "RSA" || key.Alg != "RS256" || key.Use != "sig" || key.Kid == "" {
		t.Errorf("key %+v", key)
	}
	private, err := jwt.ParseRSAPrivateKeyFromPEM(read(t, launch.Files(filepath.Join(w.cfg.Dir, p.ID)).ServiceAccountKey()))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{"iss": p.Issuer}).SignedString(private)
	if err != nil {
		t.Fatal(err)
	}
	public := &rsa.PublicKey{N: bigInt(t, key.N), E: int(bigInt(t, key.E).Int64())}
	if _, err := jwt.Parse(token, func(*jwt.Token) (any, error) { return public, nil }); err != nil {
		t.Errorf("a token of the plane does not verify: %v", err)
	}

	for _, path := range []string{"/id/" + strings.Repeat("0", 32) + "/keys", "/id/" + p.ID, "/"} {
		if code, _ := fetch(path); code != http.StatusNotFound {
			t.Errorf("%s: status %d, want 404", path, code)
		}
	}
}

func bigInt(t *testing.T, s string) *big.Int {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return new(big.Int).SetBytes(b)
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFilesWithKeysAreThePrivateKind(t *testing.T) {
	w := newWorld(t, nil)
	p := w.claim("o", account)
	dir := filepath.Join(w.cfg.Dir, p.ID)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s is %s", e.Name(), info.Mode())
		}
	}
	for _, folder := range []string{dir, w.cfg.Dir} {
		if info, err := os.Stat(folder); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s is %s, %v", folder, info.Mode(), err)
		}
	}
}

func TestCertificatesAreRenewedBeforeTheyExpire(t *testing.T) {
	clock := testclock.NewFakeClock(time.Now())
	w := newWorld(t, func(cfg *config) { cfg.Clock = clock })
	p := w.claim("o", account)
	files := launch.Files(filepath.Join(w.cfg.Dir, p.ID))
	leaves := []string{
		files.Serving(), files.FrontProxy(), files.KubeletClient(), files.ControllerManager(),
		files.Scheduler(), files.WebhookClient(),
	}
	before := map[string]string{}
	for _, path := range leaves {
		before[path] = string(read(t, path))
	}
	// Steps the clock once the Manager waits on it, and waits until it waits again.
	step := func(d time.Duration) {
		t.Helper()
		eventually(t, func() error {
			if !clock.HasWaiters() {
				return errors.New("nobody looks at the clock")
			}
			return nil
		})
		clock.Step(d)
	}
	step(330 * 24 * time.Hour)
	step(controlplane.RenewInterval)
	for _, path := range leaves {
		if string(read(t, path)) != before[path] {
			t.Errorf("%s was renewed with more than 30 days left", filepath.Base(path))
		}
	}
	step(6 * 24 * time.Hour)
	for _, path := range leaves {
		eventually(t, func() error {
			b, err := os.ReadFile(path)
			if err == nil && string(b) == before[path] {
				err = errors.New(filepath.Base(path) + " is not renewed")
			}
			return err
		})
	}
}
