package vpc

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A subnetView is a subnet and the number of its free addresses.
type subnetView struct {
	record.Subnet
	free int
}

// SDK renders the record for the SDK.
func (sn subnetView) SDK(sc resource.Scope) ec2types.Subnet {
	out := ec2types.Subnet{
		SubnetId:                    aws.String(sn.ID),
		SubnetArn:                   aws.String(sc.ARN("subnet", sn.ID)),
		VpcId:                       aws.String(sn.VPCID),
		OwnerId:                     aws.String(sc.Account),
		State:                       ec2types.SubnetStateAvailable,
		CidrBlock:                   resource.Optional(sn.CIDR),
		AvailabilityZone:            aws.String(sn.Zone),
		AvailabilityZoneId:          aws.String(sn.ZoneID),
		AvailableIpAddressCount:     aws.Int32(int32(sn.free)),
		DefaultForAz:                aws.Bool(sn.DefaultForZone),
		MapPublicIpOnLaunch:         aws.Bool(sn.MapPublicIP),
		MapCustomerOwnedIpOnLaunch:  aws.Bool(false),
		AssignIpv6AddressOnCreation: aws.Bool(sn.AssignIPv6),
		EnableDns64:                 aws.Bool(sn.DNS64),
		Ipv6Native:                  aws.Bool(sn.IPv6Only()),
		PrivateDnsNameOptionsOnLaunch: &ec2types.PrivateDnsNameOptionsOnLaunch{
			HostnameType:                    ec2types.HostnameType(sn.HostnameType),
			EnableResourceNameDnsARecord:    aws.Bool(sn.ResourceNameA),
			EnableResourceNameDnsAAAARecord: aws.Bool(sn.ResourceNameAAAA),
		},
		Ipv6CidrBlockAssociationSet: []ec2types.SubnetIpv6CidrBlockAssociation{},
		Tags:                        sn.Tags.SDK(),
	}
	for _, b := range sn.IPv6 {
		out.Ipv6CidrBlockAssociationSet = append(out.Ipv6CidrBlockAssociationSet, sdkSubnetBlock(b, ec2types.SubnetCidrBlockStateCodeAssociated))
	}
	return out
}

// viewSubnet adds the number of free addresses to a subnet.
func viewSubnet(r store.Reader, sc resource.Scope, sn record.Subnet) (subnetView, error) {
	pool, err := ipam.OfSubnet(sc, sn)
	if err != nil {
		return subnetView{}, err
	}
	free, err := pool.Free(r)
	return subnetView{sn, free}, err
}

// makeSubnet stores a subnet and associates it with the VPC's default ACL.
func (s *Service) makeSubnet(tx *store.Tx, sc resource.Scope, sn record.Subnet) error {
	v, err := resource.Get(tx, record.VPCs, sc, sn.VPCID)
	if err != nil {
		return err
	}
	err = record.NetworkACLs.Update(tx, sc.Key(v.DefaultACLID), func(a *record.NetworkACL) error {
		a.Associations = append(a.Associations, record.NetworkACLAssociation{ID: ids.Resource("aclassoc"), SubnetID: sn.ID})
		return nil
	})
	if err != nil {
		return fmt.Errorf("associating network ACL %s: %w", v.DefaultACLID, err)
	}
	return record.Subnets.Create(tx, sc.Key(sn.ID), sn)
}

