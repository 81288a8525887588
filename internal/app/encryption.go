package app

import (
	"context"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// tryTimeout is how long EKS waits for KMS when it checks whether a key works.
const tryTimeout = 5 * time.Second

// clusterKeys gives EKS access to the KMS keys of clusters, as EKS's caller or as a cluster's role.
type clusterKeys struct {
	awscall.KMS
	roles clusterRoles
}

var (
	_ eks.Keys         = clusterKeys{}
	_ controlplane.KMS = planeKeys{}
)

// Try implements eks.Keys.
func (k clusterKeys) Try(ctx context.Context, clusterARN, roleARN, keyARN string) error {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	key, err := arn.Parse(keyARN)
	if err != nil {
		return err
	}
	if ctx, err = k.roles.as(ctx, clusterARN, roleARN, key.Region); err != nil {
		return err
	}
	sealed, err := k.Encrypt(ctx, &awskms.EncryptInput{KeyId: &keyARN, Plaintext: []byte("health")})
	if err != nil {
		return err
	}
	_, err = k.Decrypt(ctx, &awskms.DecryptInput{KeyId: &keyARN, CiphertextBlob: sealed.CiphertextBlob})
	return err
}

// planeKeys gives control planes access to the same keys. Calls are made as the cluster's role, so that policies and
// grants apply and CloudTrail records them.
type planeKeys struct {
	kms    awscall.KMS
	roles  clusterRoles
	planes *controlplane.Manager
	eks    *eks.Service
}

// Encrypt implements controlplane.KMS.
func (k planeKeys) Encrypt(ctx context.Context, planeID, keyARN string, plaintext []byte) ([]byte, error) {
	ctx, err := k.as(ctx, planeID)
	if err != nil {
		return nil, err
	}
	out, err := k.kms.Encrypt(ctx, &awskms.EncryptInput{KeyId: &keyARN, Plaintext: plaintext})
	if err != nil {
		return nil, err
	}
	return out.CiphertextBlob, nil
}

// Decrypt implements controlplane.KMS.
func (k planeKeys) Decrypt(ctx context.Context, planeID, keyARN string, ciphertext []byte) ([]byte, error) {
	ctx, err := k.as(ctx, planeID)
	if err != nil {
		return nil, err
	}
	out, err := k.kms.Decrypt(ctx, &awskms.DecryptInput{KeyId: &keyARN, CiphertextBlob: ciphertext})
	if err != nil {
		return nil, err
	}
	return out.Plaintext, nil
}

// as returns a context in which EKS calls as the role of a control plane's cluster.
func (k planeKeys) as(ctx context.Context, planeID string) (context.Context, error) {
	p, err := k.planes.Get(planeID)
	if err != nil {
		return nil, err
	}
	cluster, role, err := k.eks.ClusterRole(p.Key.Account, p.Key.Region, p.Key.Name)
	if err != nil {
		return nil, err
	}
	return k.roles.as(ctx, cluster, role, p.Key.Region)
}
