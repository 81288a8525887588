package ec2

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/capacity"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/fleet"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/insights"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/keypair"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/placement"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggables lists all kinds of resources that have tags.
func taggables() []resource.Taggable {
	return []resource.Taggable{
		resource.Tagged(ec2types.ResourceTypeNetworkInsightsPath, insights.Paths),
		resource.Tagged(ec2types.ResourceTypeNetworkInsightsAnalysis, insights.Analyses),
		resource.Tagged(ec2types.ResourceTypeVpc, record.VPCs),
		resource.Tagged(ec2types.ResourceTypeSubnet, record.Subnets),
		resource.Tagged(ec2types.ResourceTypeInternetGateway, record.InternetGateways),
		resource.Tagged(ec2types.ResourceTypeRouteTable, record.RouteTables),
		resource.Tagged(ec2types.ResourceTypeNetworkAcl, record.NetworkACLs),
		resource.Tagged(ec2types.ResourceTypeDhcpOptions, record.DHCPOptionSets),
		resource.Tagged(ec2types.ResourceTypeElasticIp, record.Addresses),
		resource.Tagged(ec2types.ResourceTypeNatgateway, record.NATGateways),
		resource.Tagged(ec2types.ResourceTypeEgressOnlyInternetGateway, record.EgressGateways),
		resource.Tagged(ec2types.ResourceTypeVpcPeeringConnection, record.Peerings),
		resource.Tagged(ec2types.ResourceTypeTransitGateway, record.TransitGateways),
		resource.Tagged(ec2types.ResourceTypeTransitGatewayAttachment, record.TransitAttachments),
		resource.Tagged(ec2types.ResourceTypeTransitGatewayRouteTable, record.TransitRouteTables),
		resource.Tagged(ec2types.ResourceTypeVpnGateway, record.VPNGateways),
		resource.Tagged(ec2types.ResourceTypeCustomerGateway, record.CustomerGateways),
		resource.Tagged(ec2types.ResourceTypeVpnConnection, record.VPNConnections),
		resource.Tagged(ec2types.ResourceTypeVpcEndpoint, record.VPCEndpoints),
		resource.Tagged(ec2types.ResourceTypeInstanceConnectEndpoint, record.ConnectEndpoints),
		resource.Tagged(ec2types.ResourceTypePrefixList, record.PrefixLists),
		resource.Tagged(ec2types.ResourceTypeVpcFlowLog, record.FlowLogs),
		resource.Tagged(ec2types.ResourceTypeSecurityGroup, record.SecurityGroups),
		firewall.SecurityGroupRuleTags(),
		resource.Tagged(ec2types.ResourceTypeNetworkInterface, record.NetworkInterfaces),
		resource.Tagged(ec2types.ResourceTypeInstance, record.Instances),
		keypair.Tagged(),
		resource.Tagged(ec2types.ResourceTypeLaunchTemplate, launchtemplate.Templates),
		resource.Tagged(ec2types.ResourceTypeVolume, storage.Volumes),
		resource.Tagged(ec2types.ResourceTypeReplaceRootVolumeTask, instance.RootTasks),
		resource.Tagged(ec2types.ResourceTypeSnapshot, storage.Snapshots),
		resource.Tagged(ec2types.ResourceTypeImage, image.Images),
		resource.Tagged(ec2types.ResourceTypeSpotInstancesRequest, instance.SpotRequests),
		resource.Tagged(ec2types.ResourceTypeFleet, fleet.Fleets),
		resource.Tagged(ec2types.ResourceTypePlacementGroup, placement.Groups),
		resource.Tagged(ec2types.ResourceTypeCapacityReservation, capacity.Reservations),
	}
}

func findTaggable(id string) (resource.Taggable, error) {
	prefix := resource.PrefixOf(id)
	for _, t := range taggables() {
		if t.ID.Prefix == prefix {
			return t, t.ID.Check(id)
		}
	}
	return resource.Taggable{}, ec2err.InvalidID(id)
}

