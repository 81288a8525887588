package firewall

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// portText formats a port for filters and errors. It returns "" if there is none.
func portText(protocol string, port int32) string {
	if protocol == "-1" {
		return ""
	}
	return strconv.Itoa(int(port))
}

// normalProtocol converts a protocol to the form that EC2 returns.
func normalProtocol(p string) (string, error) {
	switch p = strings.ToLower(p); p {
	case "":
		// Verified against AWS by getmoto/moto's tests/test_ec2/test_security_groups.py.
		return "", ec2err.InvalidParameterValue("Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.")
	case "6":
		return "tcp", nil
	case "17":
		return "udp", nil
	case "1":
		return "icmp", nil
	case "58":
		return "icmpv6", nil
	case "-1", "all":
		return "-1", nil
	case "tcp", "udp", "icmp", "icmpv6":
		return p, nil
	}
	if n, err := strconv.Atoi(p); err == nil && n >= 0 && n <= 255 {
		return p, nil
	}
	return "", ec2err.InvalidParameterValue("Invalid value '%s' for IP protocol. Unknown protocol.", p)
}

// expand converts a request's permissions to rules, one per peer.
func expand(r store.Reader, sc resource.Scope, g record.SecurityGroup, egress bool, perms []ec2types.IpPermission) ([]record.SecurityGroupRule, error) {
	var out []record.SecurityGroupRule
	for _, p := range perms {
		protocol, err := normalProtocol(aws.ToString(p.IpProtocol))
		if err != nil {
			return nil, err
		}
		base := record.SecurityGroupRule{Egress: egress, Protocol: protocol, From: -1, To: -1}
		switch protocol {
		case "tcp", "udp":
			if p.FromPort == nil || p.ToPort == nil {
				return nil, ec2err.InvalidParameterValue("Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
			}
			base.From, base.To = *p.FromPort, *p.ToPort
			if base.From < 0 || base.To > 65535 || base.From > base.To {
				return nil, ec2err.InvalidParameterValue("Invalid TCP/UDP port range (%d:%d)", base.From, base.To)
			}
		case "icmp", "icmpv6":
			if p.FromPort != nil {
				base.From = *p.FromPort
			}
			if p.ToPort != nil {
				base.To = *p.ToPort
			}
		}
		before := len(out)
		add := func(description *string, set func(*record.SecurityGroupRule)) error {
			rule := base
			rule.Description = aws.ToString(description)
			if len(rule.Description) > 255 || !groupText.MatchString(rule.Description) {
				return ec2err.RuleDescription()
			}
			set(&rule)
			out = append(out, rule)
			return nil
		}
		for _, x := range p.IpRanges {
			cidr, ok := resource.ParseCIDR(aws.ToString(x.CidrIp))
			if !ok {
				return nil, ec2err.InvalidParameterValue("CIDR block %s is malformed", aws.ToString(x.CidrIp))
			}
			if err := add(x.Description, func(r *record.SecurityGroupRule) { r.CIDR = cidr.String() }); err != nil {
				return nil, err
			}
		}
		for _, x := range p.Ipv6Ranges {
			cidr, ok := resource.ParseCIDR6(aws.ToString(x.CidrIpv6))
			if !ok {
				return nil, ec2err.InvalidParameterValue("CIDR block %s is malformed", aws.ToString(x.CidrIpv6))
			}
			if err := add(x.Description, func(r *record.SecurityGroupRule) { r.CIDR6 = cidr.String() }); err != nil {
				return nil, err
			}
		}
		for _, x := range p.PrefixListIds {
			list, err := FindPrefixList(r, sc, aws.ToString(x.PrefixListId))
			if err != nil {
				return nil, err
			}
			if err := add(x.Description, func(r *record.SecurityGroupRule) { r.PrefixListID = list.ID }); err != nil {
				return nil, err
			}
		}
		for _, x := range p.UserIdGroupPairs {
			peer, err := findPeerGroup(r, sc, g, x)
			if err != nil {
				return nil, err
			}
			err = add(x.Description, func(r *record.SecurityGroupRule) {
				r.GroupID, r.GroupAccount, r.GroupVPCID, r.PeeringID = peer.GroupID, peer.GroupAccount, peer.GroupVPCID, peer.PeeringID
			})
			if err != nil {
				return nil, err
			}
		}
		if len(out) == before {
			return nil, ec2err.New("MissingParameter", "The request must contain at least one source or destination: CIDR block, prefix list or security group")
		}
	}
	return out, nil
}

// flatPermission returns the rule in the old, flat members of a request.
func flatPermission(perms []ec2types.IpPermission, protocol *string, from, to *int32, cidr, groupName *string) []ec2types.IpPermission {
	if protocol == nil && cidr == nil && groupName == nil {
		return perms
	}
	p := ec2types.IpPermission{IpProtocol: protocol, FromPort: from, ToPort: to}
	if cidr != nil {
		p.IpRanges = []ec2types.IpRange{{CidrIp: cidr}}
	}
	if groupName != nil {
		p.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupName: groupName}}
		if protocol == nil {
			p.IpProtocol = aws.String("-1")
		}
	}
	return append(slices.Clone(perms), p)
}

