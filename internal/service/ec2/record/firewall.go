package record

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// A NetworkACL is a network ACL with its entries.
type NetworkACL struct {
	ID           string
	VPCID        string
	Default      bool                    `json:",omitempty"`
	Associations []NetworkACLAssociation `json:",omitempty"`
	Entries      []NetworkACLEntry
	Tags         tag.Set `json:",omitempty"`
}

// A NetworkACLAssociation associates a network ACL with a subnet.
type NetworkACLAssociation struct{ ID, SubnetID string }

// A NetworkACLEntry allows or denies traffic in one direction.
type NetworkACLEntry struct {
	Egress   bool `json:",omitempty"`
	Number   int32
	Protocol string // "-1", or a number
	CIDR     string `json:",omitempty"` // exactly one of CIDR and CIDR6 is set
	CIDR6    string `json:",omitempty"`
	Allow    bool   `json:",omitempty"`
	// Ports is set for TCP and UDP, and nil for other protocols.
	Ports *PortRange `json:",omitempty"`
	// ICMP is set for ICMP and ICMPv6, and nil for other protocols.
	ICMP *ICMPType `json:",omitempty"`
}

// A PortRange is a range of ports, both ends included.
type PortRange struct{ From, To int32 }

// An ICMPType is a type and a code; -1 means all.
type ICMPType struct{ Type, Code int32 }

// Has reports whether the ACL is associated with a subnet.
func (a NetworkACL) Has(subnet string) bool {
	return slices.ContainsFunc(a.Associations, func(as NetworkACLAssociation) bool { return as.SubnetID == subnet })
}

// Without returns the ACL without the association of a subnet.
func (a NetworkACL) Without(subnet string) NetworkACL {
	a.Associations = slices.DeleteFunc(slices.Clone(a.Associations), func(as NetworkACLAssociation) bool { return as.SubnetID == subnet })
	return a
}

// Action returns the entry's action: allow or deny.
func (e NetworkACLEntry) Action() ec2types.RuleAction {
	if e.Allow {
		return ec2types.RuleActionAllow
	}
	return ec2types.RuleActionDeny
}

// SDK renders the record for the SDK.
func (p *PortRange) SDK() *ec2types.PortRange {
	if p == nil {
		return nil
	}
	return &ec2types.PortRange{From: aws.Int32(p.From), To: aws.Int32(p.To)}
}

// SDK renders the record for the SDK.
func (t *ICMPType) SDK() *ec2types.IcmpTypeCode {
	if t == nil {
		return nil
	}
	return &ec2types.IcmpTypeCode{Type: aws.Int32(t.Type), Code: aws.Int32(t.Code)}
}

// SDK renders the record for the SDK.
func (a NetworkACL) SDK(sc resource.Scope) ec2types.NetworkAcl {
	out := ec2types.NetworkAcl{
		NetworkAclId: aws.String(a.ID), VpcId: aws.String(a.VPCID), OwnerId: aws.String(sc.Account),
		IsDefault: aws.Bool(a.Default), Associations: []ec2types.NetworkAclAssociation{}, Tags: a.Tags.SDK(),
	}
	for _, as := range a.Associations {
		out.Associations = append(out.Associations, ec2types.NetworkAclAssociation{
			NetworkAclAssociationId: aws.String(as.ID), NetworkAclId: aws.String(a.ID), SubnetId: aws.String(as.SubnetID),
		})
	}
	for _, e := range a.Entries {
		out.Entries = append(out.Entries, ec2types.NetworkAclEntry{
			Egress: aws.Bool(e.Egress), RuleNumber: aws.Int32(e.Number), Protocol: aws.String(e.Protocol),
			CidrBlock: resource.Optional(e.CIDR), Ipv6CidrBlock: resource.Optional(e.CIDR6), RuleAction: e.Action(),
			PortRange: e.Ports.SDK(), IcmpTypeCode: e.ICMP.SDK(),
		})
	}
	return out
}

