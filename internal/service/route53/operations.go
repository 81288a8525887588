package route53

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: resolver{}, Tagging: s.taggable(), Import: importRecords}
}

// changeMembers are the members of a batch of changes.
const changeMembers = `ChangeBatch.Comment ChangeBatch.Changes.Action
	ChangeBatch.Changes.ResourceRecordSet.Name ChangeBatch.Changes.ResourceRecordSet.Type ChangeBatch.Changes.ResourceRecordSet.TTL
	ChangeBatch.Changes.ResourceRecordSet.ResourceRecords ChangeBatch.Changes.ResourceRecordSet.AliasTarget
	ChangeBatch.Changes.ResourceRecordSet.SetIdentifier ChangeBatch.Changes.ResourceRecordSet.Weight ChangeBatch.Changes.ResourceRecordSet.Region
	ChangeBatch.Changes.ResourceRecordSet.Failover ChangeBatch.Changes.ResourceRecordSet.MultiValueAnswer`

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "route53",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "CreateHostedZone", Members: "CallerReference HostedZoneConfig Name VPC"},
			{Name: "GetHostedZone", Members: "Id"},
			{Name: "ListHostedZones", Members: "HostedZoneType Marker MaxItems"},
			{Name: "ListHostedZonesByName", Members: "DNSName HostedZoneId MaxItems"},
			{Name: "ListHostedZonesByVPC", Members: "MaxItems NextToken VPCId VPCRegion"},
			{Name: "GetHostedZoneCount"},
			{Name: "UpdateHostedZoneComment", Members: "Comment Id"},
			{Name: "DeleteHostedZone", Members: "Id"},
			{Name: "GetDNSSEC", Members: "HostedZoneId"},
			{Name: "AssociateVPCWithHostedZone", Members: "Comment HostedZoneId VPC"},
			{Name: "DisassociateVPCFromHostedZone", Members: "Comment HostedZoneId VPC"},
			{Name: "CreateVPCAssociationAuthorization", Members: "HostedZoneId VPC"},
			{Name: "DeleteVPCAssociationAuthorization", Members: "HostedZoneId VPC"},
			{Name: "ListVPCAssociationAuthorizations", Members: "HostedZoneId MaxResults NextToken"},
			{Name: "ChangeResourceRecordSets", Members: "HostedZoneId " + changeMembers},
			{Name: "ListResourceRecordSets", Members: "HostedZoneId MaxItems StartRecordIdentifier StartRecordName StartRecordType"},
			{Name: "GetChange", Members: "Id"},
			{Name: "ChangeTagsForResource", Members: "AddTags RemoveTagKeys ResourceId ResourceType"},
			{Name: "ListTagsForResource", Members: "ResourceId ResourceType"},
			{Name: "ListTagsForResources", Members: "ResourceIds ResourceType", ReadOnly: true},
		},
		Refused: []awsapi.Refusal{
			{Operations: "CreateHealthCheck GetHealthCheck ListHealthChecks UpdateHealthCheck DeleteHealthCheck", Why: "Nothing is checked from the internet, so records cannot have health checks."},
			{Operations: "TestDNSAnswer", Why: "`drydock why reach` shows what a name resolves to for an instance, with the zone that answers."},
			{Operations: "CreateReusableDelegationSet GetReusableDelegationSet ListReusableDelegationSets DeleteReusableDelegationSet", Why: "No domain is delegated to the name servers of a zone."},
			{Operations: "EnableHostedZoneDNSSEC DisableHostedZoneDNSSEC CreateKeySigningKey", Why: "Answers are not signed. GetDNSSEC says so."},
		},
	}
}
