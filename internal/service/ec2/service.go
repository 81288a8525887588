package ec2

import (
	"context"
	"net/netip"
	"slices"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
)

// paged are the members that every Describe call with pages and filters has.
const paged = " DryRun Filters MaxResults NextToken"

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "ec2",
		Handler:       s,
		Before:        s.before,
		HandlesDryRun: true,
		Operations:    slices.Concat(networkOperations(), machineOperations(), insightsOperations()),
		Refused: []awsapi.Refusal{
			{Operations: "EnableFastSnapshotRestores", Why: "volumes need no time to load a snapshot"},
			{Operations: "CreateTransitGateway DeleteTransitGateway DescribeTransitGateways CreateTransitGatewayVpcAttachment DescribeTransitGatewayVpcAttachments CreateTransitGatewayRouteTable",
				Why: "VPCs are connected by peering and endpoints only"},
			{Operations: "RequestSpotFleet DescribeSpotFleetRequests CancelSpotFleetRequests", Why: "legacy: use CreateFleet instead"},
			{Operations: "CreateVpnGateway AttachVpnGateway DescribeVpnGateways CreateCustomerGateway DescribeCustomerGateways CreateVpnConnection DescribeVpnConnections",
				Why: "there is no on-premises network to connect"},
		},
	}
}

// before creates an account's initial resources in a region when it first calls there.
func (s *Service) before(ctx context.Context) error {
	call := awsapi.CallFrom(ctx)
	return s.Prepare(ctx, call.Account, call.Region)
}

// PublicRegion returns the region whose range of public addresses has an address, or "".
func PublicRegion(a netip.Addr) string { return ipam.RegionOf(a) }
