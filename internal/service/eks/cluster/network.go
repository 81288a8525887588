package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// ensureNetwork creates the cluster security group and the control plane's network interfaces.
// https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html
func (s *Service) ensureNetwork(ctx context.Context, rec record.Cluster) (group string, interfaces map[string]string, err error) {
	vpc := rec.Cluster.ResourcesVpcConfig
	if group, err = s.ensureSecurityGroup(ctx, rec); err != nil {
		return "", nil, err
	}
	interfaces, err = s.ensureInterfaces(ctx, rec, group, vpc.SubnetIds, vpc.SecurityGroupIds)
	return group, interfaces, err
}

func (s *Service) ensureSecurityGroup(ctx context.Context, rec record.Cluster) (string, error) {
	g, err := s.findSecurityGroup(ctx, rec)
	if err != nil {
		return "", err
	}
	var id string
	if g != nil {
		id = *g.GroupId
	} else {
		made, err := s.Network.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{
			GroupName:   &rec.SecurityGroupName,
			VpcId:       rec.Cluster.ResourcesVpcConfig.VpcId,
			Description: new("EKS created security group applied to ENI that is attached to EKS Control Plane master nodes, as well as any managed workloads."),
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: []ec2types.Tag{
				base.EC2Tag("Name", rec.SecurityGroupName), base.EC2Tag("aws:eks:cluster-name", rec.Name()), base.EC2Tag("kubernetes.io/cluster/"+rec.Name(), "owned"),
			}}},
		})
		if err != nil {
			return "", fmt.Errorf("creating the cluster security group: %w", err)
		}
		id = *made.GroupId
	}
	if g != nil && slices.ContainsFunc(g.IpPermissions, func(p ec2types.IpPermission) bool {
		return slices.ContainsFunc(p.UserIdGroupPairs, func(u ec2types.UserIdGroupPair) bool { return aws.ToString(u.GroupId) == id })
	}) {
		return id, nil
	}
	_, err = s.Network.AuthorizeSecurityGroupIngress(ctx, &awsec2.AuthorizeSecurityGroupIngressInput{
		GroupId:       &id,
		IpPermissions: []ec2types.IpPermission{{IpProtocol: new("-1"), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: &id}}}},
	})
	if err != nil && awserr.CodeOf(err) != "InvalidPermission.Duplicate" {
		return "", fmt.Errorf("opening the cluster security group to itself: %w", err)
	}
	return id, nil
}

func (s *Service) findSecurityGroup(ctx context.Context, rec record.Cluster) (*ec2types.SecurityGroup, error) {
	got, err := s.Network.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		base.EC2Filter("group-name", rec.SecurityGroupName), base.EC2Filter("vpc-id", *rec.Cluster.ResourcesVpcConfig.VpcId),
	}})
	if err != nil {
		return nil, fmt.Errorf("looking up the cluster security group: %w", err)
	}
	if len(got.SecurityGroups) == 0 {
		return nil, nil
	}
	return &got.SecurityGroups[0], nil
}

func (s *Service) deleteSecurityGroup(ctx context.Context, rec record.Cluster) error {
	g, err := s.findSecurityGroup(ctx, rec)
	if g == nil || err != nil {
		return err
	}
	_, err = s.Network.DeleteSecurityGroup(ctx, &awsec2.DeleteSecurityGroupInput{GroupId: g.GroupId})
	if strings.HasPrefix(awserr.CodeOf(err), "InvalidGroup") {
		return nil
	}
	return err
}

// ensureInterfaces creates a network interface in each of up to four subnets, across as many zones
// as possible, and returns them by subnet. EKS creates two to four.
func (s *Service) ensureInterfaces(ctx context.Context, rec record.Cluster, group string, subnets, groups []string) (map[string]string, error) {
	have, err := s.interfaces(ctx, rec)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, i := range have {
		out[aws.ToString(i.SubnetId)] = *i.NetworkInterfaceId
	}
	chosen, err := s.spread(ctx, rec, subnets)
	if err != nil {
		return nil, err
	}
	var addresses6 *int32
	if rec.IPv6() {
		addresses6 = new(int32(1))
	}
	for _, sn := range chosen {
		if out[sn] != "" {
			continue
		}
		made, err := s.Network.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{
			SubnetId:    &sn,
			Description: new(interfaceDescription(rec)),
			Groups:      groupsOf(group, groups),
			// Pods reach the API by IPv6 only.
			Ipv6AddressCount: addresses6,
			TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: []ec2types.Tag{
				base.EC2Tag("eks:cluster-name", rec.Name()), base.EC2Tag("kubernetes.io/cluster/"+rec.Name(), "owned"),
			}}},
		})
		if err != nil {
			return nil, fmt.Errorf("creating the control plane's network interface in %s: %w", sn, err)
		}
		out[sn] = *made.NetworkInterface.NetworkInterfaceId
	}
	return out, nil
}

// spread chooses up to four subnets, alternating between zones.
func (s *Service) spread(ctx context.Context, rec record.Cluster, subnets []string) ([]string, error) {
	got, err := s.Network.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: subnets})
	if err != nil {
		return nil, fmt.Errorf("checking the subnets of cluster %s: %w", rec.Name(), err)
	}
	zones := map[string][]string{}
	for _, id := range subnets { // in the user's order
		for _, sn := range got.Subnets {
			if *sn.SubnetId == id {
				zones[*sn.AvailabilityZone] = append(zones[*sn.AvailabilityZone], id)
			}
		}
	}
	var out []string
	for round := 0; len(out) < min(4, len(got.Subnets)); round++ {
		for _, z := range slices.Sorted(maps.Keys(zones)) {
			if round < len(zones[z]) && len(out) < 4 {
				out = append(out, zones[z][round])
			}
		}
	}
	return out, nil
}

func interfaceDescription(rec record.Cluster) string { return "Amazon EKS " + rec.Name() }

func (s *Service) interfaces(ctx context.Context, rec record.Cluster) ([]ec2types.NetworkInterface, error) {
	got, err := s.Network.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{
		base.EC2Filter("description", interfaceDescription(rec)), base.EC2Filter("vpc-id", *rec.Cluster.ResourcesVpcConfig.VpcId),
		base.EC2Filter("tag:eks:cluster-name", rec.Name()),
	}})
	if err != nil {
		return nil, fmt.Errorf("looking up the control plane's network interfaces: %w", err)
	}
	return got.NetworkInterfaces, nil
}

func (s *Service) deleteInterfaces(ctx context.Context, rec record.Cluster, which func(ec2types.NetworkInterface) bool) error {
	have, err := s.interfaces(ctx, rec)
	if err != nil {
		return err
	}
	for _, i := range have {
		if !which(i) {
			continue
		}
		_, err := s.Network.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: i.NetworkInterfaceId})
		if err != nil && awserr.CodeOf(err) != "InvalidNetworkInterfaceID.NotFound" {
			return fmt.Errorf("removing the control plane's network interface: %w", err)
		}
	}
	return nil
}

func interfaceGroups(i ec2types.NetworkInterface) []string {
	var out []string
	for _, g := range i.Groups {
		out = append(out, *g.GroupId)
	}
	return out
}

func groupsOf(cluster string, more []string) []string {
	return append([]string{cluster}, more...)
}
