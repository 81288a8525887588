// Package load turns what another account's EC2 answered (package twin) into EC2's records. It keeps all IDs and
// addresses. What the records cannot hold becomes a gap, so that no verdict relies on it.
package load

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A loader converts one recording.
type loader struct {
	r  *recording.Recording
	sc resource.Scope

	writes []module.Write
	gaps   []recording.Gap
	// err is the first error. Conversions after it have no effect.
	err error

	// owners are the NAT gateways and endpoints that AWS manages interfaces for, by interface.
	owners map[string]string
	// taken are the addresses and prefixes of interfaces by subnet.
	taken map[string][]netip.Prefix
	// groups are the IDs of default security groups, tables of main route tables and acls of default network ACLs, by
	// VPC.
	groups, tables, acls map[string]string
	// transits are the transit gateways that have a record. attachments are the kinds of attachments to transit gateways;
	// those that have a record have none.
	transits    map[string]bool
	attachments map[string]string
}

// Records returns the writes for a recording, and what EC2's records cannot hold.
func Records(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	l := &loader{
		r: r, sc: resource.Scope{Account: r.Source.Account, Region: r.Source.Region},
		owners: map[string]string{}, taken: map[string][]netip.Prefix{}, groups: map[string]string{}, tables: map[string]string{}, acls: map[string]string{},
		transits: map[string]bool{}, attachments: map[string]string{},
	}
	for _, part := range []func(){
		l.gateways, l.transitGateways, l.routeTables, l.securityGroups, l.networkACLs, l.prefixLists, l.endpoints, l.peerings, l.vpcs, l.subnets,
		l.interfaces, l.addresses, l.pools, l.volumes, l.instances, l.launchTemplates,
	} {
		if part(); l.err != nil {
			return nil, nil, l.err
		}
	}
	return l.writes, l.gaps, nil
}

// each calls fn for each element of an operation's answers.
func each[In, Out, E any](l *loader, operation string, of func(*Out) []E, fn func(*In, *E) error) {
	if l.err != nil {
		return
	}
	pages, err := recording.Pages[In, Out](l.r, "ec2", operation)
	if err != nil {
		l.err = err
		return
	}
	for _, p := range pages {
		elements := of(p.Output)
		for i := range elements {
			if err := fn(p.Input, &elements[i]); err != nil {
				l.err = fmt.Errorf("the source's answer to ec2:%s: %w", operation, err)
				return
			}
		}
	}
}

// put adds a record, whose ID must be one of its kind.
func put[T any](l *loader, k resource.Kind[T], v T) error {
	id, _ := k.Of(&v)
	if rest, ok := strings.CutPrefix(id, k.ID.Prefix+"-"); !ok || !resource.IsHex(rest) {
		return fmt.Errorf("invalid ID %q: want %s-…", id, k.ID.Prefix)
	}
	l.writes = append(l.writes, module.Put(k.Collection, l.sc.Key(id), v))
	return nil
}

// checkBlock returns an error unless a CIDR block has a size that VPCs and subnets may have.
func checkBlock(cidr string) error {
	p, err := netip.ParsePrefix(cidr)
	if err == nil && (!p.Addr().Is4() || p.Bits() < 16 || p.Bits() > 28) {
		err = fmt.Errorf("invalid block %s: want an IPv4 block from /16 to /28", cidr)
	}
	return err
}

// unmodelled adds a gap for something that Drydock does not have.
func (l *loader) unmodelled(operation, subject, format string, args ...any) {
	l.gaps = append(l.gaps, recording.Gap{Service: "ec2", Operation: operation, Subject: subject, Code: recording.NotModelled, Message: fmt.Sprintf(format, args...)})
}

func tagsOf(in []ec2types.Tag) tag.Set {
	if len(in) == 0 {
		return nil
	}
	out := tag.Set{}
	for _, t := range in {
		out[aws.ToString(t.Key)] = aws.ToString(t.Value)
	}
	return out
}

