package cloudformation

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// tagSpecs are the tags of an EC2 resource, with those by which it is found again.
func (r *request) tagSpecs(kind ec2types.ResourceType) []ec2types.TagSpecification {
	spec := ec2types.TagSpecification{ResourceType: kind}
	for _, t := range append(r.tags(), r.systemTags()...) {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: &t.Key, Value: &t.Value})
	}
	return []ec2types.TagSpecification{spec}
}

// retag gives an EC2 resource the tags that changed.
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

// retagged is the update of EC2 resources of which nothing but tags can change, or settle
// does the rest.
func retagged(r *request) error { return r.retag(r.id) }

// byTags finds an EC2 resource of the stack by the tags that it was made with.
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

// tagged are the EC2 resources that have the tags of the resource.
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
