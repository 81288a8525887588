package base

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// Page returns one page of items, which are sorted by id. Pages of EKS have 1 to 100 items, by
// default 100.
func Page[T any](items []T, id func(T) string, maxResults *int32, token *string) ([]T, *string, error) {
	return paging.Cut(pages, items, id, maxResults, token)
}

var pages = paging.Rules{
	Usual: 100,
	Size: func(n int32) (int, error) {
		if n < 1 || n > 100 {
			return 0, ekserr.MaxResults()
		}
		return int(n), nil
	},
	BadToken: func(string) error { return ekserr.NextToken() },
}

// namePattern is the pattern for cluster and node group names in the API reference.
var namePattern = regexp.MustCompile(`^[0-9A-Za-z][A-Za-z0-9\-_]*$`)

// CheckName checks the name of a cluster, node group or Fargate profile. Errors refer to it as
// member if it is missing and as called otherwise.
func CheckName(name *string, member, called, cluster string, limit int) error {
	switch {
	case name == nil || *name == "":
		return ekserr.Missing(member)
	case !namePattern.MatchString(*name):
		return ekserr.BadName(cluster, called)
	case len(*name) > limit:
		return ekserr.LongName(cluster, called, limit)
	}
	return nil
}

// CheckTags applies AWS's common rules for tags.
// https://docs.aws.amazon.com/eks/latest/userguide/eks-using-tags.html
func CheckTags(cluster string, tags map[string]string) error {
	if why := BadTags(tags); why != "" {
		return ekserr.InvalidParameter(cluster, "%s", why)
	}
	return nil
}

// BadTags describes what is wrong with tags, or returns "".
func BadTags(tags map[string]string) string {
	if len(tags) > 50 {
		return "The number of tags can't exceed 50."
	}
	for k, v := range tags {
		switch {
		case k == "" || len([]rune(k)) > 128:
			return "Tag keys must have between 1 and 128 characters."
		case len([]rune(v)) > 256:
			return "Tag values can have at most 256 characters."
		case strings.HasPrefix(strings.ToLower(k), "aws:"):
			return "Tag keys that start with aws: are reserved for AWS use."
		}
	}
	return ""
}

// TagsOrEmpty returns a non-nil copy of tags or labels: AWS returns an empty map rather than null.
func TagsOrEmpty(tags map[string]string) map[string]string {
	if tags == nil {
		return map[string]string{}
	}
	return maps.Clone(tags)
}

// JSON encodes v for an update's parameter or for comparison.
func JSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(raw)
}

// EC2Tag returns a tag for an EC2 resource.
func EC2Tag(k, v string) ec2types.Tag { return ec2types.Tag{Key: &k, Value: &v} }

// EC2Tags returns the tags of a new EC2 resource.
func EC2Tags(of ec2types.ResourceType, tags map[string]string) []ec2types.TagSpecification {
	spec := ec2types.TagSpecification{ResourceType: of}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		spec.Tags = append(spec.Tags, EC2Tag(k, tags[k]))
	}
	return []ec2types.TagSpecification{spec}
}

// EC2Filter returns a filter for an EC2 Describe operation.
func EC2Filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}

// RoutesToInternet reports whether a subnet's route table has a route to an internet gateway.
func RoutesToInternet(tables []ec2types.RouteTable, subnet string) bool {
	var routes []ec2types.Route
	for _, t := range tables {
		for _, a := range t.Associations {
			switch {
			case aws.ToString(a.SubnetId) == subnet:
				return toGateway(t.Routes)
			case aws.ToBool(a.Main):
				routes = t.Routes
			}
		}
	}
	return toGateway(routes)
}

func toGateway(routes []ec2types.Route) bool {
	return slices.ContainsFunc(routes, func(r ec2types.Route) bool {
		return strings.HasPrefix(aws.ToString(r.GatewayId), "igw-") && aws.ToString(r.DestinationCidrBlock) == "0.0.0.0/0"
	})
}

// EndedInstances returns those of the instances that EC2 has terminated or does not know. It asks
// EC2 because a node may join before its instance is known to belong to the group.
func (s *Service) EndedInstances(ctx context.Context, instanceIDs []string) ([]string, error) {
	for chunk := range slices.Chunk(slices.Clone(instanceIDs), 100) {
		out, err := s.Instances.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{Filters: []ec2types.Filter{
			EC2Filter("instance-id", chunk...), EC2Filter("instance-state-name", "pending", "running", "stopping", "stopped"),
		}})
		if err != nil {
			return nil, fmt.Errorf("looking up instances: %w", err)
		}
		for _, r := range out.Reservations {
			for _, i := range r.Instances {
				instanceIDs = slices.DeleteFunc(instanceIDs, func(id string) bool { return id == *i.InstanceId })
			}
		}
	}
	return instanceIDs, nil
}
