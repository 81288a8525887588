package kms

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// values are condition keys of a request.
type values = map[string][]string

// key returns the target for a key in a request, with the condition keys that all operations have
// and those in own.
func (r resolver) key(call *awsapi.Call, name *string, own values) authz.Target {
	sc := scope{regional.At(call.Account, call.Region)}
	t := authz.Target{Type: "key", ID: aws.ToString(name), Keys: common(call), AllKeys: true}
	t.Keys["kms:requestalias"] = nil
	if k, err := parseRef(sc, t.ID); err == nil {
		t.Keys["kms:requestalias"] = one(k.alias)
		if rec, of, err := r.s.lookup(r.s.store, k); err == nil {
			rec.describe(t.Keys)
			t.Costly = map[string]func() []string{"kms:resourcealiases": func() []string {
				return r.s.aliasesOf(r.s.store, of, rec.ID)
			}}
		}
	}
	maps.Copy(t.Keys, own)
	return t
}

// inContext adds the condition keys of an encryption context.
func inContext(own values, context map[string]string) values {
	if own == nil {
		own = values{}
	}
	const prefix = "kms:encryptioncontext:${encryptioncontextkey}"
	own["kms:encryptioncontextkeys"] = slices.Sorted(maps.Keys(context))
	for k, v := range context {
		name := strings.TrimSuffix(prefix, "${encryptioncontextkey}") + strings.ToLower(k)
		own[name] = append(own[name], v)
	}
	return own
}

func encrypting(algorithm kmstypes.EncryptionAlgorithmSpec, context map[string]string) values {
	if algorithm == "" {
		algorithm = kmstypes.EncryptionAlgorithmSpecSymmetricDefault
	}
	return inContext(values{"kms:encryptionalgorithm": one(string(algorithm))}, context)
}

func signing(algorithm kmstypes.SigningAlgorithmSpec, kind kmstypes.MessageType) values {
	if kind == "" {
		kind = kmstypes.MessageTypeRaw
	}
	return values{"kms:signingalgorithm": one(string(algorithm)), "kms:messagetype": one(string(kind))}
}

// Targets implements authz.Targeter for all of KMS. Operations without a key have no resource.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	key := func(name *string, own values) []authz.Target { return []authz.Target{r.key(call, name, own)} }
	switch in := in.(type) {
	case *awskms.CreateKeyInput:
		return creation(call, in), true
	case *awskms.EncryptInput:
		return key(in.KeyId, encrypting(in.EncryptionAlgorithm, in.EncryptionContext)), true
	case *awskms.DecryptInput:
		return key(keyOrBlob(in.KeyId, in.CiphertextBlob), encrypting(in.EncryptionAlgorithm, in.EncryptionContext)), true
	case *awskms.ReEncryptInput:
		return r.reEncryption(call, in), true
	case *awskms.GenerateDataKeyInput:
		return key(in.KeyId, encrypting("", in.EncryptionContext)), true
	case *awskms.GenerateDataKeyWithoutPlaintextInput:
		return key(in.KeyId, encrypting("", in.EncryptionContext)), true
	case *awskms.GenerateDataKeyPairInput:
		return key(in.KeyId, withPair(in.KeyPairSpec, in.EncryptionContext)), true
	case *awskms.GenerateDataKeyPairWithoutPlaintextInput:
		return key(in.KeyId, withPair(in.KeyPairSpec, in.EncryptionContext)), true
	case *awskms.SignInput:
		return key(in.KeyId, signing(in.SigningAlgorithm, in.MessageType)), true
	case *awskms.VerifyInput:
		return key(in.KeyId, signing(in.SigningAlgorithm, in.MessageType)), true
	case *awskms.GenerateMacInput:
		return key(in.KeyId, values{"kms:macalgorithm": one(string(in.MacAlgorithm))}), true
	case *awskms.VerifyMacInput:
		return key(in.KeyId, values{"kms:macalgorithm": one(string(in.MacAlgorithm))}), true
	case *awskms.DeriveSharedSecretInput:
		return key(in.KeyId, values{"kms:keyagreementalgorithm": one(string(in.KeyAgreementAlgorithm))}), true
	case *awskms.CreateGrantInput:
		return key(in.KeyId, granting(call, in)), true
	case *awskms.ListGrantsInput:
		return key(in.KeyId, values{"kms:grantisforawsresource": boolean(forAWSResource(call))}), true
	case *awskms.RevokeGrantInput:
		return key(in.KeyId, values{"kms:grantisforawsresource": boolean(forAWSResource(call))}), true
	case *awskms.RetireGrantInput:
		return r.retirement(call, in), true
	case *awskms.PutKeyPolicyInput:
		return key(in.KeyId, values{"kms:bypasspolicylockoutsafetycheck": boolean(in.BypassPolicyLockoutSafetyCheck)}), true
	case *awskms.EnableKeyRotationInput:
		return key(in.KeyId, values{"kms:rotationperiodindays": number(in.RotationPeriodInDays)}), true
	case *awskms.DisableKeyInput:
		t := r.key(call, in.KeyId, nil)
		t.AllKeys = false // the last use of the key is not recorded
		return []authz.Target{t}, true
	case *awskms.ScheduleKeyDeletionInput:
		t := r.key(call, in.KeyId, values{"kms:schedulekeydeletionpendingwindowindays": number(in.PendingWindowInDays)})
		t.AllKeys = false // as above
		return []authz.Target{t}, true
	case *awskms.CreateAliasInput:
		return r.aliased(call, in.AliasName, in.TargetKeyId), true
	case *awskms.UpdateAliasInput:
		return r.aliased(call, in.AliasName, in.AliasName, in.TargetKeyId), true
	case *awskms.DeleteAliasInput:
		return r.aliased(call, in.AliasName, in.AliasName), true
	case *awskms.TagResourceInput:
		t := r.key(call, in.KeyId, nil)
		tagged(&t, in.Tags)
		return []authz.Target{t}, true
	case *awskms.UntagResourceInput:
		t := r.key(call, in.KeyId, nil)
		t.TagKeys = in.TagKeys
		return []authz.Target{t}, true
	}
	// Operations without condition keys of their own.
	if name, ok := authz.Named(in, "KeyId"); ok && call.Operation != "ListAliases" {
		return key(&name, nil), true
	}
	return []authz.Target{{Keys: common(call), AllKeys: true}}, true
}

