package cluster

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// encryptWait is how long one reconciliation waits for a plane to encrypt its data.
const encryptWait = time.Minute

// grantOperations are the operations that the control plane uses. // from memory
var grantOperations = []kmstypes.GrantOperation{
	kmstypes.GrantOperationEncrypt, kmstypes.GrantOperationDecrypt, kmstypes.GrantOperationDescribeKey,
}

// keyPattern matches the last part of a key or alias ARN. EKS does not accept a bare key ID.
var keyPattern = regexp.MustCompile(`^(key/[A-Za-z0-9-]{1,64}|alias/[A-Za-z0-9:/_-]{1,250})$`)

// secretsEncryption returns the encryption configuration of a cluster with a key. The list of
// resources no longer has any effect.
// https://docs.aws.amazon.com/eks/latest/userguide/envelope-encryption.html
func secretsEncryption(keyARN string) []ekstypes.EncryptionConfig {
	return []ekstypes.EncryptionConfig{{Resources: []string{"secrets"}, Provider: &ekstypes.Provider{KeyArn: &keyARN}}}
}

// AssociateEncryptionConfig starts the encryption of a cluster. The cluster reconciler completes
// it. It cannot be undone.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_AssociateEncryptionConfig.html
func (s *Service) AssociateEncryptionConfig(ctx context.Context, in *awseks.AssociateEncryptionConfigInput) (*awseks.AssociateEncryptionConfigOutput, error) {
	if in.ClusterName == nil || *in.ClusterName == "" {
		return nil, ekserr.Missing("clusterName")
	}
	key, rec, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	request := record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.AssociateEncryptionConfigOutput{Update: done}, err
	}
	if len(in.EncryptionConfig) == 0 {
		return nil, ekserr.Missing("encryptionConfig")
	}
	if err := s.encryptable(s.Store, key, &rec, rec.UID, ""); err != nil {
		return nil, err
	}
	config, err := s.checkEncryption(ctx, awsapi.CallFrom(ctx), key.ID, in.EncryptionConfig)
	if err != nil {
		return nil, err
	}
	wanted := *config[0].Provider.KeyArn
	if err := s.encryptable(s.Store, key, &rec, rec.UID, wanted); err != nil {
		return nil, err // check before granting anything
	}
	rec.Cluster.EncryptionConfig, rec.Grants = config, nil
	undo, err := s.grantKey(ctx, &rec)
	if err != nil {
		return nil, err
	}
	up := s.NewUpdate(ekstypes.UpdateTypeAssociateEncryptionConfig, base.UpdateParam(ekstypes.UpdateParamTypeEncryptionConfig, encryptionParam(wanted)))
	up.Encryption, up.Request, up.Token = &rec.Grants[0], request, aws.ToString(in.ClientRequestToken)
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := record.Clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		}
		if err := s.encryptable(tx, key, &now, rec.UID, wanted); err != nil {
			return err
		}
		return s.begin(tx, key, up)
	})
	if err != nil {
		undo()
		return nil, err
	}
	return &awseks.AssociateEncryptionConfigOutput{Update: &up.Update}, nil
}

// encryptable returns an error if a cluster is already encrypted, busy, not ready, or not the one
// with uid. A half-encrypted cluster can be encrypted again, but only with its own key. wanted is
// "" if it is not known yet.
func (s *Service) encryptable(r store.Reader, key store.Key, rec *record.Cluster, uid, wanted string) error {
	taken := rec.KeyARN()
	if taken == "" && rec.Cluster.Status == ekstypes.ClusterStatusActive {
		taken = s.ControlPlanes.EncryptionKey(rec.Plane.ID)
	}
	switch {
	case rec.UID != uid:
		return ekserr.NoCluster(key.ID)
	case rec.KeyARN() != "" && !rec.HalfEncrypted, wanted != "" && taken != "" && taken != wanted:
		return errEncrypted(key.ID)
	case rec.Cluster.Status == ekstypes.ClusterStatusUpdating:
		return s.UpdateInProgress(r, key, "", string(ekstypes.UpdateTypeAssociateEncryptionConfig))
	case rec.Cluster.Status != ekstypes.ClusterStatusActive:
		return ekserr.ClusterNotActive(key.ID, rec.Cluster.Status)
	}
	return nil
}

// encryptionParam returns the configuration in the format of an update parameter.
func encryptionParam(keyARN string) string {
	return base.JSON([]any{map[string]any{"resources": []string{"secrets"}, "provider": map[string]string{"keyArn": keyARN}}})
}

// checkEncryption checks a configuration and asks KMS about its key as the caller. The result has
// the key's ARN, even if the request has an alias. // from memory
func (s *Service) checkEncryption(ctx context.Context, call *awsapi.Call, cluster string, in []ekstypes.EncryptionConfig) ([]ekstypes.EncryptionConfig, error) {
	switch {
	case len(in) == 0:
		return nil, nil
	case s.Keys == nil:
		return nil, awserr.NotImplemented("secrets encryption (encryptionConfig) without KMS")
	case len(in) > 1:
		return nil, errManyEncryptionConfigs(cluster)
	//lint:ignore SA1019 clients of today still send it
	case len(in[0].Resources) > 0 && !slices.Equal(in[0].Resources, []string{"secrets"}):
		return nil, errEncryptedResources(cluster)
	case in[0].Provider == nil || aws.ToString(in[0].Provider.KeyArn) == "":
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
	out, err := s.Keys.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &given})
	switch c := awserr.CodeOf(err); {
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
		return nil, ekserr.InvalidParameter(cluster, "%s", *issue.Message)
	}
	return secretsEncryption(*key.Arn), nil
}