func (l *loader) vpcs() {
	const operation = "DescribeVpcs"
	on := map[string]map[ec2types.VpcAttributeName]bool{} // by VPC
	each(l, "DescribeVpcAttribute", func(out *awsec2.DescribeVpcAttributeOutput) []awsec2.DescribeVpcAttributeOutput {
		return []awsec2.DescribeVpcAttributeOutput{*out}
	}, func(in *awsec2.DescribeVpcAttributeInput, out *awsec2.DescribeVpcAttributeOutput) error {
		id := aws.ToString(in.VpcId)
		if on[id] == nil {
			on[id] = map[ec2types.VpcAttributeName]bool{}
		}
		for _, value := range []*ec2types.AttributeBooleanValue{out.EnableDnsSupport, out.EnableDnsHostnames} {
			if value != nil {
				on[id][in.Attribute] = aws.ToBool(value.Value)
			}
		}
		return nil
	})
	each(l, operation, func(out *awsec2.DescribeVpcsOutput) []ec2types.Vpc { return out.Vpcs }, func(_ *awsec2.DescribeVpcsInput, in *ec2types.Vpc) error {
		id := aws.ToString(in.VpcId)
		v := record.VPC{
			ID: id, CIDR: aws.ToString(in.CidrBlock), DHCPOptionsID: aws.ToString(in.DhcpOptionsId), Tenancy: string(in.InstanceTenancy), Default: aws.ToBool(in.IsDefault),
			MainRouteTableID: l.tables[id], DefaultGroupID: l.groups[id], DefaultACLID: l.acls[id], Tags: tagsOf(in.Tags),
		}
		if owner := aws.ToString(in.OwnerId); owner != l.sc.Account {
			l.unmodelled(operation, id, "%s belongs to account %s and is shared with this one: Drydock knows only what the source shows of it", id, owner)
		}
		dns, known := on[id][ec2types.VpcAttributeNameEnableDnsSupport]
		v.NoDNSSupport = known && !dns
		v.DNSHostnames = on[id][ec2types.VpcAttributeNameEnableDnsHostnames]
		for _, b := range in.CidrBlockAssociationSet {
			switch {
			case b.CidrBlockState == nil || b.CidrBlockState.State != ec2types.VpcCidrBlockStateCodeAssociated:
			case aws.ToString(b.CidrBlock) == v.CIDR:
				v.AssociationID = aws.ToString(b.AssociationId)
			default:
				v.Secondary = append(v.Secondary, record.CIDRAssociation{ID: aws.ToString(b.AssociationId), CIDR: aws.ToString(b.CidrBlock)})
			}
		}
		for _, b := range in.Ipv6CidrBlockAssociationSet {
			if b.Ipv6CidrBlockState != nil && b.Ipv6CidrBlockState.State == ec2types.VpcCidrBlockStateCodeAssociated {
				v.IPv6 = append(v.IPv6, record.CIDRAssociation{ID: aws.ToString(b.AssociationId), CIDR: aws.ToString(b.Ipv6CidrBlock)})
			}
		}
		if err := checkBlock(v.CIDR); err != nil {
			return fmt.Errorf("%s: %w", id, err)
		}
		return put(l, record.VPCs, v)
	})
	// With this record, calls in the region do not make a default VPC.
	defaults := record.RegionDefaults{}
	each(l, "DescribeDhcpOptions", func(out *awsec2.DescribeDhcpOptionsOutput) []ec2types.DhcpOptions { return out.DhcpOptions }, func(_ *awsec2.DescribeDhcpOptionsInput, in *ec2types.DhcpOptions) error {
		o := record.DHCPOptions{ID: aws.ToString(in.DhcpOptionsId), Options: map[string][]string{}, Tags: tagsOf(in.Tags)}
		for _, c := range in.DhcpConfigurations {
			for _, v := range c.Values {
				o.Options[aws.ToString(c.Key)] = append(o.Options[aws.ToString(c.Key)], aws.ToString(v.Value))
			}
		}
		if defaults.DHCPOptionsID == "" {
			defaults.DHCPOptionsID = o.ID
		}
		return put(l, record.DHCPOptionSets, o)
	})
	l.writes = append(l.writes, module.Put(record.Defaults, l.sc.Key(record.DefaultsID), defaults))
}

func (l *loader) subnets() {
	each(l, "DescribeSubnets", func(out *awsec2.DescribeSubnetsOutput) []ec2types.Subnet { return out.Subnets }, func(_ *awsec2.DescribeSubnetsInput, in *ec2types.Subnet) error {
		sn := record.Subnet{
			ID: aws.ToString(in.SubnetId), VPCID: aws.ToString(in.VpcId), CIDR: aws.ToString(in.CidrBlock), Zone: aws.ToString(in.AvailabilityZone), ZoneID: aws.ToString(in.AvailabilityZoneId),
			DefaultForZone: aws.ToBool(in.DefaultForAz), MapPublicIP: aws.ToBool(in.MapPublicIpOnLaunch), AssignIPv6: aws.ToBool(in.AssignIpv6AddressOnCreation),
			DNS64: aws.ToBool(in.EnableDns64), HostnameType: string(ec2types.HostnameTypeIpName), Tags: tagsOf(in.Tags),
		}
		if o := in.PrivateDnsNameOptionsOnLaunch; o != nil {
			sn.HostnameType, sn.ResourceNameA, sn.ResourceNameAAAA = string(o.HostnameType), aws.ToBool(o.EnableResourceNameDnsARecord), aws.ToBool(o.EnableResourceNameDnsAAAARecord)
		}
		for _, b := range in.Ipv6CidrBlockAssociationSet {
			if b.Ipv6CidrBlockState != nil && b.Ipv6CidrBlockState.State == ec2types.SubnetCidrBlockStateCodeAssociated {
				sn.IPv6 = append(sn.IPv6, record.CIDRAssociation{ID: aws.ToString(b.AssociationId), CIDR: aws.ToString(b.Ipv6CidrBlock)})
			}
		}
		if b := in.BlockPublicAccessStates; b != nil && b.InternetGatewayBlockMode != "" && b.InternetGatewayBlockMode != ec2types.BlockPublicAccessModeOff {
			l.unmodelled("DescribeSubnets", sn.ID, "VPC Block Public Access is set to %s for %s, which Drydock does not have", b.InternetGatewayBlockMode, sn.ID)
		}
		if !sn.IPv6Only() {
			if err := checkBlock(sn.CIDR); err != nil {
				return fmt.Errorf("%s: %w", sn.ID, err)
			}
		}
		if l.taken[sn.ID] == nil {
			l.taken[sn.ID] = []netip.Prefix{}
		}
		return put(l, record.Subnets, sn)
	})
}

