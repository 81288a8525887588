package ec2

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// Tags are a resource's tags.
type Tags map[string]string

const maxTags = 50 // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions

func (t Tags) keys() []string {
	out := make([]string, 0, len(t))
	for k := range t {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

func (t Tags) values() []string { return slices.Collect(maps.Values(t)) }

// sdk returns the tags sorted by key.
func (t Tags) sdk() []ec2types.Tag {
	if len(t) == 0 {
		return nil
	}
	out := make([]ec2types.Tag, 0, len(t))
	for k, v := range t {
		out = append(out, ec2types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	slices.SortFunc(out, func(a, b ec2types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	return out
}

// with returns t changed by more; neither is touched.
func (t Tags) with(more Tags) Tags {
	if len(t)+len(more) == 0 {
		return nil
	}
	out := make(Tags, len(t)+len(more))
	for k, v := range t {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// mayReserve reports whether the caller may write aws: tags: AWS's services may.
func mayReserve(ctx context.Context) bool {
	return awsapi.CallFrom(ctx).Principal.Type == awsapi.AWSService
}

func isReservedKey(key string) bool { return strings.HasPrefix(strings.ToLower(key), "aws:") }

// parseTags checks the tags of a request.
func parseTags(ctx context.Context, in []ec2types.Tag) (Tags, error) {
	out := make(Tags, len(in))
	for _, tag := range in {
		key, value := aws.ToString(tag.Key), aws.ToString(tag.Value)
		switch {
		case key == "":
			return nil, errInvalidParameter("Tag key cannot be null or empty.")
		case isReservedKey(key) && !mayReserve(ctx):
			return nil, errReservedTag()
		case utf8.RuneCountInString(key) > 128:
			return nil, errInvalidParameter("Tag key exceeds the maximum length of 128 characters")
		case utf8.RuneCountInString(value) > 256:
			return nil, errInvalidParameter("Tag value exceeds the maximum length of 256 characters")
		}
		if _, dup := out[key]; dup {
			return nil, errInvalidParameter("Duplicate tag key '%s' specified.", key)
		}
		out[key] = value
	}
	return out, checkTagCount(out)
}

func checkTagCount(t Tags) error {
	n := 0
	for k := range t {
		if !strings.HasPrefix(k, "aws:") {
			n++
		}
	}
	if n > maxTags {
		return errTagLimit()
	}
	return nil
}

// specifiedTags returns the tags a request's TagSpecifications have for kind,
// which must be one of allowed; others are refused.
func specifiedTags(ctx context.Context, specs []ec2types.TagSpecification, kind ec2types.ResourceType, allowed ...ec2types.ResourceType) (Tags, error) {
	var tags []ec2types.Tag
	for _, spec := range specs {
		switch {
		case spec.ResourceType == "":
			return nil, errInvalidParameter("Tag specification resource type must have a value")
		case len(spec.Tags) == 0:
			return nil, errInvalidParameter("Tag specification must have at least one tag")
		case spec.ResourceType == kind:
			tags = append(tags, spec.Tags...)
		case !slices.Contains(allowed, spec.ResourceType):
			return nil, errTagResourceType(string(spec.ResourceType))
		}
	}
	return parseTags(ctx, tags)
}

// A taggable is a kind of resource that has tags.
type taggable struct {
	id   idKind
	kind ec2types.ResourceType
	edit func(tx *store.Tx, sc scope, id string, fn func(Tags) (Tags, error)) error
	list func(r store.Reader, sc scope) ([]taggedResource, error)
}

type taggedResource struct {
	id   string
	tags Tags
}

func tagsOf[T any](kind ec2types.ResourceType, id idKind, c store.Collection[T], of func(*T) (string, *Tags)) taggable {
	return taggable{
		id: id, kind: kind,
		edit: func(tx *store.Tx, sc scope, rid string, fn func(Tags) (Tags, error)) error {
			err := c.Update(tx, sc.key(rid), func(v *T) error {
				_, tags := of(v)
				changed, err := fn(*tags)
				*tags = changed
				return err
			})
			if notFound(err) {
				return id.notFound(rid)
			}
			return err
		},
		list: func(r store.Reader, sc scope) ([]taggedResource, error) {
			items, err := c.List(r, sc.all())
			out := make([]taggedResource, 0, len(items))
			for i := range items {
				id, tags := of(&items[i].Value)
				if len(*tags) > 0 {
					out = append(out, taggedResource{id, *tags})
				}
			}
			return out, err
		},
	}
}

func kindTags[T any](kind ec2types.ResourceType, k kindOf[T]) taggable {
	return tagsOf(kind, k.id, k.records, k.of)
}

// taggables lists every kind of resource with tags.
func taggables() []taggable {
	return []taggable{
		tagsOf(ec2types.ResourceTypeNetworkInsightsPath, insightsPathID, insightsPaths, func(v *insightsPathRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeNetworkInsightsAnalysis, insightsAnalysisID, insightsAnalyses, func(v *insightsAnalysisRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeVpc, vpcID, vpcs, func(v *vpcRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeSubnet, subnetID, subnets, func(v *subnetRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeInternetGateway, internetGatewayID, internetGateways, func(v *internetGatewayRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeRouteTable, routeTableID, routeTables, func(v *routeTableRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeNetworkAcl, networkACLID, networkACLs, func(v *networkACLRecord) (string, *Tags) { return v.ID, &v.Tags }),
		kindTags(ec2types.ResourceTypeDhcpOptions, dhcpKind()),
		kindTags(ec2types.ResourceTypeElasticIp, addressKind()),
		kindTags(ec2types.ResourceTypeNatgateway, natGatewayKind()),
		kindTags(ec2types.ResourceTypeEgressOnlyInternetGateway, egressGatewayKind()),
		kindTags(ec2types.ResourceTypeVpcPeeringConnection, peeringKind()),
		kindTags(ec2types.ResourceTypeVpcEndpoint, vpcEndpointKind()),
		kindTags(ec2types.ResourceTypeInstanceConnectEndpoint, connectEndpointKind()),
		kindTags(ec2types.ResourceTypePrefixList, kindOf[prefixListRecord]{prefixLists, prefixListID, func(p *prefixListRecord) (string, *Tags) { return p.ID, &p.Tags }}),
		kindTags(ec2types.ResourceTypeVpcFlowLog, flowLogKind()),
		tagsOf(ec2types.ResourceTypeSecurityGroup, securityGroupID, securityGroups, func(v *securityGroupRecord) (string, *Tags) { return v.ID, &v.Tags }),
		securityGroupRuleTags(),
		tagsOf(ec2types.ResourceTypeNetworkInterface, networkInterfaceID, networkInterfaces, func(v *networkInterfaceRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeInstance, instanceID, instances, func(v *instanceRecord) (string, *Tags) { return v.ID, &v.Tags }),
		keyPairTags(),
		tagsOf(ec2types.ResourceTypeLaunchTemplate, launchTemplateID, launchTemplates, func(v *launchTemplateRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeVolume, volumeID, volumes, func(v *volumeRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeSpotInstancesRequest, spotRequestID, spotRequests, func(v *spotRequestRecord) (string, *Tags) { return v.ID, &v.Tags }),
		tagsOf(ec2types.ResourceTypeFleet, fleetID, fleets, func(v *fleetRecord) (string, *Tags) { return v.ID, &v.Tags }),
	}
}

func findTaggable(id string) (taggable, error) {
	prefix, _, _ := strings.Cut(id, "-")
	for _, t := range taggables() {
		if t.id.prefix == prefix {
			return t, t.id.check(id)
		}
	}
	return taggable{}, errInvalidID(id)
}

// editTags changes the tags of resources, some dozens per transaction.
func (s *Service) editTags(ctx context.Context, dryRun *bool, ids []string, fn func(Tags) (Tags, error)) error {
	sc, err := s.scope(ctx)
	if err != nil {
		return err
	}
	switch {
	case len(ids) == 0:
		return errMissing("resourceIdSet")
	case len(ids) > 1000:
		return errf("InvalidParameterValue", "The maximum number of resources in one call is 1000.")
	}
	for chunk := range slices.Chunk(sortedUnique(ids), 50) {
		err := s.update(ctx, dryRun, func(tx *store.Tx) error {
			for _, id := range chunk {
				t, err := findTaggable(id)
				if err != nil {
					return err
				}
				if err := t.edit(tx, sc, id, fn); err != nil {
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
		return nil, errMissing("tagSet")
	}
	for _, t := range in.Tags {
		if key := aws.ToString(t.Key); isReservedKey(key) && !mayReserve(ctx) {
			return nil, errReservedKey(key)
		}
	}
	tags, err := parseTags(ctx, in.Tags)
	if err != nil {
		return nil, err
	}
	err = s.editTags(ctx, in.DryRun, in.Resources, func(have Tags) (Tags, error) {
		all := have.with(tags)
		return all, checkTagCount(all)
	})
	return &awsec2.CreateTagsOutput{}, err
}

// DeleteTags removes tags: all of them if none are named; one named with a value
// only if it has that value.
func (s *Service) DeleteTags(ctx context.Context, in *awsec2.DeleteTagsInput) (*awsec2.DeleteTagsOutput, error) {
	err := s.editTags(ctx, in.DryRun, in.Resources, func(have Tags) (Tags, error) {
		left := have.with(nil)
		for k, v := range have {
			gone := len(in.Tags) == 0
			for _, tag := range in.Tags {
				gone = gone || aws.ToString(tag.Key) == k && (tag.Value == nil || *tag.Value == v)
			}
			if gone && (!strings.HasPrefix(k, "aws:") || mayReserve(ctx)) {
				delete(left, k)
			}
		}
		return left, nil
	})
	return &awsec2.DeleteTagsOutput{}, err
}

// DescribeTags lists tags, not resources.
func (s *Service) DescribeTags(ctx context.Context, in *awsec2.DescribeTagsInput) (*awsec2.DescribeTagsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type tag = ec2types.TagDescription
	match, err := compileFilters(in.Filters, fields[tag]{
		"key":           one(func(t tag) string { return *t.Key }),
		"value":         func(t tag) []string { return []string{*t.Value} },
		"resource-id":   one(func(t tag) string { return *t.ResourceId }),
		"resource-type": one(func(t tag) string { return string(t.ResourceType) }),
	}, func(t tag) Tags { return Tags{*t.Key: *t.Value} })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	all := []tag{} // clients see a list, be it empty
	for _, kind := range taggables() {
		resources, err := kind.list(s.store, sc)
		if err != nil {
			return nil, err
		}
		for _, r := range resources {
			for k, v := range r.tags {
				t := tag{Key: aws.String(k), Value: aws.String(v), ResourceId: aws.String(r.id), ResourceType: kind.kind}
				if match(t) {
					all = append(all, t)
				}
			}
		}
	}
	id := func(t tag) string { return *t.ResourceId + "\x00" + *t.Key }
	slices.SortFunc(all, func(a, b tag) int { return strings.Compare(id(a), id(b)) })
	page, next, err := paginate(all, id, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeTagsOutput{Tags: page, NextToken: next}, err
}

func isCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}

func sortedUnique(ids []string) []string {
	out := slices.Clone(ids)
	slices.Sort(out)
	return slices.Compact(out)
}
