package elb

import (
	"fmt"

	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless marked otherwise, the texts are quoted in public issues by users of AWS (about Kubernetes,
// Terraform and Cluster API).

func errValidation(format string, args ...any) error {
	return awserr.Newf("ValidationError", format, args...)
}

func errConfiguration(format string, args ...any) error {
	return &elbtypes.InvalidConfigurationRequestException{Message: new(fmt.Sprintf(format, args...))}
}

func errNone(name string) error {
	return &elbtypes.AccessPointNotFoundException{Message: new(fmt.Sprintf("There is no ACTIVE Load Balancer named '%s'", name))}
}

// what is "parameters" or "tags": giantswarm/aws-operator matches the former, ansible/ansible#29965
// shows the latter.
func errDuplicate(name, what string) error {
	return &elbtypes.DuplicateAccessPointNameException{Message: new(fmt.Sprintf("Load Balancer named %s already exists and it is configured with different %s.", name, what))}
}

// [seen] openshift/cluster-ingress-operator
func errTooMany(account string) error {
	return &elbtypes.TooManyAccessPointsException{Message: new("Exceeded quota of account " + account)}
}

// [seen] ansible/ansible#68790, jcowley/elb-instance-reboot#1: also for a name that should exist.
func errNameCharacters() error {
	return errValidation("LoadBalancer name cannot contain characters that are not letters, or digits or the dash.")
}

// [seen] in the feature tests of the AWS SDKs and in community.aws's ec2_asg, which ignores it
func errNameLength() error {
	return errValidation("LoadBalancer name cannot be longer than 32 characters")
}

func errNoName() error { return errValidation("LoadBalancerName must be specified") } // from memory

func errNameHyphen() error { // from memory
	return errValidation("LoadBalancer name cannot begin or end with a hyphen")
}

func errNoListeners() error { return errValidation("Listeners cannot be empty") }

func errNoPlace() error {
	return errValidation("Either AvailabilityZones or SubnetIds must be specified")
}

func errTwoPlaces() error {
	return errValidation("Only one of SubnetIds or AvailabilityZones may be specified")
}

func errSameZone() error {
	return errConfiguration("ELB cannot be attached to multiple subnets in the same AZ.")
}

func errNoDefaultVPC() error { return errConfiguration("Default VPC not found") }

func errZone(zone string) error { // from memory
	return errValidation("Invalid Availability Zone(s): %s", zone)
}

func errLastSubnet() error { // from memory
	return errConfiguration("Requested configuration change would result in no subnets attached to the load balancer")
}

func errManyVPCs() error { // from memory
	return &elbtypes.InvalidSubnetException{Message: new("All subnets must be in the same VPC.")}
}

func errNoSubnet(id string) error { // from memory
	return &elbtypes.SubnetNotFoundException{Message: new(fmt.Sprintf("The subnet ID '%s' does not exist", id))}
}

func errNoInternetGateway(vpc string) error {
	return &elbtypes.InvalidSubnetException{Message: new(fmt.Sprintf("VPC %s has no internet gateway", vpc))}
}

func errNoSpace(subnet string) error {
	return &elbtypes.InvalidSubnetException{Message: new(fmt.Sprintf("Not enough IP space available in %s. ELB requires at least 8 free IP addresses in each subnet.", subnet))}
}

func errScheme(s string) error { // from memory
	return &elbtypes.InvalidSchemeException{Message: new(fmt.Sprintf("Scheme '%s' must be one of 'internet-facing, internal'", s))}
}

func errNoGroup(id string) error { // from memory
	return &elbtypes.InvalidSecurityGroupException{Message: new(fmt.Sprintf("The security group '%s' does not exist", id))}
}

// [seen] hashicorp/terraform#30261
func errGroupOfOtherVPC(id, vpc string) error {
	return errConfiguration("Security group \"%s\" does not belong to VPC \"%s\"", id, vpc)
}

// [seen] boto/boto3#177
func errManyGroups() error {
	return errConfiguration("The maximum number of security groups per load balancer has been reached.")
}

func errProtocol(p string) error { // from memory
	return &elbtypes.UnsupportedProtocolException{Message: new(fmt.Sprintf("Unsupported protocol: '%s'. It must be one of HTTP, HTTPS, TCP, SSL", p))}
}

func errProtocols(front, back string) error { // from memory
	return errValidation("Protocol '%s' and instance protocol '%s' must be at the same Internet protocol layer", front, back)
}

func errPort(n int32) error { // from memory
	return errValidation("The load balancer port %d must be in the range 1 to 65535", n)
}

func errDuplicateListener(name string, port int32) error {
	return &elbtypes.DuplicateListenerException{Message: new(fmt.Sprintf("A listener already exists for %s with LoadBalancerPort %d, but with a different InstancePort, Protocol, or SSLCertificateId", name, port))}
}

func errNoListener(name string, port int32) error { // from memory
	return &elbtypes.ListenerNotFoundException{Message: new(fmt.Sprintf("LoadBalancer %s does not have a listener on port %d", name, port))}
}

func errCertificate(id string) error {
	return &elbtypes.CertificateNotFoundException{Message: new(fmt.Sprintf("Server Certificate not found for the key: %s", id))}
}

func errNoInstance(id string) error {
	return &elbtypes.InvalidEndPointException{Message: new(fmt.Sprintf("Could not find EC2 instance %s.", id))}
}

func errInstanceState(id string) error { // from memory
	return &elbtypes.InvalidEndPointException{Message: new(fmt.Sprintf("EC2 instance %s is not in a state in which it can be registered.", id))}
}

func errInstanceVPC(id string) error {
	return &elbtypes.InvalidEndPointException{Message: new(fmt.Sprintf("EC2 instance %s is not in the same VPC as ELB.", id))}
}

func errNotRegistered(id, name string) error { // from memory
	return &elbtypes.InvalidEndPointException{Message: new(fmt.Sprintf("Instance %s is not registered with the load balancer %s.", id, name))}
}

func errHealthTarget(t string) error {
	if t == "" {
		return errValidation("HealthCheck Target must be specified")
	}
	return errValidation("HealthCheck Target must begin with one of HTTP, TCP, HTTPS, SSL")
}

func errHealthPath() error {
	return errValidation("HealthCheck HTTP Target must specify a port followed by a path that begins with a slash. e.g. HTTP:80/ping/this/path")
}

func errHealthPort() error {
	return errValidation("HealthCheck Target must specify a port number between 1 and 65535") // from memory
}

func errHealthTimeout() error {
	return errValidation("HealthCheck Interval must be greater than Timeout") // from memory
}

func errPolicyName(name string) error {
	return &elbtypes.DuplicatePolicyNameException{Message: new(fmt.Sprintf("The policy name '%s' exists with a different configuration", name))} // from memory
}

// [seen] moto; outscale/osc-functional-test
func errNoPolicy(name, lb string) error {
	return &elbtypes.PolicyNotFoundException{Message: new(fmt.Sprintf("There is no policy with name %s for load balancer %s", name, lb))}
}

func errPolicyType(name string) error {
	return &elbtypes.PolicyTypeNotFoundException{Message: new(fmt.Sprintf("There is no policy type with name %s", name))} // from memory
}

// errPolicyPlace is the error for putting an instance policy on a listener.
// [seen] fog/fog-aws#193
func errPolicyPlace(name string) error { return errConfiguration("%s cannot be enabled", name) }

func errPolicyInUse(name string) error {
	return errConfiguration("The policy %s is enabled for a listener or a backend server", name) // from memory
}

func errBackend(port int32) error {
	return errConfiguration("There is no listener with the instance port %d", port) // from memory
}

func errAttribute(format string, args ...any) error { return errValidation(format, args...) }

func errTagTwice(key string) error {
	return &elbtypes.DuplicateTagKeysException{Message: new(fmt.Sprintf("Tag key '%s' was specified more than once", key))} // from memory
}

func errTooManyTags() error {
	return &elbtypes.TooManyTagsException{Message: new("The quota for the number of tags that can be assigned to a load balancer has been reached")}
}

func errTagKey(key string) error { return errValidation("The tag key '%s' is reserved", key) } // from memory

func errMarker() error { return errValidation("Invalid marker") } // from memory
