package ec2

// Texts of the network's errors; see errors.go. Those marked "from memory" are
// AWS's codes with texts that no public source confirms word by word.

var (
	addressID = idKind{"eipalloc", "", "InvalidAllocationID.NotFound",
		"The allocation ID '%s' does not exist", "The allocation IDs '%s' do not exist"}
	natGatewayID = idKind{"nat", "NatGatewayMalformed", "NatGatewayNotFound",
		"NAT gateway %s was not found", "The NAT gateways %s were not found"}
	egressGatewayID = idKind{"eigw", "InvalidEgressOnlyInternetGatewayId.Malformed", "InvalidGatewayID.NotFound",
		"The eigw ID '%s' does not exist", "The eigw IDs '%s' do not exist"}
	peeringID = idKind{"pcx", "InvalidVpcPeeringConnectionId.Malformed", "InvalidVpcPeeringConnectionID.NotFound",
		"The vpcPeeringConnection ID '%s' does not exist", "The vpcPeeringConnection IDs '%s' do not exist"}
	vpcEndpointID = idKind{"vpce", "InvalidVpcEndpointId.Malformed", "InvalidVpcEndpointId.NotFound",
		"The Vpc Endpoint Id '%s' does not exist", "The Vpc Endpoint Ids '%s' do not exist"}
	connectEndpointID = idKind{"eice", "InvalidInstanceConnectEndpointId.Malformed", "InvalidInstanceConnectEndpointId.NotFound",
		"The instance connect endpoint ID '%s' does not exist", "The instance connect endpoint IDs '%s' do not exist"}
	// https://github.com/aws/aws-application-networking-k8s/issues/172
	prefixListID = idKind{"pl", "InvalidPrefixListId.Malformed", "InvalidPrefixListID.NotFound",
		"The prefix list (%s) does not exist.", "The prefix lists (%s) do not exist."}
	flowLogID = idKind{"fl", "", "InvalidFlowLogId.NotFound",
		"These flow log ids in the input list are not found: [TotalCount: 1] %s", "These flow log ids in the input list are not found: %s"}
)

// errLimit says that a quota is reached. The codes end in LimitExceeded, as listed in
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
func errLimit(code, what string) error {
	return errf(code, "The maximum number of %s has been reached.", what)
}

func errHasDependencies(kind, id string) error {
	return errDependency("The %s '%s' has dependencies and cannot be deleted.", kind, id)
}

func errNotPermitted(format string, args ...any) error {
	return errf("OperationNotPermitted", format, args...)
}

// errRestrictedCIDR is read by nobody; the text is the one users quote.
// https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html#add-cidr-block-restrictions
func errRestrictedCIDR(cidr string) error {
	return errf("InvalidVpc.Range", "The CIDR '%s' is restricted. Use a CIDR from the same private address range as the current VPC CIDR, or use a publicly-routable CIDR. For additional restrictions, see https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Subnets.html", cidr)
}

func errCIDRConflict(cidr string) error {
	return errf("InvalidVpc.Range", "The CIDR '%s' conflicts with one or more of the existing CIDRs of the VPC.", cidr) // from memory
}

// AcceptVpcPeeringConnection's answer: https://github.com/hashicorp/terraform-provider-aws/issues/44315
func errPeeringExists(id string) error {
	return errf("VpcPeeringConnectionAlreadyExists", "The vpc peering connection identified by %s already exists.", id)
}

func errCIDRLimit(vpc string, most float64) error {
	return errf("CidrLimitExceeded", "This network '%s' has met its maximum number of allowed CIDRs: %v", vpc, most)
}

func errCIDRAssociationNotFound(id string) error { // Terraform reads the code
	return errf("InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID '%s' does not exist", id)
}

func errSubnetCIDRAssociationNotFound(id string) error { // Terraform reads the code
	return errf("InvalidSubnetCidrBlockAssociationID.NotFound", "The subnet CIDR block with association ID '%s' does not exist", id)
}

// [seen] in Terraform's output of disassociated CIDR blocks
func errCIDRInUse(vpc, cidr string) error {
	return errf("InvalidCidrBlock.InUse", "The vpc %s currently has a subnet within CIDR block %s", vpc, cidr)
}

// The VPC CNI reads the code.
func errNoFreePrefixes(subnet string) error {
	return errf("InsufficientCidrBlocks", "The specified subnet does not have enough free cidr blocks to satisfy the request. Subnet: %s", subnet)
}

func errNotYours() error {
	// What EC2 answers for the addresses of NAT gateways and other interfaces of services.
	return errf("AuthFailure", "You do not have permission to access the specified resource.")
}

func errAddressNotFound(ip string) error {
	return errf("InvalidAddress.NotFound", "Address '%s' not found.", ip)
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AssociateAddress.html has the
// rule; the text is that of a cloud with EC2's API, https://github.com/C2Devel/terraform-examples/issues/9
func errTwoTargets() error {
	return errCombination("You may specify InstanceId or NetworkInterfaceId, but not both in the same call")
}

func errNoInternetGateway(vpc string) error {
	return errf("Gateway.NotAttached", "Network %s is not attached to any internet gateway", vpc)
}

func errRuleDescription() error {
	return errInvalidParameter("Invalid rule description. Valid descriptions are strings less than 256 characters from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*")
}

// https://github.com/terraform-aws-modules/terraform-aws-vpc/issues/735
func errNoIPv6(subnet, attribute string) error {
	return errInvalidParameter("Invalid value 'true' for %s. Cannot set %s to true unless the subnet (%s) has an IPv6 CIDR block associated with it.", attribute, attribute, subnet)
}

// https://github.com/nanlabs/terraform-aws-starter/issues/18
func errGatewaySubnets() error {
	return errInvalid("Subnet IDs are only supported for Interface and GatewayLoadBalancer type VPC Endpoints.")
}

// from memory
func errGatewayGroups() error {
	return errInvalid("Security group IDs are only supported for Interface type VPC Endpoint.")
}

// from memory
func errGatewayDNS() error {
	return errInvalid("Private DNS can't be enabled for Gateway endpoints.")
}

// Recorded from AWS: localstack/localstack tests/aws/services/ec2/test_ec2.snapshot.json
func errFlowLogNowhere() error {
	return errf("InvalidParameter", "LogDestination can't be empty if LogGroupName is not provided.")
}
