package record

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// The collections, one per kind of resource.
var (
	Defaults          = store.NewCollection[RegionDefaults]("ec2", "defaults")
	VPCs              = store.NewCollection[VPC]("ec2", "vpc")
	Subnets           = store.NewCollection[Subnet]("ec2", "subnet")
	InternetGateways  = store.NewCollection[InternetGateway]("ec2", "internet-gateway")
	RouteTables       = store.NewCollection[RouteTable]("ec2", "route-table")
	NetworkACLs       = store.NewCollection[NetworkACL]("ec2", "network-acl")
	DHCPOptionSets    = store.NewCollection[DHCPOptions]("ec2", "dhcp-options")
	SecurityGroups    = store.NewCollection[SecurityGroup]("ec2", "security-group")
	NetworkInterfaces = store.NewCollection[NetworkInterface]("ec2", "network-interface")
	AddressPages      = store.NewCollection[AddressPage]("ec2", "address-page")
	Addresses         = store.NewCollection[Address]("ec2", "address")
	NATGateways       = store.NewCollection[NATGateway]("ec2", "nat-gateway")
	EgressGateways    = store.NewCollection[EgressGateway]("ec2", "egress-only-internet-gateway")
	Peerings          = store.NewCollection[Peering]("ec2", "vpc-peering-connection")
	VPCEndpoints      = store.NewCollection[VPCEndpoint]("ec2", "vpc-endpoint")
	ConnectEndpoints  = store.NewCollection[ConnectEndpoint]("ec2", "instance-connect-endpoint")
	PrefixLists       = store.NewCollection[PrefixList]("ec2", "prefix-list")
	FlowLogs          = store.NewCollection[FlowLog]("ec2", "flow-log")
	IPv6Addresses     = store.NewCollection[resource.Name]("ec2", "ipv6-address")
	Instances         = store.NewCollection[Instance]("ec2", "instance")
)
