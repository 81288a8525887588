package transit

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
)

// [seen] in issues of hashicorp/terraform-provider-aws (7196) and gruntwork-io/cloud-nuke (744)
func errHasAttachments(gateway string, attachments []string) error {
	return ec2err.New("IncorrectState", "%s has non-deleted VPC Attachments: %s.", gateway, strings.Join(attachments, ", "))
}

// [seen] in users' reports of Terraform's output
func errDuplicateAttachment(gateway string) error {
	return ec2err.New("DuplicateTransitGatewayAttachment", "%s has non-deleted Transit Gateway Attachments with same VPC ID.", gateway)
}

// The code is seen in Terraform's output, the text is from memory.
func errSameZone() error {
	return ec2err.New("DuplicateSubnetsInSameZone", "Duplicate Subnets for same AZ")
}

func errState(id string) error {
	return ec2err.New("IncorrectState", "%s is in invalid state", id)
}

// The code is one that AWS's samples handle; the text is from memory.
func errAssociated(attachment string) error {
	return ec2err.New("Resource.AlreadyAssociated", "Transit Gateway Attachment %s is already associated to a route table.", attachment)
}

func errNotAssociated(attachment, table string) error { // from memory
	return ec2err.New("InvalidAssociation.NotFound", "Association of %s with Transit Gateway Route Table %s was deleted or does not exist.", attachment, table)
}

// [seen] in AWS's samples for networks of several accounts
func errPropagates(attachment, table string) error {
	return ec2err.New("TransitGatewayRouteTablePropagation.Duplicate", "Propagation %s already exists in Transit Gateway Route Table %s.", attachment, table)
}

func errNotPropagated(attachment, table string) error { // from memory
	return ec2err.New("TransitGatewayRouteTablePropagation.NotFound", "Propagation %s does not exist in Transit Gateway Route Table %s.", attachment, table)
}

func errRouteExists(destination, table string) error { // from memory
	return ec2err.New("RouteAlreadyExists", "Route %s already exists in Transit Gateway Route Table %s.", destination, table)
}

// Terraform checks the code.
func errNoRoute(destination, table string) error {
	return ec2err.New("InvalidRoute.NotFound", "Route %s was deleted or does not exist in Transit Gateway Route Table %s.", destination, table)
}

func errNoReference(list, table string) error { // from memory
	return ec2err.New("InvalidPrefixListID.NotFound", "The prefix list reference %s does not exist in Transit Gateway Route Table %s.", list, table)
}

func errListExists(list, table string) error { // from memory
	return ec2err.New("PrefixListReferenceAlreadyExists", "Prefix list %s is already referenced in Transit Gateway Route Table %s.", list, table)
}

func errOtherGateway(attachment, table string) error {
	return ec2err.InvalidParameterValue("Transit Gateway Attachment %s and Transit Gateway Route Table %s belong to different transit gateways", attachment, table) // from memory
}