// grantKey grants a cluster's role the use of its key, on behalf of the caller, and checks that it
// works. undo revokes the grant if the cluster is not encrypted after all.
func (s *Service) grantKey(ctx context.Context, rec *record.Cluster) (undo func(), err error) {
	key := rec.KeyARN()
	if key == "" {
		return func() {}, nil
	}
	call := awsapi.CallFrom(ctx)
	out, err := s.Keys.CreateGrant(ctx, &awskms.CreateGrantInput{
		KeyId: &key, GranteePrincipal: rec.Cluster.RoleArn, Operations: grantOperations,
		Name: new("eks-" + ids.UUID()), // unique, so that clusters with the same role have separate grants
	})
	switch c := awserr.CodeOf(err); {
	case c == "AccessDeniedException":
		return nil, errKeyNotAllowed(rec.Name(), "kms:CreateGrant")
	case err != nil:
		if api := smithy.APIError(nil); errors.As(err, &api) && api.ErrorFault() != smithy.FaultServer {
			return nil, ekserr.InvalidParameter(rec.Name(), "%s (Service: Kms, Status Code: 400)", api.ErrorMessage()) // from memory
		}
		return nil, keyFailure(key, err)
	}
	rec.Grants = []record.KeyGrant{{KeyARN: key, ID: *out.GrantId}}
	undo = func() {
		svc := s.AsService(context.WithoutCancel(ctx), call.Account, call.Region)
		if err := s.revokeGrants(svc, *rec); err != nil {
			s.Log.Warn("could not revoke a grant on a key", "key", key, "grant", *out.GrantId, "err", err)
		}
	}
	issue, err := s.keyIssue(ctx, rec, key)
	if err == nil && issue != nil {
		err = ekserr.InvalidParameter(rec.Name(), "%s", *issue.Message)
	}
	if err != nil {
		undo()
		return nil, err
	}
	return undo, nil
}

// revokeGrants revokes the grants that EKS made to the cluster role. It ignores grants and keys
// that are gone or whose state does not allow it.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_RevokeGrant.html
func (s *Service) revokeGrants(ctx context.Context, rec record.Cluster) error {
	if s.Keys == nil {
		return nil
	}
	for _, g := range rec.Grants {
		_, err := s.Keys.RevokeGrant(ctx, &awskms.RevokeGrantInput{KeyId: &g.KeyARN, GrantId: &g.ID})
		if c := awserr.CodeOf(err); err != nil && c != "NotFoundException" && c != "KMSInvalidStateException" {
			return fmt.Errorf("revoking grant %s on %s: %w", g.ID, g.KeyARN, err)
		}
	}
	return nil
}

// encryptPlane makes the control plane encrypt its data with a key, if there is one.
func (s *Service) encryptPlane(ctx context.Context, rec record.Cluster, planeID, keyARN string) error {
	if keyARN == "" {
		return nil
	}
	wait, cancel := context.WithTimeout(ctx, encryptWait)
	defer cancel()
	if err := s.ControlPlanes.Encrypt(wait, planeID, keyARN); err != nil {
		return s.keyTrouble(ctx, rec, keyARN, fmt.Errorf("encrypting the cluster: %w", err))
	}
	return nil
}

// ClusterRole returns the ARNs of a cluster and of its role.
func (s *Service) ClusterRole(account, region, name string) (cluster, role string, err error) {
	rec, err := record.Clusters.Get(s.Store, store.Key{Account: account, Region: region, ID: name})
	if err != nil {
		return "", "", store.NotFoundAs(err, ekserr.NoCluster(name))
	}
	return *rec.Cluster.Arn, *rec.Cluster.RoleArn, nil
}

// A keyError is a control plane error caused by its key.
type keyError struct {
	issue ekstypes.ClusterIssue
	cause error
}

func (e *keyError) Error() string { return fmt.Sprintf("%s: %v", *e.issue.Message, e.cause) }

func (e *keyError) Unwrap() error { return e.cause }

// keyTrouble adds to a control plane error what is wrong with its key, if anything.
func (s *Service) keyTrouble(ctx context.Context, rec record.Cluster, keyARN string, cause error) error {
	if keyARN == "" || ctx.Err() != nil {
		return cause
	}
	if issue, err := s.keyIssue(ctx, &rec, keyARN); err == nil && issue != nil {
		return &keyError{*issue, cause}
	}
	return cause
}

