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
		Authorization: authorization,
		Before:        s.before,
		HandlesDryRun: true,
		Operations:    slices.Concat(networkOperations(), transitOperations(), machineOperations(), insightsOperations()),
		Refused: []awsapi.Refusal{
			{Operations: "EnableFastSnapshotRestores", Why: "volumes need no time to load a snapshot"},
			{Operations: "AcceptTransitGatewayVpcAttachment RejectTransitGatewayVpcAttachment", Why: "transit gateways are not shared between accounts, so no attachment waits for acceptance"},
			{Operations: "CreateTransitGatewayPeeringAttachment DescribeTransitGatewayPeeringAttachments CreateTransitGatewayConnect DescribeTransitGatewayConnects CreateTransitGatewayConnectPeer CreateTransitGatewayMulticastDomain CreateTransitGatewayPolicyTable",
				Why: "only VPCs are attached to transit gateways"},
			{Operations: "RequestSpotFleet DescribeSpotFleetRequests CancelSpotFleetRequests", Why: "legacy: use CreateFleet instead"},
			{Operations: "ModifyVpnConnection ModifyVpnConnectionOptions ModifyVpnTunnelCertificate ModifyVpnTunnelOptions", Why: "there is no on-premises network to connect, so VPN connections are only records"},
			{Operations: "AllocateHosts DescribeHosts ModifyHosts ReleaseHosts GetHostReservationPurchasePreview", Why: "instances of all tenancies run on the same machine, so there is no host to dedicate"},
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

// PublicRanges returns the ranges from which public IPv4 addresses are assigned, of all regions.
func PublicRanges() []netip.Prefix { return ipam.PublicRanges() }
