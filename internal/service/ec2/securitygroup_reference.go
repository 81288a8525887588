package ec2

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// DescribeSecurityGroupReferences tells which peered VPCs' groups refer to groups.
func (s *Service) DescribeSecurityGroupReferences(ctx context.Context, in *awsec2.DescribeSecurityGroupReferencesInput) (*awsec2.DescribeSecurityGroupReferencesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.GroupId) == 0 {
		return nil, errMissing("groupId")
	}
	if _, err := choose(s.store, securityGroups, sc, securityGroupID, in.GroupId, func(securityGroupRecord) bool { return true }); err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	peers, err := list(s.store, peerings, sc, peeringRecord.active)
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeSecurityGroupReferencesOutput{SecurityGroupReferenceSet: []ec2types.SecurityGroupReference{}}
	for _, p := range peers {
		for _, d := range []peeringSide{p.Requester, p.Accepter} {
			groups, err := list(s.store, securityGroups, d.scope(), func(g securityGroupRecord) bool { return g.VPCID == d.VPCID })
			if err != nil {
				return nil, err
			}
			for _, id := range sortedUnique(in.GroupId) {
				if slices.ContainsFunc(groups, func(g securityGroupRecord) bool {
					return slices.ContainsFunc(g.Rules, func(r securityGroupRule) bool { return r.GroupID == id && r.PeeringID == p.ID })
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

// DescribeStaleSecurityGroups lists the groups of a VPC with rules for groups that
// are gone, or behind a peering connection that is.
func (s *Service) DescribeStaleSecurityGroups(ctx context.Context, in *awsec2.DescribeStaleSecurityGroupsInput) (*awsec2.DescribeStaleSecurityGroupsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	v, err := get(s.store, vpcs, sc, vpcID, aws.ToString(in.VpcId))
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	stale := func(r securityGroupRule) bool {
		if r.PeeringID == "" {
			return false
		}
		p, err := peerings.Get(s.store, sc.key(r.PeeringID))
		if err != nil || !p.active() {
			return true
		}
		_, err = securityGroups.Get(s.store, scope{r.GroupAccount, sc.region}.key(r.GroupID))
		return err != nil
	}
	found, err := list(s.store, securityGroups, sc, func(g securityGroupRecord) bool {
		return g.VPCID == v.ID && slices.ContainsFunc(g.Rules, stale)
	})
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(g securityGroupRecord) string { return g.ID }, in.MaxResults, in.NextToken, limits{5, 255})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeStaleSecurityGroupsOutput{NextToken: next, StaleSecurityGroupSet: []ec2types.StaleSecurityGroup{}}
	for _, g := range found {
		rules := slices.DeleteFunc(slices.Clone(g.Rules), func(r securityGroupRule) bool { return !stale(r) })
		out.StaleSecurityGroupSet = append(out.StaleSecurityGroupSet, ec2types.StaleSecurityGroup{
			GroupId: aws.String(g.ID), GroupName: aws.String(g.Name), Description: aws.String(g.Description), VpcId: aws.String(g.VPCID),
			StaleIpPermissions: stalePermissions(rules, false), StaleIpPermissionsEgress: stalePermissions(rules, true),
		})
	}
	return out, nil
}

func stalePermissions(rules []securityGroupRule, egress bool) []ec2types.StaleIpPermission {
	var out []ec2types.StaleIpPermission
	for _, p := range permissions(rules, egress) {
		for i := range p.UserIdGroupPairs {
			p.UserIdGroupPairs[i].PeeringStatus = aws.String("deleted")
		}
		out = append(out, ec2types.StaleIpPermission{IpProtocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort, UserIdGroupPairs: p.UserIdGroupPairs})
	}
	return out
}

// GetSecurityGroupsForVpc lists the groups that interfaces of a VPC may have. The
// AWS Load Balancer Controller calls it.
func (s *Service) GetSecurityGroupsForVpc(ctx context.Context, in *awsec2.GetSecurityGroupsForVpcInput) (*awsec2.GetSecurityGroupsForVpcOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = securityGroupRecord
	match, err := compileFilters(in.Filters, fields[v]{
		"description":    one(func(g v) string { return g.Description }),
		"group-id":       one(func(g v) string { return g.ID }),
		"group-name":     one(func(g v) string { return g.Name }),
		"owner-id":       one(func(v) string { return sc.account }),
		"primary-vpc-id": one(func(g v) string { return g.VPCID }),
	}, func(g v) Tags { return g.Tags })
	if err != nil {
		return nil, err
	}
	vpc, err := get(s.store, vpcs, sc, vpcID, aws.ToString(in.VpcId))
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := list(s.store, securityGroups, sc, func(g v) bool { return g.VPCID == vpc.ID && match(g) })
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(g v) string { return g.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.GetSecurityGroupsForVpcOutput{NextToken: next, SecurityGroupForVpcs: []ec2types.SecurityGroupForVpc{}}
	for _, g := range found {
		out.SecurityGroupForVpcs = append(out.SecurityGroupForVpcs, ec2types.SecurityGroupForVpc{
			GroupId: aws.String(g.ID), GroupName: aws.String(g.Name), Description: aws.String(g.Description),
			OwnerId: aws.String(sc.account), PrimaryVpcId: aws.String(g.VPCID), Tags: g.Tags.sdk(),
		})
	}
	return out, nil
}
