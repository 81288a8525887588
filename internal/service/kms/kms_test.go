package kms_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

func TestKeysAreFoundByEveryName(t *testing.T) {
	w := newWorld(t, nil, nil)
	c, account := w.root(t)
	ctx := t.Context()
	created, err := c.CreateKey(ctx, &awskms.CreateKeyInput{Description: aws.String("secrets"), Tags: []kmstypes.Tag{{TagKey: aws.String("team"), TagValue: aws.String("blue")}}})
	check(t, err)
	m := created.KeyMetadata
	if m.KeyState != kmstypes.KeyStateEnabled || !m.Enabled || m.KeyManager != kmstypes.KeyManagerTypeCustomer || *m.AWSAccountId != account ||
		*m.Arn != "arn:aws:kms:us-east-1:"+account+":key/"+*m.KeyId || *m.MultiRegion || m.KeySpec != "SYMMETRIC_DEFAULT" || len(*m.CurrentKeyMaterialId) != 64 {
		t.Errorf("made: %+v", m)
	}
	if _, err := c.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: aws.String("alias/secrets"), TargetKeyId: m.KeyId}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{*m.KeyId, *m.Arn, "alias/secrets", "arn:aws:kms:us-east-1:" + account + ":alias/secrets"} {
		out, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &name})
		if err != nil || *out.KeyMetadata.KeyId != *m.KeyId || *out.KeyMetadata.Description != "secrets" {
			t.Errorf("%s: %v %v", name, out, err)
		}
	}
	none := "11111111-2222-3333-4444-555555555555"
	for name, want := range map[string]string{
		none: "NotFoundException: Key 'arn:aws:kms:us-east-1:" + account + ":key/" + none + "' does not exist",
		"arn:aws:kms:us-east-1:" + account + ":key/" + none: "NotFoundException: Key 'arn:aws:kms:us-east-1:" + account + ":key/" + none + "' does not exist",
		"fake-key-id": "NotFoundException: Invalid keyId 'fake-key-id'",
		"alias/none":  "NotFoundException: Alias arn:aws:kms:us-east-1:" + account + ":alias/none is not found.",
		strings.Replace(*m.Arn, "us-east-1", "eu-west-1", 1):  "NotFoundException: Invalid arn eu-west-1",
		"arn:aws:kms:us-east-1:" + account + ":nothing/there": "InvalidArnException: …",
	} {
		_, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &name})
		wantError(t, err, want)
	}
}

func TestEncryptionIsBoundToKeyAndContext(t *testing.T) {
	w := newWorld(t, nil, nil)
	c, account := w.root(t)
	ctx := t.Context()
	id, arn := newKey(t, c, nil)
	other, _ := newKey(t, c, nil)
	sealed, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("secret"), EncryptionContext: map[string]string{"a": "1", "b": "2"}})
	check(t, err)
	if *sealed.KeyId != arn || bytes.Contains(sealed.CiphertextBlob, []byte("secret")) {
		t.Errorf("%+v", sealed)
	}
	open := func(edit func(*awskms.DecryptInput)) (*awskms.DecryptOutput, error) {
		in := &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob, EncryptionContext: map[string]string{"b": "2", "a": "1"}}
		edit(in)
		return c.Decrypt(ctx, in)
	}
	for _, name := range []*string{nil, &id, &arn} {
		out, err := open(func(in *awskms.DecryptInput) { in.KeyId = name })
		if err != nil || string(out.Plaintext) != "secret" || *out.KeyId != arn {
			t.Errorf("%v: %v %v", name, out, err)
		}
	}
	_, err = open(func(in *awskms.DecryptInput) { in.EncryptionContext = map[string]string{"a": "1"} })
	wantError(t, err, "InvalidCiphertextException: ")
	_, err = open(func(in *awskms.DecryptInput) { in.CiphertextBlob = []byte("nonsense") })
	wantError(t, err, "InvalidCiphertextException: ")
	_, err = open(func(in *awskms.DecryptInput) { in.KeyId = &other })
	wantError(t, err, "IncorrectKeyException: The key ID in the request does not identify a CMK that can perform this operation.")
	for i := range sealed.CiphertextBlob { // changing any byte makes decryption fail
		_, err = open(func(in *awskms.DecryptInput) {
			in.CiphertextBlob = bytes.Clone(in.CiphertextBlob)
			in.CiphertextBlob[i] ^= 1
		})
		if err == nil {
			t.Errorf("byte %d does not matter", i)
		}
	}
	_, err = c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: make([]byte, 4097)})
	wantError(t, err, "ValidationException: 1 validation error detected: Value at 'plaintext' failed to satisfy constraint: Member must have length less than or equal to 4096")
	_, err = c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("x"), DryRun: aws.Bool(true)})
	wantError(t, err, "DryRunOperationException: The request would have succeeded, but the DryRun option is set.")

	// The key does not exist in another region.
	cfg := w.AWSConfig(account)
	cfg.Region = "eu-west-1"
	_, err = awskms.NewFromConfig(cfg).Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob})
	wantError(t, err, "AccessDeniedException: The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are not allowed to access.")
}

