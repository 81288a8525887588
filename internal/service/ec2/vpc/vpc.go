package vpc

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// makeVPC stores a VPC and what every new VPC has: main route table, default security group and
// default network ACL.
func (s *Service) makeVPC(tx *store.Tx, sc resource.Scope, v record.VPC) (record.VPC, error) {
	v.ID, v.AssociationID = ids.Resource("vpc"), ids.Resource("vpc-cidr-assoc")
	rtb := record.RouteTable{
		ID: ids.Resource("rtb"), VPCID: v.ID,
		Associations: []record.RouteTableAssociation{{ID: ids.Resource("rtbassoc"), Main: true}},
		Routes:       routing.LocalRoutes(v),
	}
	group := firewall.NewDefaultGroup(sc, v.ID)
	acl := firewall.NewDefaultACL(v.ID)
	v.MainRouteTableID, v.DefaultGroupID, v.DefaultACLID = rtb.ID, group.ID, acl.ID
	if err := record.RouteTables.Create(tx, sc.Key(rtb.ID), rtb); err != nil {
		return v, err
	}
	if err := record.SecurityGroups.Create(tx, sc.Key(group.ID), group); err != nil {
		return v, err
	}
	if err := record.NetworkACLs.Create(tx, sc.Key(acl.ID), acl); err != nil {
		return v, err
	}
	return v, record.VPCs.Create(tx, sc.Key(v.ID), v)
}

// CreateVpc creates a VPC.
func (s *Service) CreateVpc(ctx context.Context, in *awsec2.CreateVpcInput) (*awsec2.CreateVpcOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.CidrBlock == nil {
		// https://github.com/hashicorp/terraform-provider-aws/issues/42414
		return nil, ec2err.New("MissingParameter", "Either 'cidrBlock' or 'ipv4IpamPoolId' should be provided.")
	}
	p, ok := resource.ParseCIDR(*in.CidrBlock)
	if !ok {
		return nil, ec2err.CIDR(*in.CidrBlock, "cidrBlock")
	}
	if p.Bits() < 16 || p.Bits() > 28 {
		return nil, ec2err.VPCRange(*in.CidrBlock)
	}
	tenancy := in.InstanceTenancy
	switch tenancy {
	case "":
		tenancy = ec2types.TenancyDefault
	case ec2types.TenancyDefault, ec2types.TenancyDedicated:
	default:
		return nil, ec2err.New("UnsupportedTenancy", "The tenancy value %s is not supported.", tenancy)
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeVpc)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckBorderGroup(sc, in.Ipv6CidrBlockNetworkBorderGroup); err != nil {
		return nil, err
	}
	var v record.VPC
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if err := checkVPCQuota(tx, sc); err != nil {
			return err
		}
		def, err := record.Defaults.Get(tx, sc.Key(record.DefaultsID))
		if err != nil {
			return err
		}
		v, err = s.makeVPC(tx, sc, record.VPC{CIDR: p.String(), Tenancy: string(tenancy), DHCPOptionsID: def.DHCPOptionsID, Tags: tags})
		if err != nil || !aws.ToBool(in.AmazonProvidedIpv6CidrBlock) {
			return err
		}
		b, err := addBlock6(tx, sc, &v)
		if err != nil {
			return err
		}
		if err := setLocalRoute(tx, sc, v.ID, b.CIDR, true); err != nil {
			return err
		}
		return record.VPCs.Put(tx, sc.Key(v.ID), v)
	})
	if err != nil {
		return nil, err
	}
	out := v.SDK(sc)
	out.State = ec2types.VpcStatePending // AWS's answer, although the VPC is available when the call returns
	return &awsec2.CreateVpcOutput{Vpc: &out}, nil
}

// checkVPCQuota returns an error if one more VPC would exceed the quota. The default VPC counts.
func checkVPCQuota(tx *store.Tx, sc resource.Scope) error {
	return quota.Room(tx, sc, quota.VPCs, record.VPCs, resource.All, ec2err.Limit("VpcLimitExceeded", "VPCs"))
}

func vpcFields(sc resource.Scope) filter.Fields[record.VPC] {
	type v = record.VPC
	cidr := func(b record.CIDRAssociation) string { return b.CIDR }
	id := func(b record.CIDRAssociation) string { return b.ID }
	constant := func(s string) func(record.CIDRAssociation) string {
		return func(record.CIDRAssociation) string { return s }
	}
	blocks6 := func(v v) []record.CIDRAssociation { return v.IPv6 }
	return filter.Fields[v]{
		"owner-id":                                    filter.One(func(v) string { return sc.Account }),
		"cidr":                                        filter.One(func(v v) string { return v.CIDR }),
		"cidr-block-association.cidr-block":           resource.Each(v.Blocks, cidr),
		"cidr-block-association.association-id":       resource.Each(v.Blocks, id),
		"cidr-block-association.state":                resource.Each(v.Blocks, constant("associated")),
		"dhcp-options-id":                             filter.One(func(v v) string { return v.DHCPOptionsID }),
		"ipv6-cidr-block-association.ipv6-cidr-block": resource.Each(blocks6, cidr),
		"ipv6-cidr-block-association.ipv6-pool":       resource.Each(blocks6, constant("Amazon")),
		"ipv6-cidr-block-association.association-id":  resource.Each(blocks6, id),
		"ipv6-cidr-block-association.state":           resource.Each(blocks6, constant("associated")),
		"is-default":                                  filter.Flag(func(v v) bool { return v.Default }),
		"isDefault":                                   filter.Flag(func(v v) bool { return v.Default }),
		"state":                                       filter.One(func(v) string { return "available" }),
		"vpc-id":                                      filter.One(func(v v) string { return v.ID }),
	}
}

