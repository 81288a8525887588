package ec2

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

type vpcRecord struct {
	ID            string
	CIDR          string
	AssociationID string // of the CIDR
	// Secondary are the IPv4 blocks added later; IPv6 all IPv6 blocks (/56).
	Secondary []cidrAssociation `json:",omitempty"`
	IPv6      []cidrAssociation `json:",omitempty"`
	// DHCPOptionsID is "default" for a VPC without any options.
	DHCPOptionsID string
	Tenancy       string
	Default       bool `json:",omitempty"`
	// NoDNSSupport is enableDnsSupport turned off: on is the default.
	NoDNSSupport     bool `json:",omitempty"`
	DNSHostnames     bool `json:",omitempty"`
	UsageMetrics     bool `json:",omitempty"`
	MainRouteTableID string
	DefaultGroupID   string
	DefaultACLID     string
	Tags             Tags `json:",omitempty"`
}

// A cidrAssociation is a block of a VPC or subnet.
type cidrAssociation struct{ ID, CIDR string }

// blocks returns all IPv4 blocks, the primary one first.
func (v vpcRecord) blocks() []cidrAssociation {
	return append([]cidrAssociation{{v.AssociationID, v.CIDR}}, v.Secondary...)
}

// prefixes returns the VPC's IPv4 ranges.
func (v vpcRecord) prefixes() []netip.Prefix { return prefixesOf(v.blocks()) }

// prefixes6 returns the VPC's IPv6 ranges.
func (v vpcRecord) prefixes6() []netip.Prefix { return prefixesOf(v.IPv6) }

func prefixesOf(blocks []cidrAssociation) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(blocks))
	for _, b := range blocks {
		if p, err := netip.ParsePrefix(b.CIDR); err == nil {
			out = append(out, p)
		}
	}
	return out
}

func (v vpcRecord) sdk(sc scope) ec2types.Vpc {
	out := ec2types.Vpc{
		VpcId:           aws.String(v.ID),
		OwnerId:         aws.String(sc.account),
		State:           ec2types.VpcStateAvailable,
		CidrBlock:       aws.String(v.CIDR),
		DhcpOptionsId:   aws.String(v.DHCPOptionsID),
		InstanceTenancy: ec2types.Tenancy(v.Tenancy),
		IsDefault:       aws.Bool(v.Default),
		Tags:            v.Tags.sdk(),
	}
	for _, b := range v.blocks() {
		out.CidrBlockAssociationSet = append(out.CidrBlockAssociationSet, sdkBlock(b, ec2types.VpcCidrBlockStateCodeAssociated))
	}
	for _, b := range v.IPv6 {
		out.Ipv6CidrBlockAssociationSet = append(out.Ipv6CidrBlockAssociationSet, sdkBlock6(sc.region, b, ec2types.VpcCidrBlockStateCodeAssociated))
	}
	return out
}

// makeVPC writes a VPC with what every VPC is born with: main route table,
// default security group and default network ACL.
func (s *Service) makeVPC(tx *store.Tx, sc scope, v vpcRecord) (vpcRecord, error) {
	v.ID, v.AssociationID = ids.Resource("vpc"), ids.Resource("vpc-cidr-assoc")
	rtb := routeTableRecord{
		ID: ids.Resource("rtb"), VPCID: v.ID,
		Associations: []routeTableAssociation{{ID: ids.Resource("rtbassoc"), Main: true}},
		Routes:       localRoutes(v),
	}
	group := newDefaultGroup(sc, v.ID)
	acl := newDefaultACL(v.ID)
	v.MainRouteTableID, v.DefaultGroupID, v.DefaultACLID = rtb.ID, group.ID, acl.ID
	if err := routeTables.Create(tx, sc.key(rtb.ID), rtb); err != nil {
		return v, err
	}
	if err := securityGroups.Create(tx, sc.key(group.ID), group); err != nil {
		return v, err
	}
	if err := networkACLs.Create(tx, sc.key(acl.ID), acl); err != nil {
		return v, err
	}
	return v, vpcs.Create(tx, sc.key(v.ID), v)
}

