package simulated

import (
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// fargateConfig returns the configuration of a Fargate machine.
func fargateConfig(f *node.Fargate) *userdata.Config {
	return &userdata.Config{
		ClusterName: f.ClusterName, Endpoint: f.Cluster.Endpoint, CA: f.Cluster.CA, ServiceCIDR: f.Cluster.ServiceCIDR,
		Labels: f.Labels, Taints: f.Taints, MaxPods: 1, NodeName: f.NodeName, ProviderID: f.ProviderID,
	}
}
