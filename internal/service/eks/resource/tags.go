package resource

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/eks/addon"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// TagResource adds tags to a cluster or to something of it.
func (s *Service) TagResource(ctx context.Context, in *awseks.TagResourceInput) (*awseks.TagResourceOutput, error) {
	if len(in.Tags) == 0 {
		return nil, errBadTag("tags cannot be null or empty.")
	}
	err := s.updateTags(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		if why := base.BadTags(in.Tags); why != "" {
			return errBadTag("%s", why)
		}
		maps.Copy(tags, in.Tags)
		if len(tags) > 50 {
			return errBadTag("The number of tags can't exceed 50.")
		}
		return nil
	})
	return &awseks.TagResourceOutput{}, err
}

// UntagResource removes tags.
func (s *Service) UntagResource(ctx context.Context, in *awseks.UntagResourceInput) (*awseks.UntagResourceOutput, error) {
	if len(in.TagKeys) == 0 {
		return nil, errBadTag("tagKeys cannot be null or empty.")
	}
	err := s.updateTags(ctx, aws.ToString(in.ResourceArn), func(tags map[string]string) error {
		for _, k := range in.TagKeys {
			delete(tags, k)
		}
		return nil
	})
	return &awseks.UntagResourceOutput{}, err
}

// ListTagsForResource returns a resource's tags.
func (s *Service) ListTagsForResource(ctx context.Context, in *awseks.ListTagsForResourceInput) (*awseks.ListTagsForResourceOutput, error) {
	t, err := s.tagged(ctx, s.Store, aws.ToString(in.ResourceArn))
	if err != nil {
		return nil, err
	}
	out := &awseks.ListTagsForResourceOutput{Tags: map[string]string{}}
	switch t.kind {
	case "cluster":
		rec, _ := record.Clusters.Get(s.Store, t.key)
		maps.Copy(out.Tags, rec.Cluster.Tags)
	case "nodegroup":
		rec, _ := record.Nodegroups.Get(s.Store, t.key)
		maps.Copy(out.Tags, rec.Nodegroup.Tags)
	case "fargateprofile":
		rec, _ := record.FargateProfiles.Get(s.Store, t.key)
		maps.Copy(out.Tags, rec.Profile.Tags)
	case "access-entry":
		rec, _ := record.AccessEntries.Get(s.Store, t.key)
		maps.Copy(out.Tags, rec.Entry.Tags)
	case "addon":
		rec, _ := record.Addons.Get(s.Store, t.key)
		maps.Copy(out.Tags, rec.Addon.Tags)
	case "podidentityassociation":
		rec, _ := record.PodIdentities.Get(s.Store, t.key)
		maps.Copy(out.Tags, rec.Association.Tags)
	}
	return out, nil
}

func (s *Service) updateTags(ctx context.Context, resource string, change func(map[string]string) error) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		t, err := s.tagged(ctx, tx, resource)
		if err != nil {
			return err
		}
		apply := func(tags *map[string]string) error {
			if *tags == nil {
				*tags = map[string]string{}
			}
			return change(*tags)
		}
		switch t.kind {
		case "cluster":
			return record.Clusters.Update(tx, t.key, func(r *record.Cluster) error { return apply(&r.Cluster.Tags) })
		case "nodegroup":
			return record.Nodegroups.Update(tx, t.key, func(r *record.Nodegroup) error { return apply(&r.Nodegroup.Tags) })
		case "fargateprofile":
			return record.FargateProfiles.Update(tx, t.key, func(r *record.FargateProfile) error { return apply(&r.Profile.Tags) })
		case "addon":
			return record.Addons.Update(tx, t.key, func(r *record.Addon) error { return apply(&r.Addon.Tags) })
		case "podidentityassociation":
			return record.PodIdentities.Update(tx, t.key, func(r *record.PodIdentity) error { return apply(&r.Association.Tags) })
		default:
			return record.AccessEntries.Update(tx, t.key, func(r *record.AccessEntry) error { return apply(&r.Entry.Tags) })
		}
	})
}

type taggedResource struct {
	kind string
	key  store.Key
}

// tagged finds the resource with an ARN among the caller's.
func (s *Service) tagged(ctx context.Context, r store.Reader, resource string) (taggedResource, error) {
	call := awsapi.CallFrom(ctx)
	a, err := arn.Parse(resource)
	if err != nil || a.Service != "eks" {
		return taggedResource{}, errBadTag("Invalid resource ARN: %s", resource)
	}
	kind, rest, _ := strings.Cut(a.Resource, "/")
	cluster, _, _ := strings.Cut(rest, "/")
	key := store.Key{Account: a.Account, Region: a.Region, ID: cluster}
	if a.Account != call.Account || a.Region != call.Region || cluster == "" {
		return taggedResource{}, errNotFound(resource)
	}
	switch kind {
	case "cluster":
		_, err := record.Clusters.Get(r, key)
		if store.IgnoreNotFound(err) != nil {
			return taggedResource{}, err
		}
		if err == nil && rest == cluster {
			return taggedResource{kind, key}, nil
		}
	case "nodegroup":
		items, err := record.Nodegroups.List(r, record.AllBelow(key))
		if err != nil {
			return taggedResource{}, err
		}
		for _, i := range items {
			if *i.Value.Nodegroup.NodegroupArn == resource {
				return taggedResource{kind, i.Key}, nil
			}
		}
	case "fargateprofile":
		items, err := record.FargateProfiles.List(r, record.AllBelow(key))
		if err != nil {
			return taggedResource{}, err
		}
		for _, i := range items {
			if *i.Value.Profile.FargateProfileArn == resource {
				return taggedResource{kind, i.Key}, nil
			}
		}
	case "addon":
		key, _, err := addon.ByARN(r, a.Account, a.Region, resource)
		if !errors.Is(err, store.ErrNotFound) {
			return taggedResource{kind, key}, err
		}
	case "access-entry":
		items, err := record.AccessEntries.List(r, record.AllBelow(key))
		if err != nil {
			return taggedResource{}, err
		}
		for _, i := range items {
			if *i.Value.Entry.AccessEntryArn == resource {
				return taggedResource{kind, i.Key}, nil
			}
		}
	case "podidentityassociation":
		items, err := record.PodIdentities.List(r, record.AllBelow(key))
		if err != nil {
			return taggedResource{}, err
		}
		for _, i := range items {
			if *i.Value.Association.AssociationArn == resource {
				return taggedResource{kind, i.Key}, nil
			}
		}
	}
	return taggedResource{}, errNotFound(resource)
}
