package resource

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
)

// An IDKind describes the IDs of one kind of resource and EC2's errors about them.
type IDKind struct {
	Prefix       string
	Malformed    string // error code for IDs without the prefix; if empty, such IDs are not found
	NotFoundCode string
	NotFoundOne  string // with %s
	NotFoundMany string // with %s, IDs separated by ", "
}

// The kinds of resources and the texts of their errors.
var (
	VPCID = IDKind{"vpc", "", "InvalidVpcID.NotFound",
		"The vpc ID '%s' does not exist", "The vpc IDs '%s' do not exist"}
	SubnetID = IDKind{"subnet", "", "InvalidSubnetID.NotFound",
		"The subnet ID '%s' does not exist", "The subnet IDs '%s' do not exist"}
	InternetGatewayID = IDKind{"igw", "InvalidInternetGatewayId.Malformed", "InvalidInternetGatewayID.NotFound",
		"The internetGateway ID '%s' does not exist", "The internetGateway IDs '%s' do not exist"}
	RouteTableID = IDKind{"rtb", "InvalidRouteTableId.Malformed", "InvalidRouteTableID.NotFound",
		"The routeTable ID '%s' does not exist", "The routeTable IDs '%s' do not exist"}
	NetworkACLID = IDKind{"acl", "", "InvalidNetworkAclID.NotFound",
		"The networkAcl ID '%s' does not exist", "The networkAcl IDs '%s' do not exist"}
	DHCPOptionsID = IDKind{"dopt", "InvalidDhcpOptionsId.Malformed", "InvalidDhcpOptionID.NotFound",
		"The dhcpOption ID '%s' does not exist", "The dhcpOption IDs '%s' do not exist"}
	SecurityGroupID = IDKind{"sg", "InvalidGroupId.Malformed", "InvalidGroup.NotFound",
		"The security group '%s' does not exist", "The security groups '%s' do not exist"}
	SecurityGroupRuleID = IDKind{"sgr", "InvalidSecurityGroupRuleId.Malformed", "InvalidSecurityGroupRuleId.NotFound",
		"The security group rule ID '%s' does not exist", "The security group rule IDs '%s' do not exist"}
	NetworkInterfaceID = IDKind{"eni", "InvalidNetworkInterfaceId.Malformed", "InvalidNetworkInterfaceID.NotFound",
		"The networkInterface ID '%s' does not exist", "The networkInterface IDs '%s' do not exist"}
	InstanceID = IDKind{"i", "InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound",
		"The instance ID '%s' does not exist", "The instance IDs '%s' do not exist"}
	ImageID = IDKind{"ami", "InvalidAMIID.Malformed", "InvalidAMIID.NotFound",
		"The image id '[%s]' does not exist", "The image ids '[%s]' do not exist"}
	KeyPairID = IDKind{"key", "", "InvalidKeyPair.NotFound",
		"The key pair ID '%s' does not exist", "The key pair IDs '%s' do not exist"}
	LaunchTemplateID = IDKind{"lt", "InvalidLaunchTemplateId.Malformed", "InvalidLaunchTemplateId.NotFound",
		"The specified launch template, with template ID %s, does not exist.", "At least one of the launch templates specified in the request does not exist."}
)

// PrefixOf returns the prefix of an ID: vpc, or tgw-attach.
func PrefixOf(id string) string {
	prefix, rest, _ := strings.Cut(id, "-")
	if prefix == "tgw" {
		if part, _, ok := strings.Cut(rest, "-"); ok {
			return prefix + "-" + part
		}
	}
	return prefix
}

// Check returns an error if an ID is malformed.
func (k IDKind) Check(id string) error {
	if k.Malformed == "" || strings.HasPrefix(id, k.Prefix+"-") && IsHex(id[len(k.Prefix)+1:]) {
		return nil
	}
	if k.Prefix == "i" {
		return ec2err.New(k.Malformed, "Invalid id: \"%s\"", id)
	}
	return ec2err.New(k.Malformed, "Invalid id: \"%s\" (expecting \"%s-...\")", id, k.Prefix)
}

