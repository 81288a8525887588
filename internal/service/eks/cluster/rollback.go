package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A version rollback of a cluster with EKS Auto Mode replaces the nodes first, while the cluster stays ACTIVE: new nodes get
// the older version, so the others have drifted, and Karpenter replaces them as its disruption controls allow. When all
// nodes have the older version, the control plane follows.
// https://docs.aws.amazon.com/eks/latest/userguide/rollback-automode.html

const (
	// nodeRollback is how long the nodes have if a request does not say so.
	// https://docs.aws.amazon.com/eks/latest/APIReference/API_RollbackConfig.html
	nodeRollback = 720 * time.Minute
	// nodeRollbackPoll is how often the nodes are counted.
	nodeRollbackPoll = time.Second
)

// The label of the nodes of EKS Auto Mode.
const (
	labelCompute = "eks.amazonaws.com/compute-type"
	computeAuto  = "auto"
)

// beginNodeRollback records a rollback that starts with the nodes.
func (s *Service) beginNodeRollback(tx *store.Tx, key store.Key, up *record.Update, in *awseks.UpdateClusterVersionInput) error {
	wait := nodeRollback
	if c := in.RollbackConfig; c != nil && c.TimeoutMinutes != nil {
		wait = time.Duration(*c.TimeoutMinutes) * time.Minute
	}
	err := record.Clusters.Update(tx, key, func(c *record.Cluster) error {
		c.Rollback = &record.Rollback{Update: *up.Update.Id, Version: up.Version, Until: s.Clock.Now().UTC().Add(wait), Force: in.Force}
		return nil
	})
	if err != nil {
		return err
	}
	return record.Updates.Create(tx, key.Below(*up.Update.Id), *up)
}

// endNodeRollback ends the rollback of a cluster's nodes, which must be that of an update, and changes the update. Nodes then
// follow the cluster's own version again. It returns false if there is no such rollback, or no longer.
func (s *Service) endNodeRollback(tx *store.Tx, key store.Key, uid, update string, fn func(*ekstypes.Update)) (bool, error) {
	ended := false
	err := record.Clusters.Update(tx, key, func(c *record.Cluster) error {
		if c.UID == uid && c.Rollback != nil && c.Rollback.Update == update && c.Cluster.Status == ekstypes.ClusterStatusActive {
			c.Rollback, ended = nil, true
		}
		return nil
	})
	if err != nil || !ended {
		return false, store.IgnoreNotFound(err)
	}
	return true, record.Updates.Update(tx, key.Below(update), func(u *record.Update) error { fn(&u.Update); return nil })
}

// rollBackNodes waits until all nodes of EKS Auto Mode have the version to which a cluster is rolled back. It then starts the
// rollback of the control plane, if the cluster is still ready for it.
func (s *Service) rollBackNodes(ctx context.Context, key store.Key, rec record.Cluster) (time.Duration, error) {
	r := rec.Rollback
	fail := func(code ekstypes.ErrorCode, message string) error {
		return s.Store.Update(ctx, func(tx *store.Tx) error {
			_, err := s.endNodeRollback(tx, key, rec.UID, r.Update, func(u *ekstypes.Update) {
				u.Status, u.Errors = ekstypes.UpdateStatusFailed, []ekstypes.ErrorDetail{{ErrorCode: code, ErrorMessage: &message, ResourceIds: []string{key.ID}}}
			})
			return err
		})
	}
	left, err := s.auto.Newer(ctx, key, r.Version)
	if err != nil {
		return 0, fmt.Errorf("counting the nodes of EKS Auto Mode: %w", err)
	}
	if left > 0 {
		if s.Clock.Now().Before(r.Until) {
			return nodeRollbackPoll, nil
		}
		return 0, fail(ekstypes.ErrorCodeUnknown, fmt.Sprintf("The rollback of EKS Auto Mode nodes to version %s did not complete within the timeout: %d nodes have a newer version.", r.Version, left)) // our own text
	}
	up, err := record.Updates.Get(s.Store, key.Below(r.Update))
	if err != nil {
		return 0, err
	}
	if err := s.checkReadiness(ctx, key, rec, &up, r.Force); err != nil {
		if awserr.CodeOf(err) == "" {
			return 0, err
		}
		return 0, fail(ekstypes.ErrorCodeOperationNotPermitted, awserr.TextOf(err))
	}
	return 0, s.change(ctx, key, rec.UID, func(c *record.Cluster) {
		if c.Rollback != nil && c.Rollback.Update == aws.ToString(up.Update.Id) && c.Cluster.Status == ekstypes.ClusterStatusActive {
			c.Cluster.Status, c.Since = ekstypes.ClusterStatusUpdating, s.Clock.Now().UTC()
		}
	})
}
