package kms

import (
	"context"
	"regexp"
	"strings"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

const aliasPrefix = "alias/"

// keyIDForm matches the IDs of single-Region and multi-Region keys. Drydock has no multi-Region
// keys.
var keyIDForm = regexp.MustCompile(`^([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|mrk-[0-9a-f]{32})$`)

// A ref is a parsed reference to a key in a request.
type ref struct {
	scope
	id    string // key ID, or empty
	alias string // alias name with its prefix, or empty
}

// parseRef parses the ID or ARN of a key or alias.
// https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#key-id
func parseRef(sc scope, name string) (ref, error) {
	out := ref{scope: sc}
	resource := name
	if strings.HasPrefix(name, "arn:") {
		a, err := arn.Parse(name)
		if err != nil || a.Partition != awsapi.Partition || a.Service != "kms" || len(a.Account) != 12 || strings.Trim(a.Account, "0123456789") != "" {
			return ref{}, errARN(name)
		}
		if a.Region != sc.Region {
			return ref{}, errRegion(a.Region)
		}
		id, isKey := strings.CutPrefix(a.Resource, "key/")
		if !isKey && !strings.HasPrefix(a.Resource, aliasPrefix) {
			return ref{}, errARN(name)
		}
		out.Account, resource = a.Account, id
		if isKey && !keyIDForm.MatchString(id) {
			return ref{}, errKeyID(id)
		}
		if !isKey {
			resource = a.Resource
		}
	}
	if strings.HasPrefix(resource, aliasPrefix) {
		out.alias = resource
		return out, nil
	}
	if !keyIDForm.MatchString(resource) {
		return ref{}, errKeyID(resource)
	}
	out.id = resource
	return out, nil
}

// lookup returns the key that a ref refers to, directly or by an alias.
func (s *Service) lookup(r store.Reader, k ref) (keyRecord, scope, error) {
	if k.alias != "" {
		a, err := aliases.Get(r, k.Key(k.alias))
		if store.IsNotFound(err) {
			return keyRecord{}, k.scope, errNoAlias(k.arn(k.alias))
		}
		if err != nil {
			return keyRecord{}, k.scope, err
		}
		k.id = a.KeyID
	}
	rec, err := keys.Get(r, k.Key(k.id))
	if store.IsNotFound(err) || err == nil && rec.gone(s.now()) {
		return keyRecord{}, k.scope, errNoKey(k.keyARN(k.id))
	}
	return rec, k.scope, err
}

// find returns the key in a request, from any account.
func (s *Service) find(r store.Reader, sc scope, name *string) (keyRecord, scope, error) {
	k, err := parseRef(sc, *name)
	if err != nil {
		return keyRecord{}, sc, err
	}
	return s.lookup(r, k)
}

// findKey is find for operations that accept neither alias names nor alias ARNs.
func (s *Service) findKey(r store.Reader, sc scope, name *string) (keyRecord, scope, error) {
	if name != nil {
		k, err := parseRef(sc, *name)
		switch {
		case err != nil || k.alias == "":
		case k.alias == *name:
			return keyRecord{}, sc, errKeyID(*name)
		default:
			return keyRecord{}, sc, errAliasARN()
		}
	}
	return s.find(r, sc, name)
}

// findOwn is findKey for operations that cannot be used on keys of other accounts.
func (s *Service) findOwn(ctx context.Context, r store.Reader, name *string) (keyRecord, scope, error) {
	sc := scopeOf(ctx)
	rec, of, err := s.findKey(r, sc, name)
	if err == nil && of.Account != sc.Account {
		call := awsapi.CallFrom(ctx)
		return keyRecord{}, sc, errOtherAccount(call.Principal.ARN, call.Operation, rec.ARN)
	}
	return rec, of, err
}

// accountOf returns the account in a key's ARN.
func accountOf(keyARN string) string {
	a, err := arn.Parse(keyARN)
	if err != nil {
		return ""
	}
	return a.Account
}
