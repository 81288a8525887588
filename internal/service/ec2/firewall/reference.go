package firewall

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// DescribeSecurityGroupReferences lists the peered VPCs whose groups refer to the given groups.
func (s *Service) DescribeSecurityGroupReferences(ctx context.Context, in *awsec2.DescribeSecurityGroupReferencesInput) (*awsec2.DescribeSecurityGroupReferencesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.GroupId) == 0 {
		return nil, ec2err.Missing("groupId")
	}
	if _, err := resource.Choose(s.Store, record.SecurityGroups, sc, in.GroupId, resource.All); err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	peers := resource.List(s.Store, record.Peerings, sc, record.Peering.Active)
	out := &awsec2.DescribeSecurityGroupReferencesOutput{SecurityGroupReferenceSet: []ec2types.SecurityGroupReference{}}
	for _, p := range peers {
		for _, d := range []record.PeeringSide{p.Requester, p.Accepter} {
			groups := resource.List(s.Store, record.SecurityGroups, d.Scope(), func(g record.SecurityGroup) bool { return g.VPCID == d.VPCID })
			for _, id := range resource.SortedUnique(in.GroupId) {
				if slices.ContainsFunc(groups, func(g record.SecurityGroup) bool {
					return slices.ContainsFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.GroupID == id && r.PeeringID == p.ID })
				}) {
					out.SecurityGroupReferenceSet = append(out.SecurityGroupReferenceSet, ec2types.SecurityGroupReference{
						GroupId: aws.String(id), ReferencingVpcId: aws.String(d.VPCID), VpcPeeringConnectionId: aws.String(p.ID),
					})
				}
			}
		}
	}
	return out, nil
}

// DescribeStaleSecurityGroups lists the groups of a VPC with stale rules: rules for groups that
// were deleted or whose peering connection was.
func (s *Service) DescribeStaleSecurityGroups(ctx context.Context, in *awsec2.DescribeStaleSecurityGroupsInput) (*awsec2.DescribeStaleSecurityGroupsOutput, error) {
	sc := resource.ScopeOf(ctx)
	v, err := resource.Get(s.Store, record.VPCs, sc, aws.ToString(in.VpcId))
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	stale := func(r record.SecurityGroupRule) bool {
		if r.PeeringID == "" {
			return false
		}
		p, err := record.Peerings.Get(s.Store, sc.Key(r.PeeringID))
		if err != nil || !p.Active() {
			return true
		}
		_, err = record.SecurityGroups.Get(s.Store, resource.Scope{Account: r.GroupAccount, Region: sc.Region}.Key(r.GroupID))
		return err != nil
	}
	found := resource.List(s.Store, record.SecurityGroups, sc, func(g record.SecurityGroup) bool {
		return g.VPCID == v.ID && slices.ContainsFunc(g.Rules, stale)
	})
	found, next, err := resource.Paginate(found, func(g record.SecurityGroup) string { return g.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 255})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeStaleSecurityGroupsOutput{NextToken: next, StaleSecurityGroupSet: []ec2types.StaleSecurityGroup{}}
	for _, g := range found {
		rules := slices.DeleteFunc(slices.Clone(g.Rules), func(r record.SecurityGroupRule) bool { return !stale(r) })
		out.StaleSecurityGroupSet = append(out.StaleSecurityGroupSet, ec2types.StaleSecurityGroup{
			GroupId: aws.String(g.ID), GroupName: aws.String(g.Name), Description: aws.String(g.Description), VpcId: aws.String(g.VPCID),
			StaleIpPermissions: stalePermissions(rules, false), StaleIpPermissionsEgress: stalePermissions(rules, true),
		})
	}
	return out, nil
}

func stalePermissions(rules []record.SecurityGroupRule, egress bool) []ec2types.StaleIpPermission {
	var out []ec2types.StaleIpPermission
	for _, p := range record.Permissions(rules, egress) {
		for i := range p.UserIdGroupPairs {
			p.UserIdGroupPairs[i].PeeringStatus = aws.String("deleted")
		}
		out = append(out, ec2types.StaleIpPermission{IpProtocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort, UserIdGroupPairs: p.UserIdGroupPairs})
	}
	return out
}

// GetSecurityGroupsForVpc lists the groups that interfaces of a VPC can use. The AWS Load Balancer
// Controller calls it.
func (s *Service) GetSecurityGroupsForVpc(ctx context.Context, in *awsec2.GetSecurityGroupsForVpcInput) (*awsec2.GetSecurityGroupsForVpcOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = record.SecurityGroup
	match, err := filter.Compile(in.Filters, filter.Fields[v]{
		"description":    filter.One(func(g v) string { return g.Description }),
		"group-id":       filter.One(func(g v) string { return g.ID }),
		"group-name":     filter.One(func(g v) string { return g.Name }),
		"owner-id":       filter.One(func(v) string { return sc.Account }),
		"primary-vpc-id": filter.One(func(g v) string { return g.VPCID }),
	}, func(g v) tag.Set { return g.Tags })
	if err != nil {
		return nil, err
	}
	vpc, err := resource.Get(s.Store, record.VPCs, sc, aws.ToString(in.VpcId))
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found := resource.List(s.Store, record.SecurityGroups, sc, func(g v) bool { return g.VPCID == vpc.ID && match(g) })
	found, next, err := resource.Paginate(found, func(g v) string { return g.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.GetSecurityGroupsForVpcOutput{NextToken: next, SecurityGroupForVpcs: resource.Map(found, func(g record.SecurityGroup) ec2types.SecurityGroupForVpc {
		return ec2types.SecurityGroupForVpc{
			GroupId: aws.String(g.ID), GroupName: aws.String(g.Name), Description: aws.String(g.Description),
			OwnerId: aws.String(sc.Account), PrimaryVpcId: aws.String(g.VPCID), Tags: g.Tags.Listed(),
		}
	})}, err
}
