package elbv2

import (
	"context"
	"maps"
	"strings"

	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	maxTags      = 50
	maxResources = 20
)

type tags map[string]string

var tagRules = tagging.Rules{Most: maxTags, Reserved: errTagKey, Twice: errTagTwice, TooMany: errTooManyTags}

// newTags validates the tags in a request.
func newTags(in []elbv2types.Tag) (tags, error) {
	return tagging.Put(tagRules, tags{}, in, func(t elbv2types.Tag) (key, value *string) { return t.Key, t.Value })
}

func (t tags) sdk() []elbv2types.Tag {
	return tagging.List(t, func(k, v *string) elbv2types.Tag { return elbv2types.Tag{Key: k, Value: v} })
}

// with returns the tags with others added or replaced.
func (t tags) with(more tags) (tags, error) {
	out := tags{}
	maps.Copy(out, t)
	maps.Copy(out, more)
	if len(out) > maxTags {
		return nil, errTooManyTags()
	}
	return out, nil
}

// tagged calls fn with the tags of the resource with an ARN, of any kind, and stores the result
// unless tx is nil.
func tagged(r store.Reader, tx *store.Tx, sc scope, a string, fn func(tags) (tags, error)) error {
	p := strings.SplitN(a, ":", 6)
	if len(p) < 6 {
		return errARN(a, "load balancing")
	}
	kind, _, _ := strings.Cut(p[5], "/")
	switch kind {
	case loadBalancerKind.resource:
		return loadBalancerKind.retag(r, tx, sc, &a, fn)
	case targetGroupKind.resource:
		return targetGroupKind.retag(r, tx, sc, &a, fn)
	case listenerKind.resource:
		return listenerKind.retag(r, tx, sc, &a, fn)
	case ruleKind.resource:
		if l, key, ok := listenerOfDefaultRule(r, sc, &a); ok {
			return retagRecord(tx, listeners, key, &l, &l.DefaultRuleTags, fn)
		}
		return ruleKind.retag(r, tx, sc, &a, fn)
	}
	return errARN(a, "load balancing")
}

// AddTags adds or replaces tags of resources.
func (s *Service) AddTags(ctx context.Context, in *awselbv2.AddTagsInput) (*awselbv2.AddTagsOutput, error) {
	more, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	return &awselbv2.AddTagsOutput{}, s.retag(ctx, in.ResourceArns, func(t tags) (tags, error) { return t.with(more) })
}

// RemoveTags removes tags from resources.
func (s *Service) RemoveTags(ctx context.Context, in *awselbv2.RemoveTagsInput) (*awselbv2.RemoveTagsOutput, error) {
	return &awselbv2.RemoveTagsOutput{}, s.retag(ctx, in.ResourceArns, func(t tags) (tags, error) {
		t = maps.Clone(t)
		for _, k := range in.TagKeys {
			delete(t, k)
		}
		return t, nil
	})
}

func (s *Service) retag(ctx context.Context, arns []string, fn func(tags) (tags, error)) error {
	if len(arns) > maxResources {
		return errTooManyResources()
	}
	sc := scopeOf(ctx)
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		for _, a := range arns {
			if err := tagged(tx, tx, sc, a, fn); err != nil {
				return err
			}
		}
		return nil
	})
}

// DescribeTags lists the tags of resources.
func (s *Service) DescribeTags(ctx context.Context, in *awselbv2.DescribeTagsInput) (*awselbv2.DescribeTagsOutput, error) {
	if len(in.ResourceArns) > maxResources {
		return nil, errTooManyResources()
	}
	out := &awselbv2.DescribeTagsOutput{TagDescriptions: []elbv2types.TagDescription{}}
	for _, a := range in.ResourceArns {
		err := tagged(s.Store, nil, scopeOf(ctx), a, func(t tags) (tags, error) {
			out.TagDescriptions = append(out.TagDescriptions, elbv2types.TagDescription{ResourceArn: &a, Tags: t.sdk()})
			return t, nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
