package base

import (
	"context"
	"errors"
	"fmt"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// QuotasFor returns what holds for the account of a key.
func (s *Service) QuotasFor(k store.Key) (Quotas, error) {
	q := s.Quotas
	if s.QuotasOf == nil {
		return q, nil
	}
	own, err := s.QuotasOf(k.Account, k.Region)
	if err != nil {
		return q, err
	}
	if own.Clusters != 0 {
		q.Clusters = own.Clusters
	}
	if own.NodegroupsPerCluster != 0 {
		q.NodegroupsPerCluster = own.NodegroupsPerCluster
	}
	if own.NodesPerNodegroup != 0 {
		q.NodesPerNodegroup = own.NodesPerNodegroup
	}
	if own.FargateProfilesPerCluster != 0 {
		q.FargateProfilesPerCluster = own.FargateProfilesPerCluster
	}
	return q, nil
}

// Cluster returns the named cluster of the caller.
func (s *Service) Cluster(ctx context.Context, name *string) (store.Key, record.Cluster, error) {
	if name == nil || *name == "" {
		return store.Key{}, record.Cluster{}, ekserr.Missing("name")
	}
	key := record.ClusterKey(awsapi.CallFrom(ctx), *name)
	rec, err := record.Clusters.Get(s.Store, key)
	return key, rec, store.NotFoundAs(err, ekserr.NoCluster(*name))
}

// ActiveCluster is Cluster for operations that need a usable cluster: ACTIVE or UPDATING.
func (s *Service) ActiveCluster(ctx context.Context, name *string) (store.Key, record.Cluster, error) {
	key, rec, err := s.Cluster(ctx, name)
	if err != nil {
		return key, rec, err
	}
	return key, rec, Usable(rec)
}

// StillUsable returns a cluster as a transaction finds it, if it is the one that was read
// before, and usable.
func StillUsable(tx *store.Tx, key store.Key, before *record.Cluster) (record.Cluster, error) {
	now, err := record.Clusters.Get(tx, key)
	if err != nil {
		return now, store.NotFoundAs(err, ekserr.NoCluster(key.ID))
	}
	if now.UID != before.UID {
		return now, ekserr.NoCluster(key.ID)
	}
	return now, Usable(now)
}

// Usable returns an error if a cluster is neither ACTIVE nor UPDATING.
func Usable(rec record.Cluster) error {
	if st := rec.Cluster.Status; st != ekstypes.ClusterStatusActive && st != ekstypes.ClusterStatusUpdating {
		return ekserr.ClusterNotActive(rec.Name(), st)
	}
	return nil
}

// AsService returns a context in which EC2 and IAM are called for the cluster's
// owner by EKS itself, as its service-linked role does on AWS.
func (s *Service) AsService(ctx context.Context, account, region string) context.Context {
	return awsapi.AsService(ctx, account, region, ServiceRole, s.Clock.Now())
}

// ClusterByPlane returns the cluster that a control plane belongs to.
func (s *Service) ClusterByPlane(planeID string) (store.Key, record.Cluster, error) {
	if k, ok := s.Sessions.Cluster(planeID); ok {
		if rec, err := record.Clusters.Get(s.Store, k); err == nil && rec.Plane.ID == planeID {
			return k, rec, nil
		}
	}
	for _, i := range record.Clusters.All(s.Store, store.Scope{}) {
		if i.Value.Plane.ID == planeID && planeID != "" {
			s.Sessions.SetCluster(planeID, i.Key)
			return i.Key, i.Value, nil
		}
	}
	return store.Key{}, record.Cluster{}, fmt.Errorf("control plane %s %w", planeID, ErrUnknownPlane)
}

// ErrUnknownPlane says that a control plane belongs to no cluster: not yet, or no longer.
var ErrUnknownPlane = errors.New("belongs to no cluster")

// The service-linked roles of EKS: of clusters, node groups and Fargate profiles.
// https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles.html
var (
	ServiceRole   = awsapi.ServiceRole{Service: "eks.amazonaws.com", Name: "AWSServiceRoleForAmazonEKS", Session: "AmazonEKS"}
	NodegroupRole = awsapi.ServiceRole{Service: "eks-nodegroup.amazonaws.com", Name: "AWSServiceRoleForAmazonEKSNodegroup", Session: "EKS"}
	FargateRole   = awsapi.ServiceRole{Service: "eks-fargate.amazonaws.com", Name: "AWSServiceRoleForAmazonEKSForFargate", Session: "FargateController"} // session from memory
)

// EnsureRole makes one of them for the caller of CreateCluster, CreateNodegroup or
// CreateFargateProfile unless it exists. The caller needs iam:CreateServiceLinkedRole:
// https://github.com/XenitAB/terraform-modules/pull/396
func (s *Service) EnsureRole(ctx context.Context, cluster string, role awsapi.ServiceRole) error {
	if s.EnsureServiceRole == nil {
		return nil
	}
	err := s.EnsureServiceRole(ctx, role)
	switch {
	case ekserr.Code(err) == "AccessDenied":
		return ekserr.InvalidRequest(cluster, "Failed to create service linked role: %s due to missing permissions for 'iam:CreateServiceLinkedRole'", role.Name) // [seen]
	case err != nil:
		return fmt.Errorf("creating the service-linked role %s: %w", role.Name, err)
	}
	return nil
}

// ServiceRoleARN is the service-linked role of EKS in an account.
func ServiceRoleARN(account string) string { return ServiceRole.ARN(account) }
