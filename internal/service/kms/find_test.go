package kms_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// TestAliasesAreNotKeys checks that operations documented to take a key's ID or ARN do not accept
// aliases in any form.
func TestAliasesAreNotKeys(t *testing.T) {
	w := newWorld(t, nil, nil)
	ctx := t.Context()
	c, account := w.root(t)
	id, keyARN := newKey(t, c, nil)
	_, err := c.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: aws.String("alias/a"), TargetKeyId: &id})
	check(t, err)
	const prefix = "arn:aws:kms:us-east-1:"
	who := "arn:aws:iam::" + account + ":root"
	for name, call := range map[string]func(key *string) error{
		"DisableKeyRotation": func(key *string) error {
			_, err := c.DisableKeyRotation(ctx, &awskms.DisableKeyRotationInput{KeyId: key})
			return err
		},
		"EnableKeyRotation": func(key *string) error {
			_, err := c.EnableKeyRotation(ctx, &awskms.EnableKeyRotationInput{KeyId: key})
			return err
		},
		"GetKeyRotationStatus": func(key *string) error {
			_, err := c.GetKeyRotationStatus(ctx, &awskms.GetKeyRotationStatusInput{KeyId: key})
			return err
		},
		"PutKeyPolicy": func(key *string) error {
			_, err := c.PutKeyPolicy(ctx, &awskms.PutKeyPolicyInput{KeyId: key, BypassPolicyLockoutSafetyCheck: true,
				Policy: aws.String(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"` + who + `"},"Action":"kms:*","Resource":"*"}}`)})
			return err
		},
		"GetKeyPolicy": func(key *string) error {
			_, err := c.GetKeyPolicy(ctx, &awskms.GetKeyPolicyInput{KeyId: key})
			return err
		},
		"CreateGrant": func(key *string) error {
			_, err := c.CreateGrant(ctx, &awskms.CreateGrantInput{KeyId: key, GranteePrincipal: &who, Operations: []kmstypes.GrantOperation{"Encrypt"}})
			return err
		},
		"ListGrants": func(key *string) error {
			_, err := c.ListGrants(ctx, &awskms.ListGrantsInput{KeyId: key})
			return err
		},
		"TagResource": func(key *string) error {
			_, err := c.TagResource(ctx, &awskms.TagResourceInput{KeyId: key, Tags: []kmstypes.Tag{{TagKey: aws.String("k"), TagValue: aws.String("v")}}})
			return err
		},
		"ScheduleKeyDeletion": func(key *string) error {
			_, err := c.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: key})
			return err
		},
		"DisableKey": func(key *string) error {
			_, err := c.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: key})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, call(aws.String("alias/a")), "NotFoundException: Invalid keyId 'alias/a'")
			wantError(t, call(aws.String(prefix+account+":alias/a")), "InvalidArnException: Key Aliases are not supported for this operation")
			wantError(t, call(aws.String(prefix+account+":key/alias/a")), "NotFoundException: Invalid keyId 'alias/a'")
		})
	}
	key, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: aws.String(prefix + account + ":alias/a")})
	if err != nil || *key.KeyMetadata.Arn != keyARN || key.KeyMetadata.KeyState != kmstypes.KeyStateEnabled {
		t.Errorf("the key by its alias: %+v %v", key, err)
	}
	_, err = c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: aws.String(prefix + account + ":key/alias/a")})
	wantError(t, err, "NotFoundException: Invalid keyId 'alias/a'")
}
