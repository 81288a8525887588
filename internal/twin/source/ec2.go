package source

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/drydock-dev/drydock/internal/twin"
)

// ofEC2 is an operation of EC2.
func ofEC2[In, Out any](name string, call func(context.Context, *In, ...func(*awsec2.Options)) (*Out, error)) operation[In, Out, awsec2.Options] {
	return operation[In, Out, awsec2.Options]{service: "ec2", name: name, call: call}
}

// readNetwork reads the whole network of the region. What a cluster needs of it cannot be known before reachability is
// computed: peering, endpoints and routes lead anywhere.
func (r *reader) readNetwork(ctx context.Context) error {
	c := r.ec2
	vpcs, err := ask(ctx, r, ofEC2("DescribeVpcs", c.DescribeVpcs), &awsec2.DescribeVpcsInput{}, "")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, page := range vpcs {
		for _, v := range page.Vpcs {
			for _, attribute := range []ec2types.VpcAttributeName{ec2types.VpcAttributeNameEnableDnsSupport, ec2types.VpcAttributeNameEnableDnsHostnames} {
				g.Go(func() error {
					_, err := ask(ctx, r, ofEC2("DescribeVpcAttribute", c.DescribeVpcAttribute), &awsec2.DescribeVpcAttributeInput{VpcId: v.VpcId, Attribute: attribute}, aws.ToString(v.VpcId))
					return err
				})
			}
			g.Go(func() error { return r.readZonesOf(ctx, aws.ToString(v.VpcId)) })
		}
	}
	each(g, ctx, r, ofEC2("DescribeSubnets", c.DescribeSubnets))
	each(g, ctx, r, ofEC2("DescribeDhcpOptions", c.DescribeDhcpOptions))
	each(g, ctx, r, ofEC2("DescribeRouteTables", c.DescribeRouteTables))
	each(g, ctx, r, ofEC2("DescribeInternetGateways", c.DescribeInternetGateways))
	each(g, ctx, r, ofEC2("DescribeEgressOnlyInternetGateways", c.DescribeEgressOnlyInternetGateways))
	each(g, ctx, r, ofEC2("DescribeNatGateways", c.DescribeNatGateways))
	each(g, ctx, r, ofEC2("DescribeVpcPeeringConnections", c.DescribeVpcPeeringConnections))
	each(g, ctx, r, ofEC2("DescribeSecurityGroups", c.DescribeSecurityGroups))
	each(g, ctx, r, ofEC2("DescribeSecurityGroupRules", c.DescribeSecurityGroupRules))
	each(g, ctx, r, ofEC2("DescribeNetworkAcls", c.DescribeNetworkAcls))
	each(g, ctx, r, ofEC2("DescribeVpcEndpoints", c.DescribeVpcEndpoints))
	each(g, ctx, r, ofEC2("DescribeNetworkInterfaces", c.DescribeNetworkInterfaces))
	each(g, ctx, r, ofEC2("DescribeAddresses", c.DescribeAddresses))
	g.Go(func() error { return r.readPrefixLists(ctx) })
	g.Go(func() error { return r.readTransitGateways(ctx) })
	return g.Wait()
}