// CreateVpc creates a VPC.
func (s *Service) CreateVpc(ctx context.Context, in *awsec2.CreateVpcInput) (*awsec2.CreateVpcOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.CidrBlock == nil {
		// https://github.com/hashicorp/terraform-provider-aws/issues/42414
		return nil, errf("MissingParameter", "Either 'cidrBlock' or 'ipv4IpamPoolId' should be provided.")
	}
	p, ok := parseCIDR(*in.CidrBlock)
	if !ok {
		return nil, errCIDR(*in.CidrBlock, "cidrBlock")
	}
	if p.Bits() < 16 || p.Bits() > 28 {
		return nil, errVPCRange(*in.CidrBlock)
	}
	tenancy := in.InstanceTenancy
	switch tenancy {
	case "":
		tenancy = ec2types.TenancyDefault
	case ec2types.TenancyDefault, ec2types.TenancyDedicated:
	default:
		return nil, errf("UnsupportedTenancy", "The tenancy value %s is not supported.", tenancy)
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeVpc)
	if err != nil {
		return nil, err
	}
	if err := checkBorderGroup(sc, in.Ipv6CidrBlockNetworkBorderGroup); err != nil {
		return nil, err
	}
	var v vpcRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if err := checkVPCQuota(tx, sc); err != nil {
			return err
		}
		def, err := defaults.Get(tx, sc.key(defaultsID))
		if err != nil {
			return err
		}
		v, err = s.makeVPC(tx, sc, vpcRecord{CIDR: p.String(), Tenancy: string(tenancy), DHCPOptionsID: def.DHCPOptionsID, Tags: tags})
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
		return vpcs.Put(tx, sc.key(v.ID), v)
	})
	if err != nil {
		return nil, err
	}
	out := v.sdk(sc)
	out.State = ec2types.VpcStatePending // as AWS answers; it is there when the call returns
	return &awsec2.CreateVpcOutput{Vpc: &out}, nil
}

// checkVPCQuota refuses one more VPC than the quota allows; the default one counts.
func checkVPCQuota(tx *store.Tx, sc scope) error {
	n, err := count(tx, vpcs, sc, func(vpcRecord) bool { return true })
	if err != nil {
		return err
	}
	return checkQuota(tx, sc, quotaVPCs, n+1, errLimit("VpcLimitExceeded", "VPCs"))
}

func vpcFields(sc scope) fields[vpcRecord] {
	type v = vpcRecord
	cidr := func(b cidrAssociation) string { return b.CIDR }
	id := func(b cidrAssociation) string { return b.ID }
	constant := func(s string) func(cidrAssociation) string { return func(cidrAssociation) string { return s } }
	blocks6 := func(v v) []cidrAssociation { return v.IPv6 }
	return fields[v]{
		"owner-id":                                    one(func(v) string { return sc.account }),
		"cidr":                                        one(func(v v) string { return v.CIDR }),
		"cidr-block-association.cidr-block":           each(v.blocks, cidr),
		"cidr-block-association.association-id":       each(v.blocks, id),
		"cidr-block-association.state":                each(v.blocks, constant("associated")),
		"dhcp-options-id":                             one(func(v v) string { return v.DHCPOptionsID }),
		"ipv6-cidr-block-association.ipv6-cidr-block": each(blocks6, cidr),
		"ipv6-cidr-block-association.ipv6-pool":       each(blocks6, constant("Amazon")),
		"ipv6-cidr-block-association.association-id":  each(blocks6, id),
		"ipv6-cidr-block-association.state":           each(blocks6, constant("associated")),
		"is-default":                                  flag(func(v v) bool { return v.Default }),
		"isDefault":                                   flag(func(v v) bool { return v.Default }),
		"state":                                       one(func(v) string { return "available" }),
		"vpc-id":                                      one(func(v v) string { return v.ID }),
	}
}