// A ruleRequest has what the four Authorize and Revoke operations have in common.
type ruleRequest struct {
	egress   bool
	dryRun   *bool
	id, name *string
	perms    []ec2types.IpPermission
	ruleIDs  []string
	tags     tag.Set
}

func (s *Service) authorize(ctx context.Context, req ruleRequest) ([]ec2types.SecurityGroupRule, error) {
	sc := resource.ScopeOf(ctx)
	if len(req.perms) == 0 {
		return nil, ec2err.Missing("ipPermissions")
	}
	var out []ec2types.SecurityGroupRule
	err := s.Update(ctx, req.dryRun, func(tx *store.Tx) error {
		g, err := FindGroup(tx, sc, req.id, req.name)
		if err != nil {
			return err
		}
		added, err := expand(tx, sc, g, req.egress, req.perms)
		if err != nil {
			return err
		}
		out = nil
		rules := slices.Clone(g.Rules)
		for _, r := range added {
			if slices.ContainsFunc(rules, r.Same) {
				return ec2err.PermissionDuplicate(r.Peer(), r.Protocol, portText(r.Protocol, r.From), portText(r.Protocol, r.To))
			}
			r.ID, r.Tags = ids.Resource("sgr"), req.tags
			rules = append(rules, r)
			out = append(out, r.SDK(sc, g.ID))
		}
		if err := checkRules(tx, sc, rules, req.egress); err != nil {
			return err
		}
		g.Rules = rules
		return record.SecurityGroups.Put(tx, sc.Key(g.ID), g)
	})
	return out, err
}

func (s *Service) revoke(ctx context.Context, req ruleRequest) ([]ec2types.RevokedSecurityGroupRule, error) {
	sc := resource.ScopeOf(ctx)
	if len(req.perms) == 0 && len(req.ruleIDs) == 0 {
		return nil, ec2err.Missing("ipPermissions")
	}
	if len(req.perms) > 0 && len(req.ruleIDs) > 0 {
		return nil, ec2err.Combination("Specify either IP permissions or security group rule IDs, not both.")
	}
	var out []ec2types.RevokedSecurityGroupRule
	err := s.Update(ctx, req.dryRun, func(tx *store.Tx) error {
		g, err := FindGroup(tx, sc, req.id, req.name)
		if err != nil {
			return err
		}
		gone, err := expandRevoked(tx, sc, g, req)
		if err != nil {
			return err
		}
		out = nil
		rules := slices.Clone(g.Rules)
		for _, matches := range gone {
			i := slices.IndexFunc(rules, matches)
			if i < 0 {
				return ec2err.PermissionNotFound()
			}
			r := rules[i]
			out = append(out, ec2types.RevokedSecurityGroupRule{
				SecurityGroupRuleId: aws.String(r.ID), GroupId: aws.String(g.ID), IsEgress: aws.Bool(r.Egress),
				IpProtocol: aws.String(r.Protocol), FromPort: aws.Int32(r.From), ToPort: aws.Int32(r.To),
				CidrIpv4: resource.Optional(r.CIDR), CidrIpv6: resource.Optional(r.CIDR6), PrefixListId: resource.Optional(r.PrefixListID),
				ReferencedGroupId: resource.Optional(r.GroupID), Description: resource.Optional(r.Description),
			})
			rules = slices.Delete(rules, i, i+1)
		}
		g.Rules = rules
		return record.SecurityGroups.Put(tx, sc.Key(g.ID), g)
	})
	return out, err
}

