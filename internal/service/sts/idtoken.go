package sts

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// An IssuerKeys returns the key set (JWKS, RFC 7517) of an issuer. ok is false if the issuer is
// unknown. Drydock does not contact issuers on the internet.
type IssuerKeys func(ctx context.Context, issuer string) (keySet []byte, ok bool)

// An idToken is an OpenID Connect ID token with a valid signature.
type idToken struct {
	providerARN string
	provider    string // the issuer without its scheme, as in the names of condition keys
	subject     string
	audience    string   // azp, or else the audience that is registered with the provider
	original    []string // the original audiences, if azp replaced them
	methods     []string // amr
	source      string   // source identity
	tags        map[string]string
	transitive  []string
}

// claims are the claims that STS reads.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html#id_session-tags_adding-assume-role-idp
type claims struct {
	jwt.RegisteredClaims
	AuthorizedParty string           `json:"azp"`
	Methods         jwt.ClaimStrings `json:"amr"`
	SourceIdentity  string           `json:"https://aws.amazon.com/source_identity"`
	Tags            *struct {
		Principal  map[string]jwt.ClaimStrings `json:"principal_tags"`
		Transitive []string                    `json:"transitive_tag_keys"`
	} `json:"https://aws.amazon.com/tags"`
}

// tokenAlgorithms are the signature algorithms that STS accepts; "none" is not one of them.
var tokenAlgorithms = []string{"RS256", "ES256"}

// readToken validates a web identity token for a role of account. The provider must be registered
// in the account, the signature must be the issuer's, the audience must be one of the provider's
// client IDs, and the token must not have expired.
func (s *Service) readToken(ctx context.Context, account, token string) (idToken, error) {
	parser := jwt.NewParser(jwt.WithValidMethods(tokenAlgorithms), jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding())
	var c claims
	if _, _, err := parser.ParseUnverified(token, &c); err != nil {
		return idToken{}, notAToken()
	}
	switch {
	case c.Issuer == "":
		return idToken{}, missingClaim("iss")
	case c.Subject == "":
		return idToken{}, missingClaim("sub")
	case len(c.Audience) == 0:
		return idToken{}, missingClaim("aud")
	case c.ExpiresAt == nil:
		return idToken{}, missingClaim("exp")
	case c.IssuedAt == nil:
		return idToken{}, missingClaim("iat")
	}
	host, ok := strings.CutPrefix(c.Issuer, "https://")
	if !ok {
		return idToken{}, issuerIsNoURL()
	}
	providerARN, clientIDs, ok := s.dir.OIDCProvider(ctx, account, host)
	if !ok {
		return idToken{}, noProvider(c.Issuer)
	}
	if err := s.checkSignature(ctx, parser, token, c.Issuer); err != nil {
		return idToken{}, err
	}
	t := idToken{
		providerARN: providerARN, provider: providerARN[strings.IndexByte(providerARN, '/')+1:], subject: c.Subject, methods: c.Methods, source: c.SourceIdentity,
	}
	if c.AuthorizedParty != "" {
		t.original = c.Audience
		c.Audience = jwt.ClaimStrings{c.AuthorizedParty}
	}
	i := slices.IndexFunc(c.Audience, func(a string) bool { return slices.Contains(clientIDs, a) })
	if i < 0 {
		return idToken{}, wrongAudience()
	}
	t.audience = c.Audience[i]
	now := s.clock.Now()
	if !now.Before(c.ExpiresAt.Time) {
		return idToken{}, tokenExpired(now, c.ExpiresAt.Time)
	}
	// Tolerate a clock that is up to a minute fast.
	const clockSkew = time.Minute
	if c.NotBefore != nil && now.Add(clockSkew).Before(c.NotBefore.Time) || now.Add(clockSkew).Before(c.IssuedAt.Time) {
		return idToken{}, tokenNotYet()
	}
	return t, t.readTags(&c)
}

func (s *Service) checkSignature(ctx context.Context, parser *jwt.Parser, token, issuer string) error {
	var keySet []byte
	ok := false
	if s.issuerKeys != nil {
		keySet, ok = s.issuerKeys(ctx, issuer)
	}
	if !ok {
		return noVerificationKey()
	}
	var unknown error
	_, err := parser.Parse(token, func(t *jwt.Token) (any, error) {
		kid, _ := t.Header["kid"].(string)
		var key any
		key, unknown = verificationKey(keySet, kid)
		return key, unknown
	})
	switch {
	case unknown != nil:
		s.log.DebugContext(ctx, "sts: no key for a web identity token", "issuer", issuer, "err", unknown)
		return noVerificationKey()
	case err != nil:
		return wrongSignature()
	}
	return nil
}

// readTags reads session tags from the token.
func (t *idToken) readTags(c *claims) error {
	if c.Tags == nil {
		return nil
	}
	for k, v := range c.Tags.Principal {
		if len(v) != 1 {
			return rejectedClaim("The principal tag %q must have exactly one value", k)
		}
		if t.tags == nil {
			t.tags = map[string]string{}
		}
		t.tags[k] = v[0]
	}
	t.transitive = c.Tags.Transitive
	return nil
}

// keys returns the condition keys that the token adds to the request, in lower case.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_iam-condition-keys.html#condition-keys-wif
func (t *idToken) keys() map[string][]string {
	prefix := strings.ToLower(t.provider) + ":"
	keys := map[string][]string{
		prefix + "aud": {t.audience}, prefix + "sub": {t.subject}, "aws:federatedprovider": {t.providerARN},
	}
	if len(t.methods) > 0 {
		keys[prefix+"amr"] = t.methods
	}
	if len(t.original) > 0 {
		keys[prefix+"oaud"] = t.original
	}
	return keys
}
