package firewall

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// checkRules returns an error if there are more rules in a direction than the quota allows. A
// prefix list counts as many times as its size, those of gateway endpoints as 1:
// https://docs.aws.amazon.com/vpc/latest/userguide/working-with-aws-managed-prefix-lists.html#aws-managed-prefix-list-weights
func checkRules(r store.Reader, sc resource.Scope, rules []record.SecurityGroupRule, egress bool) error {
	n4, n6 := 0, 0
	for _, rule := range rules {
		switch {
		case rule.Egress != egress:
		case rule.PrefixListID != "":
			p, err := FindPrefixList(r, sc, rule.PrefixListID)
			switch {
			case ec2err.HasCode(err, resource.PrefixListID.NotFoundCode):
			case err != nil:
				return err
			case p.Managed:
				n4++
			case p.IPv6:
				n6 += int(p.MaxEntries)
			default:
				n4 += int(p.MaxEntries)
			}
		case rule.CIDR6 != "":
			n6++
		case rule.CIDR != "":
			n4++
		default: // a group counts for both address families
			n4++
			n6++
		}
	}
	return quota.Check(r, sc, quota.Rules, max(n4, n6), ec2err.RulesLimit())
}

func errDifferentNetworks() error {
	return ec2err.New("InvalidGroup.NotFound", "You have specified two resources that belong to different networks.")
}

// findPeerGroup returns the group that a rule of g refers to: one in the same VPC, or in a VPC
// peered with it in the same region.
// https://docs.aws.amazon.com/vpc/latest/peering/vpc-peering-security-groups.html
func findPeerGroup(r store.Reader, sc resource.Scope, g record.SecurityGroup, x ec2types.UserIdGroupPair) (record.SecurityGroupRule, error) {
	owner := sc
	if id := aws.ToString(x.UserId); id != "" && id != sc.Account {
		owner.Account = id
		if x.GroupId == nil {
			return record.SecurityGroupRule{}, ec2err.Missing("groupId")
		}
	}
	peer, err := FindGroup(r, owner, x.GroupId, x.GroupName)
	if err != nil {
		return record.SecurityGroupRule{}, err
	}
	out := record.SecurityGroupRule{GroupID: peer.ID, GroupAccount: owner.Account}
	if owner == sc && peer.VPCID == g.VPCID {
		return out, nil
	}
	p, ok := record.ActivePeering(r, sc, g.VPCID, owner, peer.VPCID)
	if !ok {
		return out, errDifferentNetworks()
	}
	out.GroupVPCID, out.PeeringID = peer.VPCID, p.ID
	return out, nil
}

// ruleUpdate converts the new form of a rule to a permission, which expand checks.
func ruleUpdate(u *ec2types.SecurityGroupRuleRequest) (ec2types.IpPermission, error) {
	p := ec2types.IpPermission{IpProtocol: u.IpProtocol, FromPort: u.FromPort, ToPort: u.ToPort}
	peers := 0
	if u.CidrIpv4 != nil {
		peers++
		p.IpRanges = []ec2types.IpRange{{CidrIp: u.CidrIpv4, Description: u.Description}}
	}
	if u.CidrIpv6 != nil {
		peers++
		p.Ipv6Ranges = []ec2types.Ipv6Range{{CidrIpv6: u.CidrIpv6, Description: u.Description}}
	}
	if u.PrefixListId != nil {
		peers++
		p.PrefixListIds = []ec2types.PrefixListId{{PrefixListId: u.PrefixListId, Description: u.Description}}
	}
	if u.ReferencedGroupId != nil {
		peers++
		p.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupId: u.ReferencedGroupId, Description: u.Description}}
	}
	// Verified against AWS by getmoto/moto's tests/test_ec2/test_security_groups.py.
	protocol, err := normalProtocol(aws.ToString(u.IpProtocol))
	switch {
	case err != nil:
		return p, err
	case (protocol == "tcp" || protocol == "udp") && (u.FromPort == nil || u.ToPort == nil):
		return p, ec2err.InvalidParameterValue("Invalid value for portRange. Must specify both from and to ports with TCP/UDP.")
	case peers == 0:
		return p, ec2err.New("MissingParameter", "The request must contain exactly one of: cidrIp, cidrIpv6, prefixListId, or referencedGroupId")
	case peers > 1:
		return p, ec2err.Combination("Only one of cidrIp, cidrIpv6, prefixListId, or referencedGroupId can be specified")
	}
	return p, nil
}

