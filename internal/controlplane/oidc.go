package controlplane

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
)

// A jwk is a public RSA key. https://www.rfc-editor.org/rfc/rfc7517
type jwk struct {
	Use string `json:"use"`
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Alg string `json:"alg"`
	N   string `json:"n"`
	E   string `json:"e"`
}

// keySet renders the public part of a signing key with the key ID that kube-apiserver puts into tokens: the hash of
// the public key.
func keySet(signingKey []byte) ([]byte, error) {
	key, err := parseSigningKey(signingKey)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(der)
	b64 := base64.RawURLEncoding.EncodeToString
	return json.Marshal(map[string][]jwk{"keys": {{
		Use: "sig", Kty: "RSA", Alg: "RS256",
		Kid: b64(sum[:]), N: b64(key.N.Bytes()), E: b64(big.NewInt(int64(key.E)).Bytes()),
	}}})
}

// discovery renders the issuer's document in EKS's form.
func discovery(issuer string) ([]byte, error) {
	return json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		Authorization string   `json:"authorization_endpoint"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Claims        []string `json:"claims_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{
		issuer, issuer + "/keys", "urn:kubernetes:programmatic_authorization",
		[]string{"id_token"}, []string{"public"}, []string{"sub", "iss"}, []string{"RS256"},
	})
}

// OIDCHandler serves the issuers' public documents:
// /id/ID/.well-known/openid-configuration and /id/ID/keys.
func (m *Manager) OIDCHandler() http.Handler {
	mux := http.NewServeMux()
	serve := func(document func(p *plane) ([]byte, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			p := m.find(r.PathValue("id"))
			if p == nil {
				http.NotFound(w, r)
				return
			}
			b, err := document(p)
			if err != nil {
				http.Error(w, "cannot read the issuer's key", http.StatusInternalServerError)
				m.cfg.Log.Error("oidc document", "plane", p.id, "err", err)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b)
		}
	}
	mux.HandleFunc("GET /id/{id}/.well-known/openid-configuration", serve(func(p *plane) ([]byte, error) {
		return discovery(p.snapshot().issuer())
	}))
	mux.HandleFunc("GET /id/{id}/keys", serve(func(p *plane) ([]byte, error) { return keySet(p.keys().SigningKey) }))
	return mux
}

// JWKS returns the key set that verifies the plane's service account tokens.
func (m *Manager) JWKS(id string) ([]byte, error) {
	p := m.find(id)
	if p == nil {
		return nil, ErrNotFound
	}
	return keySet(p.keys().SigningKey)
}
