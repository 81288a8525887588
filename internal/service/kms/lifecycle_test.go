package kms_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/serviceevents/eventstest"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const patience = 30 * time.Second

// run runs the service's reconciler until the test ends.
func (w *world) run(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.kms.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the reconciler: %v", err)
		}
	})
}

// events runs the service's events until the test ends.
func (w *world) events(t *testing.T) *eventstest.Bus {
	bus := &eventstest.Bus{}
	testkit.Run(t, func(ctx context.Context) error { return w.kms.Events(ctx, bus) })
	return bus
}

// TestKeysEnd checks that a key is deleted after its waiting period, with its aliases and grants,
// even if the removal is interrupted between transactions.
func TestKeysEnd(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	var commits, failAt atomic.Int64
	st, err := store.Open(context.Background(), store.Config{Ephemeral: true, BeforeCommit: func(context.Context) error {
		if n := commits.Add(1); n == failAt.Load() {
			return errors.New("killed")
		}
		return nil
	}})
	check(t, err)
	t.Cleanup(func() { _ = st.Close() })
	w := newWorld(t, clk, st)
	ctx := t.Context()
	c, account := w.root(t)
	id, arn := newKey(t, c, nil)
	kept, _ := newKey(t, c, nil)
	alias := aws.String("alias/ours")
	_, err = c.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: alias, TargetKeyId: &id})
	check(t, err)
	for i := range 60 { // more than one transaction can remove
		_, err := c.CreateGrant(ctx, &awskms.CreateGrantInput{
			KeyId: &id, GranteePrincipal: aws.String("arn:aws:iam::" + account + ":root"), Operations: []kmstypes.GrantOperation{"Encrypt"}, Name: aws.String(fmt.Sprint("g", i)),
		})
		check(t, err)
	}
	sealed, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("x")})
	check(t, err)
	_, err = c.ScheduleKeyDeletion(ctx, &awskms.ScheduleKeyDeletionInput{KeyId: &id, PendingWindowInDays: aws.Int32(7)})
	check(t, err)
	failAt.Store(commits.Load() + 2)
	bus := w.events(t)
	testkit.Eventually(t, patience, func() error {
		if n := bus.Known(); n != 2 {
			return fmt.Errorf("%d keys are known", n)
		}
		return nil
	})
	w.run(t)
	clk.Step(7*24*time.Hour - time.Minute)
	if _, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &id}); err != nil {
		t.Fatalf("gone before its time: %v", err)
	}
	clk.Step(2 * time.Minute)
	_, err = c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &id})
	wantError(t, err, "NotFoundException: Key '"+arn+"' does not exist")
	_, err = c.CancelKeyDeletion(ctx, &awskms.CancelKeyDeletionInput{KeyId: &id})
	wantError(t, err, "NotFoundException: Key '"+arn+"' does not exist")
	_, err = c.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed.CiphertextBlob})
	wantError(t, err, "AccessDeniedException: The ciphertext refers to a customer master key that does not exist…")
	// The alias can be used for another key once the record is deleted.
	testkit.Eventually(t, patience, func() error {
		clk.Step(24 * time.Hour)
		_, err := c.CreateAlias(ctx, &awskms.CreateAliasInput{AliasName: alias, TargetKeyId: &kept})
		return err
	})
	if n := commits.Load(); n < failAt.Load() {
		t.Errorf("only %d transactions: nothing was interrupted", n)
	}
	if e := bus.Next(t, "KMS CMK Deletion"); e.Source != "aws.kms" || e.Resources[0] != arn || string(e.Detail) != `{"key-id":"`+id+`"}` {
		t.Errorf("%+v %s", e, e.Detail)
	}
	list, err := c.ListKeys(ctx, nil)
	if err != nil || len(list.Keys) != 1 || *list.Keys[0].KeyId != kept {
		t.Errorf("%+v %v", list, err)
	}
}

