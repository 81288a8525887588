package elbv2

import (
	"fmt"
	"strings"

	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless marked otherwise, the texts are quoted in public issues by users of AWS (about Terraform,
// the AWS Load Balancer Controller and CloudFormation).

func errValidation(format string, args ...any) error {
	return awserr.Newf("ValidationError", format, args...)
}

func errMissing(what string) error { return errValidation("A %s must be specified", what) }

func errARN(a, kind string) error { return errValidation("'%s' is not a valid %s ARN", a, kind) }

// errHealthCheckProtocol is for protocols that only listeners can have: the model has one enumeration for both.
func errHealthCheckProtocol(p elbv2types.ProtocolEnum) error {
	return errValidation("1 validation error detected: Value '%s' at 'healthCheckProtocol' failed to satisfy constraint: Member must satisfy enum value set: [HTTP, HTTPS, TCP]", p)
}

func errMarker() error { return errValidation("Invalid marker") } // from memory

// Load balancers.

func errName(format string, args ...any) error { return errValidation(format, args...) }

func errDuplicateLoadBalancer(name string) error {
	return &elbv2types.DuplicateLoadBalancerNameException{Message: new(fmt.Sprintf("A load balancer with the same name '%s' exists, but with different settings", name))}
}

func errNoLoadBalancer(a string) error {
	return &elbv2types.LoadBalancerNotFoundException{Message: new(fmt.Sprintf("Load balancer '%s' not found", a))}
}

func errNoLoadBalancers(missing ...string) error {
	return &elbv2types.LoadBalancerNotFoundException{Message: new(fmt.Sprintf("Load balancers '[%s]' not found", strings.Join(missing, ", ")))}
}

func errTooManyLoadBalancers() error {
	return &elbv2types.TooManyLoadBalancersException{Message: new("The maximum number of load balancers has been reached")}
}

func errDeletionProtected(a string) error {
	return &elbv2types.OperationNotPermittedException{Message: new(fmt.Sprintf("Load balancer '%s' cannot be deleted because deletion protection is enabled", a))}
}

func errSubnetsOrMappings() error { // from memory
	return errValidation("You can specify either subnets or subnet mappings, but not both")
}

func errNoSubnets() error { return errValidation("At least one subnet must be specified") }

func errTwoSubnets() error {
	return errValidation("At least two subnets in two different Availability Zones must be specified")
}

func errSameZone() error {
	return errConfiguration("A load balancer cannot be attached to multiple subnets in the same Availability Zone")
}

// [seen] in CloudFormation's responses, in the documentation of boltops-tools/ufo
func errManyVPCs(vpc string) error {
	return errConfiguration("All subnets must belong to the same VPC: '%s'", vpc)
}

// The text is an EC2 error code. [seen] mozilla/fxa-dev#449, aws/aws-cdk#3676
func errNoSubnet() error {
	return &elbv2types.SubnetNotFoundException{Message: new("InvalidSubnetID.NotFound")}
}

func errNoInternetGateway(vpc string) error {
	return &elbv2types.InvalidSubnetException{Message: new(fmt.Sprintf("VPC %s has no internet gateway", vpc))}
}

func errNoSpace(subnet string) error {
	return &elbv2types.InvalidSubnetException{Message: new(fmt.Sprintf("Not enough IP space available in %s. ELB requires at least 8 free IP addresses in each subnet.", subnet))}
}

// The text is EC2's. AWS also adds EC2's status, code and request ID in parentheses.
// [seen] kubernetes-sigs/aws-load-balancer-controller#2371
func errNoSecurityGroup(id string) error {
	return &elbv2types.InvalidSecurityGroupException{Message: new(fmt.Sprintf("The security group '%s' does not exist", id))}
}

func errGroupOfOtherVPC() error {
	return errConfiguration("One or more security groups are invalid")
}

// [seen] kubernetes-sigs/cluster-api-provider-aws#4790
func errNoGroupsAfterwards() error {
	return errConfiguration("You cannot set security groups on a Network Load Balancer which was created without any security groups.")
}

func errNoGroupsLeft() error { // from memory
	return errConfiguration("You cannot remove all security groups of a load balancer")
}

// [seen] openshift/enhancements, about allocation IDs of a router's load balancer
func errNoAllocation(id string) error {
	return &elbv2types.AllocationIdNotFoundException{Message: new(fmt.Sprintf("The allocation IDs '%s' do not exist", id))}
}

func errAllocationInUse(id string) error {
	return &elbv2types.ResourceInUseException{Message: new(fmt.Sprintf("The allocation IDs '%s' are not available for use", id))}
}

func errAddressesForApplication() error { // from memory
	return errConfiguration("You cannot specify addresses for the subnets of an Application Load Balancer")
}

// [seen] terraform-aws-modules/terraform-aws-alb#285
func errAllocationsInternal() error {
	return errConfiguration("Elastic IPs are not supported for load balancers with scheme 'internal'")
}

// [seen] redhat-developer/mapt#312
func errPrivateAddressPublic() error {
	return errValidation("You can only specify private IPv4 addresses for Network Load Balancers with scheme 'internal'.")
}

func errAddressOutside(address, subnet string) error { // from memory
	return errConfiguration("The private IPv4 address '%s' is not in the CIDR block of subnet '%s'", address, subnet)
}

// [seen] kubernetes-sigs/aws-load-balancer-controller#4171, without the code
func errZoneTaken(zone, subnet string) error {
	return errConfiguration("You cannot specify an additional subnet from an Availability Zone that is already associated with the load balancer. The Availability Zone '%s' corresponding to the new subnet '%s' is already associated with the load balancer.", zone, subnet)
}

func errConfiguration(format string, args ...any) error {
	return &elbv2types.InvalidConfigurationRequestException{Message: new(fmt.Sprintf(format, args...))}
}

func errAttributeKey(key string) error {
	return errValidation("Load balancer attribute key '%s' is not recognized", key)
}

func errGroupAttributeKey(key string) error {
	return errValidation("Target group attribute key '%s' is not recognized", key)
}

func errListenerAttributeKey(key string) error { // from memory
	return errValidation("Listener attribute key '%s' is not recognized", key)
}

// [seen] hashicorp/terraform-provider-aws#34135
func errAttributeUnsupported(key, kind string) error {
	return errConfiguration("Load balancer attribute key '%s' is not supported on load balancers with type '%s'", key, kind)
}

func errAttributeValue(key, value string) error { // from memory
	return errValidation("The value '%s' of attribute '%s' is not valid", value, key)
}

// [seen] ansible/ansible#67993, also for groups whose stickiness is disabled
func errStickiness(kind string, protocol any) error {
	return errConfiguration("Stickiness type '%s' is not supported for target groups with the %v protocol", kind, protocol)
}

// [seen] hashicorp/terraform-provider-aws, TestAccELBV2TargetGroup_Stickiness_invalidALB; the code is from memory
func errStickyRandom() error {
	return errConfiguration("You cannot have both stickiness and weighted random algorithm enabled on the same target group.")
}

// [seen] hashicorp/terraform-provider-aws, TestAccELBV2TargetGroup_Instance_HealthCheck_matcherOutOfRange
func errMatcher(kind, codes string, lowest, highest int) error {
	return errValidation("Health check matcher %s code '%s' must be within '%d-%d' inclusive", kind, codes, lowest, highest)
}

func errAttributeTwice(key string) error { // from memory
	return errValidation("Attribute key '%s' was specified more than once", key)
}

func errNoBucket(key string) error {
	return errValidation("The value of '%s' cannot be empty", key)
}

// Target groups and targets.

func errDuplicateTargetGroup(name string) error {
	return &elbv2types.DuplicateTargetGroupNameException{Message: new(fmt.Sprintf("A target group with the same name '%s' exists, but with different settings", name))}
}

func errNoTargetGroup(a string) error {
	return &elbv2types.TargetGroupNotFoundException{Message: new(fmt.Sprintf("Target groups '%s' not found", a))}
}

func errNoTargetGroups() error {
	return &elbv2types.TargetGroupNotFoundException{Message: new("One or more target groups not found")}
}

func errTargetGroupInUse(a string) error {
	return &elbv2types.ResourceInUseException{Message: new(fmt.Sprintf("Target group '%s' is currently in use by a listener or a rule", a))}
}

func errTooManyTargetGroups() error { // from memory
	return &elbv2types.TooManyTargetGroupsException{Message: new("The maximum number of target groups has been reached")}
}

// [seen] zalando-incubator/kube-ingress-aws-controller#392, hashicorp/terraform-provider-aws#48071
func errHealthTimeout() error {
	return errValidation("Health check interval must be greater than the timeout.")
}

func errNoVPC(id string) error { return errValidation("The VPC ID '%s' is not found", id) }

func errNotRunning(ids []string) error {
	return errTarget("The following targets are not in a running state and cannot be registered: '%s'", strings.Join(ids, "', '"))
}

func errNoInstance(id string) error { return errTarget("Instance ID '%s' is not valid", id) }

// [seen] in events of ECS, in the documentation of boltops-tools/ufo
func errOtherVPC(ids []string, vpc string) error {
	return errTarget("The following targets are not in the target group VPC '%s': '%s'", vpc, strings.Join(ids, "', '"))
}

func errAddress(address string) error {
	return errValidation("The IP address '%s' is not a valid IPv4 address", address)
}

// [seen] kubernetes-sigs/aws-load-balancer-controller#3714
func errAddressZone(address string) error {
	return errValidation("The Availability Zone is required for IP address '%s' because it is not in the VPC", address)
}

// [seen] kubernetes-sigs/aws-load-balancer-controller#783
func errAddressZoneAll(address string) error {
	return errValidation("The Availability Zone for IP address '%s' must be 'all' for Application Load Balancer target groups, when not within the VPC", address)
}

// [seen] kubernetes-sigs/aws-load-balancer-controller#561
func errAddressZoneOverridden(address, zone, in string) error {
	return errValidation("The IP address '%s' is within the VPC, and cannot have its Availability Zone overridden to '%s' from '%s'", address, zone, in)
}

func errAddressPublic(address string) error {
	return errTarget("The IP address '%s' is not within a range of addresses that can be registered as targets", address) // from memory
}

func errTarget(format string, args ...any) error {
	return &elbv2types.InvalidTargetException{Message: new(fmt.Sprintf(format, args...))}
}

func errTooManyTargets() error { // from memory
	return &elbv2types.TooManyTargetsException{Message: new("The maximum number of targets has been reached")}
}

func errAssociated(tg string) error {
	return &elbv2types.TargetGroupAssociationLimitException{Message: new(fmt.Sprintf("The following target groups cannot be associated with more than one load balancer: %s", tg))}
}

// Listeners and rules.

// [seen] kubernetes-sigs/aws-load-balancer-controller#1187, even for a single one
func errNoListeners() error {
	return &elbv2types.ListenerNotFoundException{Message: new("One or more listeners not found")}
}

func errDuplicateListener(lb string) error {
	return &elbv2types.DuplicateListenerException{Message: new(fmt.Sprintf("A listener already exists on this port for this load balancer '%s'", lb))}
}

func errTooManyListeners(lb string) error { // from memory
	return &elbv2types.TooManyListenersException{Message: new(fmt.Sprintf("The maximum number of listeners on load balancer '%s' has been reached", lb))}
}

func errListenersOrBalancer() error {
	return errValidation("You must specify either listener ARNs or a load balancer ARN")
}

func errListenerProtocol(p any, valid ...string) error {
	return errValidation("Listener protocol '%v' must be one of '%s'", p, strings.Join(valid, ", "))
}

func errIncompatible(tg string) error {
	return &elbv2types.IncompatibleProtocolsException{Message: new("The listener and the following target groups have incompatible protocols: " + tg)}
}

func errCertificateCount(p any) error {
	return errValidation("A certificate must be specified for %v listeners", p)
}

// [seen] in reports about the AWS Load Balancer Controller and Terraform
func errCertificate(a string) error {
	return &elbv2types.CertificateNotFoundException{Message: new(fmt.Sprintf("Certificate '%s' not found", a))}
}

func errNoCertificates(p any) error { // from memory, worded like the error for SSL policies
	return errValidation("Certificates cannot be specified for %v listeners", p)
}

func errTooManyCertificates() error { // from memory
	return &elbv2types.TooManyCertificatesException{Message: new("The maximum number of certificates on the listener has been reached")}
}

func errSSLPolicy(name string) error {
	return &elbv2types.SSLPolicyNotFoundException{Message: new(fmt.Sprintf("SSL policy '%s' not found", name))}
}

func errActions(format string, args ...any) error {
	return &elbv2types.InvalidLoadBalancerActionException{Message: new(fmt.Sprintf(format, args...))}
}

func errActionOrder(n int32) error { // our own text, after the one of rules' priorities
	return errValidation("Action order '%d' was provided multiple times", n)
}

func errActionGroup(a string) error {
	return &elbv2types.TargetGroupNotFoundException{Message: new(fmt.Sprintf("Target group '%s' not found", a))}
}

// [seen] kubernetes-sigs/aws-load-balancer-controller#1045
func errGroupOfOther(tg, lb string) error {
	return errConfiguration("Target group '%s' is in a different VPC than load balancer '%s'", tg, lb)
}

// For a single one, it is from memory, worded like the error for listeners.
func errNoRules() error {
	return &elbv2types.RuleNotFoundException{Message: new("One or more rules not found")}
}

func errRulesOrListener() error {
	return errValidation("You must specify either listener rule ARNs or a listener ARN")
}

func errPriorityInUse(n string) error {
	return &elbv2types.PriorityInUseException{Message: new(fmt.Sprintf("Priority '%s' is currently in use", n))}
}

func errPriorityTwice(n int32) error {
	return errValidation("Priority '%d' was provided multiple times", n)
}

func errDefaultRule(a string) error {
	return &elbv2types.OperationNotPermittedException{Message: new(fmt.Sprintf("Default rule '%s' cannot be deleted", a))}
}

func errDefaultRuleChanged(a string) error {
	return &elbv2types.OperationNotPermittedException{Message: new(fmt.Sprintf("Default rule '%s' cannot be modified", a))}
}

func errTooManyRules(lb string) error { // from memory
	return &elbv2types.TooManyRulesException{Message: new(fmt.Sprintf("The maximum number of rules on load balancer '%s' has been reached", lb))}
}

func errRulesOfNetwork() error { // from memory
	return errConfiguration("Rules are not supported for listeners of Network Load Balancers")
}

// Tags.

func errTagTwice(key string) error { // from memory
	return &elbv2types.DuplicateTagKeysException{Message: new(fmt.Sprintf("Tag key '%s' was specified more than once", key))}
}

func errTooManyTags() error { // from memory
	return &elbv2types.TooManyTagsException{Message: new("The maximum number of tags on a resource is 50")}
}

func errTagKey(key string) error { return errValidation("The tag key '%s' is reserved", key) } // from memory

func errTooManyResources() error {
	return errValidation("You can specify at most 20 resource ARNs") // from memory
}
