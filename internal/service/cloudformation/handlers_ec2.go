package cloudformation

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// tagSpecs returns the tags of an EC2 resource, including those that it is found by.
func (r *request) tagSpecs(kind ec2types.ResourceType) []ec2types.TagSpecification {
	spec := ec2types.TagSpecification{ResourceType: kind}
	for _, t := range append(r.tags(), r.systemTags()...) {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: &t.Key, Value: &t.Value})
	}
	return []ec2types.TagSpecification{spec}
}

// retag applies an update's tag changes to an EC2 resource.
func (r *request) retag(id string) error {
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		in := &awsec2.DeleteTagsInput{Resources: []string{id}}
		for _, k := range gone {
			in.Tags = append(in.Tags, ec2types.Tag{Key: &k})
		}
		if _, err := call[awsec2.DeleteTagsOutput](r, in); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	in := &awsec2.CreateTagsInput{Resources: []string{id}}
	for _, t := range set {
		in.Tags = append(in.Tags, ec2types.Tag{Key: &t.Key, Value: &t.Value})
	}
	_, err := call[awsec2.CreateTagsOutput](r, in)
	return err
}

// retagged updates EC2 resources for which only tags can change, or for which settle makes
// the other changes.
func retagged(r *request) error { return r.retag(r.id) }

// byTags returns a function that finds an EC2 resource of the stack by the tags that it was
// created with.
func byTags(kind string) func(*request) (string, error) {
	return func(r *request) (string, error) {
		ids, err := r.tagged(kind)
		for _, id := range ids {
			if !slices.Contains(r.others, id) {
				return id, err
			}
		}
		return "", err
	}
}

// tagged returns the IDs of EC2 resources that have the system tags of this resource.
func (r *request) tagged(kind string) ([]string, error) {
	var found [2][]string
	for i, t := range r.systemTags()[1:] {
		out, err := call[awsec2.DescribeTagsOutput](r, &awsec2.DescribeTagsInput{Filters: []ec2types.Filter{
			{Name: aws.String("key"), Values: []string{t.Key}}, {Name: aws.String("value"), Values: []string{t.Value}}, {Name: aws.String("resource-type"), Values: []string{kind}},
		}})
		if err != nil {
			return nil, err
		}
		for _, t := range out.Tags {
			found[i] = append(found[i], aws.ToString(t.ResourceId))
		}
	}
	return slices.DeleteFunc(found[0], func(id string) bool { return !slices.Contains(found[1], id) }), nil
}