// DescribeVpcs lists VPCs.
func (s *Service) DescribeVpcs(ctx context.Context, in *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, vpcFields(sc), func(v vpcRecord) Tags { return v.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := checkPageOfIDs(in.VpcIds, "vpcIds", in.MaxResults); err != nil {
		return nil, err
	}
	found, err := choose(s.store, vpcs, sc, vpcID, in.VpcIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(v vpcRecord) string { return v.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeVpcsOutput{Vpcs: sdkAll(sc, found), NextToken: next}, err
}

// A resource renders its record for the SDK.
type resource[T any] interface{ sdk(scope) T }

func sdkAll[R resource[T], T any](sc scope, records []R) []T {
	out := make([]T, len(records))
	for i, r := range records {
		out[i] = r.sdk(sc)
	}
	return out
}

// DeleteVpc deletes a VPC that nothing lives in; its default security group,
// route table and network ACL go with it.
func (s *Service) DeleteVpc(ctx context.Context, in *awsec2.DeleteVpcInput) (*awsec2.DeleteVpcOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.VpcId)
	if id == "" {
		return nil, errMissing("vpcId")
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		v, err := get(tx, vpcs, sc, vpcID, id)
		if err != nil {
			return err
		}
		for _, used := range []func() (bool, error){
			func() (bool, error) {
				return exists(tx, subnets, sc, func(sn subnetRecord) bool { return sn.VPCID == id })
			},
			func() (bool, error) {
				return exists(tx, internetGateways, sc, func(g internetGatewayRecord) bool { return g.VPCID == id })
			},
			func() (bool, error) {
				return exists(tx, securityGroups, sc, func(g securityGroupRecord) bool { return g.VPCID == id && g.ID != v.DefaultGroupID })
			},
			func() (bool, error) {
				return exists(tx, routeTables, sc, func(t routeTableRecord) bool { return t.VPCID == id && t.ID != v.MainRouteTableID })
			},
			func() (bool, error) {
				return exists(tx, networkACLs, sc, func(a networkACLRecord) bool { return a.VPCID == id && a.ID != v.DefaultACLID })
			},
			func() (bool, error) {
				return exists(tx, egressGateways, sc, func(g egressGatewayRecord) bool { return g.VPCID == id })
			},
			func() (bool, error) {
				return exists(tx, vpcEndpoints, sc, func(e vpcEndpointRecord) bool { return e.VPCID == id })
			},
			func() (bool, error) {
				return exists(tx, peerings, sc, func(p peeringRecord) bool { return p.live() && p.side(sc, id) != nil })
			},
		} {
			if yes, err := used(); err != nil {
				return err
			} else if yes {
				return errVPCHasDependencies(id)
			}
		}
		routeTables.Delete(tx, sc.key(v.MainRouteTableID))
		securityGroups.Delete(tx, sc.key(v.DefaultGroupID))
		networkACLs.Delete(tx, sc.key(v.DefaultACLID))
		releaseBlocks6(tx, sc.region, v.IPv6)
		vpcs.Delete(tx, sc.key(id))
		return nil
	})
	return &awsec2.DeleteVpcOutput{}, err
}

// readVPC begins an operation that reads about one VPC.
func (s *Service) readVPC(ctx context.Context, id *string, dryRun *bool) (scope, vpcRecord, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return sc, vpcRecord{}, err
	}
	v, err := get(s.store, vpcs, sc, vpcID, aws.ToString(id))
	if err != nil {
		return sc, v, err
	}
	return sc, v, checkDryRun(dryRun)
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
		return nil, errInvalidValue(in.Attribute, "attribute", "Unknown attribute.")
	}
	return out, nil
}

// ModifyVpcAttribute changes one attribute.
func (s *Service) ModifyVpcAttribute(ctx context.Context, in *awsec2.ModifyVpcAttributeInput) (*awsec2.ModifyVpcAttributeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var given []string
	for _, a := range []struct {
		name  string
		value *ec2types.AttributeBooleanValue
	}{{"enableDnsSupport", in.EnableDnsSupport}, {"enableDnsHostnames", in.EnableDnsHostnames}, {"enableNetworkAddressUsageMetrics", in.EnableNetworkAddressUsageMetrics}} {
		if a.value != nil && a.value.Value != nil {
			given = append(given, a.name)
		}
	}
	if err := checkAttributes(given); err != nil {
		return nil, err
	}
	id := aws.ToString(in.VpcId)
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		v, err := get(tx, vpcs, sc, vpcID, id)
		if err != nil {
			return err
		}
		switch {
		case in.EnableDnsSupport != nil:
			v.NoDNSSupport = !*in.EnableDnsSupport.Value
		case in.EnableDnsHostnames != nil:
			v.DNSHostnames = *in.EnableDnsHostnames.Value
		default:
			v.UsageMetrics = *in.EnableNetworkAddressUsageMetrics.Value
		}
		return vpcs.Put(tx, sc.key(id), v)
	})
	return &awsec2.ModifyVpcAttributeOutput{}, err
}

// defaultVPC returns the scope's default VPC; false if it has been deleted.
func defaultVPC(r store.Reader, sc scope) (vpcRecord, bool, error) {
	found, err := list(r, vpcs, sc, func(v vpcRecord) bool { return v.Default })
	if err != nil || len(found) == 0 {
		return vpcRecord{}, false, err
	}
	return found[0], true, nil
}

// sortByZone is the order in which a default subnet is chosen.
func sortByZone(sns []subnetRecord) {
	slices.SortFunc(sns, func(a, b subnetRecord) int {
		switch {
		case a.Zone < b.Zone:
			return -1
		case a.Zone > b.Zone:
			return 1
		}
		return 0
	})
}
