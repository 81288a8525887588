package kms

import (
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

var (
	importedID    = regexp.MustCompile(`^(mrk-)?[0-9a-f-]{32,36}$`)
	importedGrant = regexp.MustCompile(`^[0-9a-f]{1,64}$`)
)

// importRecords turns what another account's KMS answered into records. A key keeps its ID, its policy and its grants. Its
// material is a new one, because AWS's never leaves AWS: nothing that AWS has encrypted can be decrypted here.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	sc := scope{regional.At(r.Source.Account, r.Source.Region)}
	var writes []module.Write
	var gaps []recording.Gap
	policies := map[string]string{}
	documents, err := recording.Pages[awskms.GetKeyPolicyInput, awskms.GetKeyPolicyOutput](r, "kms", "GetKeyPolicy")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range documents {
		policies[aws.ToString(p.Input.KeyId)] = aws.ToString(p.Output.Policy)
	}
	found, err := recording.Pages[awskms.DescribeKeyInput, awskms.DescribeKeyOutput](r, "kms", "DescribeKey")
	if err != nil {
		return nil, nil, err
	}
	known := map[string]bool{}
	for _, p := range found {
		k := p.Output.KeyMetadata
		if k == nil || !importedID.MatchString(aws.ToString(k.KeyId)) || aws.ToString(k.Arn) != sc.keyARN(aws.ToString(k.KeyId)) {
			return nil, nil, fmt.Errorf("the source's answer to kms:DescribeKey: it is not about a key of account %s in %s", sc.Account, sc.Region)
		}
		id := *k.KeyId
		spec, ok := keySpecs[k.KeySpec]
		if !ok || k.KeySpec != kmstypes.KeySpecSymmetricDefault {
			gaps = append(gaps, recording.Gap{Service: "kms", Operation: "DescribeKey", Subject: id, Code: recording.NotModelled, Message: fmt.Sprintf("key %s is not symmetric (%s): only symmetric keys are copied", id, k.KeySpec)})
			continue
		}
		rec, err := newKey(sc, spec, k.KeySpec, k.KeyUsage)
		if err != nil {
			return nil, nil, err
		}
		rec.ID, rec.ARN, rec.Description, rec.Created, rec.Manager, rec.State, rec.DeletionDate = id, *k.Arn, aws.ToString(k.Description), aws.ToTime(k.CreationDate), k.KeyManager, k.KeyState, k.DeletionDate
		rec.Policy, rec.Materials[0].Since = policies[id], rec.Created
		if k.CurrentKeyMaterialId != nil {
			rec.Materials[0].ID = *k.CurrentKeyMaterialId
		}
		known[id] = true
		writes = append(writes, module.Put(keys, sc.Key(id), rec))
	}
	names, err := recording.Pages[awskms.ListAliasesInput, awskms.ListAliasesOutput](r, "kms", "ListAliases")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range names {
		for _, a := range p.Output.Aliases {
			if known[aws.ToString(a.TargetKeyId)] && a.AliasName != nil {
				writes = append(writes, module.Put(aliases, sc.Key(*a.AliasName), aliasRecord{Name: *a.AliasName, KeyID: *a.TargetKeyId, Created: aws.ToTime(a.CreationDate), Updated: aws.ToTime(a.LastUpdatedDate)}))
			}
		}
	}
	granted, err := recording.Pages[awskms.ListGrantsInput, awskms.ListGrantsOutput](r, "kms", "ListGrants")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range granted {
		id := aws.ToString(p.Input.KeyId)
		for _, g := range p.Output.Grants {
			if !known[id] || !importedGrant.MatchString(aws.ToString(g.GrantId)) {
				continue
			}
			rec := grantRecord{
				ID: *g.GrantId, Name: aws.ToString(g.Name), KeyID: id, KeyARN: sc.keyARN(id), Created: aws.ToTime(g.CreationDate),
				Grantee: aws.ToString(g.GranteePrincipal), Retiring: aws.ToString(g.RetiringPrincipal), Operations: g.Operations,
			}
			if issuer, err := arn.Parse(aws.ToString(g.IssuingAccount)); err == nil {
				rec.Issuer = issuer.Account
			}
			if c := g.Constraints; c != nil {
				rec.Subset, rec.Equals = c.EncryptionContextSubset, c.EncryptionContextEquals
			}
			writes = append(writes, module.Put(grants, sc.grantKey(id, rec.ID), rec), module.Put(grantees, sc.granteeKey(id, rec.Grantee, rec.ID), granteeRecord{}))
		}
	}
	return writes, gaps, nil
}