// ModifySecurityGroupRules replaces rules in place. They keep their IDs, direction and tags.
func (s *Service) ModifySecurityGroupRules(ctx context.Context, in *awsec2.ModifySecurityGroupRulesInput) (*awsec2.ModifySecurityGroupRulesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.SecurityGroupRules) == 0 {
		return nil, ec2err.Missing("securityGroupRules")
	}
	_, err := resource.Change(ctx, s.Core, record.SecurityGroups, in.DryRun, in.GroupId, func(tx *store.Tx, g *record.SecurityGroup) error {
		g.Rules = slices.Clone(g.Rules)
		for _, u := range in.SecurityGroupRules {
			id := aws.ToString(u.SecurityGroupRuleId)
			if err := resource.SecurityGroupRuleID.Check(id); err != nil {
				return err
			}
			i := slices.IndexFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.ID == id })
			if i < 0 {
				return resource.SecurityGroupRuleID.NotFound(id)
			}
			if u.SecurityGroupRule == nil {
				return ec2err.Missing("securityGroupRule")
			}
			p, err := ruleUpdate(u.SecurityGroupRule)
			if err != nil {
				return err
			}
			next, err := expand(tx, sc, *g, g.Rules[i].Egress, []ec2types.IpPermission{p})
			if err != nil {
				return err
			}
			r := next[0]
			r.ID, r.Tags = id, g.Rules[i].Tags
			if slices.ContainsFunc(g.Rules, func(o record.SecurityGroupRule) bool { return o.ID != id && o.Same(r) }) {
				return ec2err.PermissionDuplicate(r.Peer(), r.Protocol, portText(r.Protocol, r.From), portText(r.Protocol, r.To))
			}
			g.Rules[i] = r
		}
		for _, egress := range []bool{false, true} {
			if err := checkRules(tx, sc, g.Rules, egress); err != nil {
				return err
			}
		}
		return nil
	})
	return &awsec2.ModifySecurityGroupRulesOutput{Return: aws.Bool(true)}, err
}

// describeRules changes the descriptions of rules, which are identified by permissions or IDs.
func (s *Service) describeRules(ctx context.Context, req ruleRequest, byID []ec2types.SecurityGroupRuleDescription) error {
	sc := resource.ScopeOf(ctx)
	if len(req.perms) == 0 && len(byID) == 0 {
		return ec2err.Missing("ipPermissions")
	}
	if len(req.perms) > 0 && len(byID) > 0 {
		return ec2err.Combination("Specify either IP permissions or security group rule descriptions, not both.") // from memory
	}
	return s.Update(ctx, req.dryRun, func(tx *store.Tx) error {
		g, err := FindGroup(tx, sc, req.id, req.name)
		if err != nil {
			return err
		}
		g.Rules = slices.Clone(g.Rules)
		wanted, err := expand(tx, sc, g, req.egress, req.perms)
		if err != nil {
			return err
		}
		for _, w := range wanted {
			i := slices.IndexFunc(g.Rules, w.Same)
			if i < 0 {
				return ec2err.PermissionNotFound()
			}
			g.Rules[i].Description = w.Description
		}
		for _, d := range byID {
			id := aws.ToString(d.SecurityGroupRuleId)
			i := slices.IndexFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.ID == id && r.Egress == req.egress })
			if i < 0 {
				return resource.SecurityGroupRuleID.NotFound(id)
			}
			if text := aws.ToString(d.Description); len(text) > 255 || !groupText.MatchString(text) {
				return ec2err.RuleDescription()
			}
			g.Rules[i].Description = aws.ToString(d.Description)
		}
		return record.SecurityGroups.Put(tx, sc.Key(g.ID), g)
	})
}

// UpdateSecurityGroupRuleDescriptionsIngress changes the descriptions of inbound rules.
func (s *Service) UpdateSecurityGroupRuleDescriptionsIngress(ctx context.Context, in *awsec2.UpdateSecurityGroupRuleDescriptionsIngressInput) (*awsec2.UpdateSecurityGroupRuleDescriptionsIngressOutput, error) {
	err := s.describeRules(ctx, ruleRequest{dryRun: in.DryRun, id: in.GroupId, name: in.GroupName, perms: in.IpPermissions}, in.SecurityGroupRuleDescriptions)
	return &awsec2.UpdateSecurityGroupRuleDescriptionsIngressOutput{Return: aws.Bool(true)}, err
}

// UpdateSecurityGroupRuleDescriptionsEgress changes the descriptions of outbound rules.
func (s *Service) UpdateSecurityGroupRuleDescriptionsEgress(ctx context.Context, in *awsec2.UpdateSecurityGroupRuleDescriptionsEgressInput) (*awsec2.UpdateSecurityGroupRuleDescriptionsEgressOutput, error) {
	err := s.describeRules(ctx, ruleRequest{egress: true, dryRun: in.DryRun, id: in.GroupId, name: in.GroupName, perms: in.IpPermissions}, in.SecurityGroupRuleDescriptions)
	return &awsec2.UpdateSecurityGroupRuleDescriptionsEgressOutput{Return: aws.Bool(true)}, err
}