// CreateSubnet creates a subnet.
func (s *Service) CreateSubnet(ctx context.Context, in *awsec2.CreateSubnetInput) (*awsec2.CreateSubnetOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.VpcId == nil {
		return nil, ec2err.Missing("vpcId")
	}
	only6 := aws.ToBool(in.Ipv6Native)
	switch { // recorded from AWS: getmoto/moto tests/test_ec2/test_subnets.py
	case only6 && in.Ipv6CidrBlock == nil:
		return nil, ec2err.New("MissingParameter", "Either 'ipv6CidrBlock' or 'ipv6IpamPoolId' should be provided.")
	case only6 && in.CidrBlock != nil:
		return nil, ec2err.Combination("When specifying ipv4 parameters, cidrBlock or ipv4IpamPoolId, you cannot set ipv6Native to true.")
	case !only6 && in.CidrBlock == nil:
		return nil, ec2err.Missing("cidrBlock")
	}
	var p, p6 netip.Prefix
	if !only6 {
		var ok bool
		if p, ok = resource.ParseCIDR(*in.CidrBlock); !ok {
			return nil, ec2err.CIDR(*in.CidrBlock, "cidrBlock")
		}
	}
	var err error
	if in.Ipv6CidrBlock != nil {
		if p6, err = parseSubnetBlock6(*in.Ipv6CidrBlock); err != nil {
			return nil, err
		}
	}
	zone, err := resource.ChooseZone(sc, aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
	if err != nil {
		return nil, err
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeSubnet)
	if err != nil {
		return nil, err
	}
	sn := record.Subnet{
		ID: ids.Resource("subnet"), VPCID: *in.VpcId,
		Zone: zone.Name, ZoneID: zone.ID, HostnameType: "ip-name", Tags: tags,
	}
	if only6 { // the attributes are recorded in https://github.com/ManageIQ/manageiq-providers-amazon/pull/914
		sn.AssignIPv6, sn.HostnameType, sn.ResourceNameAAAA = true, "resource-name", true
	} else {
		sn.CIDR = p.String()
	}
	var view subnetView
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		v, err := resource.Get(tx, record.VPCs, sc, sn.VPCID)
		if err != nil {
			return err
		}
		inside := only6
		for _, r := range v.Prefixes() {
			inside = inside || resource.Within(r, p)
		}
		if !only6 && (p.Bits() < 16 || p.Bits() > 28) || !inside {
			return ec2err.SubnetRange(*in.CidrBlock)
		}
		others := resource.List(tx, record.Subnets, sc, func(o record.Subnet) bool { return o.VPCID == v.ID })
		if err := quota.Check(tx, sc, quota.Subnets, len(others)+1, ec2err.Limit("SubnetLimitExceeded", "subnets")); err != nil {
			return err
		}
		if !only6 && overlapsAny(others, p) {
			return ec2err.SubnetConflict(*in.CidrBlock)
		}
		sn.IPv6 = nil
		if p6.IsValid() {
			if err := checkSubnetBlock6(v, others, p6); err != nil {
				return err
			}
			sn.IPv6 = []record.CIDRAssociation{{ID: ids.Resource("subnet-cidr-assoc"), CIDR: p6.String()}}
		}
		if err := s.makeSubnet(tx, sc, sn); err != nil {
			return err
		}
		view, err = viewSubnet(tx, sc, sn)
		return err
	})
	return &awsec2.CreateSubnetOutput{Subnet: new(view.SDK(sc))}, err
}