// readTransitGateways reads the transit gateways with their attachments and route tables.
func (r *reader) readTransitGateways(ctx context.Context) error {
	c := r.ec2
	gateways, err := ask(ctx, r, ofEC2("DescribeTransitGateways", c.DescribeTransitGateways), &awsec2.DescribeTransitGatewaysInput{}, "")
	if err != nil || !slices.ContainsFunc(gateways, func(p *awsec2.DescribeTransitGatewaysOutput) bool { return len(p.TransitGateways) > 0 }) {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	each(g, ctx, r, ofEC2("DescribeTransitGatewayVpcAttachments", c.DescribeTransitGatewayVpcAttachments))
	each(g, ctx, r, ofEC2("DescribeTransitGatewayAttachments", c.DescribeTransitGatewayAttachments))
	tables, err := ask(ctx, r, ofEC2("DescribeTransitGatewayRouteTables", c.DescribeTransitGatewayRouteTables), &awsec2.DescribeTransitGatewayRouteTablesInput{}, "")
	if err != nil {
		return errors.Join(err, g.Wait())
	}
	for _, p := range tables {
		for _, t := range p.TransitGatewayRouteTables {
			id := aws.ToString(t.TransitGatewayRouteTableId)
			g.Go(func() error {
				return describe(ctx, r, ofEC2("GetTransitGatewayRouteTablePropagations", c.GetTransitGatewayRouteTablePropagations), &awsec2.GetTransitGatewayRouteTablePropagationsInput{TransitGatewayRouteTableId: &id}, id)
			})
			g.Go(func() error {
				return describe(ctx, r, ofEC2("GetTransitGatewayPrefixListReferences", c.GetTransitGatewayPrefixListReferences), &awsec2.GetTransitGatewayPrefixListReferencesInput{TransitGatewayRouteTableId: &id}, id)
			})
			g.Go(func() error { // it requires a filter
				return describe(ctx, r, ofEC2("SearchTransitGatewayRoutes", c.SearchTransitGatewayRoutes), &awsec2.SearchTransitGatewayRoutesInput{
					TransitGatewayRouteTableId: &id, Filters: []ec2types.Filter{{Name: aws.String("state"), Values: []string{"active", "blackhole"}}},
				}, id)
			})
		}
	}
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
	lists, err := ask(ctx, r, ofEC2("DescribeManagedPrefixLists", r.ec2.DescribeManagedPrefixLists), &awsec2.DescribeManagedPrefixListsInput{}, "")
	if err != nil {
		return err
	}
	for _, page := range lists {
		for _, l := range page.PrefixLists {
			if aws.ToString(l.OwnerId) == "AWS" {
				continue
			}
			_, err := ask(ctx, r, ofEC2("GetManagedPrefixListEntries", r.ec2.GetManagedPrefixListEntries), &awsec2.GetManagedPrefixListEntriesInput{PrefixListId: l.PrefixListId}, aws.ToString(l.PrefixListId))
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
	pages, err := ask(ctx, r, ofEC2("DescribeInstances", c.DescribeInstances), &awsec2.DescribeInstancesInput{}, "")
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	each(g, ctx, r, ofEC2("DescribeVolumes", c.DescribeVolumes))
	userData := ofEC2("DescribeInstanceAttribute", c.DescribeInstanceAttribute)
	userData.redact = func(out *awsec2.DescribeInstanceAttributeOutput) bool {
		return out.UserData != nil && redactBase64(&out.UserData.Value)
	}
	console := ofEC2("GetConsoleOutput", c.GetConsoleOutput)
	console.redact = func(out *awsec2.GetConsoleOutputOutput) bool { return redactBase64(&out.Output) }
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
					boots, err := ask(ctx, r, userData, &awsec2.DescribeInstanceAttributeInput{InstanceId: i.InstanceId, Attribute: ec2types.InstanceAttributeNameUserData}, aws.ToString(i.InstanceId))
					if err != nil || !ofCluster(i.Tags) && !slices.ContainsFunc(boots, bootstraps) {
						return err
					}
					return describe(ctx, r, console, &awsec2.GetConsoleOutputInput{InstanceId: i.InstanceId}, aws.ToString(i.InstanceId))
				})
			}
		}
	}
	slices.Sort(images)
	// An ID that no longer exists fails the whole request, but not as a filter.
	for some := range slices.Chunk(images, 100) {
		g.Go(func() error {
			_, err := ask(ctx, r, ofEC2("DescribeImages", c.DescribeImages), &awsec2.DescribeImagesInput{Filters: []ec2types.Filter{{Name: aws.String("image-id"), Values: some}}}, "")
			return err
		})
	}
	return g.Wait()
}

// bootstraps reports whether user data is to make an instance a node, which may lack the tags of one.
func bootstraps(out *awsec2.DescribeInstanceAttributeOutput) bool {
	if out.UserData == nil {
		return false
	}
	text := twin.UserDataText(aws.ToString(out.UserData.Value))
	return slices.ContainsFunc([]string{"node.eks.aws/", "/etc/eks/bootstrap.sh", "settings.kubernetes"}, func(word string) bool { return strings.Contains(text, word) })
}

// ofCluster reports whether an instance has the tags of a node. Only the console output of nodes is read.
func ofCluster(tags []ec2types.Tag) bool {
	return slices.ContainsFunc(tags, func(t ec2types.Tag) bool {
		key := aws.ToString(t.Key)
		return strings.HasPrefix(key, "kubernetes.io/cluster/") || strings.HasPrefix(key, "eks:") || strings.HasPrefix(key, "karpenter.sh/")
	})
}

// redactBase64 masks the secrets of a text in base64, and reports whether there were any.
func redactBase64(text **string) bool {
	if *text == nil {
		return false
	}
	was := **text
	*text = aws.String(twin.RedactUserData(was))
	return **text != was
}

// readLaunchTemplates reads the launch templates with all their versions.
func (r *reader) readLaunchTemplates(ctx context.Context) error {
	templates, err := ask(ctx, r, ofEC2("DescribeLaunchTemplates", r.ec2.DescribeLaunchTemplates), &awsec2.DescribeLaunchTemplatesInput{}, "")
	if err != nil {
		return err
	}
	versions := ofEC2("DescribeLaunchTemplateVersions", r.ec2.DescribeLaunchTemplateVersions)
	versions.redact = func(out *awsec2.DescribeLaunchTemplateVersionsOutput) (found bool) {
		for _, v := range out.LaunchTemplateVersions {
			if v.LaunchTemplateData != nil && redactBase64(&v.LaunchTemplateData.UserData) {
				found = true
			}
		}
		return found
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(8)
	for _, page := range templates {
		for _, t := range page.LaunchTemplates {
			g.Go(func() error {
				_, err := ask(ctx, r, versions, &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: t.LaunchTemplateId}, aws.ToString(t.LaunchTemplateId))
				return err
			})
		}
	}
	return g.Wait()
}
