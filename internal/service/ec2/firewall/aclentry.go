package firewall

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxRuleNumber is the highest rule number that users can choose.
const maxRuleNumber = 32766

// deniesAll are the final two entries of every ACL.
func deniesAll() []record.NetworkACLEntry {
	return []record.NetworkACLEntry{
		{Egress: true, Number: lastRule, Protocol: "-1", CIDR: "0.0.0.0/0"},
		{Number: lastRule, Protocol: "-1", CIDR: "0.0.0.0/0"},
	}
}

func sortACLEntries(e []record.NetworkACLEntry) {
	slices.SortStableFunc(e, func(a, b record.NetworkACLEntry) int {
		if a.Egress != b.Egress {
			if a.Egress {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.Number, b.Number)
	})
}

// CreateNetworkAcl creates an ACL that denies everything.
func (s *Service) CreateNetworkAcl(ctx context.Context, in *awsec2.CreateNetworkAclInput) (*awsec2.CreateNetworkAclOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.VpcId == nil {
		return nil, ec2err.Missing("vpcId")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeNetworkAcl)
	if err != nil {
		return nil, err
	}
	a, err := resource.Create(ctx, s.Core, record.NetworkACLs, in.DryRun, in.ClientToken, in, func(tx *store.Tx, a *record.NetworkACL) error {
		v, err := resource.Get(tx, record.VPCs, sc, *in.VpcId)
		if err != nil {
			return err
		}
		if err := quota.Room(tx, sc, quota.ACLs, record.NetworkACLs, func(o record.NetworkACL) bool { return o.VPCID == v.ID }, ec2err.Limit("NetworkAclLimitExceeded", "network ACLs")); err != nil {
			return err
		}
		*a = record.NetworkACL{ID: ids.Resource("acl"), VPCID: v.ID, Entries: deniesAll(), Tags: tags}
		return nil
	})
	return &awsec2.CreateNetworkAclOutput{NetworkAcl: new(a.SDK(sc)), ClientToken: in.ClientToken}, err
}

// DeleteNetworkAcl deletes an ACL that no subnet uses. The default ACL cannot be deleted.
func (s *Service) DeleteNetworkAcl(ctx context.Context, in *awsec2.DeleteNetworkAclInput) (*awsec2.DeleteNetworkAclOutput, error) {
	_, err := resource.Delete(ctx, s.Core, record.NetworkACLs, in.DryRun, in.NetworkAclId, func(tx *store.Tx, a *record.NetworkACL) error {
		if a.Default {
			return ec2err.InvalidParameterValue("cannot delete default network ACL %s", a.ID)
		}
		if len(a.Associations) > 0 {
			return ec2err.HasDependencies("networkAcl", a.ID)
		}
		return nil
	})
	return &awsec2.DeleteNetworkAclOutput{}, err
}

// An entryRequest has what CreateNetworkAclEntry and ReplaceNetworkAclEntry have in common.
type entryRequest struct {
	egress      *bool
	number      *int32
	protocol    *string
	action      ec2types.RuleAction
	cidr, cidr6 *string
	ports       *ec2types.PortRange
	icmp        *ec2types.IcmpTypeCode
}

func (q entryRequest) parse() (record.NetworkACLEntry, error) {
	q.action = ec2types.RuleAction(strings.ToLower(string(q.action))) // as EC2 returns it
	e := record.NetworkACLEntry{Egress: aws.ToBool(q.egress), Allow: q.action == ec2types.RuleActionAllow}
	switch {
	case q.number == nil:
		return e, ec2err.Missing("ruleNumber")
	case *q.number < 1 || *q.number > maxRuleNumber:
		return e, ec2err.InvalidValue(*q.number, "ruleNumber", "Expecting a value between 1 and 32766.") // from memory
	case q.action != ec2types.RuleActionAllow && q.action != ec2types.RuleActionDeny:
		return e, ec2err.InvalidValue(q.action, "ruleAction", "")
	case (q.cidr == nil) == (q.cidr6 == nil):
		return e, ec2err.Combination("Exactly one of cidrBlock and ipv6CidrBlock must be specified") // from memory
	}
	e.Number = *q.number
	if q.cidr != nil {
		p, ok := resource.ParseCIDR(*q.cidr)
		if !ok {
			return e, ec2err.CIDR(*q.cidr, "cidrBlock")
		}
		e.CIDR = p.String()
	} else {
		p, ok := resource.ParseCIDR6(*q.cidr6)
		if !ok {
			return e, ec2err.CIDR(*q.cidr6, "ipv6CidrBlock")
		}
		e.CIDR6 = p.String()
	}
	protocol, err := normalProtocol(aws.ToString(q.protocol))
	if err != nil {
		return e, err
	}
	// ACLs use protocol numbers where security groups use names.
	e.Protocol = strings.NewReplacer("icmpv6", "58", "icmp", "1", "tcp", "6", "udp", "17").Replace(protocol)
	switch e.Protocol {
	case "6", "17":
		if q.ports == nil || q.ports.From == nil || q.ports.To == nil {
			return e, ec2err.Missing("portRange.from")
		}
		e.Ports = &record.PortRange{From: *q.ports.From, To: *q.ports.To}
		if e.Ports.From < 0 || e.Ports.To > 65535 || e.Ports.From > e.Ports.To {
			return e, ec2err.InvalidParameterValue("Invalid TCP/UDP port range (%d:%d)", e.Ports.From, e.Ports.To)
		}
	case "1", "58":
		if q.icmp == nil || q.icmp.Type == nil || q.icmp.Code == nil {
			return e, ec2err.Missing("icmpTypeCode.type")
		}
		e.ICMP = &record.ICMPType{Type: *q.icmp.Type, Code: *q.icmp.Code}
	}
	return e, nil
}

// editACL changes the entries of an ACL.
func (s *Service) editACL(ctx context.Context, dryRun *bool, id *string, edit func(*store.Tx, resource.Scope, *record.NetworkACL) error) error {
	sc := resource.ScopeOf(ctx)
	return s.Update(ctx, dryRun, func(tx *store.Tx) error {
		a, err := resource.Get(tx, record.NetworkACLs, sc, aws.ToString(id))
		if err != nil {
			return err
		}
		a.Entries = slices.Clone(a.Entries)
		if err := edit(tx, sc, &a); err != nil {
			return err
		}
		sortACLEntries(a.Entries)
		return record.NetworkACLs.Put(tx, sc.Key(a.ID), a)
	})
}

// The text up to the number is from
// https://github.com/hashicorp/terraform-provider-aws/issues/12175; the part about the ACL is from
// memory.
func errACLEntryNotFound(id string, egress bool, number int32) error {
	direction := "ingress"
	if egress {
		direction = "egress"
	}
	return ec2err.New("InvalidNetworkAclEntry.NotFound", "no %s entry with number %d in network ACL %s", direction, number, id)
}

// CreateNetworkAclEntry adds an entry.
func (s *Service) CreateNetworkAclEntry(ctx context.Context, in *awsec2.CreateNetworkAclEntryInput) (*awsec2.CreateNetworkAclEntryOutput, error) {
	e, err := entryRequest{in.Egress, in.RuleNumber, in.Protocol, in.RuleAction, in.CidrBlock, in.Ipv6CidrBlock, in.PortRange, in.IcmpTypeCode}.parse()
	if err != nil {
		return nil, err
	}
	err = s.editACL(ctx, in.DryRun, in.NetworkAclId, func(tx *store.Tx, sc resource.Scope, a *record.NetworkACL) error {
		if a.Find(e.Egress, e.Number) >= 0 {
			return ec2err.New("NetworkAclEntryAlreadyExists", "The network acl entry identified by %d already exists.", e.Number)
		}
		n := 0
		for _, o := range a.Entries {
			if o.Egress == e.Egress && o.Number != lastRule {
				n++
			}
		}
		a.Entries = append(a.Entries, e)
		return quota.Check(tx, sc, quota.ACLEntries, n+1, ec2err.Limit("NetworkAclEntryLimitExceeded", "network ACL entries"))
	})
	return &awsec2.CreateNetworkAclEntryOutput{}, err
}

// ReplaceNetworkAclEntry changes an entry.
func (s *Service) ReplaceNetworkAclEntry(ctx context.Context, in *awsec2.ReplaceNetworkAclEntryInput) (*awsec2.ReplaceNetworkAclEntryOutput, error) {
	e, err := entryRequest{in.Egress, in.RuleNumber, in.Protocol, in.RuleAction, in.CidrBlock, in.Ipv6CidrBlock, in.PortRange, in.IcmpTypeCode}.parse()
	if err != nil {
		return nil, err
	}
	err = s.editACL(ctx, in.DryRun, in.NetworkAclId, func(_ *store.Tx, _ resource.Scope, a *record.NetworkACL) error {
		i := a.Find(e.Egress, e.Number)
		if i < 0 {
			return errACLEntryNotFound(a.ID, e.Egress, e.Number)
		}
		a.Entries[i] = e
		return nil
	})
	return &awsec2.ReplaceNetworkAclEntryOutput{}, err
}

// DeleteNetworkAclEntry removes an entry.
func (s *Service) DeleteNetworkAclEntry(ctx context.Context, in *awsec2.DeleteNetworkAclEntryInput) (*awsec2.DeleteNetworkAclEntryOutput, error) {
	if in.RuleNumber == nil {
		return nil, ec2err.Missing("ruleNumber")
	}
	number, egress := *in.RuleNumber, aws.ToBool(in.Egress)
	if number < 1 || number > maxRuleNumber {
		return nil, ec2err.InvalidValue(number, "ruleNumber", "Expecting a value between 1 and 32766.")
	}
	err := s.editACL(ctx, in.DryRun, in.NetworkAclId, func(_ *store.Tx, _ resource.Scope, a *record.NetworkACL) error {
		i := a.Find(egress, number)
		if i < 0 {
			return errACLEntryNotFound(a.ID, egress, number)
		}
		a.Entries = slices.Delete(a.Entries, i, i+1)
		return nil
	})
	return &awsec2.DeleteNetworkAclEntryOutput{}, err
}

// ReplaceNetworkAclAssociation associates a subnet with another ACL.
func (s *Service) ReplaceNetworkAclAssociation(ctx context.Context, in *awsec2.ReplaceNetworkAclAssociationInput) (*awsec2.ReplaceNetworkAclAssociationOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.AssociationId)
	is := func(as record.NetworkACLAssociation) bool { return as.ID == id }
	next := ids.Resource("aclassoc")
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		holders := resource.List(tx, record.NetworkACLs, sc, func(a record.NetworkACL) bool { return slices.ContainsFunc(a.Associations, is) })
		if len(holders) == 0 {
			return ec2err.AssociationNotFound(id)
		}
		a, err := resource.Get(tx, record.NetworkACLs, sc, aws.ToString(in.NetworkAclId))
		if err != nil {
			return err
		}
		old := holders[0]
		if a.VPCID != old.VPCID {
			return ec2err.InvalidParameterValue("Network ACL %s and network %s belong to different networks", a.ID, old.VPCID) // from memory
		}
		subnet := old.Associations[slices.IndexFunc(old.Associations, is)].SubnetID
		old = old.Without(subnet)
		if a.ID == old.ID {
			a = old
		} else if err := record.NetworkACLs.Put(tx, sc.Key(old.ID), old); err != nil {
			return err
		}
		a.Associations = append(slices.Clone(a.Associations), record.NetworkACLAssociation{ID: next, SubnetID: subnet})
		return record.NetworkACLs.Put(tx, sc.Key(a.ID), a)
	})
	return &awsec2.ReplaceNetworkAclAssociationOutput{NewAssociationId: aws.String(next)}, err
}
