package compute

import (
	"context"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/reach"
)

// managedCall decides about a call that EKS makes for the network of a node of EKS Auto Mode. EKS looks and tags under
// its service-linked role, and changes interfaces as the cluster role. The calls do not come from the node's network.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonEKSNetworkingPolicy.html
func (m *Machines) managedCall(ctx context.Context, in machine.Instance, cluster string, c node.Call) error {
	switch c.Action {
	case node.ActionAssignAddresses, node.ActionAssignIPv6, node.ActionCreateInterface, node.ActionAttachInterface, node.ActionUnassignAddresses, node.ActionDetachInterface:
	default:
		return nil
	}
	who, err := m.cfg.ClusterRole(ctx, in, cluster)
	if err != nil {
		return err
	}
	_, refused, err := m.calls().permit(ctx, in, c, &reach.Verdict{}, who)
	if err != nil {
		return err
	}
	return refused.error()
}