func (l *loader) prefixLists() {
	entries := map[string][]record.PrefixListEntry{}
	each(l, "GetManagedPrefixListEntries", func(out *awsec2.GetManagedPrefixListEntriesOutput) []ec2types.PrefixListEntry { return out.Entries }, func(in *awsec2.GetManagedPrefixListEntriesInput, e *ec2types.PrefixListEntry) error {
		id := aws.ToString(in.PrefixListId)
		entries[id] = append(entries[id], record.PrefixListEntry{CIDR: aws.ToString(e.Cidr), Description: aws.ToString(e.Description)})
		return nil
	})
	each(l, "DescribeManagedPrefixLists", func(out *awsec2.DescribeManagedPrefixListsOutput) []ec2types.ManagedPrefixList {
		return out.PrefixLists
	}, func(_ *awsec2.DescribeManagedPrefixListsInput, in *ec2types.ManagedPrefixList) error {
		if aws.ToString(in.OwnerId) == "AWS" {
			return nil // the catalogue's
		}
		id := aws.ToString(in.PrefixListId)
		return put(l, record.PrefixLists, record.PrefixList{
			ID: id, Name: aws.ToString(in.PrefixListName), IPv6: aws.ToString(in.AddressFamily) == "IPv6", MaxEntries: aws.ToInt32(in.MaxEntries),
			Version: max(aws.ToInt64(in.Version), 1), Versions: [][]record.PrefixListEntry{entries[id]}, State: string(in.State), Tags: tagsOf(in.Tags),
		})
	})
}

func (l *loader) networkACLs() {
	each(l, "DescribeNetworkAcls", func(out *awsec2.DescribeNetworkAclsOutput) []ec2types.NetworkAcl { return out.NetworkAcls }, func(_ *awsec2.DescribeNetworkAclsInput, in *ec2types.NetworkAcl) error {
		a := record.NetworkACL{ID: aws.ToString(in.NetworkAclId), VPCID: aws.ToString(in.VpcId), Default: aws.ToBool(in.IsDefault), Tags: tagsOf(in.Tags)}
		if a.Default {
			l.acls[a.VPCID] = a.ID
		}
		for _, as := range in.Associations {
			a.Associations = append(a.Associations, record.NetworkACLAssociation{ID: aws.ToString(as.NetworkAclAssociationId), SubnetID: aws.ToString(as.SubnetId)})
		}
		for _, e := range in.Entries {
			to := record.NetworkACLEntry{
				Egress: aws.ToBool(e.Egress), Number: aws.ToInt32(e.RuleNumber), Protocol: aws.ToString(e.Protocol), CIDR: aws.ToString(e.CidrBlock), CIDR6: aws.ToString(e.Ipv6CidrBlock),
				Allow: e.RuleAction == ec2types.RuleActionAllow,
			}
			if e.PortRange != nil {
				to.Ports = &record.PortRange{From: aws.ToInt32(e.PortRange.From), To: aws.ToInt32(e.PortRange.To)}
			}
			if e.IcmpTypeCode != nil {
				to.ICMP = &record.ICMPType{Type: aws.ToInt32(e.IcmpTypeCode.Type), Code: aws.ToInt32(e.IcmpTypeCode.Code)}
			}
			a.Entries = append(a.Entries, to)
		}
		return put(l, record.NetworkACLs, a)
	})
}

