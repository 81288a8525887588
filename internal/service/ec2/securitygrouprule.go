package ec2

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A securityGroupRule allows one protocol and port range from or to one peer.
type securityGroupRule struct {
	ID           string
	Egress       bool   `json:",omitempty"`
	Protocol     string // tcp, udp, icmp, icmpv6, a number, or -1
	From, To     int32  // -1 where the protocol has none
	CIDR         string `json:",omitempty"` // exactly one of the peers is set
	CIDR6        string `json:",omitempty"`
	PrefixListID string `json:",omitempty"`
	GroupID      string `json:",omitempty"`
	GroupAccount string `json:",omitempty"`
	// GroupVPCID and PeeringID are set for a group of a peered VPC.
	GroupVPCID  string `json:",omitempty"`
	PeeringID   string `json:",omitempty"`
	Description string `json:",omitempty"`
	Tags        Tags   `json:",omitempty"`
}

func (r securityGroupRule) peer() string { return r.CIDR + r.CIDR6 + r.PrefixListID + r.GroupID }

// same reports whether two rules allow the same; descriptions and tags do not count.
func (r securityGroupRule) same(o securityGroupRule) bool {
	return r.Egress == o.Egress && r.Protocol == o.Protocol && r.From == o.From && r.To == o.To && r.peer() == o.peer()
}

// portText is a port as filters and errors see it: empty where there is none.
func portText(protocol string, port int32) string {
	if protocol == "-1" {
		return ""
	}
	return strconv.Itoa(int(port))
}

// permissions groups rules by protocol and ports, as DescribeSecurityGroups does.
func permissions(rules []securityGroupRule, egress bool) []ec2types.IpPermission {
	out := []ec2types.IpPermission{}
	type ports struct {
		protocol string
		from, to int32
	}
	index := map[ports]int{}
	for _, r := range rules {
		if r.Egress != egress {
			continue
		}
		k := ports{r.Protocol, r.From, r.To}
		i, ok := index[k]
		if !ok {
			i = len(out)
			index[k] = i
			p := ec2types.IpPermission{
				IpProtocol: aws.String(r.Protocol), IpRanges: []ec2types.IpRange{}, Ipv6Ranges: []ec2types.Ipv6Range{},
				PrefixListIds: []ec2types.PrefixListId{}, UserIdGroupPairs: []ec2types.UserIdGroupPair{},
			}
			if r.Protocol != "-1" {
				p.FromPort, p.ToPort = aws.Int32(r.From), aws.Int32(r.To)
			}
			out = append(out, p)
		}
		p := &out[i]
		switch description := optional(r.Description); {
		case r.CIDR != "":
			p.IpRanges = append(p.IpRanges, ec2types.IpRange{CidrIp: aws.String(r.CIDR), Description: description})
		case r.CIDR6 != "":
			p.Ipv6Ranges = append(p.Ipv6Ranges, ec2types.Ipv6Range{CidrIpv6: aws.String(r.CIDR6), Description: description})
		case r.PrefixListID != "":
			p.PrefixListIds = append(p.PrefixListIds, ec2types.PrefixListId{PrefixListId: aws.String(r.PrefixListID), Description: description})
		default: // no GroupName: groups in VPCs have none here, and Terraform minds
			pair := ec2types.UserIdGroupPair{GroupId: aws.String(r.GroupID), UserId: aws.String(r.GroupAccount), Description: description}
			if r.PeeringID != "" {
				pair.VpcId, pair.VpcPeeringConnectionId, pair.PeeringStatus = aws.String(r.GroupVPCID), aws.String(r.PeeringID), aws.String("active")
			}
			p.UserIdGroupPairs = append(p.UserIdGroupPairs, pair)
		}
	}
	return out
}

func (r securityGroupRule) sdk(sc scope, group string) ec2types.SecurityGroupRule {
	out := ec2types.SecurityGroupRule{
		SecurityGroupRuleId:  aws.String(r.ID),
		SecurityGroupRuleArn: aws.String(sc.arn("security-group-rule", r.ID)),
		GroupId:              aws.String(group),
		GroupOwnerId:         aws.String(sc.account),
		IsEgress:             aws.Bool(r.Egress),
		IpProtocol:           aws.String(r.Protocol),
		FromPort:             aws.Int32(r.From),
		ToPort:               aws.Int32(r.To),
		CidrIpv4:             optional(r.CIDR),
		CidrIpv6:             optional(r.CIDR6),
		PrefixListId:         optional(r.PrefixListID),
		Description:          optional(r.Description),
		Tags:                 r.Tags.sdk(),
	}
	if r.GroupID != "" {
		out.ReferencedGroupInfo = &ec2types.ReferencedSecurityGroup{
			GroupId: aws.String(r.GroupID), UserId: aws.String(r.GroupAccount),
			VpcId: optional(r.GroupVPCID), VpcPeeringConnectionId: optional(r.PeeringID),
		}
	}
	return out
}

