package route53

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsroute53 "github.com/aws/aws-sdk-go-v2/service/route53"
	route53types "github.com/aws/aws-sdk-go-v2/service/route53/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

func zoneARN(id string) string { return arn.New("route53", "", "", "hostedzone/"+id) }

type resolver struct{}

// Resource implements authz.Resolver. Policies can refer to zones and changes by ID, but not to anything stored about
// them.
func (resolver) Resource(_ context.Context, _, _, kind, id string) (authz.Resource, bool) {
	return authz.Resource{ARN: arn.New("route53", "", "", kind+"/"+bare(&id))}, true
}

// Targets implements authz.Targeter.
func (resolver) Targets(_ context.Context, _ *awsapi.Call, in any) ([]authz.Target, bool) {
	zone := func(id *string, keys map[string][]string) []authz.Target {
		return []authz.Target{{Type: "hostedzone", ID: bare(id), Keys: keys}}
	}
	switch in := in.(type) {
	case *awsroute53.CreateHostedZoneInput:
		return []authz.Target{{Keys: vpcKey(in.VPC)}}, true
	case *awsroute53.ListHostedZonesByVPCInput:
		return []authz.Target{{Keys: vpcKey(&route53types.VPC{VPCId: in.VPCId, VPCRegion: in.VPCRegion})}}, true
	case *awsroute53.AssociateVPCWithHostedZoneInput:
		return zone(in.HostedZoneId, vpcKey(in.VPC)), true
	case *awsroute53.DisassociateVPCFromHostedZoneInput:
		return zone(in.HostedZoneId, vpcKey(in.VPC)), true
	case *awsroute53.CreateVPCAssociationAuthorizationInput:
		return zone(in.HostedZoneId, vpcKey(in.VPC)), true
	case *awsroute53.DeleteVPCAssociationAuthorizationInput:
		return zone(in.HostedZoneId, vpcKey(in.VPC)), true
	case *awsroute53.ChangeResourceRecordSetsInput:
		return zone(in.HostedZoneId, changeKeys(in.ChangeBatch)), true
	case *awsroute53.ChangeTagsForResourceInput:
		return tagged(in.ResourceType, in.ResourceId), true
	case *awsroute53.ListTagsForResourceInput:
		return tagged(in.ResourceType, in.ResourceId), true
	case *awsroute53.ListTagsForResourcesInput:
		return tagged(in.ResourceType, aws.StringSlice(in.ResourceIds)...), true
	}
	return nil, false
}

func tagged(kind route53types.TagResourceType, ids ...*string) []authz.Target {
	name := "hostedzone"
	if kind == route53types.TagResourceTypeHealthcheck {
		name = string(kind)
	}
	var out []authz.Target
	for _, id := range ids {
		out = append(out, authz.Target{Type: name, ID: bare(id)})
	}
	return out
}

// vpcKey returns the condition key that names a VPC. If v is nil, the key has no values.
func vpcKey(v *route53types.VPC) map[string][]string {
	keys := map[string][]string{"route53:vpcs": nil}
	if v != nil {
		keys["route53:vpcs"] = []string{"VPCId=" + aws.ToString(v.VPCId) + ",VPCRegion=" + string(v.VPCRegion)}
	}
	return keys
}

// changeKeys returns the condition keys for a batch of changes.
// https://docs.aws.amazon.com/Route53/latest/DeveloperGuide/specifying-conditions-route53.html
func changeKeys(b *route53types.ChangeBatch) map[string][]string {
	var names, types, actions []string
	add := func(list *[]string, value string) {
		if !slices.Contains(*list, value) {
			*list = append(*list, value)
		}
	}
	if b != nil {
		for _, c := range b.Changes {
			add(&actions, string(c.Action))
			if set := c.ResourceRecordSet; set != nil {
				name := asked(aws.ToString(set.Name))
				if name != "" && name[len(name)-1] == '.' {
					name = name[:len(name)-1]
				}
				add(&names, name)
				add(&types, string(set.Type))
			}
		}
	}
	return map[string][]string{
		"route53:changeresourcerecordsetsnormalizedrecordnames": names,
		"route53:changeresourcerecordsetsrecordtypes":           types,
		"route53:changeresourcerecordsetsactions":               actions,
	}
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Members: map[string]string{
		"Id": "HostedZoneId Id",
	},
	StoredKeys: "changeresourcerecordsetsactions changeresourcerecordsetsnormalizedrecordnames changeresourcerecordsetsrecordtypes vpcs",
}
