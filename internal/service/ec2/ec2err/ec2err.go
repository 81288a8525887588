package ec2err

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// New returns an error with a code and a formatted message. Codes:
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
// EC2 models no exceptions, so every error has just a code. The messages are EC2's; if clients
// parse one, a comment says which.

func New(code, format string, args ...any) error { return awserr.Newf(code, format, args...) }

// DryRun is the error for a dry run that would have succeeded.
func DryRun() error {
	// Karpenter and the AWS CLI check only the code.
	return awserr.New("DryRunOperation", "Request would have succeeded, but DryRun flag is set.").WithStatus(412)
}

func UnknownRegion(region string) error {
	return New("InvalidParameterValue", "The region '%s' does not exist.", region)
}

func Missing(param string) error {
	return New("MissingParameter", "The request must contain the parameter %s", param)
}

func InvalidValue(value any, param, why string) error {
	return New("InvalidParameterValue", "%s", strings.TrimSpace(fmt.Sprintf("Value (%v) for parameter %s is invalid. %s", value, param, why)))
}

func InvalidParameterValue(format string, args ...any) error {
	return New("InvalidParameterValue", format, args...)
}

func Combination(message string) error { return New("InvalidParameterCombination", "%s", message) }

func InvalidFilter(name string) error {
	return New("InvalidParameterValue", "The filter '%s' is invalid", name)
}

func FilterLimit() error {
	return New("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", MaxFilterValues)
}

func InvalidNextToken(token string) error {
	return New("InvalidNextToken", "The token '%s' is invalid", token)
}

func MaxResultsTooSmall(n, least int32) error {
	return New("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value greater than or equal to %d.", n, least)
}

