package autoscaling

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	maxTags      = 50
	tagsResource = "auto-scaling-group"
)

// newTags returns the tags of a new group.
func newTags(ctx context.Context, group string, in []autoscalingtypes.Tag) ([]autoscalingtypes.TagDescription, error) {
	var system []autoscalingtypes.TagDescription
	own := slices.DeleteFunc(slices.Clone(in), func(t autoscalingtypes.Tag) bool {
		if !tagging.MayReserve(ctx, aws.ToString(t.Key)) {
			return false
		}
		system = append(system, describeTag(group, t))
		return true
	})
	if err := checkTags(own); err != nil {
		return nil, err
	}
	return putTags(group, system, own)
}

func describeTag(group string, t autoscalingtypes.Tag) autoscalingtypes.TagDescription {
	return autoscalingtypes.TagDescription{
		Key: aws.String(aws.ToString(t.Key)), Value: aws.String(aws.ToString(t.Value)), PropagateAtLaunch: aws.Bool(aws.ToBool(t.PropagateAtLaunch)),
		ResourceId: &group, ResourceType: aws.String(tagsResource),
	}
}

func checkTags(in []autoscalingtypes.Tag) error {
	for _, t := range in {
		switch key := aws.ToString(t.Key); {
		case tagging.IsReserved(key):
			return errTagKey(key)
		case t.ResourceType != nil && *t.ResourceType != tagsResource:
			return errTagResource(*t.ResourceType)
		}
	}
	return nil
}

// putTags adds or replaces tags. It does not affect running instances: tags propagate at launch.
func putTags(group string, old []autoscalingtypes.TagDescription, in []autoscalingtypes.Tag) ([]autoscalingtypes.TagDescription, error) {
	more := make([]autoscalingtypes.TagDescription, 0, len(in))
	for _, t := range in {
		more = append(more, describeTag(group, t))
	}
	out, err := tagging.Merge(tagging.Rules{Most: maxTags, Reserved: errTagKey, TooMany: func() error {
		return errLimit("The number of tags exceeds the limit of %d for resource %s", maxTags, group) // from memory
	}}, old, more, func(t autoscalingtypes.TagDescription) string { return *t.Key })
	if out == nil {
		out = []autoscalingtypes.TagDescription{}
	}
	slices.SortFunc(out, func(a, b autoscalingtypes.TagDescription) int { return cmp.Compare(*a.Key, *b.Key) })
	return out, err
}

// byGroup groups tags by the name of their group.
func byGroup(tags []autoscalingtypes.Tag) (map[string][]autoscalingtypes.Tag, error) {
	out := map[string][]autoscalingtypes.Tag{}
	for _, t := range tags {
		if t.ResourceType != nil && *t.ResourceType != tagsResource {
			return nil, errTagResource(*t.ResourceType)
		}
		out[aws.ToString(t.ResourceId)] = append(out[aws.ToString(t.ResourceId)], t)
	}
	if len(out) > maxTags {
		return nil, errLimit("Too many groups are named in one request.") // from memory
	}
	return out, nil
}

// CreateOrUpdateTags changes the tags of groups: all or none.
func (s *Service) CreateOrUpdateTags(ctx context.Context, in *awsautoscaling.CreateOrUpdateTagsInput) (*awsautoscaling.CreateOrUpdateTagsOutput, error) {
	incomplete := slices.DeleteFunc(slices.Clone(in.Tags), func(t autoscalingtypes.Tag) bool {
		return t.Key != nil && t.ResourceId != nil && t.ResourceType != nil
	})
	if len(incomplete) > 0 {
		return nil, errIncompleteTags(incomplete)
	}
	if err := checkTags(in.Tags); err != nil {
		return nil, err
	}
	return &awsautoscaling.CreateOrUpdateTagsOutput{}, s.changeTags(ctx, in.Tags, putTags)
}

