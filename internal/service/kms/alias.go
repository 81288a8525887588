package kms

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// maxAliases is the maximum number of aliases per key.
// https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html
const maxAliases = 50

const reservedPrefix = "alias/aws/"

// checkAlias checks the name of an alias to be created, changed or deleted.
func checkAlias(name string) error {
	switch {
	case !strings.HasPrefix(name, aliasPrefix):
		return errAliasPrefix()
	case strings.HasPrefix(name, reservedPrefix):
		return errReservedAlias()
	case strings.Contains(name, ":"):
		return errAliasCharacters(name)
	case name == aliasPrefix:
		return errAliasPrefix()
	}
	return nil
}

// aliasesOf returns the names of a key's aliases.
func (s *Service) aliasesOf(r store.Reader, sc scope, keyID string) []string {
	var out []string
	for _, a := range aliases.All(r, sc.All()) {
		if a.Value.KeyID == keyID {
			out = append(out, a.Value.Name)
		}
	}
	return out
}

// aliasTarget returns the key for which an alias is to be set.
func (s *Service) aliasTarget(ctx context.Context, tx *store.Tx, name *string) (keyRecord, scope, error) {
	if strings.HasPrefix(*name, aliasPrefix) || strings.Contains(*name, ":"+aliasPrefix) {
		return keyRecord{}, scope{}, errAliasOfAlias()
	}
	rec, sc, err := s.findOwn(ctx, tx, name)
	if err == nil {
		err = notDeleting(&rec)
	}
	if err != nil {
		return keyRecord{}, scope{}, err
	}
	if len(s.aliasesOf(tx, sc, rec.ID)) >= maxAliases {
		err = errLimit("aliases of a KMS key", maxAliases)
	}
	return rec, sc, err
}

// CreateAlias creates an alias of a key.
func (s *Service) CreateAlias(ctx context.Context, in *awskms.CreateAliasInput) (*awskms.CreateAliasOutput, error) {
	name := aws.ToString(in.AliasName)
	if err := checkAlias(name); err != nil {
		return nil, err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := aliases.Get(tx, scopeOf(ctx).Key(name)); err == nil {
			return errAliasExists(scopeOf(ctx).arn(name))
		}
		rec, sc, err := s.aliasTarget(ctx, tx, in.TargetKeyId)
		if err != nil {
			return err
		}
		return aliases.Put(tx, sc.Key(name), aliasRecord{Name: name, KeyID: rec.ID, Created: s.now(), Updated: s.now()})
	})
	return &awskms.CreateAliasOutput{}, err
}

// UpdateAlias changes an alias to another key of the same kind.
func (s *Service) UpdateAlias(ctx context.Context, in *awskms.UpdateAliasInput) (*awskms.UpdateAliasOutput, error) {
	name := aws.ToString(in.AliasName)
	if err := checkAlias(name); err != nil {
		return nil, err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		from, _, err := s.lookup(tx, ref{scope: scopeOf(ctx), alias: name})
		if err != nil {
			return err
		}
		if to := aws.ToString(in.TargetKeyId); to == from.ID || to == from.ARN {
			return nil
		}
		to, sc, err := s.aliasTarget(ctx, tx, in.TargetKeyId)
		if err != nil {
			return err
		}
		if from.Spec != to.Spec || from.Usage != to.Usage {
			return errAliasKind(&from, &to)
		}
		return aliases.Update(tx, sc.Key(name), func(a *aliasRecord) error {
			a.KeyID, a.Updated = to.ID, s.now()
			return nil
		})
	})
	return &awskms.UpdateAliasOutput{}, err
}

// DeleteAlias deletes an alias. Its key stays.
func (s *Service) DeleteAlias(ctx context.Context, in *awskms.DeleteAliasInput) (*awskms.DeleteAliasOutput, error) {
	name := aws.ToString(in.AliasName)
	if err := checkAlias(name); err != nil {
		return nil, err
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, _, err := s.lookup(tx, ref{scope: scopeOf(ctx), alias: name}); err != nil {
			return err
		}
		aliases.Delete(tx, scopeOf(ctx).Key(name))
		return nil
	})
	return &awskms.DeleteAliasOutput{}, err
}

// ListAliases lists the aliases of the account or of one key. AWS's predefined aliases are listed
// even before their keys exist.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_ListAliases.html
func (s *Service) ListAliases(ctx context.Context, in *awskms.ListAliasesInput) (*awskms.ListAliasesOutput, error) {
	page, err := newPage(in.Limit, in.Marker, 50)
	if err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	all := aliases.All(s.store, sc.All())
	var entries []aliasRecord
	if in.KeyId == nil {
		for _, name := range managedAliases {
			entries = append(entries, aliasRecord{Name: name})
		}
	}
	var only string
	if in.KeyId != nil {
		rec, _, err := s.findOwn(ctx, s.store, in.KeyId)
		if err != nil {
			return nil, err
		}
		only = rec.ID
	}
	now := s.now()
	for _, a := range all {
		k, err := keys.Get(s.store, sc.Key(a.Value.KeyID))
		if only != "" && a.Value.KeyID != only || err != nil || k.gone(now) {
			continue
		}
		entries = slices.DeleteFunc(entries, func(e aliasRecord) bool { return e.Name == a.Value.Name })
		entries = append(entries, a.Value)
	}
	slices.SortFunc(entries, func(a, b aliasRecord) int { return strings.Compare(a.Name, b.Name) })
	out := &awskms.ListAliasesOutput{Aliases: []kmstypes.AliasListEntry{}}
	for i := range entries {
		a := &entries[i]
		if a.Name <= page.After {
			continue
		}
		if page.Full() {
			break
		}
		e := kmstypes.AliasListEntry{AliasName: &a.Name, AliasArn: aws.String(sc.arn(a.Name))}
		if a.KeyID != "" {
			e.TargetKeyId, e.CreationDate, e.LastUpdatedDate = &a.KeyID, &a.Created, &a.Updated
		}
		out.Aliases = append(out.Aliases, e)
		page.Add(a.Name)
	}
	out.NextMarker = page.Next()
	out.Truncated = out.NextMarker != nil
	return out, nil
}
