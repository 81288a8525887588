package authz

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// ErrNotSealed is returned by Open for a message that was not sealed by this installation or not for that account.
var ErrNotSealed = errors.New("invalid authorization message")

// sealKeys holds the one key of encoded messages. It belongs to the installation.
var sealKeys = store.NewCollection[sealKey]("authz", "seal-key")

var sealKeyID = store.Key{Account: "installation", ID: "1"}

type sealKey struct{ Key []byte }

// messageVersion is the first byte of a sealed message.
const messageVersion = 1

// A message is the answer of DecodeAuthorizationMessage, in AWS's words.
// https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html
type message struct {
	Allowed           bool           `json:"allowed"`
	ExplicitDeny      bool           `json:"explicitDeny"`
	MatchedStatements items[any]     `json:"matchedStatements"`
	Failures          items[any]     `json:"failures"`
	Context           messageContext `json:"context"`
}

type items[T any] struct {
	Items []T `json:"items"`
}

type messageContext struct {
	Principal  messagePrincipal        `json:"principal"`
	Action     string                  `json:"action"`
	Resource   string                  `json:"resource"`
	Conditions items[messageCondition] `json:"conditions"`
}

type messagePrincipal struct {
	ID  string `json:"id"`
	ARN string `json:"arn"`
}

type messageCondition struct {
	Key    string              `json:"key"`
	Values items[messageValue] `json:"values"`
}

type messageValue struct {
	Value string `json:"value"`
}

type matchedStatement struct {
	StatementID     string                  `json:"statementId"`
	Effect          string                  `json:"effect"`
	Principals      items[messageValue]     `json:"principals"`
	PrincipalGroups items[messageValue]     `json:"principalGroups"`
	Actions         items[messageValue]     `json:"actions"`
	Resources       items[messageValue]     `json:"resources"`
	Conditions      items[messageCondition] `json:"conditions"`
}

// maxValues bounds the lists of a statement in a message, because a message must fit into a request of
// DecodeAuthorizationMessage.
const maxValues = 20

func values(list []string) items[messageValue] {
	out := items[messageValue]{[]messageValue{}}
	for _, v := range list[:min(len(list), maxValues)] {
		out.Items = append(out.Items, messageValue{v})
	}
	return out
}

// Message returns the denial as DecodeAuthorizationMessage shows it.
func (d *Denial) Message() ([]byte, error) {
	m := message{
		Allowed: d.Decision.Allowed, ExplicitDeny: d.Decision.ExplicitDeny,
		MatchedStatements: items[any]{[]any{}}, Failures: items[any]{[]any{}},
		Context: messageContext{
			Principal:  messagePrincipal{ID: d.Principal.UserID, ARN: d.Principal.ARN},
			Action:     d.Request.Action,
			Resource:   d.Request.Resource,
			Conditions: items[messageCondition]{[]messageCondition{}},
		},
	}
	for _, match := range d.Decision.Matched[:min(len(d.Decision.Matched), 3)] {
		if s := d.statement(match); s != nil {
			m.MatchedStatements.Items = append(m.MatchedStatements.Items, s)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.Request.Context.Values)) {
		v := d.Request.Context.Values[key]
		if len(v) == 0 || strings.HasPrefix(key, "aws:principaltag/") {
			continue
		}
		m.Context.Conditions.Items = append(m.Context.Conditions.Items, messageCondition{Key: d.check.name(key), Values: values(v)})
	}
	return json.Marshal(m)
}

// statement returns a statement that decided, as messages show it.
func (d *Denial) statement(match policy.Match) *matchedStatement {
	p := &d.Policies
	lists := [][]policy.Source{p.Identity, p.Session, p.Resource, p.Endpoint}
	if p.Boundary != nil {
		lists = append(lists, []policy.Source{*p.Boundary})
	}
	for _, src := range slices.Concat(lists...) {
		if src.Name != match.Source || match.Index >= len(src.Document.Statements) {
			continue
		}
		s := &src.Document.Statements[match.Index]
		out := &matchedStatement{
			StatementID: s.SID, Effect: "ALLOW", Principals: values([]string{d.Principal.UserID}), PrincipalGroups: values(nil),
			Actions: values(s.Actions), Resources: values(s.Resources), Conditions: items[messageCondition]{[]messageCondition{}},
		}
		if s.Deny {
			out.Effect = "DENY"
		}
		for _, c := range s.Conditions {
			out.Conditions.Items = append(out.Conditions.Items, messageCondition{Key: c.Key, Values: values(c.Values)})
		}
		return out
	}
	return nil
}

// seal adds the encoded message to EC2's denials.
func (a *Authorizer) seal(ctx context.Context, d *Denial) error {
	if a.cfg.Store == nil || protocolOf(d.Service) != model.ProtocolEC2 && d.check.target.launch == "" {
		return d
	}
	plain, err := d.Message()
	if err != nil {
		return err
	}
	d.Encoded, err = Seal(ctx, a.cfg.Store, d.Principal.Account, plain)
	if err != nil {
		return err
	}
	return d
}

// Seal encodes a message that only the given account can decode.
func Seal(ctx context.Context, st *store.Store, account string, plain []byte) (string, error) {
	aead, err := cipherOf(ctx, st, true)
	if err != nil {
		return "", err
	}
	out := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(plain)+aead.Overhead())
	out[0] = messageVersion
	rand.Read(out[1:]) // never fails
	out = aead.Seal(out, out[1:], plain, []byte(account))
	return base64.RawURLEncoding.EncodeToString(out), nil
}

// Open decodes a message that was sealed for account, or returns ErrNotSealed.
func Open(ctx context.Context, st *store.Store, account, encoded string) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, ErrNotSealed
	}
	aead, err := cipherOf(ctx, st, false)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotSealed
	} else if err != nil {
		return nil, err
	}
	head := 1 + aead.NonceSize()
	if len(sealed) < head || sealed[0] != messageVersion {
		return nil, ErrNotSealed
	}
	plain, err := aead.Open(nil, sealed[1:head], sealed[head:], []byte(account))
	if err != nil {
		return nil, ErrNotSealed
	}
	return plain, nil
}

// cipherOf returns the cipher that encrypts encoded messages. If create is set, it creates a missing key.
func cipherOf(ctx context.Context, st *store.Store, create bool) (cipher.AEAD, error) {
	k, err := sealKeys.Get(st, sealKeyID)
	if errors.Is(err, store.ErrNotFound) && create {
		err = st.Update(ctx, func(tx *store.Tx) error {
			var err error
			if k, err = sealKeys.Get(tx, sealKeyID); err == nil {
				return nil
			}
			k = sealKey{Key: make([]byte, 32)}
			rand.Read(k.Key) // never fails
			return sealKeys.Put(tx, sealKeyID, k)
		})
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