// editTags changes the tags of resources, a few dozen per transaction.
func (s *Service) editTags(ctx context.Context, dryRun *bool, ids []string, fn func(tag.Set) (tag.Set, error)) error {
	sc := resource.ScopeOf(ctx)
	switch {
	case len(ids) == 0:
		return ec2err.Missing("resourceIdSet")
	case len(ids) > 1000:
		return ec2err.New("InvalidParameterValue", "The maximum number of resources in one call is 1000.")
	}
	for chunk := range slices.Chunk(resource.SortedUnique(ids), 50) {
		err := s.Update(ctx, dryRun, func(tx *store.Tx) error {
			for _, id := range chunk {
				t, err := findTaggable(id)
				if err != nil {
					return err
				}
				if err := t.Edit(tx, sc, id, fn); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CreateTags adds or replaces tags.
func (s *Service) CreateTags(ctx context.Context, in *awsec2.CreateTagsInput) (*awsec2.CreateTagsOutput, error) {
	if len(in.Tags) == 0 {
		return nil, ec2err.Missing("tagSet")
	}
	for _, t := range in.Tags {
		if key := aws.ToString(t.Key); tag.IsReservedKey(key) && !tag.MayReserve(ctx) {
			return nil, ec2err.ReservedKey(key)
		}
	}
	tags, err := tag.Parse(ctx, in.Tags)
	if err != nil {
		return nil, err
	}
	err = s.editTags(ctx, in.DryRun, in.Resources, func(have tag.Set) (tag.Set, error) {
		all := have.With(tags)
		return all, tag.CheckCount(all)
	})
	return &awsec2.CreateTagsOutput{}, err
}

// DeleteTags removes tags, or all tags if the request names none. A tag given with a value is
// removed only if it has that value.
func (s *Service) DeleteTags(ctx context.Context, in *awsec2.DeleteTagsInput) (*awsec2.DeleteTagsOutput, error) {
	err := s.editTags(ctx, in.DryRun, in.Resources, func(have tag.Set) (tag.Set, error) {
		left := have.With(nil)
		for k, v := range have {
			gone := len(in.Tags) == 0
			for _, tag := range in.Tags {
				gone = gone || aws.ToString(tag.Key) == k && (tag.Value == nil || *tag.Value == v)
			}
			if gone && (!strings.HasPrefix(k, "aws:") || tag.MayReserve(ctx)) {
				delete(left, k)
			}
		}
		return left, nil
	})
	return &awsec2.DeleteTagsOutput{}, err
}

// DescribeTags lists tags rather than resources.
func (s *Service) DescribeTags(ctx context.Context, in *awsec2.DescribeTagsInput) (*awsec2.DescribeTagsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type tagged = ec2types.TagDescription
	match, err := filter.Compile(in.Filters, filter.Fields[tagged]{
		"key":           filter.One(func(t tagged) string { return *t.Key }),
		"value":         func(t tagged) []string { return []string{*t.Value} },
		"resource-id":   filter.One(func(t tagged) string { return *t.ResourceId }),
		"resource-type": filter.One(func(t tagged) string { return string(t.ResourceType) }),
	}, func(t tagged) tag.Set { return tag.Set{*t.Key: *t.Value} })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	all := []tagged{} // clients expect a list even if it is empty
	for _, kind := range taggables() {
		resources := kind.List(s.Store, sc)
		for _, r := range resources {
			for k, v := range r.Tags {
				t := tagged{Key: aws.String(k), Value: aws.String(v), ResourceId: aws.String(r.ID), ResourceType: kind.Kind}
				if match(t) {
					all = append(all, t)
				}
			}
		}
	}
	id := func(t tagged) string { return *t.ResourceId + "\x00" + *t.Key }
	slices.SortFunc(all, func(a, b tagged) int { return strings.Compare(id(a), id(b)) })
	page, next, err := resource.Paginate(all, id, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribeTagsOutput{Tags: page, NextToken: next}, err
}
