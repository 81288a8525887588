package sts

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// Credentials are temporary credentials.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
	Expiration                                 time.Time
	Principal                                  awsapi.Principal
}

// SessionOptions restrict or describe a role session. The zero value does neither.
type SessionOptions struct {
	Policies   []string // policy documents
	PolicyARNs []string
	Tags       map[string]string
	// TransitiveTagKeys are the keys of Tags that are inherited by roles assumed with the session.
	TransitiveTagKeys []string
	SourceIdentity    string
	// FederatedProvider is the ARN of the identity provider that authenticated the user.
	FederatedProvider string
}

// actions returns the actions that a request for the session requires: base and those for its
// options.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html#id_session-tags_permissions-required
func (o *SessionOptions) actions(base string) []string {
	actions := []string{base}
	if len(o.Tags) > 0 {
		actions = append(actions, "sts:TagSession")
	}
	if o.SourceIdentity != "" {
		actions = append(actions, "sts:SetSourceIdentity")
	}
	return actions
}

// targets returns the targets of a request for the session: resource, with each required action.
func (o *SessionOptions) targets(base, kind, resource string, keys map[string][]string) []authz.Target {
	var out []authz.Target
	for _, action := range o.actions(base) {
		out = append(out, authz.Target{Action: action, Type: kind, ID: resource, Keys: keys, AllKeys: true})
	}
	return out
}

// keys returns the condition keys that the options add to the request, in lower case.
func (o *SessionOptions) keys() map[string][]string {
	keys := map[string][]string{}
	authz.SetTags(keys, o.Tags, "aws:requesttag/")
	if len(o.Tags) > 0 {
		keys["aws:tagkeys"] = slices.Sorted(maps.Keys(o.Tags))
	}
	if len(o.TransitiveTagKeys) > 0 {
		keys["sts:transitivetagkeys"] = o.TransitiveTagKeys
	}
	if o.SourceIdentity != "" {
		keys["sts:sourceidentity"] = []string{o.SourceIdentity}
	}
	return keys
}

// inherit adds what a chained session inherits from the caller's session: transitive tags, which it
// cannot override, and the source identity, which it cannot change.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html#id_session-tags_role-chaining
func (o *SessionOptions) inherit(caller awsapi.Principal) error {
	for _, key := range caller.TransitiveTagKeys {
		if hasFold(o.Tags, key) {
			return transitiveTagTaken()
		}
	}
	for _, key := range caller.TransitiveTagKeys {
		if o.Tags == nil {
			o.Tags = map[string]string{}
		}
		o.Tags[key] = caller.SessionTags[key]
		o.TransitiveTagKeys = append(o.TransitiveTagKeys, key)
	}
	if caller.SourceIdentity != "" && o.SourceIdentity == "" {
		o.SourceIdentity = caller.SourceIdentity
	}
	return nil
}

// sealKeys has the key that encrypts session tokens. It belongs to the installation, not to an
// account. Without it, all sessions are invalid.
var sealKeys = store.NewCollection[sealKey]("sts", "seal-key")

var sealKeyID = store.Key{Account: "installation", ID: "1"}

type sealKey struct{ Key []byte }

// A sealed session is the plaintext of a session token. It does not contain the access key ID,
// which is authenticated instead, so that a token can only be used with the key it was issued with.
type sealed struct {
	Secret    string
	Expires   time.Time
	Principal awsapi.Principal
	// Voucher is the unique ID of the user Principal.Name, with whose permissions the session acts.
	// It is empty for sessions of roles and root.
	Voucher string `json:",omitempty"`
}

// tokenVersion is the first byte of session tokens.
const tokenVersion = 1

// issue issues temporary credentials for p. voucher is the unique ID of the user p.Name on whose
// behalf p acts, if any.
func (s *Service) issue(ctx context.Context, p awsapi.Principal, voucher string, duration time.Duration) (Credentials, error) {
	now := s.clock.Now().UTC().Truncate(time.Second)
	p.AccessKeyID = s.dir.NewAccessKeyID("ASIA", p.Account)
	p.IssuedAt = now
	p.Tags = nil // looked up when the session is used
	secret := make([]byte, 30)
	rand.Read(secret) // never fails
	c := Credentials{
		AccessKeyID: p.AccessKeyID, SecretAccessKey: base64.StdEncoding.EncodeToString(secret),
		Expiration: now.Add(duration), Principal: p,
	}
	aead, err := s.aead(ctx, true)
	if err != nil {
		return Credentials{}, err
	}
	plain, err := json.Marshal(sealed{Secret: c.SecretAccessKey, Expires: c.Expiration, Principal: p, Voucher: voucher})
	if err != nil {
		return Credentials{}, err
	}
	token := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(plain)+aead.Overhead())
	token[0] = tokenVersion
	nonce := token[1:]
	rand.Read(nonce)
	token = aead.Seal(token, nonce, plain, []byte(c.AccessKeyID))
	c.SessionToken = base64.StdEncoding.EncodeToString(token)
	return c, nil
}

