package cluster

import (
	"context"
	"errors"
	"fmt"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A keyError is trouble of a control plane that its key explains.
type keyError struct {
	issue ekstypes.ClusterIssue
	cause error
}

func (e *keyError) Error() string { return fmt.Sprintf("%s: %v", *e.issue.Message, e.cause) }

func (e *keyError) Unwrap() error { return e.cause }

// keyTrouble adds to an error of a control plane what is wrong with its key, if
// anything is.
func (s *Service) keyTrouble(ctx context.Context, rec record.Cluster, keyARN string, cause error) error {
	if keyARN == "" || ctx.Err() != nil {
		return cause
	}
	if issue, err := s.keyIssue(ctx, &rec, keyARN); err == nil && issue != nil {
		return &keyError{*issue, cause}
	}
	return cause
}

// health is the health of a cluster at this moment: what its record says,
// and what keeps it from its key.
//
// AWS deviation: EKS looks from time to time, and tells about a key that was
// disabled, or enabled again, only then.
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
	if keyARN := s.healthKey(key, &rec); keyARN != "" {
		issue, err := s.keyIssue(ctx, &rec, keyARN)
		if err != nil {
			s.Log.WarnContext(ctx, "checking the key of a cluster", "cluster", *rec.Cluster.Arn, "err", err)
		} else if issue != nil {
			health.Issues = append(health.Issues, *issue)
		}
	}
	return &health
}

// healthKey is the key that a cluster needs, also one that it is just being encrypted
// with; "": none.
func (s *Service) healthKey(key store.Key, rec *record.Cluster) string {
	if keyARN := rec.KeyARN(); keyARN != "" || rec.Cluster.Status != ekstypes.ClusterStatusUpdating {
		return keyARN
	}
	for _, i := range record.Updates.All(s.Store, record.AllBelow(key)) {
		if e := i.Value.Encryption; e != nil && i.Value.Update.Status == ekstypes.UpdateStatusInProgress {
			return e.KeyARN
		}
	}
	return ""
}

// keyFailure is an error of KMS that says nothing about the request. Its code would mean
// something else to the caller of EKS.
func keyFailure(keyARN string, err error) error {
	return fmt.Errorf("calling KMS for key %s: %v", keyARN, err)
}

// keyIssue tells what keeps a cluster's role from using a key; nil: nothing.
// https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html#cluster-health-status
func (s *Service) keyIssue(ctx context.Context, rec *record.Cluster, keyARN string) (*ekstypes.ClusterIssue, error) {
	if s.Keys == nil {
		return nil, nil
	}
	used := s.Keys.Try(ctx, *rec.Cluster.Arn, *rec.Cluster.RoleArn, keyARN)
	switch c := ekserr.Code(used); {
	case used == nil:
		return nil, nil
	case errors.Is(used, base.ErrNoIdentity):
		// [seen] aws/containers-roadmap#1533, for a role that a key does not let in
		return keyIssueOf(ekstypes.ClusterIssueCodeIamRoleNotFound, *rec.Cluster.RoleArn,
			"Role with arn: %s, could not be assumed because it does not exist or the trusted entity is not correct", *rec.Cluster.RoleArn), nil
	case c == "AccessDeniedException", c == "DisabledException", c == "KMSInvalidStateException", c == "NotFoundException":
	default:
		return nil, keyFailure(keyARN, used)
	}
	// KMS does not tell the state of a key to callers who may not use it: EKS asks as itself.
	place, err := arn.Parse(*rec.Cluster.Arn)
	if err != nil {
		return nil, err
	}
	out, err := s.Keys.DescribeKey(s.AsService(ctx, place.Account, place.Region), &awskms.DescribeKeyInput{KeyId: &keyARN})
	switch {
	case ekserr.Code(err) == "NotFoundException":
		return keyIssueOf(ekstypes.ClusterIssueCodeKmsKeyNotFound, keyARN, "KMS key %s is not found", keyARN), nil // from memory
	case err != nil:
		return nil, keyFailure(keyARN, err)
	}
	if issue := stateIssue(out.KeyMetadata); issue != nil {
		return issue, nil
	}
	if ekserr.Code(used) != "AccessDeniedException" {
		return nil, keyFailure(keyARN, used) // it has just become better
	}
	// [seen] hashicorp/terraform-provider-aws#50007
	return keyIssueOf(ekstypes.ClusterIssueCodeKmsGrantRevoked, keyARN, "Access denied to KMS key %s due to explicit deny policy or revoked grant", keyARN), nil
}

// stateIssue is what the state of a key means for a cluster; nil: nothing. The
// texts are from memory.
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