func TestStatesOfKeys(t *testing.T) {
	w := newWorld(t, nil, nil)
	c, _ := w.root(t)
	ctx := t.Context()
	id, arn := newKey(t, c, nil)
	encrypt := func() error {
		_, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("x")})
		return err
	}
	if _, err := c.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: &id}); err != nil {
		t.Fatal(err)
	}
	wantError(t, encrypt(), "DisabledException: "+arn+" is disabled.")
	_, err := c.EnableKeyRotation(ctx, &awskms.EnableKeyRotationInput{KeyId: &id})
	wantError(t, err, "DisabledException: "+arn+" is disabled.")
	if _, err := c.EnableKey(ctx, &awskms.EnableKeyInput{KeyId: &id}); err != nil {
		t.Fatal(err)
	}
	if err := encrypt(); err != nil {
		t.Error(err)
	}
	_, err = c.CancelKeyDeletion(ctx, &awskms.CancelKeyDeletionInput{KeyId: &id})
	wantError(t, err, "KMSInvalidStateException: "+arn+" is not pending deletion.")
	_, err = c.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: &id, PendingWindowInDays: aws.Int32(6)})
	wantError(t, err, "ValidationException: …")
	out, err := c.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: &id, PendingWindowInDays: aws.Int32(7)})
	check(t, err)
	if *out.KeyId != arn || out.KeyState != kmstypes.KeyStatePendingDeletion || *out.PendingWindowInDays != 7 || out.DeletionDate == nil {
		t.Errorf("%+v", out)
	}
	pending := "KMSInvalidStateException: " + arn + " is pending deletion."
	wantError(t, encrypt(), pending)
	_, err = c.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: &id})
	wantError(t, err, pending)
	_, err = c.EnableKey(ctx, &awskms.EnableKeyInput{KeyId: &id})
	wantError(t, err, pending)
	_, err = c.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: aws.String("alias/late"), TargetKeyId: &id})
	wantError(t, err, pending)
	d, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &id})
	check(t, err)
	if d.KeyMetadata.DeletionDate == nil || d.KeyMetadata.Enabled {
		t.Errorf("%+v", d.KeyMetadata)
	}
	if _, err := c.CancelKeyDeletion(ctx, &awskms.CancelKeyDeletionInput{KeyId: &id}); err != nil {
		t.Fatal(err)
	}
	wantError(t, encrypt(), "DisabledException: "+arn+" is disabled.")
}

func TestNotImplementedSaysSo(t *testing.T) {
	w := newWorld(t, nil, nil)
	c, _ := w.root(t)
	for _, in := range []*awskms.CreateKeyInput{
		{MultiRegion: aws.Bool(true)}, {Origin: "EXTERNAL"}, {Origin: "AWS_CLOUDHSM"}, {CustomKeyStoreId: aws.String("cks-1234567890abcdef0")},
		{KeySpec: "ECC_SECG_P256K1", KeyUsage: "SIGN_VERIFY"}, {KeySpec: "ML_DSA_44", KeyUsage: "SIGN_VERIFY"},
	} {
		_, err := c.CreateKey(t.Context(), in)
		wantError(t, err, "NotImplemented: …")
	}
}
