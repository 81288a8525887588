package cluster

import (
	"context"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// ListCapabilities returns an empty list because Drydock refuses CreateCapability. Clients call it before they delete a
// cluster.
func (s *Service) ListCapabilities(ctx context.Context, in *awseks.ListCapabilitiesInput) (*awseks.ListCapabilitiesOutput, error) {
	if _, _, err := s.Cluster(ctx, in.ClusterName); err != nil {
		return nil, err
	}
	return &awseks.ListCapabilitiesOutput{Capabilities: []ekstypes.CapabilitySummary{}}, nil
}
