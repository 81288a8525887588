package resource

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/store"
)

// tokenLifetime is how long a client token is remembered.
// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
const tokenLifetime = 24 * time.Hour

// A clientTokenRecord records what a call with a ClientToken created.
type clientTokenRecord struct {
	Hash string // hash of the request
	IDs  []string
	// Incomplete marks a request that takes several transactions and has not finished.
	Incomplete bool `json:",omitempty"`
	Created    time.Time
}

// TokenKey returns the key of an operation's client token.
func TokenKey(sc Scope, operation, token string) store.Key {
	return sc.Key(operation + "/" + token)
}

// requestHash returns a hash of a request's arguments.
func requestHash(in any) (string, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return base64.RawStdEncoding.EncodeToString(sum[:]), nil
}

// Recall returns the record of an earlier request with the same token, or nil if there was none. It
// returns an error if the arguments, in, differ.
func (s *Core) Recall(r store.Reader, sc Scope, operation string, token *string, in any) (*clientTokenRecord, error) {
	if aws.ToString(token) == "" {
		return nil, nil
	}
	if len(*token) > 64 {
		return nil, ec2err.InvalidParameterValue("The client token '%s' is invalid: it must be at most 64 characters long.", *token)
	}
	rec, err := ClientTokens.Get(r, TokenKey(sc, operation, *token))
	if NotFound(err) || err == nil && s.Now().Sub(rec.Created) > tokenLifetime {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	hash, err := requestHash(in)
	if err != nil {
		return nil, err
	}
	if rec.Hash != hash {
		return nil, ec2err.IdempotentMismatch()
	}
	return &rec, nil
}

// Remember records what a request with a token created.
func (s *Core) Remember(tx *store.Tx, sc Scope, operation string, token *string, in any, incomplete bool, ids ...string) error {
	if aws.ToString(token) == "" {
		return nil
	}
	hash, err := requestHash(in)
	if err != nil {
		return err
	}
	return ClientTokens.Put(tx, TokenKey(sc, operation, *token), clientTokenRecord{
		Hash: hash, IDs: ids, Incomplete: incomplete, Created: s.Now(),
	})
}

// Reconcilers delete expired client tokens.
func (s *Core) Reconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/client-token", Watcher: ClientTokens.Watch(s.Store, store.Scope{}), Reconcile: s.reconcileToken, Workers: 1},
	}
}

// reconcileToken deletes a client token when it expires.
func (s *Core) reconcileToken(ctx context.Context, k store.Key) (time.Duration, error) {
	rec, err := ClientTokens.Get(s.Store, k)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if left := rec.Created.Add(tokenLifetime).Sub(s.Now()); left > 0 {
		return left, nil
	}
	return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
		ClientTokens.Delete(tx, k)
		return nil
	})
}

var ClientTokens = store.NewCollection[clientTokenRecord]("ec2", "client-token")