// OpenSession returns the secret and the principal of temporary credentials. It returns
// ErrTokenInvalid if this installation did not issue the key together with the token, or if the
// role or user no longer exists, and ErrTokenExpired if the session has ended.
func (s *Service) OpenSession(ctx context.Context, accessKeyID, sessionToken string) (secret string, p awsapi.Principal, err error) {
	token, err := base64.StdEncoding.DecodeString(sessionToken)
	if err != nil {
		return "", p, ErrTokenInvalid
	}
	aead, err := s.aead(ctx, false)
	if errors.Is(err, store.ErrNotFound) {
		return "", p, ErrTokenInvalid
	} else if err != nil {
		return "", p, err
	}
	head := 1 + aead.NonceSize()
	if len(token) < head || token[0] != tokenVersion {
		return "", p, ErrTokenInvalid
	}
	plain, err := aead.Open(nil, token[1:head], token[head:], []byte(accessKeyID))
	if err != nil {
		return "", p, ErrTokenInvalid
	}
	var session sealed
	if err := json.Unmarshal(plain, &session); err != nil {
		return "", p, fmt.Errorf("reading a session token: %w", err)
	}
	if !s.clock.Now().Before(session.Expires) {
		return "", p, ErrTokenExpired
	}
	if !s.stillThere(ctx, session) {
		return "", p, ErrTokenInvalid
	}
	session.Principal.Tags = s.tags(session.Principal)
	return session.Secret, session.Principal, nil
}

// tags returns a session's tags as policies see them. Session tags take precedence over the role's
// or user's.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html
func (s *Service) tags(p awsapi.Principal) map[string]string {
	own := s.dir.TagsOf(p)
	if len(p.SessionTags) == 0 {
		return own
	}
	out := maps.Clone(p.SessionTags)
	for k, v := range own {
		if !hasFold(out, k) {
			out[k] = v
		}
	}
	return out
}

// hasFold reports whether m has a key, ignoring case.
func hasFold(m map[string]string, key string) bool {
	for k := range m {
		if strings.EqualFold(k, key) {
			return true
		}
	}
	return false
}

// stillThere reports whether the role or user that a session acts for still exists, and is not just
// another one of the same name.
func (s *Service) stillThere(ctx context.Context, session sealed) bool {
	p := session.Principal
	switch {
	case p.Type == awsapi.AssumedRole:
		id, _, ok := s.dir.RoleSession(ctx, p.RoleARN)
		return ok && strings.HasPrefix(p.UserID, id+":")
	case p.Type == awsapi.IAMUser, p.Type == awsapi.FederatedUser && p.Name != "":
		return s.dir.UserExists(ctx, p.Account, p.Name, session.Voucher)
	}
	return true
}

// aead returns the cipher for session tokens. If there is no key and create is set, it creates one.
func (s *Service) aead(ctx context.Context, create bool) (cipher.AEAD, error) {
	k, err := sealKeys.Get(s.store, sealKeyID)
	if errors.Is(err, store.ErrNotFound) && create {
		err = s.store.Update(ctx, func(tx *store.Tx) error {
			var err error
			if k, err = sealKeys.Get(tx, sealKeyID); err == nil {
				return nil
			}
			k = newSealKey()
			return sealKeys.Put(tx, sealKeyID, k)
		})
		if err == nil {
			s.log.InfoContext(ctx, "sts: created the key that seals session tokens")
		}
	}
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(k.Key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

func newSealKey() sealKey {
	k := sealKey{Key: make([]byte, 32)}
	rand.Read(k.Key) // never fails
	return k
}

// RoleSession returns the identity of a role session, for AWS services that were passed the role:
// they make calls as the role in process (awsapi.AsRole), without credentials.
func (s *Service) RoleSession(ctx context.Context, roleARN, sessionName string) (awsapi.Principal, error) {
	id, _, ok := s.dir.RoleSession(ctx, roleARN)
	if !ok {
		return awsapi.Principal{}, fmt.Errorf("beginning a session: no role %s", roleARN)
	}
	p := rolePrincipal(roleARN, id, sessionName, SessionOptions{})
	p.IssuedAt, p.Tags = s.clock.Now().UTC().Truncate(time.Second), s.tags(p)
	return p, nil
}

// rolePrincipal returns the identity of a role session. Its ARN does not contain the role's path.
func rolePrincipal(roleARN, id, sessionName string, opts SessionOptions) awsapi.Principal {
	a, _ := arn.Parse(roleARN) // the role exists, so its ARN is valid
	name := a.Resource[strings.LastIndexByte(a.Resource, '/')+1:]
	return awsapi.Principal{
		Type: awsapi.AssumedRole, Account: a.Account,
		ARN:    arn.New("sts", "", a.Account, "assumed-role/"+name+"/"+sessionName),
		UserID: id + ":" + sessionName, Name: name, RoleARN: roleARN, SessionName: sessionName,
		SessionPolicies: opts.Policies, SessionPolicyARNs: opts.PolicyARNs, SessionTags: opts.Tags,
		TransitiveTagKeys: opts.TransitiveTagKeys, SourceIdentity: opts.SourceIdentity, FederatedProvider: opts.FederatedProvider,
	}
}
