// Package connector registers external clusters, as the EKS Connector does. A registered cluster is a name, an ARN and
// an activation. It stays PENDING, because the agent that would activate it needs hybrid nodes of Systems Manager.
package connector

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations of the EKS Connector.
type Service struct{ *base.Service }

// New returns the part of EKS that registers clusters from elsewhere.
func New(b *base.Service) *Service { return &Service{b} }

const (
	// trusted is the service that the role of a connected cluster's agent must trust.
	// https://docs.aws.amazon.com/eks/latest/userguide/connector_IAM_role.html
	trusted = "ssm.amazonaws.com"
	// validity is how long a cluster can be activated.
	// https://docs.aws.amazon.com/eks/latest/APIReference/API_RegisterCluster.html
	validity = 3 * 24 * time.Hour
	// limit is the default quota of connected clusters in a region.
	// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
	limit = 10
)

// RegisterCluster records a cluster from elsewhere.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_RegisterCluster.html
func (s *Service) RegisterCluster(ctx context.Context, in *awseks.RegisterClusterInput) (*awseks.RegisterClusterOutput, error) {
	call := awsapi.CallFrom(ctx)
	if err := base.CheckName(in.Name, "name", "cluster name", "", 100); err != nil {
		return nil, err
	}
	name, config, request := *in.Name, in.ConnectorConfig, record.Fingerprint(in)
	key := record.ClusterKey(call, name)
	repeated := func(r store.Reader) (*ekstypes.Cluster, error) {
		if _, err := record.Clusters.Get(r, key); err == nil {
			return nil, ekserr.ClusterExists(name)
		}
		old, ok := record.Connected(r, key)
		if !ok {
			return nil, nil
		}
		return &old.Cluster, base.Repeats(name, in.ClientRequestToken, request, old.Token, old.Request, ekserr.ClusterExists(name))
	}
	if old, err := repeated(s.Store); old != nil || err != nil {
		return &awseks.RegisterClusterOutput{Cluster: old}, err
	}
	if err := base.CheckTags(name, in.Tags); err != nil {
		return nil, err
	}
	if config == nil {
		return nil, ekserr.Missing("connectorConfig")
	}
	if !slices.Contains(config.Provider.Values(), config.Provider) {
		return nil, errProvider(name, config.Provider)
	}
	role, err := s.Role(ctx, call.Account, "connectorConfig.roleArn", config.RoleArn, func(string) error { return errRole(name, *config.RoleArn) })
	switch {
	case errors.Is(err, base.ErrNoIdentity), err == nil && !slices.Contains(role.TrustedServices, trusted):
		return nil, errRole(name, *config.RoleArn)
	case err != nil:
		return nil, err
	}
	if err := s.EnsureRole(ctx, name, base.ConnectorRole); err != nil {
		return nil, err
	}
	now := s.Now()
	rec := record.ConnectedCluster{Token: aws.ToString(in.ClientRequestToken), Request: request, Cluster: ekstypes.Cluster{
		Name: &name, Arn: new(arn.New("eks", call.Region, call.Account, "cluster/"+name)), CreatedAt: &now,
		Status: ekstypes.ClusterStatusPending, Tags: base.TagsOrEmpty(in.Tags),
		ConnectorConfig: &ekstypes.ConnectorConfigResponse{
			ActivationId: new(ids.UUID()), ActivationCode: new(rand.Text()[:20]), ActivationExpiry: new(now.Add(validity)),
			Provider: new(string(config.Provider)), RoleArn: config.RoleArn,
		},
	}}
	out := &rec.Cluster
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		out = &rec.Cluster
		if old, err := repeated(tx); old != nil || err != nil {
			out = old
			return err
		}
		if len(record.ConnectedClusters.All(tx, store.Scope{Account: call.Account, Region: call.Region})) >= limit {
			return errLimit()
		}
		return record.ConnectedClusters.Create(tx, key, rec)
	})
	return &awseks.RegisterClusterOutput{Cluster: out}, err
}

// DeregisterCluster removes a connected cluster.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DeregisterCluster.html
func (s *Service) DeregisterCluster(ctx context.Context, in *awseks.DeregisterClusterInput) (*awseks.DeregisterClusterOutput, error) {
	if aws.ToString(in.Name) == "" {
		return nil, ekserr.Missing("name")
	}
	key := record.ClusterKey(awsapi.CallFrom(ctx), *in.Name)
	var out ekstypes.Cluster
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		rec, ok := record.Connected(tx, key)
		if !ok {
			if _, err := record.Clusters.Get(tx, key); err == nil {
				return errNotConnected(key.ID)
			}
			return ekserr.NoCluster(key.ID)
		}
		out = rec.Cluster
		out.Status = ekstypes.ClusterStatusDeleting
		record.ConnectedClusters.Delete(tx, key)
		return nil
	})
	return &awseks.DeregisterClusterOutput{Cluster: &out}, err
}