// creation returns the targets of CreateKey. There is no key yet; with tags, TagResource is checked
// as well.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateKey.html
func creation(call *awsapi.Call, in *awskms.CreateKeyInput) []authz.Target {
	t := authz.Target{Keys: common(call), AllKeys: true}
	wanted := in.KeySpec
	if wanted == "" {
		//lint:ignore SA1019 clients of today still send it
		wanted = kmstypes.KeySpec(in.CustomerMasterKeySpec)
	}
	k := keyRecord{Spec: wanted, Usage: in.KeyUsage}
	if _, spec, usage, err := specOf(wanted, in.KeyUsage); err == nil {
		k.Spec, k.Usage = spec, usage
	}
	k.describe(t.Keys)
	if in.Origin != "" {
		t.Keys["kms:keyorigin"] = one(string(in.Origin))
	}
	t.Keys["kms:customermasterkeyspec"], t.Keys["kms:customermasterkeyusage"] = t.Keys["kms:keyspec"], t.Keys["kms:keyusage"]
	t.Keys["kms:multiregion"] = boolean(aws.ToBool(in.MultiRegion))
	t.Keys["kms:bypasspolicylockoutsafetycheck"] = boolean(in.BypassPolicyLockoutSafetyCheck)
	if len(in.Tags) == 0 {
		return []authz.Target{t}
	}
	tagged(&t, in.Tags)
	tagging := authz.Target{Action: "kms:TagResource", Keys: common(call), AllKeys: true, Tags: t.Tags, TagKeys: t.TagKeys}
	return []authz.Target{t, tagging}
}

// tagged adds the tags in a request.
func tagged(t *authz.Target, tags []kmstypes.Tag) {
	t.Tags = map[string]string{}
	for _, tag := range tags {
		t.Tags[aws.ToString(tag.TagKey)] = aws.ToString(tag.TagValue)
	}
	t.TagKeys = slices.Collect(maps.Keys(t.Tags))
}

// keyOrBlob returns the key for Decrypt: the one in the request, or else the one in the ciphertext,
// which may be in another region. It returns nil if there is neither.
func keyOrBlob(name *string, ciphertext []byte) *string {
	if name != nil {
		return name
	}
	b, err := parseBlob(ciphertext)
	if err != nil {
		return nil
	}
	return aws.String(b.keyARN(b.keyID))
}