// health returns the current health of a cluster: what its record says, and any problem with its
// key.
//
// AWS deviation: EKS checks periodically and reports a disabled or re-enabled key only then.
func (s *Service) health(ctx context.Context, key store.Key, rec record.Cluster) *ekstypes.ClusterHealth {
	health := ekstypes.ClusterHealth{Issues: []ekstypes.ClusterIssue{}}
	if h := rec.Cluster.Health; h != nil {
		health.Issues = append(health.Issues, h.Issues...)
	}
	switch rec.Cluster.Status {
	case ekstypes.ClusterStatusActive, ekstypes.ClusterStatusUpdating:
	default:
		return &health
	}
	if keyARN := s.healthKey(key, &rec); keyARN != "" && rec.Source == nil { // the keys of a twin are not copied
		issue, err := s.keyIssue(ctx, &rec, keyARN)
		if err != nil {
			s.Log.WarnContext(ctx, "checking the key of a cluster", "cluster", *rec.Cluster.Arn, "err", err)
		} else if issue != nil {
			health.Issues = append(health.Issues, *issue)
		}
	}
	return &health
}

// healthKey returns the key that a cluster needs, including one that an update in progress is
// adopting, or "" if there is none.
func (s *Service) healthKey(key store.Key, rec *record.Cluster) string {
	if keyARN := rec.KeyARN(); keyARN != "" || rec.Cluster.Status != ekstypes.ClusterStatusUpdating {
		return keyARN
	}
	for _, i := range record.Updates.All(s.Store, key.AllBelow()) {
		if e := i.Value.Encryption; e != nil && i.Value.Update.Status == ekstypes.UpdateStatusInProgress {
			return e.KeyARN
		}
	}
	return ""
}

// keyFailure wraps a KMS error that is not about the request. It hides the error's code, which
// would mean something else to a caller of EKS.
func keyFailure(keyARN string, err error) error {
	return fmt.Errorf("calling KMS for key %s: %v", keyARN, err)
}

// keyIssue returns the issue that keeps a cluster's role from using a key, or nil.
// https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#cluster-health-status
func (s *Service) keyIssue(ctx context.Context, rec *record.Cluster, keyARN string) (*ekstypes.ClusterIssue, error) {
	if s.Keys == nil {
		return nil, nil
	}
	used := s.Keys.Try(ctx, *rec.Cluster.Arn, *rec.Cluster.RoleArn, keyARN)
	switch c := awserr.CodeOf(used); {
	case used == nil:
		return nil, nil
	case errors.Is(used, base.ErrNoIdentity):
		// [seen] aws/containers-roadmap#1533, for a role that the key's policy excludes
		return keyIssueOf(ekstypes.ClusterIssueCodeIamRoleNotFound, *rec.Cluster.RoleArn,
			"Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", *rec.Cluster.RoleArn), nil
	case c == "AccessDeniedException", c == "DisabledException", c == "KMSInvalidStateException", c == "NotFoundException":
	default:
		return nil, keyFailure(keyARN, used)
	}
	// KMS does not reveal a key's state to callers who may not use it, so EKS asks as itself.
	place, err := arn.Parse(*rec.Cluster.Arn)
	if err != nil {
		return nil, err
	}
	out, err := s.Keys.DescribeKey(s.AsService(ctx, place.Account, place.Region), &awskms.DescribeKeyInput{KeyId: &keyARN})
	switch {
	case awserr.CodeOf(err) == "NotFoundException":
		return keyIssueOf(ekstypes.ClusterIssueCodeKmsKeyNotFound, keyARN, "KMS key %s is not found", keyARN), nil // from memory
	case err != nil:
		return nil, keyFailure(keyARN, err)
	}
	if issue := stateIssue(out.KeyMetadata); issue != nil {
		return issue, nil
	}
	if awserr.CodeOf(used) != "AccessDeniedException" {
		return nil, keyFailure(keyARN, used) // the key has recovered in the meantime
	}
	// [seen] hashicorp/terraform-provider-aws#50007
	return keyIssueOf(ekstypes.ClusterIssueCodeKmsGrantRevoked, keyARN, "Access denied to KMS key %s due to explicit deny policy or revoked grant", keyARN), nil
}

// stateIssue returns the issue that follows from a key's state, or nil. The texts are from memory.
func stateIssue(key *kmstypes.KeyMetadata) *ekstypes.ClusterIssue {
	switch id := *key.Arn; key.KeyState {
	case kmstypes.KeyStateEnabled:
		return nil
	case kmstypes.KeyStateDisabled:
		return keyIssueOf(ekstypes.ClusterIssueCodeKmsKeyDisabled, id, "KMS key %s is disabled", id)
	case kmstypes.KeyStatePendingDeletion, kmstypes.KeyStatePendingReplicaDeletion:
		return keyIssueOf(ekstypes.ClusterIssueCodeKmsKeyMarkedForDeletion, id, "KMS key %s is marked for deletion", id)
	default:
		return keyIssueOf(ekstypes.ClusterIssueCodeOther, id, "KMS key %s cannot be used: it is in the state %s", id, key.KeyState)
	}
}

func keyIssueOf(code ekstypes.ClusterIssueCode, resource, format string, args ...any) *ekstypes.ClusterIssue {
	return &ekstypes.ClusterIssue{Code: code, Message: new(fmt.Sprintf(format, args...)), ResourceIds: []string{resource}}
}
