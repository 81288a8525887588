package ec2

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

type subnetRecord struct {
	ID               string
	VPCID            string
	CIDR             string
	IPv6             []cidrAssociation `json:",omitempty"` // at most one /64
	Zone             string            // us-east-1a
	ZoneID           string            // use1-az1
	DefaultForZone   bool              `json:",omitempty"`
	MapPublicIP      bool              `json:",omitempty"`
	AssignIPv6       bool              `json:",omitempty"`
	DNS64            bool              `json:",omitempty"`
	HostnameType     string            // ip-name, resource-name
	ResourceNameA    bool              `json:",omitempty"`
	ResourceNameAAAA bool              `json:",omitempty"`
	Tags             Tags              `json:",omitempty"`
}

// A subnetView is a subnet with its count of free addresses.
type subnetView struct {
	subnetRecord
	free int
}

func (sn subnetView) sdk(sc scope) ec2types.Subnet {
	out := ec2types.Subnet{
		SubnetId:                    aws.String(sn.ID),
		SubnetArn:                   aws.String(sc.arn("subnet", sn.ID)),
		VpcId:                       aws.String(sn.VPCID),
		OwnerId:                     aws.String(sc.account),
		State:                       ec2types.SubnetStateAvailable,
		CidrBlock:                   aws.String(sn.CIDR),
		AvailabilityZone:            aws.String(sn.Zone),
		AvailabilityZoneId:          aws.String(sn.ZoneID),
		AvailableIpAddressCount:     aws.Int32(int32(sn.free)),
		DefaultForAz:                aws.Bool(sn.DefaultForZone),
		MapPublicIpOnLaunch:         aws.Bool(sn.MapPublicIP),
		MapCustomerOwnedIpOnLaunch:  aws.Bool(false),
		AssignIpv6AddressOnCreation: aws.Bool(sn.AssignIPv6),
		EnableDns64:                 aws.Bool(sn.DNS64),
		Ipv6Native:                  aws.Bool(false),
		PrivateDnsNameOptionsOnLaunch: &ec2types.PrivateDnsNameOptionsOnLaunch{
			HostnameType:                    ec2types.HostnameType(sn.HostnameType),
			EnableResourceNameDnsARecord:    aws.Bool(sn.ResourceNameA),
			EnableResourceNameDnsAAAARecord: aws.Bool(sn.ResourceNameAAAA),
		},
		Ipv6CidrBlockAssociationSet: []ec2types.SubnetIpv6CidrBlockAssociation{},
		Tags:                        sn.Tags.sdk(),
	}
	for _, b := range sn.IPv6 {
		out.Ipv6CidrBlockAssociationSet = append(out.Ipv6CidrBlockAssociationSet, sdkSubnetBlock(b, ec2types.SubnetCidrBlockStateCodeAssociated))
	}
	return out
}

// viewSubnet adds the free addresses.
func viewSubnet(r store.Reader, sc scope, sn subnetRecord) (subnetView, error) {
	pool, err := sc.subnetPool(sn)
	if err != nil {
		return subnetView{}, err
	}
	free, err := pool.free(r)
	return subnetView{sn, free}, err
}

// makeSubnet writes a subnet and associates it with the VPC's default ACL.
func (s *Service) makeSubnet(tx *store.Tx, sc scope, sn subnetRecord) error {
	v, err := get(tx, vpcs, sc, vpcID, sn.VPCID)
	if err != nil {
		return err
	}
	err = networkACLs.Update(tx, sc.key(v.DefaultACLID), func(a *networkACLRecord) error {
		a.Associations = append(a.Associations, networkACLAssociation{ID: ids.Resource("aclassoc"), SubnetID: sn.ID})
		return nil
	})
	if err != nil {
		return fmt.Errorf("associating network ACL %s: %w", v.DefaultACLID, err)
	}
	return subnets.Create(tx, sc.key(sn.ID), sn)
}