// securityGroups takes the rules from DescribeSecurityGroupRules, which has their IDs, or without it from the groups.
func (l *loader) securityGroups() {
	rules := map[string][]record.SecurityGroupRule{}
	described := false
	each(l, "DescribeSecurityGroupRules", func(out *awsec2.DescribeSecurityGroupRulesOutput) []ec2types.SecurityGroupRule {
		described = true
		return out.SecurityGroupRules
	}, func(_ *awsec2.DescribeSecurityGroupRulesInput, in *ec2types.SecurityGroupRule) error {
		r := record.SecurityGroupRule{
			ID: aws.ToString(in.SecurityGroupRuleId), Egress: aws.ToBool(in.IsEgress), Protocol: aws.ToString(in.IpProtocol), From: ports(in.FromPort), To: ports(in.ToPort),
			CIDR: aws.ToString(in.CidrIpv4), CIDR6: aws.ToString(in.CidrIpv6), PrefixListID: aws.ToString(in.PrefixListId), Description: aws.ToString(in.Description), Tags: tagsOf(in.Tags),
		}
		if g := in.ReferencedGroupInfo; g != nil {
			r.GroupID, r.GroupAccount, r.GroupVPCID, r.PeeringID = aws.ToString(g.GroupId), aws.ToString(g.UserId), aws.ToString(g.VpcId), aws.ToString(g.VpcPeeringConnectionId)
			if r.PeeringID == "" {
				r.GroupVPCID = "" // AWS shows it for groups of the same VPC as well
			}
		}
		id := aws.ToString(in.GroupId)
		rules[id] = append(rules[id], r)
		return nil
	})
	each(l, "DescribeSecurityGroups", func(out *awsec2.DescribeSecurityGroupsOutput) []ec2types.SecurityGroup { return out.SecurityGroups }, func(_ *awsec2.DescribeSecurityGroupsInput, in *ec2types.SecurityGroup) error {
		g := record.SecurityGroup{ID: aws.ToString(in.GroupId), VPCID: aws.ToString(in.VpcId), Name: aws.ToString(in.GroupName), Description: aws.ToString(in.Description), Tags: tagsOf(in.Tags)}
		if g.Name == "default" {
			l.groups[g.VPCID] = g.ID
		}
		g.Rules = append(rulesOf(g.ID, in.IpPermissions, false), rulesOf(g.ID, in.IpPermissionsEgress, true)...)
		if described {
			key := func(r record.SecurityGroupRule) string {
				return fmt.Sprint(r.Egress, r.Protocol, r.From, r.To, r.Peer())
			}
			place := map[string]int{} // the group's own order, which the rules' IDs do not tell
			for i, r := range g.Rules {
				place[key(r)] = i
			}
			g.Rules = rules[g.ID]
			slices.SortStableFunc(g.Rules, func(a, b record.SecurityGroupRule) int { return cmp.Compare(place[key(a)], place[key(b)]) })
		}
		return put(l, record.SecurityGroups, g)
	})
}

// ports returns a port of a rule; -1 stands for all.
func ports(p *int32) int32 {
	if p == nil {
		return -1
	}
	return *p
}

// rulesOf splits a group's permissions into rules. Their IDs are made up, because permissions have none.
func rulesOf(group string, in []ec2types.IpPermission, egress bool) []record.SecurityGroupRule {
	var out []record.SecurityGroupRule
	for _, p := range in {
		base := record.SecurityGroupRule{Egress: egress, Protocol: aws.ToString(p.IpProtocol), From: ports(p.FromPort), To: ports(p.ToPort)}
		add := func(change func(*record.SecurityGroupRule), description *string) {
			r := base
			r.ID = fmt.Sprintf("sgr-%s%02x%02x", strings.TrimPrefix(group, "sg-")[:max(0, min(13, len(group)-3))], len(out), map[bool]int{true: 1}[egress])
			r.Description = aws.ToString(description)
			change(&r)
			out = append(out, r)
		}
		for _, x := range p.IpRanges {
			add(func(r *record.SecurityGroupRule) { r.CIDR = aws.ToString(x.CidrIp) }, x.Description)
		}
		for _, x := range p.Ipv6Ranges {
			add(func(r *record.SecurityGroupRule) { r.CIDR6 = aws.ToString(x.CidrIpv6) }, x.Description)
		}
		for _, x := range p.PrefixListIds {
			add(func(r *record.SecurityGroupRule) { r.PrefixListID = aws.ToString(x.PrefixListId) }, x.Description)
		}
		for _, x := range p.UserIdGroupPairs {
			add(func(r *record.SecurityGroupRule) {
				r.GroupID, r.GroupAccount = aws.ToString(x.GroupId), aws.ToString(x.UserId)
				if x.VpcPeeringConnectionId != nil {
					r.PeeringID, r.GroupVPCID = *x.VpcPeeringConnectionId, aws.ToString(x.VpcId)
				}
			}, x.Description)
		}
	}
	return out
}

// hasPrefix reports whether an ID is one of some kinds.
func hasPrefix(id string, kinds ...string) bool {
	return slices.ContainsFunc(kinds, func(k string) bool { return strings.HasPrefix(id, k+"-") })
}