// DeleteTags deletes tags. A tag with a value is deleted only if it has that value.
func (s *Service) DeleteTags(ctx context.Context, in *awsautoscaling.DeleteTagsInput) (*awsautoscaling.DeleteTagsOutput, error) {
	return &awsautoscaling.DeleteTagsOutput{}, s.changeTags(ctx, in.Tags, func(_ string, old []autoscalingtypes.TagDescription, in []autoscalingtypes.Tag) ([]autoscalingtypes.TagDescription, error) {
		return slices.DeleteFunc(slices.Clone(old), func(o autoscalingtypes.TagDescription) bool {
			return slices.ContainsFunc(in, func(t autoscalingtypes.Tag) bool {
				return aws.ToString(t.Key) == *o.Key && (t.Value == nil || *t.Value == "" || *t.Value == *o.Value)
			})
		}), nil
	})
}

func (s *Service) changeTags(ctx context.Context, tags []autoscalingtypes.Tag, fn func(string, []autoscalingtypes.TagDescription, []autoscalingtypes.Tag) ([]autoscalingtypes.TagDescription, error)) error {
	sc := scopeOf(ctx)
	sorted, err := byGroup(tags)
	if err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		for _, name := range sortedKeys(sorted) {
			if name == "" {
				return errValidation("1 validation error detected: Value null at 'tags.resourceId' failed to satisfy constraint: Member must not be null") // CreateAutoScalingGroup's tags need no group, so this is not in the constraints
			}
			err := groups.Update(tx, sc.group(name), func(g *groupRecord) error {
				changed, err := fn(name, g.Group.Tags, sorted[name])
				g.Group.Tags = changed
				return err
			})
			if store.IsNotFound(err) {
				return errValidation("AutoScalingGroup not found - AutoScaling Group %s not found", name)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// DescribeTags lists the tags of groups.
func (s *Service) DescribeTags(ctx context.Context, in *awsautoscaling.DescribeTagsInput) (*awsautoscaling.DescribeTagsOutput, error) {
	for _, f := range in.Filters {
		if !slices.Contains([]string{"auto-scaling-group", "key", "value", "propagate-at-launch"}, aws.ToString(f.Name)) {
			return nil, errFilter(aws.ToString(f.Name))
		}
	}
	all := groups.All(s.store, scopeOf(ctx).All())
	found := []autoscalingtypes.TagDescription{}
	for _, g := range all {
		for _, t := range g.Value.Group.Tags {
			of := map[string]string{"auto-scaling-group": *t.ResourceId, "key": *t.Key, "value": *t.Value, "propagate-at-launch": fmt.Sprint(*t.PropagateAtLaunch)}
			if !slices.ContainsFunc(in.Filters, func(f autoscalingtypes.Filter) bool { return !slices.Contains(f.Values, of[*f.Name]) }) {
				found = append(found, t)
			}
		}
	}
	id := func(t autoscalingtypes.TagDescription) string { return *t.ResourceId + "\n" + *t.Key }
	slices.SortFunc(found, func(a, b autoscalingtypes.TagDescription) int { return cmp.Compare(id(a), id(b)) })
	found, next, err := paging.Cut(pages(50, 100), found, id, in.MaxRecords, in.NextToken)
	return &awsautoscaling.DescribeTagsOutput{Tags: found, NextToken: next}, err
}

// groupFilters are the filters of DescribeAutoScalingGroups: tag-key, tag-value and tag:KEY.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_Filter.html
func groupFilters(filters []autoscalingtypes.Filter) (func([]autoscalingtypes.TagDescription) bool, error) {
	for _, f := range filters {
		n := aws.ToString(f.Name)
		if n != "tag-key" && n != "tag-value" && !strings.HasPrefix(n, "tag:") {
			return nil, errGroupFilter(n)
		}
	}
	return func(tags []autoscalingtypes.TagDescription) bool {
		for _, f := range filters {
			if !slices.ContainsFunc(tags, func(t autoscalingtypes.TagDescription) bool {
				switch n := *f.Name; n {
				case "tag-key":
					return slices.Contains(f.Values, *t.Key)
				case "tag-value":
					return slices.Contains(f.Values, *t.Value)
				default:
					return n == "tag:"+*t.Key && slices.Contains(f.Values, *t.Value)
				}
			}) {
				return false
			}
		}
		return true
	}, nil
}