// normalProtocol is the protocol as EC2 returns it.
func normalProtocol(p string) (string, error) {
	switch p = strings.ToLower(p); p {
	case "":
		// Verified against AWS by getmoto/moto's tests/test_ec2/test_security_groups.py.
		return "", errInvalidParameter("Invalid value 'null' for protocol. VPC security group rules must specify protocols explicitly.")
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
	return "", errInvalidParameter("Invalid value '%s' for IP protocol. Unknown protocol.", p)
}

// expand turns a request's permissions into rules, one per peer.
func expand(r store.Reader, sc scope, g securityGroupRecord, egress bool, perms []ec2types.IpPermission) ([]securityGroupRule, error) {
	var out []securityGroupRule
	for _, p := range perms {
		protocol, err := normalProtocol(aws.ToString(p.IpProtocol))
		if err != nil {
			return nil, err
		}
		base := securityGroupRule{Egress: egress, Protocol: protocol, From: -1, To: -1}
		switch protocol {
		case "tcp", "udp":
			if p.FromPort == nil || p.ToPort == nil {
				return nil, errInvalidParameter("Invalid value 'Must specify both from and to ports with TCP/UDP.' for portRange.")
			}
			base.From, base.To = *p.FromPort, *p.ToPort
			if base.From < 0 || base.To > 65535 || base.From > base.To {
				return nil, errInvalidParameter("Invalid TCP/UDP port range (%d:%d)", base.From, base.To)
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
		add := func(description *string, set func(*securityGroupRule)) error {
			rule := base
			rule.Description = aws.ToString(description)
			if len(rule.Description) > 255 || !groupText.MatchString(rule.Description) {
				return errRuleDescription()
			}
			set(&rule)
			out = append(out, rule)
			return nil
		}
		for _, x := range p.IpRanges {
			cidr, ok := parseCIDR(aws.ToString(x.CidrIp))
			if !ok {
				return nil, errInvalidParameter("CIDR block %s is malformed", aws.ToString(x.CidrIp))
			}
			if err := add(x.Description, func(r *securityGroupRule) { r.CIDR = cidr.String() }); err != nil {
				return nil, err
			}
		}
		for _, x := range p.Ipv6Ranges {
			cidr, ok := parseCIDR6(aws.ToString(x.CidrIpv6))
			if !ok {
				return nil, errInvalidParameter("CIDR block %s is malformed", aws.ToString(x.CidrIpv6))
			}
			if err := add(x.Description, func(r *securityGroupRule) { r.CIDR6 = cidr.String() }); err != nil {
				return nil, err
			}
		}
		for _, x := range p.PrefixListIds {
			list, err := findPrefixList(r, sc, aws.ToString(x.PrefixListId))
			if err != nil {
				return nil, err
			}
			if err := add(x.Description, func(r *securityGroupRule) { r.PrefixListID = list.ID }); err != nil {
				return nil, err
			}
		}
		for _, x := range p.UserIdGroupPairs {
			peer, err := findPeerGroup(r, sc, g, x)
			if err != nil {
				return nil, err
			}
			err = add(x.Description, func(r *securityGroupRule) {
				r.GroupID, r.GroupAccount, r.GroupVPCID, r.PeeringID = peer.GroupID, peer.GroupAccount, peer.GroupVPCID, peer.PeeringID
			})
			if err != nil {
				return nil, err
			}
		}
		if len(out) == before {
			return nil, errf("MissingParameter", "The request must contain at least one source or destination: CIDR block, prefix list or security group")
		}
	}
	return out, nil
}

// flatPermission is a rule given by the old flat members.
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

// A ruleRequest is what the four Authorize and Revoke operations have in common.
type ruleRequest struct {
	egress   bool
	dryRun   *bool
	id, name *string
	perms    []ec2types.IpPermission
	ruleIDs  []string
	tags     Tags
}

func (s *Service) authorize(ctx context.Context, req ruleRequest) ([]ec2types.SecurityGroupRule, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(req.perms) == 0 {
		return nil, errMissing("ipPermissions")
	}
	var out []ec2types.SecurityGroupRule
	err = s.update(ctx, req.dryRun, func(tx *store.Tx) error {
		g, err := findGroup(tx, sc, req.id, req.name)
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
			if slices.ContainsFunc(rules, r.same) {
				return errPermissionDuplicate(r.peer(), r.Protocol, portText(r.Protocol, r.From), portText(r.Protocol, r.To))
			}
			r.ID, r.Tags = ids.Resource("sgr"), req.tags
			rules = append(rules, r)
			out = append(out, r.sdk(sc, g.ID))
		}
		if err := checkRules(tx, sc, rules, req.egress); err != nil {
			return err
		}
		g.Rules = rules
		return securityGroups.Put(tx, sc.key(g.ID), g)
	})
	return out, err
}

func (s *Service) revoke(ctx context.Context, req ruleRequest) ([]ec2types.RevokedSecurityGroupRule, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(req.perms) == 0 && len(req.ruleIDs) == 0 {
		return nil, errMissing("ipPermissions")
	}
	if len(req.perms) > 0 && len(req.ruleIDs) > 0 {
		return nil, errCombination("Specify either IP permissions or security group rule IDs, not both.")
	}
	var out []ec2types.RevokedSecurityGroupRule
	err = s.update(ctx, req.dryRun, func(tx *store.Tx) error {
		g, err := findGroup(tx, sc, req.id, req.name)
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
				return errPermissionNotFound()
			}
			r := rules[i]
			out = append(out, ec2types.RevokedSecurityGroupRule{
				SecurityGroupRuleId: aws.String(r.ID), GroupId: aws.String(g.ID), IsEgress: aws.Bool(r.Egress),
				IpProtocol: aws.String(r.Protocol), FromPort: aws.Int32(r.From), ToPort: aws.Int32(r.To),
				CidrIpv4: optional(r.CIDR), CidrIpv6: optional(r.CIDR6), PrefixListId: optional(r.PrefixListID),
				ReferencedGroupId: optional(r.GroupID), Description: optional(r.Description),
			})
			rules = slices.Delete(rules, i, i+1)
		}
		g.Rules = rules
		return securityGroups.Put(tx, sc.key(g.ID), g)
	})
	return out, err
}