func subnetFields(sc resource.Scope) filter.Fields[subnetView] {
	type v = subnetView
	blocks6 := func(s v) []record.CIDRAssociation { return s.IPv6 }
	return filter.Fields[v]{
		"availability-zone":          filter.One(func(s v) string { return s.Zone }),
		"availabilityZone":           filter.One(func(s v) string { return s.Zone }),
		"availability-zone-id":       filter.One(func(s v) string { return s.ZoneID }),
		"availabilityZoneId":         filter.One(func(s v) string { return s.ZoneID }),
		"available-ip-address-count": filter.One(func(s v) string { return strconv.Itoa(s.free) }),
		"cidr-block":                 filter.One(func(s v) string { return s.CIDR }),
		"cidrBlock":                  filter.One(func(s v) string { return s.CIDR }),
		"cidr":                       filter.One(func(s v) string { return s.CIDR }),
		"customer-owned-ipv4-pool":   filter.Never[v],
		"default-for-az":             filter.Flag(func(s v) bool { return s.DefaultForZone }),
		"defaultForAz":               filter.Flag(func(s v) bool { return s.DefaultForZone }),
		"enable-dns64":               filter.Flag(func(s v) bool { return s.DNS64 }),
		"enable-lni-at-device-index": filter.Never[v],
		"ipv6-cidr-block-association.ipv6-cidr-block":      resource.Each(blocks6, func(b record.CIDRAssociation) string { return b.CIDR }),
		"ipv6-cidr-block-association.association-id":       resource.Each(blocks6, func(b record.CIDRAssociation) string { return b.ID }),
		"ipv6-cidr-block-association.state":                resource.Each(blocks6, func(record.CIDRAssociation) string { return "associated" }),
		"ipv6-native":                                      filter.Flag(func(s v) bool { return s.IPv6Only() }),
		"map-customer-owned-ip-on-launch":                  filter.Flag(func(v) bool { return false }),
		"map-public-ip-on-launch":                          filter.Flag(func(s v) bool { return s.MapPublicIP }),
		"outpost-arn":                                      filter.Never[v],
		"owner-id":                                         filter.One(func(v) string { return sc.Account }),
		"private-dns-name-options-on-launch.hostname-type": filter.One(func(s v) string { return s.HostnameType }),
		"private-dns-name-options-on-launch.enable-resource-name-dns-a-record":    filter.Flag(func(s v) bool { return s.ResourceNameA }),
		"private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record": filter.Flag(func(s v) bool { return s.ResourceNameAAAA }),
		"state":      filter.One(func(v) string { return "available" }),
		"subnet-arn": filter.One(func(s v) string { return sc.ARN("subnet", s.ID) }),
		"subnet-id":  filter.One(func(s v) string { return s.ID }),
		"vpc-id":     filter.One(func(s v) string { return s.VPCID }),
	}
}

// DescribeSubnets lists subnets.
func (s *Service) DescribeSubnets(ctx context.Context, in *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error) {
	sc := resource.ScopeOf(ctx)
	match, err := filter.Compile(in.Filters, subnetFields(sc), func(v subnetView) tag.Set { return v.Tags })
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := resource.CheckPageOfIDs(in.SubnetIds, "subnetIds", in.MaxResults); err != nil {
		return nil, err
	}
	records, err := resource.Choose(s.Store, record.Subnets, sc, in.SubnetIds, resource.All)
	if err != nil {
		return nil, err
	}
	var found []subnetView
	for _, sn := range records {
		v, err := viewSubnet(s.Store, sc, sn)
		if err != nil {
			return nil, err
		}
		if match(v) {
			found = append(found, v)
		}
	}
	found, next, err := resource.Paginate(found, func(v subnetView) string { return v.ID }, in.MaxResults, in.NextToken, resource.Limits{Min: 5, Max: 1000})
	return &awsec2.DescribeSubnetsOutput{Subnets: resource.SDKAll(sc, found), NextToken: next}, err
}

// DeleteSubnet deletes a subnet without network interfaces.
func (s *Service) DeleteSubnet(ctx context.Context, in *awsec2.DeleteSubnetInput) (*awsec2.DeleteSubnetOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.SubnetId)
	if id == "" {
		return nil, ec2err.Missing("subnetId")
	}
	_, err := resource.Delete(ctx, s.Core, record.Subnets, in.DryRun, &id, func(tx *store.Tx, sn *record.Subnet) error {
		pool, err := ipam.OfSubnet(sc, *sn)
		if err != nil {
			return err
		}
		if pool.Used(tx) > 0 || sn.IPv6Only() && len(record.IPv6Addresses.All(tx, store.Scope{Account: sc.Account, Region: sc.Region, Prefix: id + "/"})) > 0 {
			return ec2err.SubnetHasDependencies(id)
		}
		dependent := resource.Exists(tx, record.VPCEndpoints, sc, func(e record.VPCEndpoint) bool { return slices.Contains(e.SubnetIDs, id) })
		if dependent {
			return ec2err.SubnetHasDependencies(id)
		}
		pool.Drop(tx)
		return dropSubnetAssociations(tx, sc, *sn)
	})
	return &awsec2.DeleteSubnetOutput{}, err
}

