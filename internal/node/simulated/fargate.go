package simulated

import (
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/guest"
)

// fargateConfig is what a machine of Fargate is told.
func fargateConfig(f *node.Fargate) *guest.Config {
	return &guest.Config{
		ClusterName: f.ClusterName, Endpoint: f.Cluster.Endpoint, CA: f.Cluster.CA, ServiceCIDR: f.Cluster.ServiceCIDR,
		Labels: f.Labels, Taints: f.Taints, MaxPods: 1, NodeName: f.NodeName, ProviderID: f.ProviderID,
	}
}