// expandRevoked returns a predicate for each rule that is to go.
func expandRevoked(r store.Reader, sc scope, g securityGroupRecord, req ruleRequest) ([]func(securityGroupRule) bool, error) {
	var out []func(securityGroupRule) bool
	for _, id := range req.ruleIDs {
		if err := securityGroupRuleID.check(id); err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(g.Rules, func(r securityGroupRule) bool { return r.ID == id && r.Egress == req.egress }) {
			return nil, securityGroupRuleID.notFound(id)
		}
		out = append(out, func(r securityGroupRule) bool { return r.ID == id })
	}
	rules, err := expand(r, sc, g, req.egress, req.perms)
	if err != nil {
		return nil, err
	}
	for _, want := range rules {
		out = append(out, want.same)
	}
	return out, nil
}

// AuthorizeSecurityGroupIngress adds inbound rules.
func (s *Service) AuthorizeSecurityGroupIngress(ctx context.Context, in *awsec2.AuthorizeSecurityGroupIngressInput) (*awsec2.AuthorizeSecurityGroupIngressOutput, error) {
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeSecurityGroupRule)
	if err != nil {
		return nil, err
	}
	rules, err := s.authorize(ctx, ruleRequest{
		dryRun: in.DryRun, id: in.GroupId, name: in.GroupName, tags: tags,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AuthorizeSecurityGroupIngressOutput{Return: aws.Bool(true), SecurityGroupRules: rules}, nil
}

// AuthorizeSecurityGroupEgress adds outbound rules.
func (s *Service) AuthorizeSecurityGroupEgress(ctx context.Context, in *awsec2.AuthorizeSecurityGroupEgressInput) (*awsec2.AuthorizeSecurityGroupEgressOutput, error) {
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeSecurityGroupRule)
	if err != nil {
		return nil, err
	}
	rules, err := s.authorize(ctx, ruleRequest{
		egress: true, dryRun: in.DryRun, id: in.GroupId, tags: tags,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AuthorizeSecurityGroupEgressOutput{Return: aws.Bool(true), SecurityGroupRules: rules}, nil
}

// RevokeSecurityGroupIngress removes inbound rules.
func (s *Service) RevokeSecurityGroupIngress(ctx context.Context, in *awsec2.RevokeSecurityGroupIngressInput) (*awsec2.RevokeSecurityGroupIngressOutput, error) {
	rules, err := s.revoke(ctx, ruleRequest{
		dryRun: in.DryRun, id: in.GroupId, name: in.GroupName, ruleIDs: in.SecurityGroupRuleIds,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.RevokeSecurityGroupIngressOutput{Return: aws.Bool(true), RevokedSecurityGroupRules: rules}, nil
}

// RevokeSecurityGroupEgress removes outbound rules.
func (s *Service) RevokeSecurityGroupEgress(ctx context.Context, in *awsec2.RevokeSecurityGroupEgressInput) (*awsec2.RevokeSecurityGroupEgressOutput, error) {
	rules, err := s.revoke(ctx, ruleRequest{
		egress: true, dryRun: in.DryRun, id: in.GroupId, ruleIDs: in.SecurityGroupRuleIds,
		perms: flatPermission(in.IpPermissions, in.IpProtocol, in.FromPort, in.ToPort, in.CidrIp, in.SourceSecurityGroupName),
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.RevokeSecurityGroupEgressOutput{Return: aws.Bool(true), RevokedSecurityGroupRules: rules}, nil
}
