package firewall

import (
	"context"
	"strconv"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// lastRule is the number of the final entry, which denies everything that no other entry allows.
const lastRule = 32767

// NewDefaultACL returns a default ACL, which allows everything in both directions.
func NewDefaultACL(vpc string) record.NetworkACL {
	return record.NetworkACL{
		ID: ids.Resource("acl"), VPCID: vpc, Default: true,
		Entries: []record.NetworkACLEntry{
			{Egress: true, Number: 100, Protocol: "-1", CIDR: "0.0.0.0/0", Allow: true},
			{Egress: true, Number: lastRule, Protocol: "-1", CIDR: "0.0.0.0/0"},
			{Number: 100, Protocol: "-1", CIDR: "0.0.0.0/0", Allow: true},
			{Number: lastRule, Protocol: "-1", CIDR: "0.0.0.0/0"},
		},
	}
}

// OpenDefaultACL6 allows all IPv6 traffic in the default ACL of a VPC that gets its first IPv6
// block, in each direction whose entries have not been changed.
// https://docs.aws.amazon.com/vpc/latest/userguide/default-network-acl.html
func OpenDefaultACL6(tx *store.Tx, sc resource.Scope, v record.VPC) error {
	return record.NetworkACLs.Update(tx, sc.Key(v.DefaultACLID), func(a *record.NetworkACL) error {
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
				record.NetworkACLEntry{Egress: egress, Number: 101, Protocol: "-1", CIDR6: "::/0", Allow: true},
				record.NetworkACLEntry{Egress: egress, Number: lastRule + 1, Protocol: "-1", CIDR6: "::/0"})
		}
		return nil
	})
}

func networkACLFields(sc resource.Scope) filter.Fields[record.NetworkACL] {
	type v = record.NetworkACL
	assoc := func(get func(v, record.NetworkACLAssociation) string) func(v) []string {
		return func(a v) []string {
			var out []string
			for _, as := range a.Associations {
				out = append(out, get(a, as))
			}
			return out
		}
	}
	entry := func(get func(record.NetworkACLEntry) string) func(v) []string {
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
	icmp := func(get func(record.ICMPType) int32) func(record.NetworkACLEntry) string {
		return func(e record.NetworkACLEntry) string {
			if e.ICMP == nil {
				return ""
			}
			return resource.Text(get(*e.ICMP))
		}
	}
	ports := func(get func(record.PortRange) int32) func(record.NetworkACLEntry) string {
		return func(e record.NetworkACLEntry) string {
			if e.Ports == nil {
				return ""
			}
			return resource.Text(get(*e.Ports))
		}
	}
	return filter.Fields[v]{
		"association.association-id": assoc(func(_ v, as record.NetworkACLAssociation) string { return as.ID }),
		"association.network-acl-id": assoc(func(a v, _ record.NetworkACLAssociation) string { return a.ID }),
		"association.subnet-id":      assoc(func(_ v, as record.NetworkACLAssociation) string { return as.SubnetID }),
		"default":                    filter.Flag(func(a v) bool { return a.Default }),
		"entry.cidr":                 entry(func(e record.NetworkACLEntry) string { return e.CIDR }),
		"entry.icmp.code":            entry(icmp(func(t record.ICMPType) int32 { return t.Code })),
		"entry.icmp.type":            entry(icmp(func(t record.ICMPType) int32 { return t.Type })),
		"entry.ipv6-cidr":            entry(func(e record.NetworkACLEntry) string { return e.CIDR6 }),
		"entry.port-range.from":      entry(ports(func(p record.PortRange) int32 { return p.From })),
		"entry.port-range.to":        entry(ports(func(p record.PortRange) int32 { return p.To })),
		"entry.protocol":             entry(func(e record.NetworkACLEntry) string { return e.Protocol }),
		"entry.rule-action":          entry(func(e record.NetworkACLEntry) string { return string(e.Action()) }),
		"entry.egress":               entry(func(e record.NetworkACLEntry) string { return strconv.FormatBool(e.Egress) }),
		"entry.rule-number":          entry(func(e record.NetworkACLEntry) string { return strconv.Itoa(int(e.Number)) }),
		"network-acl-id":             filter.One(func(a v) string { return a.ID }),
		"owner-id":                   filter.One(func(v) string { return sc.Account }),
		"vpc-id":                     filter.One(func(a v) string { return a.VPCID }),
	}
}

// DescribeNetworkAcls lists network ACLs.
func (s *Service) DescribeNetworkAcls(ctx context.Context, in *awsec2.DescribeNetworkAclsInput) (*awsec2.DescribeNetworkAclsOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, record.NetworkACLs, resource.Query{
		IDs: in.NetworkAclIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, networkACLFields(sc))
	return &awsec2.DescribeNetworkAclsOutput{NetworkAcls: resource.SDKAll(sc, found), NextToken: next}, err
}
