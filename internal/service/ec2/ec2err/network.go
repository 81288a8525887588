package ec2err

// Limit means that a quota is exhausted. The codes end in LimitExceeded, as listed in
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
func Limit(code, what string) error {
	return New(code, "The maximum number of %s has been reached.", what)
}

func HasDependencies(kind, id string) error {
	return Dependency("The %s '%s' has dependencies and cannot be deleted.", kind, id)
}

func NotPermitted(format string, args ...any) error {
	return New("OperationNotPermitted", format, args...)
}

// No known client parses RestrictedCIDR. The text is the one that users quote.
// https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html#add-cidr-block-restrictions
func RestrictedCIDR(cidr string) error {
	return New("InvalidVpc.Range", "The CIDR '%s' is restricted. Use a CIDR from the same private address range as the current VPC CIDR, or use a publicly-routable CIDR. For additional restrictions, see https://docs.aws.amazon.com/vpc/latest/userguide/VPC_Subnets.html", cidr)
}

func CIDRConflict(cidr string) error {
	return New("InvalidVpc.Range", "The CIDR '%s' conflicts with one or more of the existing CIDRs of the VPC.", cidr) // from memory
}

// AcceptVpcPeeringConnection's error:
// https://github.com/hashicorp/terraform-provider-aws/issues/44315
func PeeringExists(id string) error {
	return New("VpcPeeringConnectionAlreadyExists", "The vpc peering connection identified by %s already exists.", id)
}

func CIDRLimit(vpc string, most float64) error {
	return New("CidrLimitExceeded", "This network '%s' has met its maximum number of allowed CIDRs: %v", vpc, most)
}

func CIDRAssociationNotFound(id string) error { // Terraform checks the code
	return New("InvalidVpcCidrBlockAssociationID.NotFound", "The vpc CIDR block association ID '%s' does not exist", id)
}

func SubnetCIDRAssociationNotFound(id string) error { // Terraform checks the code
	return New("InvalidSubnetCidrBlockAssociationID.NotFound", "The subnet CIDR block with association ID '%s' does not exist", id)
}

// [seen] in Terraform's output about disassociated CIDR blocks
func CIDRInUse(vpc, cidr string) error {
	return New("InvalidCidrBlock.InUse", "The vpc %s currently has a subnet within CIDR block %s", vpc, cidr)
}

// The VPC CNI checks the code.
func NoFreePrefixes(subnet string) error {
	return New("InsufficientCidrBlocks", "The specified subnet does not have enough free cidr blocks to satisfy the request. Subnet: %s", subnet)
}

// [seen] aws/karpenter-provider-aws#2187
func OneWayOfIPv6() error {
	return InvalidParameterValue("You can and can only specify one of ipv6-addresses or ipv6-addresses-count  ipv6-prefix and ipv6-prefix-count.")
}

func NotYours() error {
	// EC2's error for addresses of NAT gateways and other service-managed interfaces.
	return New("AuthFailure", "You do not have permission to access the specified resource.")
}

func AddressNotFound(ip string) error {
	return New("InvalidAddress.NotFound", "Address '%s' not found.", ip)
}

// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_AssociateAddress.html has the rule.
// The text is from a cloud that implements EC2's API,
// https://github.com/C2Devel/terraform-examples/issues/9
func TwoTargets() error {
	return Combination("You may specify InstanceId or NetworkInterfaceId, but not both in the same call")
}

func NoInternetGateway(vpc string) error {
	return New("Gateway.NotAttached", "Network %s is not attached to any internet gateway", vpc)
}

func RuleDescription() error {
	return InvalidParameterValue("Invalid rule description. Valid descriptions are strings less than 256 characters from the following set:  a-zA-Z0-9. _-:/()#,@[]+=&;{}!$*")
}

// https://github.com/terraform-aws-modules/terraform-aws-vpc/issues/735
func NoIPv6(subnet, attribute string) error {
	return InvalidParameterValue("Invalid value 'true' for %s. Cannot set %s to true unless the subnet (%s) has an IPv6 CIDR block associated with it.", attribute, attribute, subnet)
}

// IPv6OnlyType says that an instance type cannot be launched in an IPv6-only subnet. The code is the one for types without IPv6:
// https://github.com/poseidon/typhoon/issues/356
func IPv6OnlyType(typ, subnet string) error {
	return New("UnsupportedOperation", "IPv6-only subnets are not supported on %s: subnet %s has no IPv4 CIDR block. Specify an instance type built on the Nitro System.", typ, subnet)
}

// IPv6OnlyHostname says that hostnames in an IPv6-only subnet consist of instance IDs.
func IPv6OnlyHostname(subnet, attribute string) error {
	return InvalidParameterValue("Invalid value 'ip-name' for %s. Cannot set %s to ip-name unless the subnet (%s) has an IPv4 CIDR block associated with it.", attribute, attribute, subnet)
}

// IPv6OnlyAttribute says that an attribute needs IPv4. It is worded like the errors above.
func IPv6OnlyAttribute(subnet, attribute string) error {
	return InvalidParameterValue("Invalid value 'true' for %s. Cannot set %s to true unless the subnet (%s) has an IPv4 CIDR block associated with it.", attribute, attribute, subnet)
}

// IPv6OnlyPublic says that interfaces in an IPv6-only subnet have no public IPv4 addresses.
func IPv6OnlyPublic(subnet string) error {
	return Combination("A public IPv4 address cannot be associated with a network interface in the IPv6-only subnet " + subnet + ".")
}

// https://github.com/nanlabs/terraform-aws-starter/issues/18
func GatewaySubnets() error {
	return InvalidParameter("Subnet IDs are only supported for Interface and GatewayLoadBalancer type VPC Endpoints.")
}

// from memory
func GatewayGroups() error {
	return InvalidParameter("Security group IDs are only supported for Interface type VPC Endpoint.")
}

// from memory
func GatewayDNS() error {
	return InvalidParameter("Private DNS can't be enabled for Gateway endpoints.")
}

// Recorded from AWS: localstack/localstack tests/aws/services/ec2/test_ec2.snapshot.json
func FlowLogNowhere() error {
	return New("InvalidParameter", "LogDestination can't be empty if LogGroupName is not provided.")
}

// [seen] hashicorp/terraform-provider-aws#26169
func FlowLogTransitInterval() error {
	return New("InvalidParameter", "max-aggregation-interval other than 60 sec / 1 min is not supported when the resource-type is TransitGateway or TransitGatewayAttachment")
}

func FlowLogTransitTraffic() error { // our own text, after the one of the interval
	return New("InvalidParameter", "traffic-type is not supported when the resource-type is TransitGateway or TransitGatewayAttachment")
}
