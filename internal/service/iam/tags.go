package iam

import (
	"slices"
	"strings"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
)

const maxTags = 50

// tagRules are the tag rules for a kind of resource, named as in quotas. Keys that differ only in
// case are duplicates.
func tagRules(resource string) tagging.Rules {
	return tagging.Rules{
		Most: maxTags, Folds: true,
		Reserved: func(string) error { return invalidInput("Tag keys that start with aws: are reserved for AWS.") }, // no source
		Twice:    func(string) error { return duplicateTags() },
		TooMany:  func() error { return quotaExceeded("TagsPer"+resource, maxTags) },
	}
}

// newTags returns the record's tags for a create request.
func newTags(in []iamtypes.Tag) ([]tag, error) {
	var out []tag
	err := setTags(&out, in, "")
	return out, err
}

// setTags adds tags to a resource, replacing the values of existing keys.
func setTags(have *[]tag, in []iamtypes.Tag, resource string) error {
	var add []tag
	for _, t := range in {
		add = append(add, tag{*t.Key, *t.Value})
	}
	tags, err := tagging.Merge(tagRules(resource), *have, add, func(t tag) string { return t.Key })
	if err == nil {
		*have = tags
	}
	return err
}

func unsetTags(have *[]tag, keys []string) {
	*have = slices.DeleteFunc(*have, func(t tag) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, t.Key) })
	})
}

func outTags(tags []tag) []iamtypes.Tag {
	var out []iamtypes.Tag
	for _, t := range tags {
		out = append(out, iamtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// tagMap returns tags by key, or nil if there are none.
func tagMap(tags []tag) map[string]string {
	if len(tags) == 0 {
		return nil
	}
	out := make(map[string]string, len(tags))
	for _, t := range tags {
		out[t.Key] = t.Value
	}
	return out
}
