package controlplane

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserver "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	"k8s.io/client-go/rest"
)

// An IdentityProvider is an OpenID Connect provider whose ID tokens the API server accepts.
// https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens
type IdentityProvider struct {
	// IssuerURL is the iss claim of the tokens. The API server fetches the keys from it.
	IssuerURL string
	// ClientID must be among the audiences of a token.
	ClientID string
	// UsernameClaim and GroupsClaim are the claims with the user's name and groups. Without a GroupsClaim, users have
	// no groups.
	UsernameClaim, GroupsClaim string
	// UsernamePrefix and GroupsPrefix are put before the names.
	UsernamePrefix, GroupsPrefix string
	// RequiredClaims are claims that a token must have, with these values.
	RequiredClaims map[string]string
}

// adoptWait is how long SetIdentityProvider waits for the API server, which checks every 10 seconds whether it can
// reach a new provider.
const adoptWait = 15 * time.Second

// writeAuthentication writes the API server's AuthenticationConfiguration, which the API server reloads when it
// changes, and returns it. It fails if the plane's process has never been started, because the plane has no folder yet.
func (p *plane) writeAuthentication() ([]byte, error) {
	p.authentication.Lock()
	defer p.authentication.Unlock()
	config, err := p.authenticationFile()
	if err != nil {
		return nil, err
	}
	if err := writeFile(p.dir().Authentication(), config); !errors.Is(err, fs.ErrNotExist) {
		return config, err
	}
	return nil, nil
}

// authenticationFile returns the plane's AuthenticationConfiguration as its file has it.
func (p *plane) authenticationFile() ([]byte, error) {
	return json.Marshal(authenticationConfig(p.snapshot().IdentityProvider))
}

// authenticationConfig admits the users of an identity provider, if there is one. Since Kubernetes 1.32, EKS lets
// anonymous users access the health checks only and answers 401 for anything else.
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html
func authenticationConfig(idp *IdentityProvider) apiserver.AuthenticationConfiguration {
	config := apiserver.AuthenticationConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: apiserver.ConfigSchemeGroupVersion.String(), Kind: "AuthenticationConfiguration"},
		Anonymous: &apiserver.AnonymousAuthConfig{
			Enabled: true, Conditions: []apiserver.AnonymousAuthCondition{{Path: "/healthz"}, {Path: "/livez"}, {Path: "/readyz"}},
		},
	}
	if idp == nil {
		return config
	}
	jwt := apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: idp.IssuerURL, Audiences: []string{idp.ClientID}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: idp.UsernameClaim, Prefix: &idp.UsernamePrefix}},
	}
	if idp.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: idp.GroupsClaim, Prefix: &idp.GroupsPrefix}
	}
	for _, claim := range slices.Sorted(maps.Keys(idp.RequiredClaims)) {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: claim, RequiredValue: idp.RequiredClaims[claim]})
	}
	config.JWT = []apiserver.JWTAuthenticator{jwt}
	return config
}

// awaitAuthentication waits until the API server's metrics show that it uses a configuration, but no longer than
// adoptWait.
func (p *plane) awaitAuthentication(ctx context.Context, config []byte) error {
	waiting, cancel := context.WithTimeout(ctx, adoptWait)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if ok, err := p.uses(waiting, config); ok && err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			if err := ctx.Err(); err != nil {
				return err
			}
			p.m.cfg.Log.Warn("the API server has not adopted its identity provider yet; it tries again when the issuer answers", "plane", p.id)
			return nil
		}
	}
}

// AdoptedIdentityProvider reports whether the API server uses what SetIdentityProvider has set. Until it has read the keys of a
// provider, it uses what was set before.
func (m *Manager) AdoptedIdentityProvider(ctx context.Context, id string) (bool, error) {
	p := m.find(id)
	if p == nil {
		return false, ErrNotFound
	}
	config, err := p.authenticationFile()
	if err != nil {
		return false, err
	}
	return p.uses(ctx, config)
}

// uses reports whether the API server's metrics show that it uses an AuthenticationConfiguration.
func (p *plane) uses(ctx context.Context, config []byte) (bool, error) {
	metrics, err := get(ctx, p.clients.config(true), "/metrics")
	return bytes.Contains(metrics, fmt.Appendf(nil, "hash=\"sha256:%x\"", sha256.Sum256(config))), err
}

func get(ctx context.Context, client *rest.Config, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, client.Host+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := (&http.Client{Transport: client.Transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(io.LimitReader(resp.Body, 64<<20))
}