// Find returns the index of an entry, or -1 if not found.
func (a NetworkACL) Find(egress bool, number int32) int {
	return slices.IndexFunc(a.Entries, func(e NetworkACLEntry) bool { return e.Egress == egress && e.Number == number })
}

// A PrefixList is a customer-managed prefix list. AWS's own lists are computed
// (firewall.ManagedPrefixLists).
type PrefixList struct {
	ID         string // pl-…
	Name       string
	IPv6       bool `json:",omitempty"`
	MaxEntries int32
	Version    int64 // the current version, starting with 1
	// Versions has the entries of recent versions, the current one last.
	Versions [][]PrefixListEntry
	State    string  // create-complete, modify-complete, …
	Tags     tag.Set `json:",omitempty"`
	// Managed marks AWS's own lists, which are not stored.
	Managed bool `json:"-"`
}

// A PrefixListEntry is a block of a prefix list.
type PrefixListEntry struct {
	CIDR        string
	Description string `json:",omitempty"`
}

// Entries returns the entries of the current version.
func (p PrefixList) Entries() []PrefixListEntry {
	if len(p.Versions) == 0 {
		return nil
	}
	return p.Versions[len(p.Versions)-1]
}

// CIDRs returns the blocks of the current version.
func (p PrefixList) CIDRs() []string {
	return resource.Each(PrefixList.Entries, func(e PrefixListEntry) string { return e.CIDR })(p)
}

func (p PrefixList) family() string {
	if p.IPv6 {
		return "IPv6"
	}
	return "IPv4"
}

// Owner returns the account that the list belongs to.
func (p PrefixList) Owner(sc resource.Scope) string {
	if p.Managed {
		return "AWS"
	}
	return sc.Account
}

func (p PrefixList) arn(sc resource.Scope) string {
	if p.Managed {
		return resource.Scope{Account: "aws", Region: sc.Region}.ARN("prefix-list", p.ID)
	}
	return sc.ARN("prefix-list", p.ID)
}

// SDK renders the record for the SDK.
func (p PrefixList) SDK(sc resource.Scope) ec2types.ManagedPrefixList {
	out := ec2types.ManagedPrefixList{
		PrefixListId: aws.String(p.ID), PrefixListName: aws.String(p.Name), AddressFamily: aws.String(p.family()),
		OwnerId: aws.String(p.Owner(sc)), PrefixListArn: aws.String(p.arn(sc)),
		State: ec2types.PrefixListState(p.State), Tags: p.Tags.SDK(),
	}
	if !p.Managed {
		out.MaxEntries, out.Version = aws.Int32(p.MaxEntries), aws.Int64(p.Version)
	}
	return out
}