// DescribeVpcs lists VPCs.
func (s *Service) DescribeVpcs(ctx context.Context, in *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, record.VPCs, resource.Query{
		IDs: in.VpcIds, Exclusive: "vpcIds", Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, vpcFields(sc))
	return &awsec2.DescribeVpcsOutput{Vpcs: resource.SDKAll(sc, found), NextToken: next}, err
}

// DeleteVpc deletes an empty VPC, together with its default security group, route table and network
// ACL.
func (s *Service) DeleteVpc(ctx context.Context, in *awsec2.DeleteVpcInput) (*awsec2.DeleteVpcOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.VpcId)
	if id == "" {
		return nil, ec2err.Missing("vpcId")
	}
	_, err := resource.Delete(ctx, s.Core, record.VPCs, in.DryRun, &id, func(tx *store.Tx, v *record.VPC) error {
		used := resource.Exists(tx, record.Subnets, sc, func(sn record.Subnet) bool { return sn.VPCID == id }) ||
			resource.Exists(tx, record.InternetGateways, sc, func(g record.InternetGateway) bool { return g.VPCID == id }) ||
			resource.Exists(tx, record.SecurityGroups, sc, func(g record.SecurityGroup) bool { return g.VPCID == id && g.ID != v.DefaultGroupID }) ||
			resource.Exists(tx, record.RouteTables, sc, func(t record.RouteTable) bool { return t.VPCID == id && t.ID != v.MainRouteTableID }) ||
			resource.Exists(tx, record.NetworkACLs, sc, func(a record.NetworkACL) bool { return a.VPCID == id && a.ID != v.DefaultACLID }) ||
			resource.Exists(tx, record.EgressGateways, sc, func(g record.EgressGateway) bool { return g.VPCID == id }) ||
			resource.Exists(tx, record.VPCEndpoints, sc, func(e record.VPCEndpoint) bool { return e.VPCID == id }) ||
			resource.Exists(tx, record.VPNGateways, sc, func(g record.VPNGateway) bool { return g.VPCID == id }) ||
			resource.Exists(tx, record.TransitAttachments, sc, func(a record.TransitAttachment) bool { return a.VPCID == id && a.Live() }) ||
			resource.Exists(tx, record.Peerings, sc, func(p record.Peering) bool { return p.Live() && p.Side(sc, id) != nil })
		if used {
			return ec2err.VPCHasDependencies(id)
		}
		record.RouteTables.Delete(tx, sc.Key(v.MainRouteTableID))
		record.SecurityGroups.Delete(tx, sc.Key(v.DefaultGroupID))
		record.NetworkACLs.Delete(tx, sc.Key(v.DefaultACLID))
		ipam.ReleaseBlocks6(tx, sc.Region, v.IPv6)
		return nil
	})
	return &awsec2.DeleteVpcOutput{}, err
}

// readVPC returns the VPC for an operation that only reads.
func (s *Service) readVPC(ctx context.Context, id *string, dryRun *bool) (resource.Scope, record.VPC, error) {
	sc := resource.ScopeOf(ctx)
	v, err := resource.Get(s.Store, record.VPCs, sc, aws.ToString(id))
	if err != nil {
		return sc, v, err
	}
	return sc, v, resource.CheckDryRun(dryRun)
}

// DescribeVpcAttribute returns one attribute.
func (s *Service) DescribeVpcAttribute(ctx context.Context, in *awsec2.DescribeVpcAttributeInput) (*awsec2.DescribeVpcAttributeOutput, error) {
	_, v, err := s.readVPC(ctx, in.VpcId, in.DryRun)
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeVpcAttributeOutput{VpcId: aws.String(v.ID)}
	value := func(b bool) *ec2types.AttributeBooleanValue {
		return &ec2types.AttributeBooleanValue{Value: aws.Bool(b)}
	}
	switch in.Attribute {
	case ec2types.VpcAttributeNameEnableDnsSupport:
		out.EnableDnsSupport = value(!v.NoDNSSupport)
	case ec2types.VpcAttributeNameEnableDnsHostnames:
		out.EnableDnsHostnames = value(v.DNSHostnames)
	case ec2types.VpcAttributeNameEnableNetworkAddressUsageMetrics:
		out.EnableNetworkAddressUsageMetrics = value(v.UsageMetrics)
	default:
		return nil, ec2err.InvalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	return out, nil
}

// ModifyVpcAttribute changes one attribute.
func (s *Service) ModifyVpcAttribute(ctx context.Context, in *awsec2.ModifyVpcAttributeInput) (*awsec2.ModifyVpcAttributeOutput, error) {
	var given []string
	for _, a := range []struct {
		name  string
		value *ec2types.AttributeBooleanValue
	}{{"enableDnsSupport", in.EnableDnsSupport}, {"enableDnsHostnames", in.EnableDnsHostnames}, {"enableNetworkAddressUsageMetrics", in.EnableNetworkAddressUsageMetrics}} {
		if a.value != nil && a.value.Value != nil {
			given = append(given, a.name)
		}
	}
	if err := resource.CheckAttributes(given); err != nil {
		return nil, err
	}
	id := aws.ToString(in.VpcId)
	_, err := resource.Change(ctx, s.Core, record.VPCs, nil, &id, func(tx *store.Tx, v *record.VPC) error {
		switch {
		case in.EnableDnsSupport != nil:
			v.NoDNSSupport = !*in.EnableDnsSupport.Value
		case in.EnableDnsHostnames != nil:
			v.DNSHostnames = *in.EnableDnsHostnames.Value
		default:
			v.UsageMetrics = *in.EnableNetworkAddressUsageMetrics.Value
		}
		return nil
	})
	return &awsec2.ModifyVpcAttributeOutput{}, err
}
