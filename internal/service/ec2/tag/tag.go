package tag

import (
	"context"
	"maps"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
)

// A Set is a resource's tags.
type Set map[string]string

const maxTags = 50 // https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html#tag-restrictions

// Keys returns the keys, sorted.
func (t Set) Keys() []string {
	out := make([]string, 0, len(t))
	for k := range t {
		out = append(out, k)
	}
	sort.Strings(out)
	return out
}

// Values returns the values in any order.
func (t Set) Values() []string { return slices.Collect(maps.Values(t)) }

// SDK returns the tags sorted by key.
func (t Set) SDK() []ec2types.Tag {
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

// Listed is SDK for resources whose answers have an empty list if there are no tags.
// [recorded] LocalStack's tests/aws/services/ec2/test_ec2.snapshot.json
func (t Set) Listed() []ec2types.Tag {
	if len(t) == 0 {
		return []ec2types.Tag{}
	}
	return t.SDK()
}

// With returns a copy of t with the tags in more added or replaced.
func (t Set) With(more Set) Set {
	if len(t)+len(more) == 0 {
		return nil
	}
	out := make(Set, len(t)+len(more))
	for k, v := range t {
		out[k] = v
	}
	for k, v := range more {
		out[k] = v
	}
	return out
}

// MayReserve reports whether the caller may write aws: tags: AWS's services may, and
// CloudFormation also when it calls for a user, whose own aws: tags it has refused.
func MayReserve(ctx context.Context) bool {
	call := awsapi.CallFrom(ctx)
	return call.Principal.Type == awsapi.AWSService || call.By() == "cloudformation.amazonaws.com"
}

// IsReservedKey reports whether a tag key is reserved for AWS.
func IsReservedKey(key string) bool { return strings.HasPrefix(strings.ToLower(key), "aws:") }

// Parse validates the tags in a request.
func Parse(ctx context.Context, in []ec2types.Tag) (Set, error) {
	out := make(Set, len(in))
	for _, tag := range in {
		key, value := aws.ToString(tag.Key), aws.ToString(tag.Value)
		switch {
		case key == "":
			return nil, ec2err.InvalidParameterValue("Tag key cannot be null or empty.")
		case IsReservedKey(key) && !MayReserve(ctx):
			return nil, ec2err.ReservedTag()
		case utf8.RuneCountInString(key) > 128:
			return nil, ec2err.InvalidParameterValue("Tag key exceeds the maximum length of 128 characters")
		case utf8.RuneCountInString(value) > 256:
			return nil, ec2err.InvalidParameterValue("Tag value exceeds the maximum length of 256 characters")
		}
		if _, dup := out[key]; dup {
			return nil, ec2err.InvalidParameterValue("Duplicate tag key '%s' specified.", key)
		}
		out[key] = value
	}
	return out, CheckCount(out)
}

// CheckCount returns an error if a resource would have too many tags. aws: tags do not count.
func CheckCount(t Set) error {
	n := 0
	for k := range t {
		if !strings.HasPrefix(k, "aws:") {
			n++
		}
	}
	if n > maxTags {
		return ec2err.TagLimit()
	}
	return nil
}

// Specified returns the tags for kind in a request's TagSpecifications. Kinds other than those in
// allowed are an error.
func Specified(ctx context.Context, specs []ec2types.TagSpecification, kind ec2types.ResourceType, allowed ...ec2types.ResourceType) (Set, error) {
	var tags []ec2types.Tag
	for _, spec := range specs {
		switch {
		case spec.ResourceType == "":
			return nil, ec2err.InvalidParameterValue("Tag specification resource type must have a value")
		case len(spec.Tags) == 0:
			return nil, ec2err.InvalidParameterValue("Tag specification must have at least one tag")
		case spec.ResourceType == kind:
			tags = append(tags, spec.Tags...)
		case !slices.Contains(allowed, spec.ResourceType):
			return nil, ec2err.TagResourceType(string(spec.ResourceType))
		}
	}
	return Parse(ctx, tags)
}