// expandRevoked returns a predicate for each rule to be revoked.
func expandRevoked(r store.Reader, sc resource.Scope, g record.SecurityGroup, req ruleRequest) ([]func(record.SecurityGroupRule) bool, error) {
	var out []func(record.SecurityGroupRule) bool
	for _, id := range req.ruleIDs {
		if err := resource.SecurityGroupRuleID.Check(id); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(g.Rules, func(r record.SecurityGroupRule) bool { return r.ID == id && r.Egress == req.egress }) {
			return nil, resource.SecurityGroupRuleID.NotFound(id)
		}
		out = append(out, func(r record.SecurityGroupRule) bool { return r.ID == id })
	}
	rules, err := expand(r, sc, g, req.egress, req.perms)
	if err != nil {
		return nil, err
	}
	for _, want := range rules {
		out = append(out, want.Same)
	}
	return out, nil
}

// AuthorizeSecurityGroupIngress adds inbound rules.
func (s *Service) AuthorizeSecurityGroupIngress(ctx context.Context, in *awsec2.AuthorizeSecurityGroupIngressInput) (*awsec2.AuthorizeSecurityGroupIngressOutput, error) {
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSecurityGroupRule)
	if err != nil {
		return nil, err
	}
	rules, err := s.authorize(ctx, ruleRequest{
		dryRun: in.DryRun, id: in.GroupId, name: in.GroupName, tags: tags,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	return &awsec2.AuthorizeSecurityGroupIngressOutput{Return: aws.Bool(true), SecurityGroupRules: rules}, err
}

// AuthorizeSecurityGroupEgress adds outbound rules.
func (s *Service) AuthorizeSecurityGroupEgress(ctx context.Context, in *awsec2.AuthorizeSecurityGroupEgressInput) (*awsec2.AuthorizeSecurityGroupEgressOutput, error) {
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSecurityGroupRule)
	if err != nil {
		return nil, err
	}
	rules, err := s.authorize(ctx, ruleRequest{
		egress: true, dryRun: in.DryRun, id: in.GroupId, tags: tags,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	return &awsec2.AuthorizeSecurityGroupEgressOutput{Return: aws.Bool(true), SecurityGroupRules: rules}, err
}

// RevokeSecurityGroupIngress removes inbound rules.
func (s *Service) RevokeSecurityGroupIngress(ctx context.Context, in *awsec2.RevokeSecurityGroupIngressInput) (*awsec2.RevokeSecurityGroupIngressOutput, error) {
	rules, err := s.revoke(ctx, ruleRequest{
		dryRun: in.DryRun, id: in.GroupId, name: in.GroupName, ruleIDs: in.SecurityGroupRuleIds,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	return &awsec2.RevokeSecurityGroupIngressOutput{Return: aws.Bool(true), RevokedSecurityGroupRules: rules}, err
}

// RevokeSecurityGroupEgress removes outbound rules.
func (s *Service) RevokeSecurityGroupEgress(ctx context.Context, in *awsec2.RevokeSecurityGroupEgressInput) (*awsec2.RevokeSecurityGroupEgressOutput, error) {
	rules, err := s.revoke(ctx, ruleRequest{
		egress: true, dryRun: in.DryRun, id: in.GroupId, ruleIDs: in.SecurityGroupRuleIds,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	return &awsec2.RevokeSecurityGroupEgressOutput{Return: aws.Bool(true), RevokedSecurityGroupRules: rules}, err
}
