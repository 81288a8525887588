package ec2

import (
	"context"
	"slices"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// paged are the members of every Describe call that pages and filters.
const paged = " DryRun Filters MaxResults NextToken"

// AWS returns the service as the front door registers it.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "ec2",
		Handler:       s,
		Before:        s.before,
		HandlesDryRun: true,
		Operations:    slices.Concat(networkOperations(), machineOperations(), insightsOperations()),
		Refused: []awsapi.Refusal{
			{Operations: "CreateSnapshot CreateSnapshots CopySnapshot DeleteSnapshot DescribeSnapshots ModifySnapshotAttribute EnableFastSnapshotRestores CreateImage RegisterImage CopyImage",
				Why: "volumes are records without data, so that there is nothing to keep of them"},
			{Operations: "CreatePlacementGroup DeletePlacementGroup", Why: "instances have no hosts to be placed on; DescribePlacementGroups has none"},
			{Operations: "CreateCapacityReservation ModifyCapacityReservation CancelCapacityReservation", Why: "capacity is what the user sets per pool; DescribeCapacityReservations has none"},
			{Operations: "CreateTransitGateway DeleteTransitGateway DescribeTransitGateways CreateTransitGatewayVpcAttachment DescribeTransitGatewayVpcAttachments CreateTransitGatewayRouteTable",
				Why: "VPCs are connected by peering and endpoints only"},
			{Operations: "RequestSpotInstances", Why: "legacy: RunInstances with InstanceMarketOptions and CreateFleet make Spot requests"},
			{Operations: "RequestSpotFleet DescribeSpotFleetRequests CancelSpotFleetRequests", Why: "legacy: CreateFleet does what they did"},
			{Operations: "CreateVpnGateway AttachVpnGateway DescribeVpnGateways CreateCustomerGateway DescribeCustomerGateways CreateVpnConnection DescribeVpnConnections",
				Why: "there is no network on the premises to connect"},
		},
	}
}

// before makes what an account finds in a region when it calls there for the first time.
func (s *Service) before(ctx context.Context) error {
	call := awsapi.CallFrom(ctx)
	return s.Prepare(ctx, call.Account, call.Region)
}
