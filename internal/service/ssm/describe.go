package ssm

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/store"
)

// compile converts parameter filters to a predicate. It supports the given keys and, if "tag" is
// among them, tag:KEY.
func compile(filters []ssmtypes.ParameterStringFilter, keys ...string) (func(parameterRecord) bool, error) {
	type test func(parameterRecord) bool
	var tests []test
	seen := map[string]bool{}
	for _, f := range filters {
		key, option := aws.ToString(f.Key), aws.ToString(f.Option)
		tagKey, isTag := strings.CutPrefix(key, "tag:")
		if !slices.Contains(keys, key) && !(isTag && slices.Contains(keys, "tag")) {
			return nil, errFilterKey(key, keys)
		}
		if seen[key] {
			return nil, errFilterTwice(key)
		}
		seen[key] = true
		if len(f.Values) == 0 && !isTag {
			return nil, errFilterEmpty(key)
		}
		if key == "Path" {
			switch option {
			case "", "OneLevel", "Recursive":
			default:
				return nil, errFilterOption(option, "Recursive", "OneLevel")
			}
			tests = append(tests, func(p parameterRecord) bool {
				return slices.ContainsFunc(f.Values, func(path string) bool { return below(path, p.Name, option == "Recursive") })
			})
			continue
		}
		var get func(parameterRecord) (string, bool)
		switch {
		case key == "Name":
			get = func(p parameterRecord) (string, bool) { return p.Name, true }
		case key == "Type":
			get = func(p parameterRecord) (string, bool) { return p.Type, true }
		case key == "DataType":
			get = func(p parameterRecord) (string, bool) { return p.DataType, true }
		case key == "Tier":
			get = func(p parameterRecord) (string, bool) { return p.Tier, true }
		case isTag:
			get = func(p parameterRecord) (string, bool) { v, ok := p.Tags[tagKey]; return v, ok }
		case key == "KeyId":
			get = func(p parameterRecord) (string, bool) { k := keyOf(p); return aws.ToString(k), k != nil }
		}
		var compare func(have, want string) bool
		switch option {
		case "", "Equals":
			compare = func(have, want string) bool { return have == want }
		case "BeginsWith":
			compare = strings.HasPrefix
		case "Contains":
			compare = strings.Contains
		default:
			return nil, errFilterOption(option, "BeginsWith", "Equals")
		}
		tests = append(tests, func(p parameterRecord) bool {
			have, ok := get(p)
			return ok && (len(f.Values) == 0 || slices.ContainsFunc(f.Values, func(want string) bool { return compare(have, want) }))
		})
	}
	return func(p parameterRecord) bool {
		for _, t := range tests {
			if !t(p) {
				return false
			}
		}
		return true
	}, nil
}

// compileByPath is compile for GetParametersByPath, where a label selects the version to return.
func compileByPath(filters []ssmtypes.ParameterStringFilter) (match func(parameterRecord) bool, labels []string, err error) {
	var rest []ssmtypes.ParameterStringFilter
	for _, f := range filters {
		if aws.ToString(f.Key) != "Label" {
			rest = append(rest, f)
			continue
		}
		if labels != nil {
			return nil, nil, errFilterTwice("Label")
		}
		if len(f.Values) == 0 {
			return nil, nil, errFilterEmpty("Label")
		}
		if o := aws.ToString(f.Option); o != "" && o != "Equals" {
			return nil, nil, errFilterOption(o, "Equals")
		}
		labels = f.Values
	}
	match, err = compile(rest, "Type", "KeyId")
	return match, labels, err
}

// DescribeParameters lists an account's parameters without their values.
func (s *Service) DescribeParameters(ctx context.Context, in *awsssm.DescribeParametersInput) (*awsssm.DescribeParametersOutput, error) {
	sc := scopeOf(ctx)
	match, err := compile(in.ParameterFilters, "Path", "Name", "Type", "KeyId", "Tier", "DataType", "tag")
	if err != nil {
		return nil, err
	}
	// A request for paths or names below /aws lists public parameters.
	published := slices.ContainsFunc(in.ParameterFilters, func(f ssmtypes.ParameterStringFilter) bool {
		return slices.ContainsFunc(f.Values, func(v string) bool { return strings.HasPrefix(v, "/aws") })
	})
	var all []parameterRecord
	if !aws.ToBool(in.Shared) {
		all = s.all(sc, published)
	}
	var found []parameterRecord
	for _, p := range all {
		if match(p) {
			found = append(found, p)
		}
	}
	found, next, err := page(found, in.MaxResults, in.NextToken, 50)
	if err != nil {
		return nil, err
	}
	out := &awsssm.DescribeParametersOutput{NextToken: next, Parameters: []ssmtypes.ParameterMetadata{}}
	for _, p := range found {
		out.Parameters = append(out.Parameters, ssmtypes.ParameterMetadata{
			ARN: aws.String(sc.arn(p.Name)), Name: aws.String(p.Name), Type: ssmtypes.ParameterType(p.Type), Version: p.Version,
			LastModifiedDate: aws.Time(p.Modified), LastModifiedUser: optional(p.ModifiedBy), Description: optional(p.Description),
			AllowedPattern: optional(p.Pattern), DataType: aws.String(p.DataType), KeyId: keyOf(p), Tier: ssmtypes.ParameterTier(p.Tier), Policies: p.policies(s.clock.Now()),
		})
	}
	return out, nil
}