// TestKeysRotate checks rotation, automatic and on demand. Data encrypted with older material can
// still be decrypted.
func TestKeysRotate(t *testing.T) {
	clk := clocktesting.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	w := newWorld(t, clk, nil)
	ctx := t.Context()
	c, _ := w.root(t)
	w.run(t)
	bus := w.events(t)
	id, arn := newKey(t, c, nil)
	testkit.Eventually(t, patience, func() error {
		if bus.Known() == 0 {
			return errors.New("the key is not known")
		}
		return nil
	})
	var sealed [][]byte
	var materials []string
	encrypt := func() {
		t.Helper()
		out, err := c.Encrypt(ctx, &awskms.EncryptInput{KeyId: &id, Plaintext: []byte("x")})
		check(t, err)
		d, err := c.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &id})
		check(t, err)
		sealed, materials = append(sealed, out.CiphertextBlob), append(materials, *d.KeyMetadata.CurrentKeyMaterialId)
	}
	encrypt()
	status := func() *awskms.GetKeyRotationStatusOutput {
		t.Helper()
		out, err := c.GetKeyRotationStatus(ctx, &awskms.GetKeyRotationStatusInput{KeyId: &id})
		check(t, err)
		return out
	}
	if status().KeyRotationEnabled {
		t.Error("it rotates unasked")
	}
	_, err := c.EnableKeyRotation(ctx, &awskms.EnableKeyRotationInput{KeyId: &id, RotationPeriodInDays: aws.Int32(90)})
	check(t, err)
	if s := status(); !s.KeyRotationEnabled || *s.RotationPeriodInDays != 90 || !s.NextRotationDate.Equal(clk.Now().Add(90*24*time.Hour)) {
		t.Errorf("%+v", s)
	}
	out, err := c.RotateKeyOnDemand(ctx, &awskms.RotateKeyOnDemandInput{KeyId: &id})
	if err != nil || *out.KeyId != arn {
		t.Fatalf("%v %v", out, err)
	}
	if e := bus.Next(t, "KMS CMK Rotation"); e.Resources[0] != arn {
		t.Errorf("%+v", e)
	}
	encrypt()
	rotations := func() []kmstypes.RotationsListEntry {
		t.Helper()
		out, err := c.ListKeyRotations(ctx, &awskms.ListKeyRotationsInput{KeyId: &id})
		check(t, err)
		return out.Rotations
	}
	if r := rotations(); len(r) != 1 || r[0].RotationType != "ON_DEMAND" || *r[0].KeyMaterialId != materials[1] {
		t.Errorf("%+v", r)
	}
	testkit.Eventually(t, patience, func() error {
		clk.Step(30 * 24 * time.Hour)
		if n := len(rotations()); n < 2 {
			return fmt.Errorf("%d rotations", n)
		}
		return nil
	})
	bus.Next(t, "KMS CMK Rotation")
	if r := rotations(); r[1].RotationType != "AUTOMATIC" {
		t.Errorf("%+v", r[1])
	}
	_, err = c.DisableKeyRotation(ctx, &awskms.DisableKeyRotationInput{KeyId: &id})
	check(t, err)
	encrypt()
	for i := range sealed {
		out, err := c.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: sealed[i]})
		if err != nil || *out.KeyMaterialId != materials[i] {
			t.Errorf("ciphertext %d: %v %v", i, out, err)
		}
	}
	for range 24 {
		_, err := c.RotateKeyOnDemand(ctx, &awskms.RotateKeyOnDemandInput{KeyId: &id})
		check(t, err)
	}
	_, err = c.RotateKeyOnDemand(ctx, &awskms.RotateKeyOnDemandInput{KeyId: &id})
	wantError(t, err, "LimitExceededException: The on-demand rotations limit has been reached for the given keyId. No more on-demand rotations can be performed for this key: "+arn)
	all, err := c.ListKeyRotations(ctx, &awskms.ListKeyRotationsInput{KeyId: &id, IncludeKeyMaterial: "ALL_KEY_MATERIAL", Limit: aws.Int32(1)})
	if err != nil || len(all.Rotations) != 1 || *all.Rotations[0].KeyMaterialId != materials[0] || !all.Truncated {
		t.Errorf("%+v %v", all, err)
	}
	_, err = c.EnableKeyRotation(ctx, &awskms.EnableKeyRotationInput{KeyId: &id, RotationPeriodInDays: aws.Int32(89)})
	wantError(t, err, "ValidationException: 1 validation error detected: Value '89' at 'rotationPeriodInDays' failed to satisfy constraint: Member must have value greater than or equal to 90")
}
