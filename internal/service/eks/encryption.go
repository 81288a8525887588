package eks

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// encryptWait is how long one reconciliation waits for a plane to encrypt.
const encryptWait = time.Minute

// Keys are what EKS needs of AWS KMS. DescribeKey and CreateGrant are called by a
// user, who must be allowed to; what EKS calls for itself (with the principal of
// its service) needs no permission.
// https://docs.aws.amazon.com/eks/latest/userguide/enable-kms.html
type Keys interface {
	DescribeKey(context.Context, *awskms.DescribeKeyInput) (*awskms.DescribeKeyOutput, error)
	CreateGrant(context.Context, *awskms.CreateGrantInput) (*awskms.CreateGrantOutput, error)
	RevokeGrant(context.Context, *awskms.RevokeGrantInput) (*awskms.RevokeGrantOutput, error)
	// Try uses a key as the role of a cluster, as its control plane does. The error
	// is KMS's, or ErrNoIdentity if the role cannot be assumed.
	Try(ctx context.Context, clusterARN, roleARN, keyARN string) error
}

// A keyGrant is a grant by which the cluster role uses a key.
type keyGrant struct {
	KeyARN string
	ID     string
}

// grantOperations are what the control plane does with the key. // from memory
var grantOperations = []kmstypes.GrantOperation{
	kmstypes.GrantOperationEncrypt, kmstypes.GrantOperationDecrypt, kmstypes.GrantOperationDescribeKey,
}

// keyPattern is a key or an alias, without what comes before in an ARN. A key ID
// alone is no name of a key for EKS.
var keyPattern = regexp.MustCompile(`^(key/[A-Za-z0-9-]{1,64}|alias/[A-Za-z0-9:/_-]{1,250})$`)

// secretsEncryption is the configuration of a cluster with a key. The list of
// resources says nothing any more.
// https://docs.aws.amazon.com/eks/latest/userguide/envelope-encryption.html
func secretsEncryption(keyARN string) []ekstypes.EncryptionConfig {
	return []ekstypes.EncryptionConfig{{Resources: []string{"secrets"}, Provider: &ekstypes.Provider{KeyArn: &keyARN}}}
}

// keyARN is the key that the cluster is encrypted with, or "".
func (c *clusterRecord) keyARN() string {
	if len(c.Cluster.EncryptionConfig) == 0 {
		return ""
	}
	return *c.Cluster.EncryptionConfig[0].Provider.KeyArn
}

// AssociateEncryptionConfig starts the encryption of a cluster; the cluster
// reconciler finishes it. Nothing undoes it.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_AssociateEncryptionConfig.html
func (s *Service) AssociateEncryptionConfig(ctx context.Context, in *awseks.AssociateEncryptionConfigInput) (*awseks.AssociateEncryptionConfigOutput, error) {
	if in.ClusterName == nil || *in.ClusterName == "" {
		return nil, errMissing("clusterName")
	}
	key, rec, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	untokened := *in
	untokened.ClientRequestToken = nil
	request := fingerprint(untokened)
	if done, err := s.repeatedUpdate(s.store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.AssociateEncryptionConfigOutput{Update: done}, err
	}
	if len(in.EncryptionConfig) == 0 {
		return nil, errMissing("encryptionConfig")
	}
	if err := s.encryptable(s.store, key, &rec, rec.UID, ""); err != nil {
		return nil, err
	}
	config, err := s.validateEncryption(ctx, awsapi.CallFrom(ctx), key.ID, in.EncryptionConfig)
	if err != nil {
		return nil, err
	}
	wanted := *config[0].Provider.KeyArn
	if err := s.encryptable(s.store, key, &rec, rec.UID, wanted); err != nil {
		return nil, err // before anything is granted
	}
	rec.Cluster.EncryptionConfig, rec.Grants = config, nil
	undo, err := s.grantKey(ctx, &rec)
	if err != nil {
		return nil, err
	}
	up := s.newUpdate(ekstypes.UpdateTypeAssociateEncryptionConfig, param(ekstypes.UpdateParamTypeEncryptionConfig, encryptionParam(wanted)))
	up.Encryption, up.Request, up.Token = &rec.Grants[0], request, text(in.ClientRequestToken)
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, errNoCluster(key.ID))
		}
		if err := s.encryptable(tx, key, &now, rec.UID, wanted); err != nil {
			return err
		}
		if err := clusters.Update(tx, key, func(c *clusterRecord) error {
			c.Cluster.Status, c.Since = ekstypes.ClusterStatusUpdating, s.clock.Now().UTC()
			return nil
		}); err != nil {
			return err
		}
		return updates.Create(tx, below(key, *up.Update.Id), *up)
	})
	if err != nil {
		undo()
		return nil, err
	}
	return &awseks.AssociateEncryptionConfigOutput{Update: &up.Update}, nil
}

