package vpc

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

func optInStatus(r regions.Region) string {
	if r.OptIn {
		return "opted-in"
	}
	return "opt-in-not-required"
}

// DescribeRegions lists the regions.
func (s *Service) DescribeRegions(_ context.Context, in *awsec2.DescribeRegionsInput) (*awsec2.DescribeRegionsOutput, error) {
	endpoint := func(r regions.Region) string { return "ec2." + r.Name + ".amazonaws.com" }
	match, err := filter.Compile(in.Filters, filter.Fields[regions.Region]{
		"endpoint":      filter.One(endpoint),
		"opt-in-status": filter.One(optInStatus),
		"region-name":   filter.One(func(r regions.Region) string { return r.Name }),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	for _, name := range in.RegionNames {
		if _, ok := regions.Lookup(name); !ok {
			return nil, ec2err.InvalidParameterValue("Invalid region provided: '%s'", name)
		}
	}
	out := &awsec2.DescribeRegionsOutput{Regions: []ec2types.Region{}}
	for _, r := range regions.All() {
		if match(r) && (len(in.RegionNames) == 0 || slices.Contains(in.RegionNames, r.Name)) {
			out.Regions = append(out.Regions, ec2types.Region{
				RegionName: aws.String(r.Name), Endpoint: aws.String(endpoint(r)), OptInStatus: aws.String(optInStatus(r)),
			})
		}
	}
	return out, nil
}

// DescribeAvailabilityZones lists the zones in the call's region.
func (s *Service) DescribeAvailabilityZones(ctx context.Context, in *awsec2.DescribeAvailabilityZonesInput) (*awsec2.DescribeAvailabilityZonesOutput, error) {
	sc := resource.ScopeOf(ctx)
	type zone = regions.Zone
	constant := func(s string) func(zone) []string { return func(zone) []string { return []string{s} } }
	match, err := filter.Compile(in.Filters, filter.Fields[zone]{
		"group-long-name":  filter.Never[zone],
		"group-name":       filter.One(func(z zone) string { return z.Group }),
		"message":          filter.Never[zone],
		"opt-in-status":    constant("opt-in-not-required"),
		"parent-zone-id":   filter.Never[zone],
		"parent-zone-name": filter.Never[zone],
		"region-name":      constant(sc.Region),
		"state":            constant("available"),
		"zone-id":          filter.One(func(z zone) string { return z.ID }),
		"zone-name":        filter.One(func(z zone) string { return z.Name }),
		"zone-type":        constant("availability-zone"),
	}, nil)
	if err != nil {
		return nil, err
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	r, _ := regions.Lookup(sc.Region)
	for _, name := range slices.Concat(in.ZoneNames, in.ZoneIds) {
		if _, ok := r.Zone(name); !ok {
			return nil, ec2err.InvalidParameterValue("Invalid availability zone: [%s]", name)
		}
	}
	out := &awsec2.DescribeAvailabilityZonesOutput{AvailabilityZones: []ec2types.AvailabilityZone{}}
	for _, z := range r.Zones {
		if !match(z) || len(in.ZoneNames) > 0 && !slices.Contains(in.ZoneNames, z.Name) || len(in.ZoneIds) > 0 && !slices.Contains(in.ZoneIds, z.ID) {
			continue
		}
		out.AvailabilityZones = append(out.AvailabilityZones, ec2types.AvailabilityZone{
			ZoneName: aws.String(z.Name), ZoneId: aws.String(z.ID), RegionName: aws.String(sc.Region),
			GroupName: aws.String(z.Group), NetworkBorderGroup: aws.String(sc.Region), ZoneType: aws.String("availability-zone"),
			GroupLongName: aws.String(r.LongName + " 1"), State: ec2types.AvailabilityZoneStateAvailable,
			OptInStatus: ec2types.AvailabilityZoneOptInStatusOptInNotRequired, Messages: []ec2types.AvailabilityZoneMessage{},
		})
	}
	return out, nil
}

// DescribeAccountAttributes returns limits and features of an account. Terraform and eksctl read
// supported-platforms and default-vpc.
func (s *Service) DescribeAccountAttributes(ctx context.Context, in *awsec2.DescribeAccountAttributesInput) (*awsec2.DescribeAccountAttributesOutput, error) {
	sc := resource.ScopeOf(ctx)
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	def, ok := record.DefaultVPC(s.Store, sc)
	vpc := "none"
	if ok {
		vpc = def.ID
	}
	elastic, err := quota.Value(s.Store, sc, quota.Addresses)
	if err != nil {
		return nil, err
	}
	groups, err := quota.Value(s.Store, sc, quota.GroupsPerENI)
	if err != nil {
		return nil, err
	}
	all := []struct{ name, value string }{
		{"default-vpc", vpc},
		{"max-elastic-ips", resource.Float(&elastic)},
		{"max-instances", "20"}, // from EC2-Classic; today's quotas are on vCPUs
		{"supported-platforms", "VPC"},
		{"vpc-max-elastic-ips", resource.Float(&elastic)},
		{"vpc-max-security-groups-per-interface", resource.Float(&groups)},
	}
	out := &awsec2.DescribeAccountAttributesOutput{AccountAttributes: []ec2types.AccountAttribute{}}
	for _, a := range all {
		if len(in.AttributeNames) > 0 && !slices.ContainsFunc(in.AttributeNames, func(n ec2types.AccountAttributeName) bool { return strings.EqualFold(string(n), a.name) }) {
			continue
		}
		out.AccountAttributes = append(out.AccountAttributes, ec2types.AccountAttribute{
			AttributeName: aws.String(a.name), AttributeValues: []ec2types.AccountAttributeValue{{AttributeValue: aws.String(a.value)}},
		})
	}
	return out, nil
}
