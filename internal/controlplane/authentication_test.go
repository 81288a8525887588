package controlplane_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	authnv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// newIssuer starts an OIDC provider that is trusted by processes started later. It returns the provider's URL and a
// function that signs its tokens.
func newIssuer(t *testing.T) (url string, sign func(claims jwt.MapClaims) string) {
	t.Helper()
	key := testkit.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
	mux := http.NewServeMux()
	server := httptest.NewTLSServer(mux)
	t.Cleanup(server.Close)
	b64 := base64.RawURLEncoding.EncodeToString
	for path, document := range map[string]any{
		"/realm/.well-known/openid-configuration": map[string]any{
			"issuer": server.URL + "/realm", "jwks_uri": server.URL + "/realm/keys", "id_token_signing_alg_values_supported": []string{"RS256"},
		},
		"/realm/keys": map[string]any{"keys": []map[string]string{{
			"use": "sig", "kty": "RSA", "alg": "RS256", "kid": "k", "n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes()),
		}}},
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(document) })
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", ca)
	return server.URL + "/realm", func(claims jwt.MapClaims) string {
		token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
		token.Header["kid"] = "k"
		return testkit.Must(token.SignedString(key))(t)
	}
}

// The users of an identity provider have access as soon as SetIdentityProvider returns, and still have it after a
// restart.
func TestIdentityProvider(t *testing.T) {
	issuer, sign := newIssuer(t)
	w := newKubernetes(t)
	p := w.claim("arn", account)
	ctx := t.Context()
	who := func(token string) (authnv1.UserInfo, error) {
		got, err := w.as(p.ID, token).AuthenticationV1().SelfSubjectReviews().Create(ctx, &authnv1.SelfSubjectReview{}, metav1.CreateOptions{})
		if err != nil {
			return authnv1.UserInfo{}, err
		}
		return got.Status.UserInfo, nil
	}
	expires := time.Now().Add(time.Hour).Unix()
	eve := sign(jwt.MapClaims{"iss": issuer, "aud": "kubernetes", "sub": "eve", "team": []string{"dev"}, "env": "test", "exp": expires})
	if _, err := who(eve); !apierrors.IsUnauthorized(err) {
		t.Fatalf("without an identity provider: %v", err)
	}
	idp := &controlplane.IdentityProvider{
		IssuerURL: issuer, ClientID: "kubernetes", UsernameClaim: "sub", UsernamePrefix: "idp:", GroupsClaim: "team", GroupsPrefix: "idp:",
		RequiredClaims: map[string]string{"env": "test"},
	}
	if err := w.SetIdentityProvider(ctx, p.ID, idp); err != nil {
		t.Fatal(err)
	}
	check := func() {
		t.Helper()
		if ok, err := w.AdoptedIdentityProvider(ctx, p.ID); err != nil || !ok {
			t.Errorf("adopted %v, %v", ok, err)
		}
		if user, err := who(eve); err != nil || user.Username != "idp:eve" || !slices.Contains(user.Groups, "idp:dev") {
			t.Errorf("%+v %v", user, err)
		}
	}
	check()
	for what, claims := range map[string]jwt.MapClaims{
		"another audience": {"iss": issuer, "aud": "other", "sub": "eve", "env": "test", "exp": expires},
		"a missing claim":  {"iss": issuer, "aud": "kubernetes", "sub": "eve", "exp": expires},
		"expired":          {"iss": issuer, "aud": "kubernetes", "sub": "eve", "env": "test", "exp": expires - 7200},
	} {
		if _, err := who(sign(claims)); !apierrors.IsUnauthorized(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if user, err := who("good"); err != nil || user.Username != "alice" {
		t.Errorf("a token of the daemon's: %+v %v", user, err)
	}

	w.reopen()
	w.ready(p.ID)
	testkit.Eventually(t, 30*time.Second, func() error { // the API server asks the issuer after it is ready
		_, err := who(eve)
		return err
	})
	check()

	if err := w.SetIdentityProvider(ctx, p.ID, nil); err != nil {
		t.Fatal(err)
	}
	other := sign(jwt.MapClaims{"iss": issuer, "aud": "kubernetes", "sub": "eve", "env": "test", "exp": expires, "jti": "not in a cache"})
	if _, err := who(other); !apierrors.IsUnauthorized(err) {
		t.Errorf("after its removal: %v", err)
	}
}
