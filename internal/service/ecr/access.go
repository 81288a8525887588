package ecr

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	awssecretsmanager "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// An access is how an upstream registry is reached.
type access struct {
	url   string
	next  http.RoundTripper
	login authn.Authenticator
	// secrets are texts that must not be logged.
	secrets []string
}

// access returns how the upstream registry of a rule is reached.
func (s *Service) access(ctx context.Context, sc scope, r *cacheRuleRecord) (*access, error) {
	kind, ok := upstreamOf(r.URL)
	if !ok { // the rule was made when more was accepted
		return nil, errUpstream(r.URL)
	}
	a := &access{url: r.URL, next: s.cfg.Upstream, login: authn.Anonymous}
	var user, password string
	var err error
	switch {
	case kind == ecrtypes.UpstreamRegistryEcr:
		a.next, user = s.cfg.Own, User
		password, err = s.upstreamToken(ctx, sc, r)
	case r.Credential != "":
		user, password, err = s.credential(ctx, sc, r.Credential)
	default:
		return a, nil
	}
	a.login = &authn.Basic{Username: user, Password: password}
	a.secrets = []string{password, base64.StdEncoding.EncodeToString([]byte(user + ":" + password))}
	return a, err
}

// reaches reports whether the upstream registry of a rule can be reached at all: the others need the internet.
func (s *Service) reaches(r *cacheRuleRecord) bool {
	if r.Upstream == string(ecrtypes.UpstreamRegistryEcr) {
		return s.cfg.Own != nil
	}
	return s.cfg.Upstream != nil
}

// upstreamToken returns a password for another private registry: one of the rule's custom role or, within an account, of ECR's
// service-linked role.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-private.html
func (s *Service) upstreamToken(ctx context.Context, sc scope, r *cacheRuleRecord) (string, error) {
	p := awsapi.CallFrom(awsapi.AsService(ctx, sc.Account, sc.Region, cacheRole, s.now())).Principal
	switch m := ecrForm.FindStringSubmatch(r.URL); {
	case r.CustomRole != "":
		var err error
		if p, err = s.assume(ctx, r.CustomRole, cacheRole.Service); err != nil {
			return "", errAssume(r.CustomRole)
		}
	case m[1] != sc.Account: // the rule was made when more was accepted
		return "", errNeedsRole()
	}
	return s.seal(ctx, forRegistry, token{p, s.now().Add(tokenLife)})
}

func (s *Service) assume(ctx context.Context, role, service string) (awsapi.Principal, error) {
	if s.cfg.Assume == nil {
		return awsapi.Principal{}, errors.New("roles cannot be assumed")
	}
	return s.cfg.Assume(ctx, role, service)
}

// secret reads a secret under ECR's service-linked role.
func (s *Service) secret(ctx context.Context, sc scope, id string) ([]byte, error) {
	a, err := arn.Parse(id)
	switch {
	case s.cfg.Secrets == nil:
		return nil, errSecretAccess()
	case err != nil || a.Account != sc.Account || a.Region != sc.Region:
		return nil, errSecretElsewhere()
	}
	out, err := s.cfg.Secrets.GetSecretValue(awsapi.AsService(ctx, sc.Account, sc.Region, cacheRole, s.now()), &awssecretsmanager.GetSecretValueInput{SecretId: &id})
	switch code := awserr.CodeOf(err); {
	case err == nil:
		return append([]byte(aws.ToString(out.SecretString)), out.SecretBinary...), nil
	case awsapi.IsThrottle(err):
		return nil, err
	case code == "ResourceNotFoundException":
		return nil, errNoSecret()
	case code == "DecryptionFailure", code == "AccessDeniedException" && awserr.TextOf(err) == "Access to KMS is not allowed":
		return nil, errSecretEncryption()
	case code != "":
		return nil, errSecretAccess()
	}
	return nil, err
}

// credential reads the user name and password for an upstream registry.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-creating-secret.html
func (s *Service) credential(ctx context.Context, sc scope, id string) (user, password string, err error) {
	raw, err := s.secret(ctx, sc, id)
	if err != nil {
		return "", "", err
	}
	var v struct {
		Username    string `json:"username"`
		AccessToken string `json:"accessToken"`
	}
	if json.Unmarshal(raw, &v) != nil || v.Username == "" || v.AccessToken == "" { // the error may quote the secret
		return "", "", errSecretForm()
	}
	return v.Username, v.AccessToken, nil
}

// failed returns the error for a request that an upstream registry did not answer as it should.
func (s *Service) failed(ctx context.Context, a *access, err error) error {
	answered := (*transport.Error)(nil)
	if a.login != authn.Anonymous && errors.As(err, &answered) && (answered.StatusCode == http.StatusUnauthorized || answered.StatusCode == http.StatusForbidden) {
		return errAuthentication()
	}
	text := err.Error()
	for _, secret := range a.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	s.log.WarnContext(ctx, "ecr: pulling through from "+a.url, "err", text)
	return errUnreachable(a.url)
}

// probe connects with the upstream registry of a rule, and logs in if the rule has credentials.
func (s *Service) probe(ctx context.Context, sc scope, r *cacheRuleRecord) error {
	if !s.reaches(r) {
		return errUnreachable(r.URL)
	}
	a, err := s.access(ctx, sc, r)
	if err != nil {
		return err
	}
	registry, err := name.NewRegistry(a.url, name.StrictValidation)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	t, err := transport.NewWithContext(ctx, registry, a.login, bounded{a.next}, nil)
	if err != nil {
		return s.failed(ctx, a, err)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+registry.RegistryStr()+"/v2/", nil)
	if err != nil {
		return err
	}
	res, err := t.RoundTrip(q)
	if err == nil {
		defer res.Body.Close()
		if a.login != authn.Anonymous { // registries may want a token for each repository
			err = transport.CheckError(res, http.StatusOK)
		}
	}
	if err != nil {
		return s.failed(ctx, a, err)
	}
	return nil
}