// dropSubnetAssociations removes a subnet's associations with its route table and network ACL.
func dropSubnetAssociations(tx *store.Tx, sc resource.Scope, sn record.Subnet) error {
	acls := resource.List(tx, record.NetworkACLs, sc, func(a record.NetworkACL) bool { return a.VPCID == sn.VPCID && a.Has(sn.ID) })
	for _, a := range acls {
		if err := record.NetworkACLs.Put(tx, sc.Key(a.ID), a.Without(sn.ID)); err != nil {
			return err
		}
	}
	tables := resource.List(tx, record.RouteTables, sc, func(t record.RouteTable) bool { return t.VPCID == sn.VPCID && t.Has(sn.ID) })
	for _, t := range tables {
		if err := record.RouteTables.Put(tx, sc.Key(t.ID), t.Without(sn.ID)); err != nil {
			return err
		}
	}
	return nil
}

// ModifySubnetAttribute changes one attribute.
func (s *Service) ModifySubnetAttribute(ctx context.Context, in *awsec2.ModifySubnetAttributeInput) (*awsec2.ModifySubnetAttributeOutput, error) {
	var given []string
	var edits []func(*record.Subnet)
	set := func(name string, v *ec2types.AttributeBooleanValue, field func(*record.Subnet) *bool) {
		if v != nil && v.Value != nil {
			given = append(given, name)
			edits = append(edits, func(sn *record.Subnet) { *field(sn) = *v.Value })
		}
	}
	set("mapPublicIpOnLaunch", in.MapPublicIpOnLaunch, func(sn *record.Subnet) *bool { return &sn.MapPublicIP })
	set("assignIpv6AddressOnCreation", in.AssignIpv6AddressOnCreation, func(sn *record.Subnet) *bool { return &sn.AssignIPv6 })
	set("enableDns64", in.EnableDns64, func(sn *record.Subnet) *bool { return &sn.DNS64 })
	set("enableResourceNameDnsARecordOnLaunch", in.EnableResourceNameDnsARecordOnLaunch, func(sn *record.Subnet) *bool { return &sn.ResourceNameA })
	set("enableResourceNameDnsAAAARecordOnLaunch", in.EnableResourceNameDnsAAAARecordOnLaunch, func(sn *record.Subnet) *bool { return &sn.ResourceNameAAAA })
	switch t := in.PrivateDnsHostnameTypeOnLaunch; t {
	case "":
	case ec2types.HostnameTypeIpName, ec2types.HostnameTypeResourceName:
		given = append(given, "privateDnsHostnameTypeOnLaunch")
		edits = append(edits, func(sn *record.Subnet) { sn.HostnameType = string(t) })
	default:
		return nil, ec2err.InvalidValue(t, "privateDnsHostnameTypeOnLaunch", "")
	}
	if err := resource.CheckAttributes(given); err != nil {
		return nil, err
	}
	id := aws.ToString(in.SubnetId)
	_, err := resource.Change(ctx, s.Core, record.Subnets, nil, &id, func(tx *store.Tx, sn *record.Subnet) error {
		edits[0](sn)
		switch {
		case sn.IPv6Only() && sn.HostnameType == string(ec2types.HostnameTypeIpName):
			return ec2err.IPv6OnlyHostname(id, "private-dns-hostname-type-on-launch")
		case sn.IPv6Only() && sn.MapPublicIP:
			return ec2err.IPv6OnlyAttribute(id, "map-public-ip-on-launch")
		case sn.IPv6Only() && sn.ResourceNameA:
			return ec2err.IPv6OnlyAttribute(id, "enable-resource-name-dns-a-record-on-launch")
		case len(sn.IPv6) > 0:
		case sn.AssignIPv6:
			return ec2err.NoIPv6(id, "assign-ipv6-address-on-creation")
		case sn.DNS64: // worded like the error above
			return ec2err.NoIPv6(id, "enable-dns64")
		case sn.ResourceNameAAAA && given[0] == "enableResourceNameDnsAAAARecordOnLaunch": // https://github.com/hashicorp/terraform-provider-aws/issues/32410
			return ec2err.NoIPv6(id, "enable-resource-name-dns-aaaa-record-on-launch")
		}
		return nil
	})
	return &awsec2.ModifySubnetAttributeOutput{}, err
}
