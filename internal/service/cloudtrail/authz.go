package cloudtrail

import (
	"context"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudtrail "github.com/aws/aws-sdk-go-v2/service/cloudtrail"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// Authz provides package authz with the ARNs and tags of trails.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. A trail is identified by its name or ARN, whether it exists or not.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if kind != "trail" || id == "" {
		return authz.Resource{}, false
	}
	key := keyOf(regional.At(account, region), id)
	t, _ := trails.Get(r.s.store, key) // no tags if it does not exist
	return authz.Resource{ARN: trailARN(key), Tags: t.Tags}, true
}

// Targets implements authz.Targeter.
func (r resolver) Targets(_ context.Context, _ *awsapi.Call, in any) ([]authz.Target, bool) {
	t := authz.Target{Type: "trail"}
	switch in := in.(type) {
	case *awscloudtrail.CreateTrailInput:
		t.ID, t.New, t.Tags = aws.ToString(in.Name), true, map[string]string{}
		for _, tag := range in.TagsList {
			t.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
			t.TagKeys = append(t.TagKeys, aws.ToString(tag.Key))
		}
		return []authz.Target{t}, true
	case *awscloudtrail.AddTagsInput:
		t.ID, t.Tags = aws.ToString(in.ResourceId), map[string]string{}
		for _, tag := range in.TagsList {
			t.Tags[aws.ToString(tag.Key)] = aws.ToString(tag.Value)
			t.TagKeys = append(t.TagKeys, aws.ToString(tag.Key))
		}
		return []authz.Target{t}, true
	case *awscloudtrail.RemoveTagsInput:
		t.ID = aws.ToString(in.ResourceId)
		for _, tag := range in.TagsList {
			t.TagKeys = append(t.TagKeys, aws.ToString(tag.Key))
		}
		return []authz.Target{t}, true
	case *awscloudtrail.ListTagsInput:
		var all []authz.Target
		for _, id := range in.ResourceIdList {
			all = append(all, authz.Target{Type: "trail", ID: id})
		}
		return all, true
	case *awscloudtrail.LookupEventsInput, *awscloudtrail.DescribeTrailsInput, *awscloudtrail.ListTrailsInput:
		return nil, false
	}
	for _, member := range []string{"Name", "TrailName"} {
		if f := reflect.ValueOf(in).Elem().FieldByName(member); f.IsValid() {
			t.ID = aws.ToString(f.Interface().(*string))
			return []authz.Target{t}, true
		}
	}
	return nil, false
}
