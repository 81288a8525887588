package source

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/twin"
)

// ofEC2 is an operation of EC2.
func ofEC2[In, Out any](name string, call func(context.Context, *In, ...func(*awsec2.Options)) (*Out, error), next func(*In, *Out) bool) operation[In, Out, awsec2.Options] {
	return operation[In, Out, awsec2.Options]{service: "ec2", name: name, call: call, next: next}
}

// readNetwork reads the whole network of the region. What a cluster needs of it cannot be known before reachability is
// computed: peering, endpoints and routes lead anywhere.
func (r *reader) readNetwork(ctx context.Context) error {
	c := r.ec2
	vpcs, err := ask(ctx, r, ofEC2("DescribeVpcs", c.DescribeVpcs, func(in *awsec2.DescribeVpcsInput, out *awsec2.DescribeVpcsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}), &awsec2.DescribeVpcsInput{}, "")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, page := range vpcs {
		for _, v := range page.Vpcs {
			for _, attribute := range []ec2types.VpcAttributeName{ec2types.VpcAttributeNameEnableDnsSupport, ec2types.VpcAttributeNameEnableDnsHostnames} {
				g.Go(func() error {
					_, err := ask(ctx, r, ofEC2("DescribeVpcAttribute", c.DescribeVpcAttribute, nil), &awsec2.DescribeVpcAttributeInput{VpcId: v.VpcId, Attribute: attribute}, aws.ToString(v.VpcId))
					return err
				})
			}
		}
	}
	each(g, ctx, r, ofEC2("DescribeSubnets", c.DescribeSubnets, func(in *awsec2.DescribeSubnetsInput, out *awsec2.DescribeSubnetsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeDhcpOptions", c.DescribeDhcpOptions, func(in *awsec2.DescribeDhcpOptionsInput, out *awsec2.DescribeDhcpOptionsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeRouteTables", c.DescribeRouteTables, func(in *awsec2.DescribeRouteTablesInput, out *awsec2.DescribeRouteTablesOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeInternetGateways", c.DescribeInternetGateways, func(in *awsec2.DescribeInternetGatewaysInput, out *awsec2.DescribeInternetGatewaysOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeEgressOnlyInternetGateways", c.DescribeEgressOnlyInternetGateways, func(in *awsec2.DescribeEgressOnlyInternetGatewaysInput, out *awsec2.DescribeEgressOnlyInternetGatewaysOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeNatGateways", c.DescribeNatGateways, func(in *awsec2.DescribeNatGatewaysInput, out *awsec2.DescribeNatGatewaysOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeVpcPeeringConnections", c.DescribeVpcPeeringConnections, func(in *awsec2.DescribeVpcPeeringConnectionsInput, out *awsec2.DescribeVpcPeeringConnectionsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeSecurityGroups", c.DescribeSecurityGroups, func(in *awsec2.DescribeSecurityGroupsInput, out *awsec2.DescribeSecurityGroupsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeSecurityGroupRules", c.DescribeSecurityGroupRules, func(in *awsec2.DescribeSecurityGroupRulesInput, out *awsec2.DescribeSecurityGroupRulesOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeNetworkAcls", c.DescribeNetworkAcls, func(in *awsec2.DescribeNetworkAclsInput, out *awsec2.DescribeNetworkAclsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeVpcEndpoints", c.DescribeVpcEndpoints, func(in *awsec2.DescribeVpcEndpointsInput, out *awsec2.DescribeVpcEndpointsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeNetworkInterfaces", c.DescribeNetworkInterfaces, func(in *awsec2.DescribeNetworkInterfacesInput, out *awsec2.DescribeNetworkInterfacesOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	each(g, ctx, r, ofEC2("DescribeAddresses", c.DescribeAddresses, nil))
	g.Go(func() error { return r.readPrefixLists(ctx) })
	return g.Wait()
}

// each asks an operation without parameters.
func each[In, Out, O any](g *errgroup.Group, ctx context.Context, r *reader, op operation[In, Out, O]) {
	g.Go(func() error {
		_, err := ask(ctx, r, op, new(In), "")
		return err
	})
}

// readPrefixLists reads the customers' prefix lists. AWS's own are in Drydock's catalogue.
func (r *reader) readPrefixLists(ctx context.Context) error {
	lists, err := ask(ctx, r, ofEC2("DescribeManagedPrefixLists", r.ec2.DescribeManagedPrefixLists, func(in *awsec2.DescribeManagedPrefixListsInput, out *awsec2.DescribeManagedPrefixListsOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}), &awsec2.DescribeManagedPrefixListsInput{}, "")
	if err != nil {
		return err
	}
	for _, page := range lists {
		for _, l := range page.PrefixLists {
			if aws.ToString(l.OwnerId) == "AWS" {
				continue
			}
			_, err := ask(ctx, r, ofEC2("GetManagedPrefixListEntries", r.ec2.GetManagedPrefixListEntries, func(in *awsec2.GetManagedPrefixListEntriesInput, out *awsec2.GetManagedPrefixListEntriesOutput) bool {
				return token(&in.NextToken, out.NextToken)
			}), &awsec2.GetManagedPrefixListEntriesInput{PrefixListId: l.PrefixListId}, aws.ToString(l.PrefixListId))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// readInstances reads the instances and what they boot from.
func (r *reader) readInstances(ctx context.Context) error {
	c := r.ec2
	pages, err := ask(ctx, r, ofEC2("DescribeInstances", c.DescribeInstances, func(in *awsec2.DescribeInstancesInput, out *awsec2.DescribeInstancesOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}), &awsec2.DescribeInstancesInput{}, "")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	each(g, ctx, r, ofEC2("DescribeVolumes", c.DescribeVolumes, func(in *awsec2.DescribeVolumesInput, out *awsec2.DescribeVolumesOutput) bool {
		return token(&in.NextToken, out.NextToken)
	}))
	userData := ofEC2("DescribeInstanceAttribute", c.DescribeInstanceAttribute, nil)
	userData.redact = func(out *awsec2.DescribeInstanceAttributeOutput) bool {
		if out.UserData == nil || out.UserData.Value == nil {
			return false
		}
		was := *out.UserData.Value
		out.UserData.Value = aws.String(twin.RedactUserData(was))
		return *out.UserData.Value != was
	}
	var images []string
	for _, page := range pages {
		for _, reservation := range page.Reservations {
			for _, i := range reservation.Instances {
				if i.State == nil || i.State.Name == ec2types.InstanceStateNameTerminated {
					continue
				}
				if id := aws.ToString(i.ImageId); !slices.Contains(images, id) && id != "" {
					images = append(images, id)
				}
				g.Go(func() error {
					_, err := ask(ctx, r, userData, &awsec2.DescribeInstanceAttributeInput{InstanceId: i.InstanceId, Attribute: ec2types.InstanceAttributeNameUserData}, aws.ToString(i.InstanceId))
					return err
				})
			}
		}
	}
	slices.Sort(images)
	// An ID that no longer exists fails the whole request, but not as a filter.
	for some := range slices.Chunk(images, 100) {
		g.Go(func() error {
			_, err := ask(ctx, r, ofEC2("DescribeImages", c.DescribeImages, func(in *awsec2.DescribeImagesInput, out *awsec2.DescribeImagesOutput) bool {
				return token(&in.NextToken, out.NextToken)
			}), &awsec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("image-id"), Values: some}}}, "")
			return err
		})
	}
	return g.Wait()
}
