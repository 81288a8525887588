package child

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	clientauth "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
)

// credentials gets tokens from the programs that kubeconfigs name. kubectl makes several clients of one kubeconfig, which
// share their tokens.
type credentials struct {
	run func(args, env []string) (kubectl.Reply, error)

	mu      sync.Mutex
	sources map[string]*source // by the program's configuration in JSON
}

// of returns the source of a configuration.
func (c *credentials) of(x *api.ExecConfig) (*source, error) {
	key, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources == nil {
		c.sources = map[string]*source{}
	}
	s := c.sources[string(key)]
	if s == nil {
		s = &source{run: c.run, config: x}
		c.sources[string(key)] = s
	}
	return s, nil
}

// A source is a program that prints tokens.
type source struct {
	run    func(args, env []string) (kubectl.Reply, error)
	config *api.ExecConfig

	mu      sync.Mutex
	token   string // empty if the program must run
	expires time.Time
	failed  error // the program has failed; kubectl does not run it again
}

// get returns a token, and runs the program if there is none or it has expired.
func (s *source) get() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil && (s.token == "" || !s.expires.IsZero() && !time.Now().Before(s.expires)) {
		s.token, s.expires, s.failed = s.ask()
	}
	return s.token, s.failed
}

// drop forgets a token that a server has refused.
func (s *source) drop(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token == token {
		s.token = ""
	}
}

// ask runs the program.
func (s *source) ask() (token string, expires time.Time, err error) {
	x := s.config
	var env []string
	for _, e := range x.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	refuse := func(format string, args ...any) (string, time.Time, error) {
		return "", time.Time{}, fmt.Errorf("getting credentials: "+format, args...) // client-go's texts: plugin/pkg/client/auth/exec
	}
	reply, err := s.run(append([]string{x.Command}, x.Args...), env)
	switch {
	case err != nil:
		return refuse("exec: %w", err)
	case reply.Error == kubectl.NotFound:
		return refuse("exec: executable %s not found\n\n%s", x.Command, x.InstallHint)
	case reply.Error != "":
		return refuse("exec: %w", errors.New(reply.Error))
	case reply.Status != 0:
		return refuse("exec: executable %s failed with exit code %d", x.Command, reply.Status)
	}
	var cred clientauth.ExecCredential
	if err := json.Unmarshal(reply.Stdout, &cred); err != nil {
		return refuse("decoding stdout: %w", err)
	}
	if cred.APIVersion != x.APIVersion {
		return refuse("exec plugin is configured to use API version %s, plugin returned version %s", x.APIVersion, cred.APIVersion)
	}
	if cred.Status == nil || cred.Status.Token == "" {
		return refuse("exec plugin didn't return a token or cert/key pair")
	}
	if t := cred.Status.ExpirationTimestamp; t != nil {
		expires = t.Time
	}
	return cred.Status.Token, expires, nil
}

// A bearer authenticates requests by a source's tokens, unless they already have credentials, such as those of --token.
type bearer struct {
	rt     http.RoundTripper
	source *source
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return b.rt.RoundTrip(r)
	}
	token, err := b.source.get()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := b.rt.RoundTrip(r)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		b.source.drop(token)
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.rt }