// encryptable refuses to encrypt a cluster that is encrypted, busy, not there yet,
// or another one than uid's. One that is half encrypted may have its own key once
// more, and no other; wanted is "" as long as it is not known.
func (s *Service) encryptable(r store.Reader, key store.Key, rec *clusterRecord, uid, wanted string) error {
	taken := rec.keyARN()
	if taken == "" && rec.Cluster.Status == ekstypes.ClusterStatusActive {
		taken = s.cfg.ControlPlanes.EncryptionKey(rec.Plane.ID)
	}
	switch {
	case rec.UID != uid:
		return errNoCluster(key.ID)
	case rec.keyARN() != "" && !rec.HalfEncrypted, wanted != "" && taken != "" && taken != wanted:
		return errEncrypted(key.ID)
	case rec.Cluster.Status == ekstypes.ClusterStatusUpdating:
		return s.updateInProgress(r, key, "", string(ekstypes.UpdateTypeAssociateEncryptionConfig))
	case rec.Cluster.Status != ekstypes.ClusterStatusActive:
		return errClusterNotActive(key.ID, rec.Cluster.Status)
	}
	return nil
}

// encryptionParam is the configuration as an update's parameter shows it.
func encryptionParam(keyARN string) string {
	return jsonText([]any{map[string]any{"resources": []string{"secrets"}, "provider": map[string]string{"keyArn": keyARN}}})
}

// validateEncryption checks a configuration and asks KMS, as the caller, about its
// key. The result has the key's ARN, whatever alias was given. // from memory
func (s *Service) validateEncryption(ctx context.Context, call *awsapi.Call, cluster string, in []ekstypes.EncryptionConfig) ([]ekstypes.EncryptionConfig, error) {
	switch {
	case len(in) == 0:
		return nil, nil
	case s.cfg.Keys == nil:
		return nil, awserr.NotImplemented("secrets encryption (encryptionConfig) without KMS")
	case len(in) > 1:
		return nil, errManyEncryptionConfigs(cluster)
	//lint:ignore SA1019 clients of today still send it
	case len(in[0].Resources) > 0 && !slices.Equal(in[0].Resources, []string{"secrets"}):
		return nil, errEncryptedResources(cluster)
	case in[0].Provider == nil || text(in[0].Provider.KeyArn) == "":
		return nil, errKeyRequired(cluster)
	}
	given := *in[0].Provider.KeyArn
	name := given
	if a, err := arn.Parse(given); err == nil {
		if a.Service != "kms" || len(a.Account) != 12 {
			return nil, errKeyARN(cluster)
		}
		if a.Region != call.Region {
			return nil, errKeyRegion(cluster)
		}
		name = a.Resource
	} else if !strings.HasPrefix(given, "alias/") {
		return nil, errKeyARN(cluster)
	}
	if !keyPattern.MatchString(name) {
		return nil, errKeyARN(cluster)
	}
	out, err := s.cfg.Keys.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &given})
	switch c := code(err); {
	case c == "AccessDeniedException":
		return nil, errKeyNotAllowed(cluster, "kms:DescribeKey")
	case c == "NotFoundException", c == "InvalidArnException":
		return nil, errNoKey(cluster, given)
	case err != nil:
		return nil, keyFailure(given, err)
	}
	key := out.KeyMetadata
	if key.KeySpec != kmstypes.KeySpecSymmetricDefault || key.KeyUsage != kmstypes.KeyUsageTypeEncryptDecrypt {
		return nil, errKeyNotSymmetric(cluster, *key.Arn)
	}
	if issue := stateIssue(key); issue != nil {
		return nil, invalidParameter(cluster, "%s", *issue.Message)
	}
	return secretsEncryption(*key.Arn), nil
}