// maxTags is the maximum number of tags per parameter.
const maxTags = 50

var tagRules = tagging.Rules{Most: maxTags, Reserved: errTag, TooMany: errTooManyTags}

// addTags adds tags to those of a parameter.
func addTags(have map[string]string, tags []ssmtypes.Tag) (map[string]string, error) {
	return tagging.Put(tagRules, have, tags, func(t ssmtypes.Tag) (key, value *string) { return t.Key, t.Value })
}

// editTags changes the tags of the parameter, document or association in a tagging request.
func (s *Service) editTags(ctx context.Context, kind ssmtypes.ResourceTypeForTagging, id *string, fn func(map[string]string) (map[string]string, error)) error {
	edit := func(have *map[string]string) error {
		tags, err := fn(*have)
		if err == nil {
			*have = tags
		}
		return err
	}
	var err error
	switch key := scopeOf(ctx).Key(aws.ToString(id)); kind {
	case ssmtypes.ResourceTypeForTaggingParameter:
		err = parameters.UpdateOne(ctx, s.store, key, func(p *parameterRecord) error { return edit(&p.Tags) })
	case ssmtypes.ResourceTypeForTaggingDocument:
		err = documents.UpdateOne(ctx, s.store, key, func(d *documentRecord) error { return edit(&d.Tags) })
	case ssmtypes.ResourceTypeForTaggingAssociation:
		err = associations.UpdateOne(ctx, s.store, key, func(a *associationRecord) error { return edit(&a.Tags) })
	default:
		return &ssmtypes.InvalidResourceType{Message: aws.String("The resource type is not valid: " + string(kind))}
	}
	if errors.Is(err, store.ErrNotFound) {
		return errResourceID()
	}
	return err
}

// AddTagsToResource adds or replaces tags of a parameter, document or association.
func (s *Service) AddTagsToResource(ctx context.Context, in *awsssm.AddTagsToResourceInput) (*awsssm.AddTagsToResourceOutput, error) {
	err := s.editTags(ctx, in.ResourceType, in.ResourceId, func(have map[string]string) (map[string]string, error) {
		return addTags(have, in.Tags)
	})
	return &awsssm.AddTagsToResourceOutput{}, err
}

// RemoveTagsFromResource removes tags of a parameter, document or association.
func (s *Service) RemoveTagsFromResource(ctx context.Context, in *awsssm.RemoveTagsFromResourceInput) (*awsssm.RemoveTagsFromResourceOutput, error) {
	err := s.editTags(ctx, in.ResourceType, in.ResourceId, func(have map[string]string) (map[string]string, error) {
		left := maps.Clone(have)
		for _, k := range in.TagKeys {
			delete(left, k)
		}
		return left, nil
	})
	return &awsssm.RemoveTagsFromResourceOutput{}, err
}

// ListTagsForResource lists the tags of a parameter, document or association, sorted by key.
func (s *Service) ListTagsForResource(ctx context.Context, in *awsssm.ListTagsForResourceInput) (*awsssm.ListTagsForResourceOutput, error) {
	var tags map[string]string
	var err error
	switch key := scopeOf(ctx).Key(aws.ToString(in.ResourceId)); in.ResourceType {
	case ssmtypes.ResourceTypeForTaggingParameter:
		var p parameterRecord
		p, err = s.parameter(s.store, key)
		tags = p.Tags
	case ssmtypes.ResourceTypeForTaggingDocument:
		var d documentRecord
		d, err = documents.Get(s.store, key)
		tags = d.Tags
	case ssmtypes.ResourceTypeForTaggingAssociation:
		var a associationRecord
		a, err = associations.Get(s.store, key)
		tags = a.Tags
	default:
		return nil, &ssmtypes.InvalidResourceType{Message: aws.String("The resource type is not valid: " + string(in.ResourceType))}
	}
	if errors.Is(err, store.ErrNotFound) {
		return nil, errResourceID()
	}
	if err != nil {
		return nil, err
	}
	return &awsssm.ListTagsForResourceOutput{
		TagList: tagging.List(tags, func(k, v *string) ssmtypes.Tag { return ssmtypes.Tag{Key: k, Value: v} }),
	}, nil
}
