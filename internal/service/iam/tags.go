package iam

import (
	"slices"
	"strings"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
)

const maxTags = 50

// newTags turns the tags of a create request into the record's; two keys that
// differ in case only are duplicates.
func newTags(in []iamtypes.Tag) ([]tag, error) {
	var out []tag
	for _, t := range in {
		switch {
		case tagging.IsReserved(*t.Key):
			return nil, invalidInput("Tag keys that start with aws: are reserved for AWS.") // no source
		case findTag(out, *t.Key) >= 0:
			return nil, duplicateTags()
		}
		out = append(out, tag{*t.Key, *t.Value})
	}
	return out, nil
}

// setTags adds tags to those of a resource, replacing the values of keys it has.
func setTags(have *[]tag, in []iamtypes.Tag, resource string) error {
	add, err := newTags(in)
	if err != nil {
		return err
	}
	for _, t := range add {
		if i := findTag(*have, t.Key); i >= 0 {
			(*have)[i] = t
		} else {
			*have = append(*have, t)
		}
	}
	if len(*have) > maxTags {
		return quotaExceeded("TagsPer"+resource, maxTags)
	}
	return nil
}

func unsetTags(have *[]tag, keys []string) {
	*have = slices.DeleteFunc(*have, func(t tag) bool {
		return slices.ContainsFunc(keys, func(k string) bool { return strings.EqualFold(k, t.Key) })
	})
}

func findTag(tags []tag, key string) int {
	return slices.IndexFunc(tags, func(t tag) bool { return strings.EqualFold(t.Key, key) })
}

func outTags(tags []tag) []iamtypes.Tag {
	var out []iamtypes.Tag
	for _, t := range tags {
		out = append(out, iamtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// tagMap returns tags by key, nil if there are none.
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