// grantKey lets the role of a cluster that is to be encrypted use its key, in the
// name of the caller, and sees that it can. undo takes that back when the cluster
// is not encrypted after all.
func (s *Service) grantKey(ctx context.Context, rec *clusterRecord) (undo func(), err error) {
	key := rec.keyARN()
	if key == "" {
		return func() {}, nil
	}
	call := awsapi.CallFrom(ctx)
	out, err := s.cfg.Keys.CreateGrant(ctx, &awskms.CreateGrantInput{
		KeyId: &key, GranteePrincipal: rec.Cluster.RoleArn, Operations: grantOperations,
		Name: new("eks-" + ids.UUID()), // one of its own, even where the role has another
	})
	switch c := code(err); {
	case c == "AccessDeniedException":
		return nil, errKeyNotAllowed(rec.name(), "kms:CreateGrant")
	case err != nil:
		if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorFault() != smithy.FaultServer {
			return nil, invalidParameter(rec.name(), "%s (Service: Kms, Status Code: 400)", api.ErrorMessage()) // from memory
		}
		return nil, keyFailure(key, err)
	}
	rec.Grants = []keyGrant{{KeyARN: key, ID: *out.GrantId}}
	undo = func() {
		svc := s.asService(context.WithoutCancel(ctx), call.Account, call.Region)
		if err := s.revokeGrants(svc, *rec); err != nil {
			s.log.Warn("a grant on a key is left behind", "key", key, "grant", *out.GrantId, "err", err)
		}
	}
	issue, err := s.keyIssue(ctx, rec, key)
	if err == nil && issue != nil {
		err = invalidParameter(rec.name(), "%s", *issue.Message)
	}
	if err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

// revokeGrants takes back what EKS granted the cluster role. A grant or key that is
// gone, or in no state for it, needs nothing.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_RevokeGrant.html
func (s *Service) revokeGrants(ctx context.Context, rec clusterRecord) error {
	if s.cfg.Keys == nil {
		return nil
	}
	for _, g := range rec.Grants {
		_, err := s.cfg.Keys.RevokeGrant(ctx, &awskms.RevokeGrantInput{KeyId: &g.KeyARN, GrantId: &g.ID})
		if c := code(err); err != nil && c != "NotFoundException" && c != "KMSInvalidStateException" {
			return fmt.Errorf("revoking grant %s on %s: %w", g.ID, g.KeyARN, err)
		}
	}
	return nil
}

// encryptPlane has the control plane encrypt with a key, if there is one.
func (s *Service) encryptPlane(ctx context.Context, rec clusterRecord, planeID, keyARN string) error {
	if keyARN == "" {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, encryptWait)
	defer cancel()
	if err := s.cfg.ControlPlanes.Encrypt(wait, planeID, keyARN); err != nil {
		return s.keyTrouble(ctx, rec, keyARN, fmt.Errorf("encrypting the cluster: %w", err))
	}
	return nil
}

// ClusterRole returns the ARNs of a cluster and of its role.
func (s *Service) ClusterRole(account, region, name string) (cluster, role string, err error) {
	rec, err := clusters.Get(s.store, store.Key{Account: account, Region: region, ID: name})
	if errors.Is(err, store.ErrNotFound) {
		return "", "", errNoCluster(name)
	} else if err != nil {
		return "", "", err
	}
	return *rec.Cluster.Arn, *rec.Cluster.RoleArn, nil
}