// A SecurityGroup is a security group with its rules.
type SecurityGroup struct {
	ID          string
	VPCID       string
	Name        string
	Description string
	Rules       []SecurityGroupRule `json:",omitempty"`
	Tags        tag.Set             `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (g SecurityGroup) SDK(sc resource.Scope) ec2types.SecurityGroup {
	return ec2types.SecurityGroup{
		GroupId:             aws.String(g.ID),
		GroupName:           aws.String(g.Name),
		Description:         aws.String(g.Description),
		OwnerId:             aws.String(sc.Account),
		VpcId:               aws.String(g.VPCID),
		SecurityGroupArn:    aws.String(sc.ARN("security-group", g.ID)),
		IpPermissions:       Permissions(g.Rules, false),
		IpPermissionsEgress: Permissions(g.Rules, true),
		Tags:                g.Tags.SDK(),
	}
}

// A SecurityGroupRule allows one protocol and port range to or from one peer.
type SecurityGroupRule struct {
	ID           string
	Egress       bool   `json:",omitempty"`
	Protocol     string // tcp, udp, icmp, icmpv6, a number, or -1
	From, To     int32  // -1 for protocols without ports
	CIDR         string `json:",omitempty"` // exactly one peer is set
	CIDR6        string `json:",omitempty"`
	PrefixListID string `json:",omitempty"`
	GroupID      string `json:",omitempty"`
	GroupAccount string `json:",omitempty"`
	// GroupVPCID and PeeringID are set for a group of a peered VPC.
	GroupVPCID  string  `json:",omitempty"`
	PeeringID   string  `json:",omitempty"`
	Description string  `json:",omitempty"`
	Tags        tag.Set `json:",omitempty"`
}

// Peer returns the rule's peer.
func (r SecurityGroupRule) Peer() string { return r.CIDR + r.CIDR6 + r.PrefixListID + r.GroupID }

// Same reports whether two rules allow the same traffic. Descriptions and tags do not matter.
func (r SecurityGroupRule) Same(o SecurityGroupRule) bool {
	return r.Egress == o.Egress && r.Protocol == o.Protocol && r.From == o.From && r.To == o.To && r.Peer() == o.Peer()
}

// Permissions groups rules by protocol and ports, as DescribeSecurityGroups does.
func Permissions(rules []SecurityGroupRule, egress bool) []ec2types.IpPermission {
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
			switch r.Protocol {
			case "tcp", "udp", "icmp", "icmpv6": // rules for other protocols have no ports
				p.FromPort, p.ToPort = aws.Int32(r.From), aws.Int32(r.To)
			}
			out = append(out, p)
		}
		p := &out[i]
		switch description := resource.Optional(r.Description); {
		case r.CIDR != "":
			p.IpRanges = append(p.IpRanges, ec2types.IpRange{CidrIp: aws.String(r.CIDR), Description: description})
		case r.CIDR6 != "":
			p.Ipv6Ranges = append(p.Ipv6Ranges, ec2types.Ipv6Range{CidrIpv6: aws.String(r.CIDR6), Description: description})
		case r.PrefixListID != "":
			p.PrefixListIds = append(p.PrefixListIds, ec2types.PrefixListId{PrefixListId: aws.String(r.PrefixListID), Description: description})
		default: // GroupName is left out, as EC2 does for groups in VPCs; Terraform depends on it.
			pair := ec2types.UserIdGroupPair{GroupId: aws.String(r.GroupID), UserId: aws.String(r.GroupAccount), Description: description}
			if r.PeeringID != "" {
				pair.VpcId, pair.VpcPeeringConnectionId, pair.PeeringStatus = aws.String(r.GroupVPCID), aws.String(r.PeeringID), aws.String("active")
			}
			p.UserIdGroupPairs = append(p.UserIdGroupPairs, pair)
		}
	}
	return out
}

// SDK renders the record for the SDK.
func (r SecurityGroupRule) SDK(sc resource.Scope, group string) ec2types.SecurityGroupRule {
	out := ec2types.SecurityGroupRule{
		SecurityGroupRuleId:  aws.String(r.ID),
		SecurityGroupRuleArn: aws.String(sc.ARN("security-group-rule", r.ID)),
		GroupId:              aws.String(group),
		GroupOwnerId:         aws.String(sc.Account),
		IsEgress:             aws.Bool(r.Egress),
		IpProtocol:           aws.String(r.Protocol),
		FromPort:             aws.Int32(r.From),
		ToPort:               aws.Int32(r.To),
		CidrIpv4:             resource.Optional(r.CIDR),
		CidrIpv6:             resource.Optional(r.CIDR6),
		PrefixListId:         resource.Optional(r.PrefixListID),
		Description:          resource.Optional(r.Description),
		Tags:                 r.Tags.SDK(),
	}
	if r.GroupID != "" {
		out.ReferencedGroupInfo = &ec2types.ReferencedSecurityGroup{
			GroupId: aws.String(r.GroupID), UserId: aws.String(r.GroupAccount),
			VpcId: resource.Optional(r.GroupVPCID), VpcPeeringConnectionId: resource.Optional(r.PeeringID),
		}
	}
	return out
}
