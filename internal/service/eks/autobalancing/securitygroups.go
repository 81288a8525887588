package autobalancing

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
)

// securityGroup returns the security group of a stack, which lets in the sources that it wants, and which the cluster
// security group lets in to the targets.
func (d *deployer) securityGroup(st *stack, have *owned) (string, error) {
	var sg *ec2types.SecurityGroup
	if len(have.security) > 0 {
		sg = &have.security[0]
	} else {
		out, err := d.s.LoadBalancers.CreateSecurityGroup(d.as, &awsec2.CreateSecurityGroupInput{
			GroupName: &st.name, Description: new("[k8s] Managed SecurityGroup for LoadBalancer"), VpcId: d.rec.Cluster.ResourcesVpcConfig.VpcId,
			TagSpecifications: base.EC2Tags(ec2types.ResourceTypeSecurityGroup, d.tags(st, securityGroupResource)),
		})
		if err != nil {
			return "", err
		}
		sg = &ec2types.SecurityGroup{GroupId: out.GroupId}
	}
	var front, back []ec2types.IpPermission
	for _, l := range st.listeners {
		for _, r := range st.ranges {
			front = append(front, ec2types.IpPermission{IpProtocol: new(transport(l.protocol)), FromPort: new(l.port), ToPort: new(l.port), IpRanges: []ec2types.IpRange{{CidrIp: &r}}})
		}
	}
	ports := map[string]bool{}
	for _, g := range st.groups {
		for _, t := range g.targets {
			p := transport(g.protocol)
			if id := fmt.Sprint(p, t.port); !ports[id] {
				ports[id] = true
				back = append(back, ec2types.IpPermission{IpProtocol: &p, FromPort: new(t.port), ToPort: new(t.port), UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: sg.GroupId}}})
			}
		}
	}
	if err := d.permit(*sg.GroupId, flatten(sg.IpPermissions, ""), front); err != nil {
		return "", err
	}
	nodes, now, err := d.nodePermissions(*sg.GroupId)
	if err != nil {
		return "", err
	}
	return *sg.GroupId, d.permit(nodes, now, back)
}

// nodePermissions returns the cluster security group and those of its permissions that come from a group.
func (d *deployer) nodePermissions(source string) (id string, _ []ec2types.IpPermission, _ error) {
	id = aws.ToString(d.rec.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId)
	out, err := d.s.Network.DescribeSecurityGroups(d.svc, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
	if err != nil || len(out.SecurityGroups) == 0 {
		return id, nil, err
	}
	return id, flatten(out.SecurityGroups[0].IpPermissions, source), nil
}

// flatten splits permissions into those of one source each: the CIDR blocks, or those of a group if source names one.
func flatten(all []ec2types.IpPermission, source string) (out []ec2types.IpPermission) {
	for _, p := range all {
		for _, r := range p.IpRanges {
			if source == "" {
				out = append(out, ec2types.IpPermission{IpProtocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort, IpRanges: []ec2types.IpRange{{CidrIp: r.CidrIp}}})
			}
		}
		for _, g := range p.UserIdGroupPairs {
			if source != "" && aws.ToString(g.GroupId) == source {
				out = append(out, ec2types.IpPermission{IpProtocol: p.IpProtocol, FromPort: p.FromPort, ToPort: p.ToPort, UserIdGroupPairs: []ec2types.UserIdGroupPair{{GroupId: g.GroupId}}})
			}
		}
	}
	return out
}

func permission(p ec2types.IpPermission) string {
	from := ""
	if len(p.IpRanges) > 0 {
		from = aws.ToString(p.IpRanges[0].CidrIp)
	} else if len(p.UserIdGroupPairs) > 0 {
		from = aws.ToString(p.UserIdGroupPairs[0].GroupId)
	}
	return fmt.Sprint(aws.ToString(p.IpProtocol), aws.ToInt32(p.FromPort), aws.ToInt32(p.ToPort), from)
}

// permit adds the permissions that a security group lacks, and removes those that are no longer wanted.
func (d *deployer) permit(id string, now, want []ec2types.IpPermission) error {
	missing := func(of, in []ec2types.IpPermission) (out []ec2types.IpPermission) {
		for _, p := range of {
			if !slices.ContainsFunc(in, func(q ec2types.IpPermission) bool { return permission(p) == permission(q) }) {
				out = append(out, p)
			}
		}
		return out
	}
	if add := missing(want, now); len(add) > 0 {
		if _, err := d.s.LoadBalancers.AuthorizeSecurityGroupIngress(d.as, &awsec2.AuthorizeSecurityGroupIngressInput{
			GroupId: &id, IpPermissions: add, TagSpecifications: base.EC2Tags(ec2types.ResourceTypeSecurityGroupRule, map[string]string{automode.TagCluster: d.key.ID}),
		}); err != nil && awserr.CodeOf(err) != "InvalidPermission.Duplicate" {
			return err
		}
	}
	if gone := missing(now, want); len(gone) > 0 {
		if _, err := d.s.LoadBalancers.RevokeSecurityGroupIngress(d.as, &awsec2.RevokeSecurityGroupIngressInput{GroupId: &id, IpPermissions: gone}); err != nil && awserr.CodeOf(err) != "InvalidPermission.NotFound" {
			return err
		}
	}
	return nil
}