func IdempotentMismatch() error {
	return New("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
}

// Network.

func VPCRange(cidr string) error {
	return New("InvalidVpc.Range", "The CIDR '%s' is invalid.", cidr)
}

func SubnetRange(cidr string) error {
	return New("InvalidSubnet.Range", "The CIDR '%s' is invalid.", cidr)
}

func SubnetConflict(cidr string) error {
	return New("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", cidr)
}

func CIDR(cidr, param string) error {
	return New("InvalidParameterValue", "Value (%s) for parameter %s is invalid. This is not a valid CIDR block.", cidr, param)
}

// Terraform and eksctl retry deletions on this code.
func Dependency(format string, args ...any) error {
	return New("DependencyViolation", format, args...)
}

func VPCHasDependencies(id string) error {
	return Dependency("The vpc '%s' has dependencies and cannot be deleted.", id)
}

func SubnetHasDependencies(id string) error {
	return Dependency("The subnet '%s' has dependencies and cannot be deleted.", id)
}

func GatewayNotAttached(igw, vpc string) error {
	return New("Gateway.NotAttached", "resource %s is not attached to network %s", igw, vpc)
}

func AlreadyAssociated(format string, args ...any) error {
	return New("Resource.AlreadyAssociated", format, args...)
}

func AssociationNotFound(id string) error {
	return New("InvalidAssociationID.NotFound", "The association ID '%s' does not exist", id)
}

func RouteExists(destination string) error {
	return New("RouteAlreadyExists", "The route identified by %s already exists.", destination)
}

func RouteNotFound(table, destination string) error {
	return New("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s", destination, table)
}

func NoFreeAddresses(subnet string) error {
	// Karpenter and the VPC CNI check the code.
	return New("InsufficientFreeAddressesInSubnet", "The specified subnet does not have enough free addresses to satisfy the request. Subnet: %s", subnet)
}

func AddressInUse(ip string) error {
	return New("InvalidIPAddress.InUse", "Address %s is in use.", ip)
}

func AddressNotInSubnet(ip string) error {
	return InvalidParameterValue("Address %s does not fall within the subnet's address range", ip)
}

func TooManyAddresses(eni, instanceType string, limit int) error {
	return New("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit of %d for network interface %s on instance type %s.", limit, eni, instanceType)
}

func TooManyInterfaces(n int, instanceType string) error {
	return New("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", n, instanceType)
}

func InterfaceInUse(format string, args ...any) error {
	return New("InvalidNetworkInterface.InUse", format, args...)
}

// Security groups.

func GroupDuplicate(name, vpc string) error {
	return New("InvalidGroup.Duplicate", "The security group '%s' already exists for VPC '%s'", name, vpc)
}

func GroupInDefaultVPC(name, vpc string) error {
	return New("InvalidGroup.NotFound", "The security group '%s' does not exist in VPC '%s'", name, vpc)
}

// PermissionDuplicate is an error that Terraform checks for ("InvalidPermission.Duplicate").
func PermissionDuplicate(peer, proto, from, to string) error {
	return New("InvalidPermission.Duplicate", "the specified rule \"peer: %s, %s, ALLOW\" already exists", peer, ruleProtocolText(proto, from, to))
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

func PermissionNotFound() error {
	return New("InvalidPermission.NotFound", "The specified rule does not exist in this security group.")
}

func RulesLimit() error {
	return New("RulesPerSecurityGroupLimitExceeded", "The maximum number of rules per security group has been reached.")
}

// Tags.

func TagLimit() error {
	return New("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
}

// CreateTags' error: https://github.com/miqdigital/aws-utils/issues/13
func ReservedKey(key string) error {
	return InvalidParameterValue("Value ( %s ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use", key)
}

// RunInstances' error: https://github.com/jcjorel/ec2-spot-converter/issues/13
func ReservedTag() error {
	return InvalidParameterValue("Tag keys starting with 'aws:' are reserved for internal use")
}

func TagResourceType(kind string) error {
	return InvalidParameterValue("'%s' is not a valid taggable resource type for this operation.", kind)
}

func InvalidID(id string) error { return New("InvalidID", "The ID '%s' is not valid", id) }

// Key pairs and launch templates.

func KeyNotFound(name string) error {
	return New("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", name)
}

func KeyDuplicate() error {
	return New("InvalidKeyPair.Duplicate", "The keypair already exists")
}

func KeyFormat() error {
	return New("InvalidKey.Format", "Key is not in valid OpenSSH public key format")
}

func TemplateNameNotFound(name string) error {
	// Karpenter checks the code.
	return New("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", name)
}

func TemplateNamesNotFound() error {
	return New("InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")
}

func TemplateNameTaken() error {
	return New("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
}

func TemplateVersionNotFound(version string) error {
	return New("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s", version)
}

// Instances.

func InstanceType(name string) error {
	return New("InvalidParameterValue", "Invalid value '%s' for InstanceType.", name)
}

func Architecture(typeArch, imageArch string) error {
	return InvalidParameterValue("The architecture '%s' of the specified instance type does not match the architecture '%s' of the specified AMI. Specify an instance type and an AMI that have matching architectures, and try again. You can use 'describe-instance-types' or 'describe-images' to discover the architecture of the instance type or AMI.", typeArch, imageArch)
}

func UserDataTooLarge() error { return InvalidParameterValue("User data is limited to 16384 bytes") }

func UserDataEncoding() error {
	return New("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
}

// ProfileName and ProfileARN are errors that Karpenter, eksctl and Terraform check for: they retry
// on "Invalid IAM Instance Profile".
func ProfileName(name string) error {
	return InvalidParameterValue("Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", name)
}

func ProfileARN(arn string) error {
	return InvalidParameterValue("Value (%s) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN", arn)
}

func ProfileWithoutRole(name string) error {
	// Terraform retries on "has no associated IAM Roles".
	return InvalidParameterValue("IAM Instance Profile \"%s\" has no associated IAM Roles", name)
}

func InstanceState(id, verb string) error {
	return New("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s.", id, verb)
}

func TerminationProtected(id string) error {
	return New("OperationNotPermitted", "The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.", id)
}

// https://github.com/velero-io/velero-plugin-for-aws/pull/119
func MissingIOPS(volumeType string) error {
	return Combination("The parameter iops must be specified for " + volumeType + " volumes.")
}

func UnsupportedIOPS(volumeType string) error {
	return Combination("The parameter iops is not supported for " + volumeType + " volumes.")
}

// https://github.com/runs-on/runs-on/issues/426
func UnsupportedThroughput() error {
	return Combination("throughput can only be specified for volumeType gp3.")
}

func UnsupportedZone(instanceType, zone string, supported []string) error {
	return New("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s). Please retry your request by not specifying an Availability Zone or choosing %s.", instanceType, zone, strings.Join(supported, ", "))
}

func NoDefaultVPC() error {
	return New("VPCIdNotSpecified", "No default VPC for this user. GroupName is only supported for EC2-Classic and default VPC.")
}

func IdempotentInstanceTerminated() error {
	return New("IdempotentInstanceTerminated", "The request to launch an instance uses the same client token as a previous request for which the instance has been terminated.")
}

// MaxFilterValues is EC2's limit per call.
const MaxFilterValues = 200

// HasCode reports whether err is an AWS error with the code.
func HasCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

func InvalidParameter(format string, args ...any) error {
	return New("InvalidParameter", format, args...)
}
