package ec2

import "github.com/drydock-dev/drydock/internal/store"

// The records of the service, one collection per kind of resource.
var (
	defaults            = store.NewCollection[defaultsRecord]("ec2", "defaults")
	vpcs                = store.NewCollection[vpcRecord]("ec2", "vpc")
	subnets             = store.NewCollection[subnetRecord]("ec2", "subnet")
	internetGateways    = store.NewCollection[internetGatewayRecord]("ec2", "internet-gateway")
	routeTables         = store.NewCollection[routeTableRecord]("ec2", "route-table")
	networkACLs         = store.NewCollection[networkACLRecord]("ec2", "network-acl")
	dhcpOptions         = store.NewCollection[dhcpOptionsRecord]("ec2", "dhcp-options")
	securityGroups      = store.NewCollection[securityGroupRecord]("ec2", "security-group")
	networkInterfaces   = store.NewCollection[networkInterfaceRecord]("ec2", "network-interface")
	addressPages        = store.NewCollection[addressPage]("ec2", "address-page")
	addresses           = store.NewCollection[addressRecord]("ec2", "address")
	natGateways         = store.NewCollection[natGatewayRecord]("ec2", "nat-gateway")
	egressGateways      = store.NewCollection[egressGatewayRecord]("ec2", "egress-only-internet-gateway")
	peerings            = store.NewCollection[peeringRecord]("ec2", "vpc-peering-connection")
	vpcEndpoints        = store.NewCollection[vpcEndpointRecord]("ec2", "vpc-endpoint")
	connectEndpoints    = store.NewCollection[connectEndpointRecord]("ec2", "instance-connect-endpoint")
	prefixLists         = store.NewCollection[prefixListRecord]("ec2", "prefix-list")
	flowLogs            = store.NewCollection[flowLogRecord]("ec2", "flow-log")
	ipv6Addresses       = store.NewCollection[nameRecord]("ec2", "ipv6-address")
	quotas              = store.NewCollection[quotaRecord]("ec2", "quota")
	keyPairs            = store.NewCollection[keyPairRecord]("ec2", "key-pair")
	launchTemplates     = store.NewCollection[launchTemplateRecord]("ec2", "launch-template")
	launchTemplateNames = store.NewCollection[nameRecord]("ec2", "launch-template-name")
	templateVersions    = store.NewCollection[templateVersionRecord]("ec2", "launch-template-version")
	instances           = store.NewCollection[instanceRecord]("ec2", "instance")
	unfinishedLaunches  = store.NewCollection[unfinishedLaunchRecord]("ec2", "unfinished-launch")
	metadataDefaults    = store.NewCollection[metadataDefaultsRecord]("ec2", "metadata-defaults")
	volumes             = store.NewCollection[volumeRecord]("ec2", "volume")
	spotRequests        = store.NewCollection[spotRequestRecord]("ec2", "spot-request")
	fleets              = store.NewCollection[fleetRecord]("ec2", "fleet")
	imageAliases        = store.NewCollection[imageAliasRecord]("ec2", "image-alias")
	clientTokens        = store.NewCollection[clientTokenRecord]("ec2", "client-token")
)

// A nameRecord makes a name unique and finds its resource.
type nameRecord struct{ ID string }
