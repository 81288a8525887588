package cluster

import (
	"context"
	"net/netip"

	"github.com/drydock-dev/drydock/internal/service/eks/policyendpoints"
)

// NetworkPolicyDrop returns what the network policies of an account's clusters in a region drop of a connection, or nil.
func (s *Service) NetworkPolicyDrop(ctx context.Context, account, region string, from, to netip.Addr, protocol string, port uint16) (*policyendpoints.Drop, error) {
	return s.policies.Drop(ctx, account, region, from, to, protocol, port)
}
