package kms

import (
	"context"
	"encoding/base64"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateGrant.html
// https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html
const (
	maxGrants       = 50000 // per key
	maxPairs        = 8     // per constraint
	maxConstraint   = 384
	grantIDLength   = 64
	grantTokenParts = 5
)

// grantKey returns the store key of a grant.
func (sc scope) grantKey(keyID, grantID string) store.Key { return sc.Key(keyID + "/" + grantID) }

// granteeKey returns the store key under which a grant is indexed by grantee. ARNs of principals
// contain no spaces.
func (sc scope) granteeKey(keyID, grantee, grantID string) store.Key {
	return sc.Key(keyID + "/" + grantee + " " + grantID)
}

// A grant token is ACCOUNT:REGION:KEY:GRANT and a unique suffix, in base64. In Drydock, grants take
// effect at once, so only RetireGrant needs tokens.
func grantToken(sc scope, g *grantRecord) string {
	text := strings.Join([]string{sc.Account, sc.Region, g.KeyID, g.ID, ids.Hex(32)}, ":")
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func parseGrantToken(token string) (sc scope, keyID, grantID string, err error) {
	b, err := base64.StdEncoding.DecodeString(token)
	if p := strings.Split(string(b), ":"); err == nil && len(p) == grantTokenParts && keyIDForm.MatchString(p[2]) && grantIDForm.MatchString(p[3]) {
		return scope{regional.At(p[0], p[1])}, p[2], p[3], nil
	}
	return scope{}, "", "", errGrantToken()
}

var grantIDForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkTokens returns an error if a grant token is invalid.
func checkTokens(tokens []string) error {
	for _, t := range tokens {
		if _, _, _, err := parseGrantToken(t); err != nil {
			return err
		}
	}
	return nil
}

// grantable returns the operations that a grant can allow, depending on the key's usage.
// https://docs.aws.amazon.com/kms/latest/developerguide/grants.html#terms-grant-operations
func grantable(k *keyRecord) []kmstypes.GrantOperation {
	out := []kmstypes.GrantOperation{kmstypes.GrantOperationCreateGrant, kmstypes.GrantOperationDescribeKey, kmstypes.GrantOperationRetireGrant}
	switch {
	case k.symmetric():
		return append(out, kmstypes.GrantOperationDecrypt, kmstypes.GrantOperationEncrypt, kmstypes.GrantOperationGenerateDataKey,
			kmstypes.GrantOperationGenerateDataKeyPair, kmstypes.GrantOperationGenerateDataKeyPairWithoutPlaintext,
			kmstypes.GrantOperationGenerateDataKeyWithoutPlaintext, kmstypes.GrantOperationReEncryptFrom, kmstypes.GrantOperationReEncryptTo)
	case k.Usage == kmstypes.KeyUsageTypeEncryptDecrypt:
		return append(out, kmstypes.GrantOperationDecrypt, kmstypes.GrantOperationEncrypt, kmstypes.GrantOperationGetPublicKey,
			kmstypes.GrantOperationReEncryptFrom, kmstypes.GrantOperationReEncryptTo)
	case k.Usage == kmstypes.KeyUsageTypeSignVerify:
		return append(out, kmstypes.GrantOperationGetPublicKey, kmstypes.GrantOperationSign, kmstypes.GrantOperationVerify)
	case k.Usage == kmstypes.KeyUsageTypeKeyAgreement:
		return append(out, kmstypes.GrantOperationGetPublicKey, kmstypes.GrantOperationDeriveSharedSecret)
	}
	return append(out, kmstypes.GrantOperationGenerateMac, kmstypes.GrantOperationVerifyMac)
}

// constraintsOf returns the pairs of a grant's constraints. Terraform sends both members, one of
// them empty; an empty one counts as absent.
func constraintsOf(c *kmstypes.GrantConstraints) (equals, subset map[string]string) {
	equals, subset = c.EncryptionContextEquals, c.EncryptionContextSubset
	switch {
	case len(subset) == 0:
		subset = nil
	case len(equals) == 0:
		equals = nil
	}
	return equals, subset
}

// checkGrant checks everything that does not depend on the key.
func (s *Service) checkGrant(ctx context.Context, in *awskms.CreateGrantInput) error {
	if err := checkTokens(in.GrantTokens); err != nil {
		return err
	}
	for _, p := range []*string{in.GranteePrincipal, in.RetiringPrincipal} {
		if p == nil {
			continue
		}
		// An AWS service may be a grantee. [seen] hashicorp/terraform-provider-aws, TestAccKMSGrant_service
		if strings.HasSuffix(*p, ".amazonaws.com") && !strings.Contains(*p, ":") {
			continue
		}
		if _, err := arn.Parse(*p); err != nil || s.cfg.PrincipalExists != nil && !s.cfg.PrincipalExists(ctx, *p) {
			return errPrincipal(*p)
		}
	}
	if c := in.Constraints; c != nil {
		pairs, subset := constraintsOf(c)
		if len(pairs) > 0 && len(subset) > 0 {
			return errConstraints("You cannot specify both EncryptionContextEquals and EncryptionContextSubset.")
		}
		if pairs == nil {
			pairs = subset
		}
		n := 0
		for k, v := range pairs {
			n += utf8.RuneCountInString(k) + utf8.RuneCountInString(v)
		}
		if len(pairs) > maxPairs || n > maxConstraint {
			return errConstraints("The encryption context of a grant constraint is too large.")
		}
	}
	return nil
}

// CreateGrant allows a principal to use a key. If the grant has a name, repeating the request
// returns the same grant.
func (s *Service) CreateGrant(ctx context.Context, in *awskms.CreateGrantInput) (*awskms.CreateGrantOutput, error) {
	if err := s.checkGrant(ctx, in); err != nil {
		return nil, err
	}
	out := &awskms.CreateGrantOutput{}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		rec, sc, err := s.findKey(tx, scopeOf(ctx), in.KeyId)
		if err != nil {
			return err
		}
		if err := usable(&rec); err != nil {
			return err
		}
		g := grantRecord{
			ID: ids.Hex(grantIDLength), Name: aws.ToString(in.Name), KeyID: rec.ID, KeyARN: rec.ARN, Created: s.now(), Issuer: awsapi.CallFrom(ctx).Account,
			Grantee: *in.GranteePrincipal, Retiring: aws.ToString(in.RetiringPrincipal), Operations: in.Operations,
		}
		if c := in.Constraints; c != nil {
			g.Equals, g.Subset = constraintsOf(c)
		}
		for _, op := range g.Operations {
			if !slices.Contains(grantable(&rec), op) {
				return errGrantOperation(op, &rec)
			}
		}
		if !rec.symmetric() && (g.Equals != nil || g.Subset != nil) {
			return errConstraints("Encryption context constraints are not supported for grants of a " + string(rec.Spec) + " key.")
		}
		old := grants.All(tx, sc.Below(rec.ID))
		if i := slices.IndexFunc(old, func(o store.Item[grantRecord]) bool { return o.Value.same(&g) }); i >= 0 {
			g = old[i].Value
		} else if len(old) >= maxGrants {
			return errLimit("grants of a KMS key", maxGrants)
		} else if !aws.ToBool(in.DryRun) {
			if err := grants.Create(tx, sc.grantKey(rec.ID, g.ID), g); err != nil {
				return err
			}
			if err := grantees.Put(tx, sc.granteeKey(rec.ID, g.Grantee, g.ID), granteeRecord{}); err != nil {
				return err
			}
		}
		if aws.ToBool(in.DryRun) {
			return errDryRun()
		}
		out.GrantId, out.GrantToken = &g.ID, aws.String(grantToken(sc, &g))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// same reports whether the request for g repeats the one for o.
func (o *grantRecord) same(g *grantRecord) bool {
	sorted := func(ops []kmstypes.GrantOperation) []kmstypes.GrantOperation {
		return slices.Sorted(slices.Values(ops))
	}
	return g.Name != "" && o.Name == g.Name && o.Issuer == g.Issuer && o.Grantee == g.Grantee && o.Retiring == g.Retiring &&
		slices.Equal(sorted(o.Operations), sorted(g.Operations)) && maps.Equal(o.Equals, g.Equals) && maps.Equal(o.Subset, g.Subset)
}

// entry returns the grant as lists show it.
func (o *grantRecord) entry() kmstypes.GrantListEntry {
	e := kmstypes.GrantListEntry{
		GrantId: &o.ID, KeyId: &o.KeyARN, CreationDate: &o.Created, GranteePrincipal: &o.Grantee, Operations: o.Operations,
		IssuingAccount: aws.String(arn.IAM(o.Issuer, "root")), Name: &o.Name,
	}
	if o.Retiring != "" {
		e.RetiringPrincipal = &o.Retiring
	}
	if o.Equals != nil || o.Subset != nil {
		e.Constraints = &kmstypes.GrantConstraints{EncryptionContextEquals: o.Equals, EncryptionContextSubset: o.Subset}
	}
	return e
}

// ListGrants lists the grants of a key.
func (s *Service) ListGrants(ctx context.Context, in *awskms.ListGrantsInput) (*awskms.ListGrantsOutput, error) {
	page, err := newPage(in.Limit, in.Marker, 50)
	if err != nil {
		return nil, err
	}
	rec, sc, err := s.findKey(s.store, scopeOf(ctx), in.KeyId)
	if err != nil {
		return nil, err
	}
	out := &awskms.ListGrantsOutput{Grants: []kmstypes.GrantListEntry{}}
	out.Truncated, out.NextMarker = s.pageOfGrants(&out.Grants, page, sc.Below(rec.ID), func(g *grantRecord) bool {
		return (in.GrantId == nil || *in.GrantId == g.ID) && (in.GranteePrincipal == nil || *in.GranteePrincipal == g.Grantee)
	})
	return out, nil
}

func (s *Service) pageOfGrants(out *[]kmstypes.GrantListEntry, page *paging.Cursor, in store.Scope, match func(*grantRecord) bool) (bool, *string) {
	grants.Scan(s.store, in, page.After, func(k store.Key, g grantRecord) bool {
		if !match(&g) {
			return true
		}
		if page.Full() {
			return false
		}
		*out = append(*out, g.entry())
		page.Add(k.ID)
		return true
	})
	marker := page.Next()
	return marker != nil, marker
}

// ListRetirableGrants lists the account's grants that a principal may retire.
func (s *Service) ListRetirableGrants(ctx context.Context, in *awskms.ListRetirableGrantsInput) (*awskms.ListRetirableGrantsOutput, error) {
	page, err := newPage(in.Limit, in.Marker, 50)
	if err != nil {
		return nil, err
	}
	out := &awskms.ListRetirableGrantsOutput{Grants: []kmstypes.GrantListEntry{}}
	out.Truncated, out.NextMarker = s.pageOfGrants(&out.Grants, page, scopeOf(ctx).All(), func(g *grantRecord) bool { return g.Retiring == *in.RetiringPrincipal })
	return out, nil
}

// RevokeGrant deletes a grant and thereby revokes its permissions.
func (s *Service) RevokeGrant(ctx context.Context, in *awskms.RevokeGrantInput) (*awskms.RevokeGrantOutput, error) {
	return &awskms.RevokeGrantOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		rec, sc, err := s.findKey(tx, scopeOf(ctx), in.KeyId)
		if err != nil {
			return err
		}
		return s.endGrant(tx, sc, rec.ID, aws.ToString(in.GrantId), in.DryRun)
	})
}

func (s *Service) endGrant(tx *store.Tx, sc scope, keyID, grantID string, dryRun *bool) error {
	if !grantIDForm.MatchString(grantID) {
		return &kmstypes.InvalidGrantIdException{Message: aws.String("")} // from memory
	}
	g, err := grants.Get(tx, sc.grantKey(keyID, grantID))
	if store.IsNotFound(err) {
		return errGrantID(grantID)
	}
	if err != nil {
		return err
	}
	if aws.ToBool(dryRun) {
		return errDryRun()
	}
	sc.deleteGrant(tx, &g)
	return nil
}

func (sc scope) deleteGrant(tx *store.Tx, g *grantRecord) {
	grants.Delete(tx, sc.grantKey(g.KeyID, g.ID))
	grantees.Delete(tx, sc.granteeKey(g.KeyID, g.Grantee, g.ID))
}

// RetireGrant deletes a grant as well, but is for principals that the grant allows to retire it.
func (s *Service) RetireGrant(ctx context.Context, in *awskms.RetireGrantInput) (*awskms.RetireGrantOutput, error) {
	sc, keyID, grantID, err := s.retired(ctx, in)
	if err != nil {
		return nil, err
	}
	return &awskms.RetireGrantOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		return s.endGrant(tx, sc, keyID, grantID, in.DryRun)
	})
}

// retired returns the grant for RetireGrant, given by its token or by key and grant ID.
func (s *Service) retired(ctx context.Context, in *awskms.RetireGrantInput) (sc scope, keyID, grantID string, err error) {
	if in.GrantToken != nil {
		if sc, keyID, grantID, err = parseGrantToken(*in.GrantToken); err == nil && sc.Region != scopeOf(ctx).Region {
			err = errGrantToken()
		}
		return sc, keyID, grantID, err
	}
	if in.KeyId == nil || in.GrantId == nil {
		return scope{}, "", "", errValidation("Grant token OR (grant ID, key ID) must be specified") // from memory
	}
	rec, sc, err := s.findKey(s.store, scopeOf(ctx), in.KeyId)
	return sc, rec.ID, *in.GrantId, err
}
