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

// byTags finds an EC2 resource of the stack by the tags that it was made with.
func byTags(kind string) func(*request) (string, error) {
	return func(r *request) (string, error) {
		var found [2][]string
		for i, t := range r.systemTags()[1:] {
			out, err := call[awsec2.DescribeTagsOutput](r, &awsec2.DescribeTagsInput{Filters: []ec2types.Filter{
				{Name: aws.String("key"), Values: []string{t.Key}}, {Name: aws.String("value"), Values: []string{t.Value}}, {Name: aws.String("resource-type"), Values: []string{kind}},
			}})
			if err != nil {
				return "", err
			}
			for _, t := range out.Tags {
				found[i] = append(found[i], aws.ToString(t.ResourceId))
			}
		}
		for _, id := range found[0] {
			if slices.Contains(found[1], id) {
				return id, nil
			}
		}
		return "", nil
	}
}
