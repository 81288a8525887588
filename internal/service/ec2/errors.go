package ec2

import (
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Codes: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
// EC2 models no exceptions, so every error is coded. Texts are those EC2 answers
// with; where clients read a text, the comment says which.

func errf(code, format string, args ...any) error { return awserr.Newf(code, format, args...) }

func errDryRun() error {
	// Karpenter and the AWS CLI look for the code only.
	return awserr.New("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").WithStatus(412)
}

func errUnknownRegion(region string) error {
	return errf("InvalidParameterValue", "The region '%s' does not exist.", region)
}

func errMissing(param string) error {
	return errf("MissingParameter", "The request must contain the parameter %s", param)
}

func errInvalidValue(value any, param, why string) error {
	return errf("InvalidParameterValue", "%s", strings.TrimSpace(fmt.Sprintf("Value (%v) for parameter %s is invalid. %s", value, param, why)))
}

func errInvalidParameter(format string, args ...any) error {
	return errf("InvalidParameterValue", format, args...)
}

func errCombination(message string) error { return errf("InvalidParameterCombination", "%s", message) }

func errInvalidFilter(name string) error {
	return errf("InvalidParameterValue", "The filter '%s' is invalid", name)
}

func errFilterLimit() error {
	return errf("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", maxFilterValues)
}

func errInvalidNextToken(token string) error {
	return errf("InvalidNextToken", "The token '%s' is invalid", token)
}

func errMaxResultsTooSmall(n, least int32) error {
	return errf("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than or equal to %d.", n, least)
}

func errIdempotentMismatch() error {
	return errf("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
}

// An idKind is what EC2 says of the IDs of one kind of resource.
type idKind struct {
	prefix       string
	malformed    string // code for IDs without the prefix; empty: such IDs are not found
	notFoundCode string
	notFoundOne  string // with %s
	notFoundMany string // with %s, IDs separated by ", "
}

var (
	vpcID = idKind{"vpc", "", "InvalidVpcID.NotFound",
		"The vpc ID '%s' does not exist", "The vpc IDs '%s' do not exist"}
	subnetID = idKind{"subnet", "", "InvalidSubnetID.NotFound",
		"The subnet ID '%s' does not exist", "The subnet IDs '%s' do not exist"}
	internetGatewayID = idKind{"igw", "InvalidInternetGatewayId.Malformed", "InvalidInternetGatewayID.NotFound",
		"The internetGateway ID '%s' does not exist", "The internetGateway IDs '%s' do not exist"}
	routeTableID = idKind{"rtb", "InvalidRouteTableId.Malformed", "InvalidRouteTableID.NotFound",
		"The routeTable ID '%s' does not exist", "The routeTable IDs '%s' do not exist"}
	networkACLID = idKind{"acl", "", "InvalidNetworkAclID.NotFound",
		"The networkAcl ID '%s' does not exist", "The networkAcl IDs '%s' do not exist"}
	dhcpOptionsID = idKind{"dopt", "InvalidDhcpOptionsId.Malformed", "InvalidDhcpOptionID.NotFound",
		"The dhcpOption ID '%s' does not exist", "The dhcpOption IDs '%s' do not exist"}
	securityGroupID = idKind{"sg", "InvalidGroupId.Malformed", "InvalidGroup.NotFound",
		"The security group '%s' does not exist", "The security groups '%s' do not exist"}
	securityGroupRuleID = idKind{"sgr", "InvalidSecurityGroupRuleId.Malformed", "InvalidSecurityGroupRuleId.NotFound",
		"The security group rule ID '%s' does not exist", "The security group rule IDs '%s' do not exist"}
	networkInterfaceID = idKind{"eni", "InvalidNetworkInterfaceId.Malformed", "InvalidNetworkInterfaceID.NotFound",
		"The networkInterface ID '%s' does not exist", "The networkInterface IDs '%s' do not exist"}
	instanceID = idKind{"i", "InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound",
		"The instance ID '%s' does not exist", "The instance IDs '%s' do not exist"}
	imageID = idKind{"ami", "InvalidAMIID.Malformed", "InvalidAMIID.NotFound",
		"The image id '[%s]' does not exist", "The image ids '[%s]' do not exist"}
	keyPairID = idKind{"key", "", "InvalidKeyPair.NotFound",
		"The key pair ID '%s' does not exist", "The key pair IDs '%s' do not exist"}
	launchTemplateID = idKind{"lt", "InvalidLaunchTemplateId.Malformed", "InvalidLaunchTemplateId.NotFound",
		"The specified launch template, with template ID %s, does not exist.", "At least one of the launch templates specified in the request does not exist."}
)

// check refuses an ID that does not look like one.
func (k idKind) check(id string) error {
	if k.malformed == "" || strings.HasPrefix(id, k.prefix+"-") && isHex(id[len(k.prefix)+1:]) {
		return nil
	}
	if k.prefix == "i" {
		return errf(k.malformed, "Invalid id: \"%s\"", id)
	}
	return errf(k.malformed, "Invalid id: \"%s\" (expecting \"%s-...\")", id, k.prefix)
}

func isHex(s string) bool {
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

func (k idKind) notFound(ids ...string) error {
	if len(ids) == 1 {
		return errf(k.notFoundCode, k.notFoundOne, ids[0])
	}
	if !strings.Contains(k.notFoundMany, "%s") {
		return awserr.New(k.notFoundCode, k.notFoundMany)
	}
	return errf(k.notFoundCode, k.notFoundMany, strings.Join(ids, ", "))
}

// Network.

func errVPCRange(cidr string) error {
	return errf("InvalidVpc.Range", "The CIDR '%s' is invalid.", cidr)
}

func errSubnetRange(cidr string) error {
	return errf("InvalidSubnet.Range", "The CIDR '%s' is invalid.", cidr)
}

func errSubnetConflict(cidr string) error {
	return errf("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", cidr)
}

func errCIDR(cidr, param string) error {
	return errf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. This is not a valid CIDR block.", cidr, param)
}

// Terraform and eksctl retry deletions on this code.
func errDependency(format string, args ...any) error {
	return errf("DependencyViolation", format, args...)
}

func errVPCHasDependencies(id string) error {
	return errDependency("The vpc '%s' has dependencies and cannot be deleted.", id)
}

func errSubnetHasDependencies(id string) error {
	return errDependency("The subnet '%s' has dependencies and cannot be deleted.", id)
}

func errGatewayNotAttached(igw, vpc string) error {
	return errf("Gateway.NotAttached", "resource %s is not attached to network %s", igw, vpc)
}

func errAlreadyAssociated(format string, args ...any) error {
	return errf("Resource.AlreadyAssociated", format, args...)
}

func errAssociationNotFound(id string) error {
	return errf("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

func errRouteExists(destination string) error {
	return errf("RouteAlreadyExists", "The route identified by %s already exists.", destination)
}

func errRouteNotFound(table, destination string) error {
	return errf("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s", destination, table)
}

func errNoFreeAddresses(subnet string) error {
	// Karpenter and the VPC CNI read the code.
	return errf("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request. Subnet: %s", subnet)
}

func errAddressInUse(ip string) error {
	return errf("InvalidIPAddress.InUse", "Address %s is in use.", ip)
}

func errAddressNotInSubnet(ip string) error {
	return errInvalidParameter("Address %s does not fall within the subnet's address range", ip)
}

func errTooManyAddresses(eni, instanceType string, limit int) error {
	return errf("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit of %d for network interface %s on instance type %s.", limit, eni, instanceType)
}

func errTooManyInterfaces(n int, instanceType string) error {
	return errf("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", n, instanceType)
}

func errInterfaceInUse(format string, args ...any) error {
	return errf("InvalidNetworkInterface.InUse", format, args...)
}

// Security groups.

func errGroupDuplicate(name, vpc string) error {
	return errf("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", name, vpc)
}

func errGroupInDefaultVPC(name, vpc string) error {
	return errf("InvalidGroup.NotFound", "The security group '%s' does not exist in VPC '%s'", name, vpc)
}

// errPermissionDuplicate is read by Terraform ("InvalidPermission.Duplicate").
func errPermissionDuplicate(peer, proto, from, to string) error {
	return errf("InvalidPermission.Duplicate", "the specified rule \"peer: %s, %s, ALLOW\" already exists", peer, ruleProtocolText(proto, from, to))
}

func ruleProtocolText(proto, from, to string) string {
	if proto == "-1" {
		return "ALL"
	}
	if from == "" {
		return strings.ToUpper(proto)
	}
	return strings.ToUpper(proto) + ", from port: " + from + ", to port: " + to
}

func errPermissionNotFound() error {
	return errf("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
}

func errRulesLimit() error {
	return errf("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
}

// Tags.

func errTagLimit() error {
	return errf("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
}

// CreateTags' answer: https://github.com/miqdigital/aws-utils/issues/13
func errReservedKey(key string) error {
	return errInvalidParameter("Value ( %s ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use", key)
}

// RunInstances' answer: https://github.com/jcjorel/ec2-spot-converter/issues/13
func errReservedTag() error {
	return errInvalidParameter("Tag keys starting with 'aws:' are reserved for internal use")
}

func errTagResourceType(kind string) error {
	return errInvalidParameter("'%s' is not a valid taggable resource type for this operation.", kind)
}

func errInvalidID(id string) error { return errf("InvalidID", "The ID '%s' is not valid", id) }

// Key pairs and launch templates.

func errKeyNotFound(name string) error {
	return errf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", name)
}

func errKeyDuplicate() error {
	return errf("InvalidKeyPair.Duplicate", "The keypair already exists")
}

func errKeyFormat() error {
	return errf("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
}

func errTemplateNameNotFound(name string) error {
	// Karpenter looks for the code.
	return errf("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

func errTemplateNamesNotFound() error {
	return errf("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")
}

func errTemplateNameTaken() error {
	return errf("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
}

func errTemplateVersionNotFound(version string) error {
	return errf("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s", version)
}

// Instances.

func errInstanceType(name string) error {
	return errf("InvalidParameterValue", "Invalid value '%s' for InstanceType.", name)
}

func errArchitecture(typeArch, imageArch string) error {
	return errInvalidParameter("The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again. You can use 'describe-instance-types' or 'describe-images' to discover the architecture of the instance type or AMI.", typeArch, imageArch)
}

func errUserDataTooLarge() error { return errInvalidParameter("User data is limited to 16384 bytes") }

func errUserDataEncoding() error {
	return errf("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
}

// errProfileName and errProfileARN are read by Karpenter, eksctl and Terraform,
// which retry on "Invalid IAM Instance Profile".
func errProfileName(name string) error {
	return errInvalidParameter("Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
}

func errProfileARN(arn string) error {
	return errInvalidParameter("Value (%s) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN", arn)
}

func errProfileWithoutRole(name string) error {
	// Terraform retries on "has no associated IAM Roles".
	return errInvalidParameter("IAM Instance Profile \"%s\" has no associated IAM Roles", name)
}

func errInstanceState(id, verb string) error {
	return errf("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", id, verb)
}

func errTerminationProtected(id string) error {
	return errf("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", id)
}

// https://github.com/velero-io/velero-plugin-for-aws/pull/119
func errMissingIOPS(volumeType string) error {
	return errCombination("The parameter iops must be specified for " + volumeType + " volumes.")
}

func errUnsupportedIOPS(volumeType string) error {
	return errCombination("The parameter iops is not supported for " + volumeType + " volumes.")
}

// https://github.com/runs-on/runs-on/issues/426
func errUnsupportedThroughput() error {
	return errCombination("throughput can only be specified for volumeType gp3.")
}

func errUnsupportedZone(instanceType, zone string, supported []string) error {
	return errf("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s). Please retry your request by not specifying an Availability Zone or choosing %s.", instanceType, zone, strings.Join(supported, ", "))
}

func errNoDefaultVPC() error {
	return errf("VPCIdNotSpecified", "No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
}

func errIdempotentInstanceTerminated() error {
	return errf("IdempotentInstanceTerminated", "The request to launch an instance uses the same client token as a previous request for which the instance has been terminated.")
}
