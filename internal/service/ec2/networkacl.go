package ec2

import (
	"context"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

type networkACLRecord struct {
	ID           string
	VPCID        string
	Default      bool                    `json:",omitempty"`
	Associations []networkACLAssociation `json:",omitempty"`
	Entries      []networkACLEntry
	Tags         Tags `json:",omitempty"`
}

type networkACLAssociation struct{ ID, SubnetID string }

type networkACLEntry struct {
	Egress   bool `json:",omitempty"`
	Number   int32
	Protocol string // "-1", or a number
	CIDR     string `json:",omitempty"` // exactly one of CIDR and CIDR6 is set
	CIDR6    string `json:",omitempty"`
	Allow    bool   `json:",omitempty"`
	// Ports are those of TCP and UDP, nil for other protocols.
	Ports *portRange `json:",omitempty"`
	// ICMP is that of ICMP and ICMPv6, nil for other protocols.
	ICMP *icmpType `json:",omitempty"`
}

type portRange struct{ From, To int32 }

// An icmpType is a type and code; -1 stands for all.
type icmpType struct{ Type, Code int32 }

// lastRule is the number of the entry that denies what no other allows.
const lastRule = 32767

// newDefaultACL allows everything both ways.
func newDefaultACL(vpc string) networkACLRecord {
	return networkACLRecord{
		ID: ids.Resource("acl"), VPCID: vpc, Default: true,
		Entries: []networkACLEntry{
			{Egress: true, Number: 100, Protocol: "-1", CIDR: "0.0.0.0/0", Allow: true},
			{Egress: true, Number: lastRule, Protocol: "-1", CIDR: "0.0.0.0/0"},
			{Number: 100, Protocol: "-1", CIDR: "0.0.0.0/0", Allow: true},
			{Number: lastRule, Protocol: "-1", CIDR: "0.0.0.0/0"},
		},
	}
}

// openDefaultACL6 allows all IPv6 traffic in the default ACL of a VPC that gets its
// first IPv6 block, in each direction whose entries nobody has changed.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-network-acl.html
func openDefaultACL6(tx *store.Tx, sc scope, v vpcRecord) error {
	return networkACLs.Update(tx, sc.key(v.DefaultACLID), func(a *networkACLRecord) error {
		for _, egress := range []bool{true, false} {
			own, changed := 0, false
			for _, e := range a.Entries {
				if e.Egress == egress {
					own++
					changed = changed || e.CIDR6 != "" || e.Number != 100 && e.Number != lastRule
				}
			}
			if changed || own != 2 {
				continue
			}
			a.Entries = append(a.Entries,
				networkACLEntry{Egress: egress, Number: 101, Protocol: "-1", CIDR6: "::/0", Allow: true},
				networkACLEntry{Egress: egress, Number: lastRule + 1, Protocol: "-1", CIDR6: "::/0"})
		}
		return nil
	})
}

func (a networkACLRecord) has(subnet string) bool {
	return slices.ContainsFunc(a.Associations, func(as networkACLAssociation) bool { return as.SubnetID == subnet })
}

func (a networkACLRecord) without(subnet string) networkACLRecord {
	a.Associations = slices.DeleteFunc(slices.Clone(a.Associations), func(as networkACLAssociation) bool { return as.SubnetID == subnet })
	return a
}

func (e networkACLEntry) action() ec2types.RuleAction {
	if e.Allow {
		return ec2types.RuleActionAllow
	}
	return ec2types.RuleActionDeny
}

func (p *portRange) sdk() *ec2types.PortRange {
	if p == nil {
		return nil
	}
	return &ec2types.PortRange{From: aws.Int32(p.From), To: aws.Int32(p.To)}
}

func (t *icmpType) sdk() *ec2types.IcmpTypeCode {
	if t == nil {
		return nil
	}
	return &ec2types.IcmpTypeCode{Type: aws.Int32(t.Type), Code: aws.Int32(t.Code)}
}

func (a networkACLRecord) sdk(sc scope) ec2types.NetworkAcl {
	out := ec2types.NetworkAcl{
		NetworkAclId: aws.String(a.ID), VpcId: aws.String(a.VPCID), OwnerId: aws.String(sc.account),
		IsDefault: aws.Bool(a.Default), Associations: []ec2types.NetworkAclAssociation{}, Tags: a.Tags.sdk(),
	}
	for _, as := range a.Associations {
		out.Associations = append(out.Associations, ec2types.NetworkAclAssociation{
			NetworkAclAssociationId: aws.String(as.ID), NetworkAclId: aws.String(a.ID), SubnetId: aws.String(as.SubnetID),
		})
	}
	for _, e := range a.Entries {
		out.Entries = append(out.Entries, ec2types.NetworkAclEntry{
			Egress: aws.Bool(e.Egress), RuleNumber: aws.Int32(e.Number), Protocol: aws.String(e.Protocol),
			CidrBlock: optional(e.CIDR), Ipv6CidrBlock: optional(e.CIDR6), RuleAction: e.action(),
			PortRange: e.Ports.sdk(), IcmpTypeCode: e.ICMP.sdk(),
		})
	}
	return out
}

func networkACLFields(sc scope) fields[networkACLRecord] {
	type v = networkACLRecord
	assoc := func(get func(v, networkACLAssociation) string) func(v) []string {
		return func(a v) []string {
			var out []string
			for _, as := range a.Associations {
				out = append(out, get(a, as))
			}
			return out
		}
	}
	entry := func(get func(networkACLEntry) string) func(v) []string {
		return func(a v) []string {
			var out []string
			for _, e := range a.Entries {
				if s := get(e); s != "" {
					out = append(out, s)
				}
			}
			return out
		}
	}
	icmp := func(get func(icmpType) int32) func(networkACLEntry) string {
		return func(e networkACLEntry) string {
			if e.ICMP == nil {
				return ""
			}
			return text(get(*e.ICMP))
		}
	}
	ports := func(get func(portRange) int32) func(networkACLEntry) string {
		return func(e networkACLEntry) string {
			if e.Ports == nil {
				return ""
			}
			return text(get(*e.Ports))
		}
	}
	return fields[v]{
		"association.association-id": assoc(func(_ v, as networkACLAssociation) string { return as.ID }),
		"association.network-acl-id": assoc(func(a v, _ networkACLAssociation) string { return a.ID }),
		"association.subnet-id":      assoc(func(_ v, as networkACLAssociation) string { return as.SubnetID }),
		"default":                    flag(func(a v) bool { return a.Default }),
		"entry.cidr":                 entry(func(e networkACLEntry) string { return e.CIDR }),
		"entry.icmp.code":            entry(icmp(func(t icmpType) int32 { return t.Code })),
		"entry.icmp.type":            entry(icmp(func(t icmpType) int32 { return t.Type })),
		"entry.ipv6-cidr":            entry(func(e networkACLEntry) string { return e.CIDR6 }),
		"entry.port-range.from":      entry(ports(func(p portRange) int32 { return p.From })),
		"entry.port-range.to":        entry(ports(func(p portRange) int32 { return p.To })),
		"entry.protocol":             entry(func(e networkACLEntry) string { return e.Protocol }),
		"entry.rule-action":          entry(func(e networkACLEntry) string { return string(e.action()) }),
		"entry.egress":               entry(func(e networkACLEntry) string { return strconv.FormatBool(e.Egress) }),
		"entry.rule-number":          entry(func(e networkACLEntry) string { return strconv.Itoa(int(e.Number)) }),
		"network-acl-id":             one(func(a v) string { return a.ID }),
		"owner-id":                   one(func(v) string { return sc.account }),
		"vpc-id":                     one(func(a v) string { return a.VPCID }),
	}
}

// DescribeNetworkAcls lists network ACLs.
func (s *Service) DescribeNetworkAcls(ctx context.Context, in *awsec2.DescribeNetworkAclsInput) (*awsec2.DescribeNetworkAclsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, networkACLFields(sc), func(a networkACLRecord) Tags { return a.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choose(s.store, networkACLs, sc, networkACLID, in.NetworkAclIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(a networkACLRecord) string { return a.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeNetworkAclsOutput{NetworkAcls: sdkAll(sc, found), NextToken: next}, err
}