// reEncryption returns the two targets of ReEncrypt: the key for decryption and the key for
// encryption.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_ReEncrypt.html
func (r resolver) reEncryption(call *awsapi.Call, in *awskms.ReEncryptInput) []authz.Target {
	from := r.key(call, keyOrBlob(in.SourceKeyId, in.CiphertextBlob), encrypting(in.SourceEncryptionAlgorithm, in.SourceEncryptionContext))
	to := r.key(call, in.DestinationKeyId, encrypting(in.DestinationEncryptionAlgorithm, in.DestinationEncryptionContext))
	same := boolean(r.arn(call, from.ID) == r.arn(call, to.ID))
	from.Action, to.Action = "kms:ReEncryptFrom", "kms:ReEncryptTo"
	from.Keys["kms:reencryptonsamekey"], to.Keys["kms:reencryptonsamekey"] = same, same
	return []authz.Target{from, to}
}

// arn returns the ARN of the key in a request, or the name if it cannot be resolved.
func (r resolver) arn(call *awsapi.Call, name string) string {
	rec, _, err := r.s.find(r.s.store, scope{regional.At(call.Account, call.Region)}, &name)
	if err != nil {
		return name
	}
	return rec.ARN
}

func withPair(spec kmstypes.DataKeyPairSpec, context map[string]string) values {
	own := encrypting("", context)
	own["kms:datakeypairspec"] = one(string(spec))
	return own
}

// forAWSResource reports whether a service integrated with KMS creates, lists or revokes a grant
// for a resource of its own. EKS does not do so for the grants of clusters.
// https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
func forAWSResource(call *awsapi.Call) bool {
	return len(call.CalledVia) > 0 && call.By() != "eks.amazonaws.com"
}

// granting returns the condition keys of CreateGrant.
func granting(call *awsapi.Call, in *awskms.CreateGrantInput) values {
	own := values{
		"kms:granteeprincipal": one(aws.ToString(in.GranteePrincipal)), "kms:retiringprincipal": one(aws.ToString(in.RetiringPrincipal)),
		"kms:granteeserviceprincipal": nil, "kms:retiringserviceprincipal": nil, "kms:grantconstraintsourcearn": nil,
		"kms:grantisforawsresource": boolean(forAWSResource(call)), "kms:grantconstrainttype": nil, "kms:grantoperations": nil,
	}
	for _, op := range in.Operations {
		own["kms:grantoperations"] = append(own["kms:grantoperations"], string(op))
	}
	if in.Constraints == nil {
		return inContext(own, nil)
	}
	equals, subset := constraintsOf(in.Constraints)
	if equals != nil {
		own["kms:grantconstrainttype"] = one(constraintEquals)
		return inContext(own, equals)
	}
	own["kms:grantconstrainttype"] = one(constraintSubset)
	return inContext(own, subset)
}

// retirement returns the target of RetireGrant: the grant's key.
func (r resolver) retirement(call *awsapi.Call, in *awskms.RetireGrantInput) []authz.Target {
	ctx := awsapi.WithCall(context.Background(), call)
	sc, keyID, grantID, err := r.s.retired(ctx, in)
	if err != nil {
		return []authz.Target{r.key(call, in.KeyId, inContext(nil, nil))}
	}
	own := values{"kms:grantconstrainttype": nil}
	own = inContext(own, nil)
	if g, err := grants.Get(r.s.store, sc.grantKey(keyID, grantID)); err == nil {
		switch {
		case g.Equals != nil:
			own = inContext(values{"kms:grantconstrainttype": one(constraintEquals)}, g.Equals)
		case g.Subset != nil:
			own = inContext(values{"kms:grantconstrainttype": one(constraintSubset)}, g.Subset)
		}
	}
	t := r.key(call, aws.String(sc.keyARN(keyID)), own)
	t.ID += retireMark + grantID
	return []authz.Target{t}
}

// aliased returns the targets of operations on aliases: the alias and each key.
// https://docs.aws.amazon.com/kms/latest/developerguide/alias-access.html
func (r resolver) aliased(call *awsapi.Call, name *string, keys ...*string) []authz.Target {
	out := []authz.Target{{Type: "alias", ID: aws.ToString(name), Keys: common(call), AllKeys: true}}
	for _, k := range keys {
		out = append(out, r.key(call, k, nil))
	}
	return out
}

func number(n *int32) []string {
	if n == nil {
		return nil
	}
	return one(strconv.Itoa(int(*n)))
}
