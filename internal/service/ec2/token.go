package ec2

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/store"
)

// tokenLifetime is how long a client token is remembered.
// https://docs.aws.amazon.com/ec2/latest/devguide/ec2-api-idempotency.html
const tokenLifetime = 24 * time.Hour

// A clientTokenRecord remembers what a call with a ClientToken made.
type clientTokenRecord struct {
	Hash string // of the request
	IDs  []string
	// Incomplete marks a request that is carried out in several transactions
	// and has not come to its end.
	Incomplete bool `json:",omitempty"`
	Created    time.Time
}

func tokenKey(sc scope, operation, token string) store.Key {
	return sc.key(operation + "/" + token)
}

// requestHash identifies a request's arguments.
func requestHash(in any) (string, error) {
	raw, err := json.Marshal(in)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return base64.RawStdEncoding.EncodeToString(sum[:]), nil
}

// recall returns what an earlier request with the same token made; nil if there
// was none. in is the request.
func (s *Service) recall(r store.Reader, sc scope, operation string, token *string, in any) (*clientTokenRecord, error) {
	if aws.ToString(token) == "" {
		return nil, nil
	}
	if len(*token) > 64 {
		return nil, errInvalidParameter("The client token '%s' is invalid: it must be at most 64 characters long.", *token)
	}
	rec, err := clientTokens.Get(r, tokenKey(sc, operation, *token))
	if notFound(err) || err == nil && s.now().Sub(rec.Created) > tokenLifetime {
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
		return nil, errIdempotentMismatch()
	}
	return &rec, nil
}

// recallOne reads into made the one resource that an earlier call with the same
// token created, and says whether there was such a call.
func recallOne[T any](r store.Reader, s *Service, sc scope, operation string, token *string, in any, c store.Collection[T], kind idKind, made *T) (bool, error) {
	done, err := s.recall(r, sc, operation, token, in)
	if err != nil || done == nil {
		return false, err
	}
	*made, err = get(r, c, sc, kind, done.IDs[0])
	return true, err
}

// remember notes what a request with a token made.
func (s *Service) remember(tx *store.Tx, sc scope, operation string, token *string, in any, incomplete bool, ids ...string) error {
	if aws.ToString(token) == "" {
		return nil
	}
	hash, err := requestHash(in)
	if err != nil {
		return err
	}
	return clientTokens.Put(tx, tokenKey(sc, operation, *token), clientTokenRecord{
		Hash: hash, IDs: ids, Incomplete: incomplete, Created: s.now(),
	})
}

// tokenReconcilers forget client tokens in time.
func (s *Service) tokenReconcilers() []reconcile.Config {
	return []reconcile.Config{
		{Name: "ec2/client-token", Watcher: clientTokens.Watch(s.store, store.Scope{}), Reconcile: s.reconcileToken, Workers: 1},
	}
}

// reconcileToken forgets client tokens in time.
func (s *Service) reconcileToken(ctx context.Context, k store.Key) (time.Duration, error) {
	rec, err := clientTokens.Get(s.store, k)
	if notFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if left := rec.Created.Add(tokenLifetime).Sub(s.now()); left > 0 {
		return left, nil
	}
	return 0, s.store.Update(ctx, func(tx *store.Tx) error {
		clientTokens.Delete(tx, k)
		return nil
	})
}