// CreateSubnet creates a subnet.
func (s *Service) CreateSubnet(ctx context.Context, in *awsec2.CreateSubnetInput) (*awsec2.CreateSubnetOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.VpcId == nil {
		return nil, errMissing("vpcId")
	}
	if in.CidrBlock == nil {
		return nil, errMissing("cidrBlock")
	}
	p, ok := parseCIDR(*in.CidrBlock)
	if !ok {
		return nil, errCIDR(*in.CidrBlock, "cidrBlock")
	}
	var p6 netip.Prefix
	if in.Ipv6CidrBlock != nil {
		if p6, err = parseSubnetBlock6(*in.Ipv6CidrBlock); err != nil {
			return nil, err
		}
	}
	zone, err := chooseZone(sc, aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
	if err != nil {
		return nil, err
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeSubnet)
	if err != nil {
		return nil, err
	}
	sn := subnetRecord{
		ID: ids.Resource("subnet"), VPCID: *in.VpcId, CIDR: p.String(),
		Zone: zone.Name, ZoneID: zone.ID, HostnameType: "ip-name", Tags: tags,
	}
	var view subnetView
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		v, err := get(tx, vpcs, sc, vpcID, sn.VPCID)
		if err != nil {
			return err
		}
		inside := false
		for _, r := range v.prefixes() {
			inside = inside || within(r, p)
		}
		if p.Bits() < 16 || p.Bits() > 28 || !inside {
			return errSubnetRange(*in.CidrBlock)
		}
		others, err := list(tx, subnets, sc, func(o subnetRecord) bool { return o.VPCID == v.ID })
		if err != nil {
			return err
		}
		if err := checkQuota(tx, sc, quotaSubnets, len(others)+1, errLimit("SubnetLimitExceeded", "subnets")); err != nil {
			return err
		}
		if overlapsAny(others, p) {
			return errSubnetConflict(*in.CidrBlock)
		}
		sn.IPv6 = nil
		if p6.IsValid() {
			if err := checkSubnetBlock6(v, others, p6); err != nil {
				return err
			}
			sn.IPv6 = []cidrAssociation{{ids.Resource("subnet-cidr-assoc"), p6.String()}}
		}
		if err := s.makeSubnet(tx, sc, sn); err != nil {
			return err
		}
		view, err = viewSubnet(tx, sc, sn)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := view.sdk(sc)
	return &awsec2.CreateSubnetOutput{Subnet: &out}, nil
}

// chooseZone finds a zone by name or ID; the region's first one if neither is given.
func chooseZone(sc scope, name, id string) (regions.Zone, error) {
	region, _ := regions.Lookup(sc.region)
	if name == "" && id == "" {
		return region.Zones[0], nil
	}
	if name != "" && id != "" {
		return regions.Zone{}, errCombination("AvailabilityZone and AvailabilityZoneId cannot be used together.")
	}
	z, ok := region.Zone(name + id)
	if !ok || name != "" && z.Name != name || id != "" && z.ID != id {
		if id != "" {
			return z, errInvalidValue(id, "availabilityZoneId", "")
		}
		return z, errInvalidValue(name, "availabilityZone", "Subnets can currently only be created in the following availability zones: "+joinComma(region.ZoneNames())+".")
	}
	return z, nil
}

func subnetFields(sc scope) fields[subnetView] {
	type v = subnetView
	blocks6 := func(s v) []cidrAssociation { return s.IPv6 }
	return fields[v]{
		"availability-zone":          one(func(s v) string { return s.Zone }),
		"availabilityZone":           one(func(s v) string { return s.Zone }),
		"availability-zone-id":       one(func(s v) string { return s.ZoneID }),
		"availabilityZoneId":         one(func(s v) string { return s.ZoneID }),
		"available-ip-address-count": one(func(s v) string { return strconv.Itoa(s.free) }),
		"cidr-block":                 one(func(s v) string { return s.CIDR }),
		"cidrBlock":                  one(func(s v) string { return s.CIDR }),
		"cidr":                       one(func(s v) string { return s.CIDR }),
		"customer-owned-ipv4-pool":   never[v],
		"default-for-az":             flag(func(s v) bool { return s.DefaultForZone }),
		"defaultForAz":               flag(func(s v) bool { return s.DefaultForZone }),
		"enable-dns64":               flag(func(s v) bool { return s.DNS64 }),
		"enable-lni-at-device-index": never[v],
		"ipv6-cidr-block-association.ipv6-cidr-block":      each(blocks6, func(b cidrAssociation) string { return b.CIDR }),
		"ipv6-cidr-block-association.association-id":       each(blocks6, func(b cidrAssociation) string { return b.ID }),
		"ipv6-cidr-block-association.state":                each(blocks6, func(cidrAssociation) string { return "associated" }),
		"ipv6-native":                                      flag(func(v) bool { return false }),
		"map-customer-owned-ip-on-launch":                  flag(func(v) bool { return false }),
		"map-public-ip-on-launch":                          flag(func(s v) bool { return s.MapPublicIP }),
		"outpost-arn":                                      never[v],
		"owner-id":                                         one(func(v) string { return sc.account }),
		"private-dns-name-options-on-launch.hostname-type": one(func(s v) string { return s.HostnameType }),
		"private-dns-name-options-on-launch.enable-resource-name-dns-a-record":    flag(func(s v) bool { return s.ResourceNameA }),
		"private-dns-name-options-on-launch.enable-resource-name-dns-aaaa-record": flag(func(s v) bool { return s.ResourceNameAAAA }),
		"state":      one(func(v) string { return "available" }),
		"subnet-arn": one(func(s v) string { return sc.arn("subnet", s.ID) }),
		"subnet-id":  one(func(s v) string { return s.ID }),
		"vpc-id":     one(func(s v) string { return s.VPCID }),
	}
}

// DescribeSubnets lists subnets.
func (s *Service) DescribeSubnets(ctx context.Context, in *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, subnetFields(sc), func(v subnetView) Tags { return v.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := checkPageOfIDs(in.SubnetIds, "subnetIds", in.MaxResults); err != nil {
		return nil, err
	}
	records, err := choose(s.store, subnets, sc, subnetID, in.SubnetIds, func(subnetRecord) bool { return true })
	if err != nil {
		return nil, err
	}
	var found []subnetView
	for _, sn := range records {
		v, err := viewSubnet(s.store, sc, sn)
		if err != nil {
			return nil, err
		}
		if match(v) {
			found = append(found, v)
		}
	}
	found, next, err := paginate(found, func(v subnetView) string { return v.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeSubnetsOutput{Subnets: sdkAll(sc, found), NextToken: next}, err
}

// DeleteSubnet deletes a subnet without network interfaces.
func (s *Service) DeleteSubnet(ctx context.Context, in *awsec2.DeleteSubnetInput) (*awsec2.DeleteSubnetOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.SubnetId)
	if id == "" {
		return nil, errMissing("subnetId")
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		sn, err := get(tx, subnets, sc, subnetID, id)
		if err != nil {
			return err
		}
		pool, err := sc.subnetPool(sn)
		if err != nil {
			return err
		}
		used, err := pool.used(tx)
		if err != nil {
			return err
		}
		if used > 0 {
			return errSubnetHasDependencies(id)
		}
		dependent, err := exists(tx, vpcEndpoints, sc, func(e vpcEndpointRecord) bool { return slices.Contains(e.SubnetIDs, id) })
		if err != nil {
			return err
		}
		if dependent {
			return errSubnetHasDependencies(id)
		}
		pool.drop(tx)
		if err := dropSubnetAssociations(tx, sc, sn); err != nil {
			return err
		}
		subnets.Delete(tx, sc.key(id))
		return nil
	})
	return &awsec2.DeleteSubnetOutput{}, err
}

// dropSubnetAssociations takes a subnet off its route table and network ACL.
func dropSubnetAssociations(tx *store.Tx, sc scope, sn subnetRecord) error {
	acls, err := list(tx, networkACLs, sc, func(a networkACLRecord) bool { return a.VPCID == sn.VPCID && a.has(sn.ID) })
	if err != nil {
		return err
	}
	for _, a := range acls {
		if err := networkACLs.Put(tx, sc.key(a.ID), a.without(sn.ID)); err != nil {
			return err
		}
	}
	tables, err := list(tx, routeTables, sc, func(t routeTableRecord) bool { return t.VPCID == sn.VPCID && t.has(sn.ID) })
	if err != nil {
		return err
	}
	for _, t := range tables {
		if err := routeTables.Put(tx, sc.key(t.ID), t.without(sn.ID)); err != nil {
			return err
		}
	}
	return nil
}

// ModifySubnetAttribute changes one attribute.
func (s *Service) ModifySubnetAttribute(ctx context.Context, in *awsec2.ModifySubnetAttributeInput) (*awsec2.ModifySubnetAttributeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var given []string
	var edits []func(*subnetRecord)
	set := func(name string, v *ec2types.AttributeBooleanValue, field func(*subnetRecord) *bool) {
		if v != nil && v.Value != nil {
			given = append(given, name)
			edits = append(edits, func(sn *subnetRecord) { *field(sn) = *v.Value })
		}
	}
	set("mapPublicIpOnLaunch", in.MapPublicIpOnLaunch, func(sn *subnetRecord) *bool { return &sn.MapPublicIP })
	set("assignIpv6AddressOnCreation", in.AssignIpv6AddressOnCreation, func(sn *subnetRecord) *bool { return &sn.AssignIPv6 })
	set("enableDns64", in.EnableDns64, func(sn *subnetRecord) *bool { return &sn.DNS64 })
	set("enableResourceNameDnsARecordOnLaunch", in.EnableResourceNameDnsARecordOnLaunch, func(sn *subnetRecord) *bool { return &sn.ResourceNameA })
	set("enableResourceNameDnsAAAARecordOnLaunch", in.EnableResourceNameDnsAAAARecordOnLaunch, func(sn *subnetRecord) *bool { return &sn.ResourceNameAAAA })
	switch t := in.PrivateDnsHostnameTypeOnLaunch; t {
	case "":
	case ec2types.HostnameTypeIpName, ec2types.HostnameTypeResourceName:
		given = append(given, "privateDnsHostnameTypeOnLaunch")
		edits = append(edits, func(sn *subnetRecord) { sn.HostnameType = string(t) })
	default:
		return nil, errInvalidValue(t, "privateDnsHostnameTypeOnLaunch", "")
	}
	if err := checkAttributes(given); err != nil {
		return nil, err
	}
	id := aws.ToString(in.SubnetId)
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		sn, err := get(tx, subnets, sc, subnetID, id)
		if err != nil {
			return err
		}
		edits[0](&sn)
		switch {
		case len(sn.IPv6) > 0:
		case sn.AssignIPv6:
			return errNoIPv6(id, "assign-ipv6-address-on-creation")
		case sn.DNS64: // in the form of the other
			return errNoIPv6(id, "enable-dns64")
		}
		return subnets.Put(tx, sc.key(id), sn)
	})
	return &awsec2.ModifySubnetAttributeOutput{}, err
}
