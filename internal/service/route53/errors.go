package route53

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Sources of the texts, as far as they are known:
//   - https://github.com/kubernetes-sigs/external-dns/issues/3007, 1852 and 323 (changes), 2537 and 515 (limits)
//   - https://github.com/rancher/rancher/issues/10253 (values of a record set)
//   - https://github.com/aws/aws-cli/issues/8241 (routing policies)
//   - https://github.com/boto/boto3/issues/2240 (missing members)
//   - https://github.com/hashicorp/terraform/issues/12804 (VPCs that are not authorized)
//   - https://github.com/binxio/cfn-ses-provider/issues/21 (values)
//   - https://github.com/infrablocks/terraform-aws-base-networking/issues/4 (overlapping zones)
//   - https://github.com/crossplane-contrib/provider-upjet-aws/pull/456 (VPCs of public zones)
//
// The others are the descriptions in https://docs.aws.amazon.com/Route53/latest/APIReference or from memory.

func errNoZone(id string) error {
	return awserr.Newf("NoSuchHostedZone", "No hosted zone found with ID: %s", id)
}

func errNoChange(id string) error {
	return awserr.Newf("NoSuchChange", "Could not find resource with Change ID: %s", id)
}

func errZoneExists() error {
	return awserr.New("HostedZoneAlreadyExists", "A hosted zone has already been created with the specified caller reference.")
}

func errZoneNotEmpty() error {
	return awserr.New("HostedZoneNotEmpty", "The specified hosted zone contains non-required resource record sets and so cannot be deleted.")
}

func errDomain(p *problem) error { return awserr.New("InvalidDomainName", p.String()) }

func errReservedDomain(name string) error {
	return awserr.Newf("InvalidDomainName", "%s is reserved by AWS!", strings.TrimSuffix(name, "."))
}

func errManyZones() error {
	return awserr.Newf("TooManyHostedZones", "Limits Exceeded: MAX_HOSTED_ZONES_BY_OWNER - Cannot create more than %d hosted zones.", maxZones)
}

func errPrivateWithoutVPC() error {
	return awserr.New("InvalidInput", "When you're creating a private hosted zone (when you specify true for PrivateZone), you must also specify values for VPCId and VPCRegion.")
}

func errVPCMembers() error {
	return awserr.New("InvalidInput", "You must specify values for VPCId and VPCRegion.")
}

func errNoVPC() error {
	// [recorded] LocalStack's tests/aws/services/route53/test_route53.snapshot.json, test_create_hosted_zone_in_non_existent_vpc
	return awserr.New("InvalidVPCId", "The VPC ID is invalid.")
}

func errDenied(err error) error { return awserr.New("AccessDenied", awserr.TextOf(err)) }

func errConflictingZone(v vpcRecord, name string) error {
	return awserr.Newf("ConflictingDomainExists", "The VPC that you chose, %s in region %s, is already associated with another private hosted zone that has an overlapping name space, %s.", v.ID, v.Region, name)
}

func errPublicZone(zone string, v vpcRecord) error {
	return awserr.Newf("PublicZoneVPCAssociation", "Attempting to associate public zone: %s with vpc: %s", zone, v.ID)
}

func errNotAssociated(v vpcRecord, zone string) error {
	return awserr.Newf("VPCAssociationNotFound", "The VPC: %s is not associated with the hosted zone: %s", v.ID, zone)
}

func errLastVPC() error {
	return awserr.New("LastVPCAssociation", "Cannot remove last VPC association for the private zone")
}

func errNotAuthorized(v vpcRecord) error {
	return awserr.Newf("NotAuthorizedException", "The VPC: %s has not authorized to associate with your hosted zone.", v.ID)
}

func errNoAuthorization() error {
	return awserr.New("VPCAssociationAuthorizationNotFound", "The VPC that you specified is not authorized to be associated with the hosted zone.")
}

func errNoHealthCheck(id string) error {
	return awserr.Newf("NoSuchHealthCheck", "No health check exists with the specified ID: %s", id)
}

func errBatch(problems []string) error {
	return awserr.New("InvalidChangeBatch", "["+strings.Join(problems, ", ")+"]")
}

func errRequest(text string) error { return awserr.New("InvalidInput", "Invalid request: "+text) }

func errTypeWithoutName() error {
	return awserr.New("InvalidInput", "The input is not valid: a start record type requires a start record name")
}

func errMarker(marker string) error {
	return awserr.Newf("InvalidInput", "The marker %s is not a hosted zone", marker)
}

func errToken(string) error {
	return awserr.New("InvalidPaginationToken", "The value that you specified to get the second or subsequent page of results is invalid.")
}

func errMaxItems() error { return awserr.New("InvalidInput", "MaxItems must be greater than 0") }

func errReservedTag(key string) error {
	return awserr.Newf("InvalidInput", "The tag key %s begins with aws:, which is reserved for AWS use", key)
}

func errManyTags() error { return awserr.New("InvalidInput", "A resource can have at most 50 tags") }
