package base

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// EC2Tag returns a tag for a resource of EC2.
func EC2Tag(k, v string) ec2types.Tag { return ec2types.Tag{Key: &k, Value: &v} }

// EC2Filter returns a filter for a Describe operation of EC2.
func EC2Filter(name string, values ...string) ec2types.Filter {
	return ec2types.Filter{Name: &name, Values: values}
}

// RoutesToInternet reports whether a subnet's route table leads to an internet gateway.
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

// EndedInstances returns those instances that EC2 has ended: a node may join before its
// instance is known to be the group's.
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
