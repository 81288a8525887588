package eks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

const (
	goodKey   = "arn:aws:kms:us-east-1:111122223333:key/good"
	goodAlias = "arn:aws:kms:us-east-1:111122223333:alias/good"
)

var _ eks.Keys = (*fakeKeys)(nil)

// fakeKeys are KMS keys by ARN, and their grants.
type fakeKeys struct {
	faults *faults
	mu     sync.Mutex
	keys   map[string]kmstypes.KeyMetadata
	// denied are actions that users may not perform.
	denied map[string]bool
	// roleDenied means that a policy denies the cluster role the use of the key.
	roleDenied bool
	grants     map[string]awskms.CreateGrantInput
	n          int
	// granting is called before a grant is created. tried and revoked are the errors of Try and
	// RevokeGrant.
	granting func()
	tried    error
	revoked  func() error
}

func (k *fakeKeys) set(fn func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fn()
}

func newKeys(f *faults) *fakeKeys {
	k := &fakeKeys{faults: f, keys: map[string]kmstypes.KeyMetadata{}, denied: map[string]bool{}, grants: map[string]awskms.CreateGrantInput{}}
	for _, name := range []string{"good", "other", "asymmetric", "signing", "disabled", "ending", "importing"} {
		k.keys["arn:aws:kms:us-east-1:111122223333:key/"+name] = kmstypes.KeyMetadata{
			Arn: aws.String("arn:aws:kms:us-east-1:111122223333:key/" + name), KeyId: aws.String(name),
			KeySpec: kmstypes.KeySpecSymmetricDefault, KeyUsage: kmstypes.KeyUsageTypeEncryptDecrypt, KeyState: kmstypes.KeyStateEnabled,
		}
	}
	k.change("asymmetric", func(m *kmstypes.KeyMetadata) { m.KeySpec = kmstypes.KeySpecRsa2048 })
	k.change("signing", func(m *kmstypes.KeyMetadata) { m.KeyUsage = kmstypes.KeyUsageTypeGenerateVerifyMac })
	k.change("disabled", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStateDisabled })
	k.change("ending", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStatePendingDeletion })
	k.change("importing", func(m *kmstypes.KeyMetadata) { m.KeyState = kmstypes.KeyStatePendingImport })
	return k
}

func (k *fakeKeys) change(name string, fn func(*kmstypes.KeyMetadata)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	m := k.keys["arn:aws:kms:us-east-1:111122223333:key/"+name]
	fn(&m)
	k.keys[*m.Arn] = m
}

func (k *fakeKeys) find(ctx context.Context, action, id string) (kmstypes.KeyMetadata, error) {
	if k.denied[action] && awsapi.CallFrom(ctx).Principal.Type != awsapi.AWSService {
		return kmstypes.KeyMetadata{}, awserr.New("AccessDeniedException", "User is not authorized to perform: "+action)
	}
	if strings.HasSuffix(id, "alias/good") {
		id = goodKey
	}
	m, ok := k.keys[id]
	if !ok {
		return m, &kmstypes.NotFoundException{Message: aws.String("Key '" + id + "' does not exist")}
	}
	return m, nil
}

func (k *fakeKeys) DescribeKey(ctx context.Context, in *awskms.DescribeKeyInput) (*awskms.DescribeKeyOutput, error) {
	if err := k.faults.strike(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	m, err := k.find(ctx, "kms:DescribeKey", *in.KeyId)
	if err != nil {
		return nil, err
	}
	return &awskms.DescribeKeyOutput{KeyMetadata: &m}, nil
}

func (k *fakeKeys) CreateGrant(ctx context.Context, in *awskms.CreateGrantInput) (*awskms.CreateGrantOutput, error) {
	if k.granting != nil {
		k.granting()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.find(ctx, "kms:CreateGrant", *in.KeyId); err != nil {
		return nil, err
	}
	k.n++
	id := fmt.Sprintf("grant-%d", k.n)
	k.grants[id] = *in
	return &awskms.CreateGrantOutput{GrantId: &id}, nil
}

func (k *fakeKeys) RevokeGrant(ctx context.Context, in *awskms.RevokeGrantInput) (*awskms.RevokeGrantOutput, error) {
	if err := k.faults.strike(); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if awsapi.CallFrom(ctx).Principal.Type != awsapi.AWSService {
		return nil, awserr.New("AccessDeniedException", "only EKS itself revokes")
	}
	if k.revoked != nil {
		return nil, k.revoked()
	}
	if _, ok := k.grants[*in.GrantId]; !ok {
		return nil, &kmstypes.NotFoundException{Message: aws.String("Grant ID is not found")}
	}
	delete(k.grants, *in.GrantId)
	return &awskms.RevokeGrantOutput{}, k.faults.strike()
}

func (k *fakeKeys) Try(ctx context.Context, _, roleARN, keyARN string) error {
	if err := k.faults.strike(); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.tried; err != nil {
		return err
	}
	allowed := false
	for _, g := range k.grants {
		allowed = allowed || *g.GranteePrincipal == roleARN && *g.KeyId == keyARN
	}
	if !allowed || k.roleDenied {
		return awserr.New("AccessDeniedException", "the role may not")
	}
	m, err := k.find(ctx, "kms:Encrypt", keyARN)
	switch {
	case err != nil:
		return err
	case m.KeyState == kmstypes.KeyStateDisabled:
		return &kmstypes.DisabledException{Message: aws.String(keyARN + " is disabled.")}
	case m.KeyState != kmstypes.KeyStateEnabled:
		return &kmstypes.KMSInvalidStateException{Message: aws.String(keyARN + " is pending deletion.")}
	}
	return nil
}

func (k *fakeKeys) granted() map[string]awskms.CreateGrantInput {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := map[string]awskms.CreateGrantInput{}
	for id, g := range k.grants {
		out[id] = g
	}
	return out
}