// IsHex reports whether s is valid after an ID's prefix.
func IsHex(s string) bool {
	if len(s) != 8 && len(s) != 17 {
		return false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// NotFound returns the error for IDs that do not exist.
func (k IDKind) NotFound(ids ...string) error {
	if len(ids) == 1 {
		return ec2err.New(k.NotFoundCode, k.NotFoundOne, ids[0])
	}
	if !strings.Contains(k.NotFoundMany, "%s") {
		return awserr.New(k.NotFoundCode, k.NotFoundMany)
	}
	return ec2err.New(k.NotFoundCode, k.NotFoundMany, strings.Join(ids, ", "))
}

var (
	VolumeID = IDKind{"vol", "InvalidVolumeID.Malformed", "InvalidVolume.NotFound",
		"The volume '%s' does not exist.", "The volumes '%s' do not exist."}
	SnapshotID = IDKind{"snap", "InvalidSnapshotID.Malformed", "InvalidSnapshot.NotFound",
		"The snapshot '%s' does not exist.", "The snapshots '%s' do not exist."}
	SpotRequestID = IDKind{"sir", "InvalidSpotInstanceRequestID.Malformed", "InvalidSpotInstanceRequestID.NotFound",
		"The spot instance request ID '%s' does not exist", "The spot instance request IDs '%s' do not exist"}
	FleetID = IDKind{"fleet", "", "InvalidFleetId.NotFound",
		"The fleet ID '%s' does not exist", "The fleet IDs '%s' do not exist"}
)

var (
	AddressID = IDKind{"eipalloc", "", "InvalidAllocationID.NotFound",
		"The allocation ID '%s' does not exist", "The allocation IDs '%s' do not exist"}
	NATGatewayID = IDKind{"nat", "NatGatewayMalformed", "NatGatewayNotFound",
		"NAT gateway %s was not found", "The NAT gateways %s were not found"}
	EgressGatewayID = IDKind{"eigw", "InvalidEgressOnlyInternetGatewayId.Malformed", "InvalidGatewayID.NotFound",
		"The eigw ID '%s' does not exist", "The eigw IDs '%s' do not exist"}
	PeeringID = IDKind{"pcx", "InvalidVpcPeeringConnectionId.Malformed", "InvalidVpcPeeringConnectionID.NotFound",
		"The vpcPeeringConnection ID '%s' does not exist", "The vpcPeeringConnection IDs '%s' do not exist"}
	// Terraform's and cloud-nuke's users quote the texts.
	TransitGatewayID = IDKind{"tgw", "InvalidTransitGatewayID.Malformed", "InvalidTransitGatewayID.NotFound",
		"Transit Gateway %s was deleted or does not exist.", "Transit Gateways %s were deleted or do not exist."}
	TransitAttachmentID = IDKind{"tgw-attach", "InvalidTransitGatewayAttachmentID.Malformed", "InvalidTransitGatewayAttachmentID.NotFound",
		"Transit Gateway VPC Attachment %s was deleted or does not exist.", "Transit Gateway VPC Attachments %s were deleted or do not exist."}
	TransitRouteTableID = IDKind{"tgw-rtb", "InvalidRouteTableID.Malformed", "InvalidRouteTableID.NotFound",
		"Transit Gateway Route Table %s was deleted or does not exist.", "Transit Gateway Route Tables %s were deleted or do not exist."}
	VPNGatewayID = IDKind{"vgw", "InvalidVpnGatewayID.Malformed", "InvalidVpnGatewayID.NotFound",
		"The vpnGateway ID '%s' does not exist", "The vpnGateway IDs '%s' do not exist"}
	CustomerGatewayID = IDKind{"cgw", "InvalidCustomerGatewayID.Malformed", "InvalidCustomerGatewayID.NotFound",
		"The customerGateway ID '%s' does not exist", "The customerGateway IDs '%s' do not exist"}
	VPNConnectionID = IDKind{"vpn", "InvalidVpnConnectionID.Malformed", "InvalidVpnConnectionID.NotFound",
		"The vpnConnection ID '%s' does not exist", "The vpnConnection IDs '%s' do not exist"}
	VPCEndpointID = IDKind{"vpce", "InvalidVpcEndpointId.Malformed", "InvalidVpcEndpointId.NotFound",
		"The Vpc Endpoint Id '%s' does not exist", "The Vpc Endpoint Ids '%s' do not exist"}
	ConnectEndpointID = IDKind{"eice", "InvalidInstanceConnectEndpointId.Malformed", "InvalidInstanceConnectEndpointId.NotFound",
		"The instance connect endpoint ID '%s' does not exist", "The instance connect endpoint IDs '%s' do not exist"}
	// https://github.com/aws/aws-application-networking-k8s/issues/172
	PrefixListID = IDKind{"pl", "InvalidPrefixListId.Malformed", "InvalidPrefixListID.NotFound",
		"The prefix list (%s) does not exist.", "The prefix lists (%s) do not exist."}
	FlowLogID = IDKind{"fl", "", "InvalidFlowLogId.NotFound",
		"These flow log ids in the input list are not found: [TotalCount: 1] %s", "These flow log ids in the input list are not found: %s"}
)

// A Name reserves a unique name and leads to its resource.
type Name struct{ ID string }
