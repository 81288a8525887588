package instancetype

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// LinuxProduct is the only product, because every image is a Linux image.
const LinuxProduct = "Linux/UNIX"

// SpotOffered reports whether a type is available on the Spot market.
func SpotOffered(instanceType string) bool {
	info, ok := instancetypes.Info(instanceType)
	return ok && slices.Contains(info.SupportedUsageClasses, ec2types.UsageClassTypeSpot)
}

// Decimal converts a price to a number, or returns 0 if it is not one.
func Decimal(price string) float64 {
	f, _ := strconv.ParseFloat(price, 64)
	return f
}

// OnDemandPrice returns a type's price per hour. Types without a known price sort after similar
// ones: their price is derived from vCPUs and memory.
func OnDemandPrice(region string, t instancetypes.Type) float64 {
	if p, ok := prices.OnDemand(region, t.Name); ok {
		return p
	}
	return float64(t.VCPU)*0.05 + float64(t.MemoryMiB)/1024*0.01
}

// SpotPrice returns a type's Spot price per hour in a zone.
func SpotPrice(region, zone string, t instancetypes.Type) float64 {
	if p, ok := prices.Spot(region, zone, t.Name); ok {
		return p
	}
	return OnDemandPrice(region, t) * prices.SpotShare
}

// DescribeSpotPriceHistory lists Spot prices.
//
// AWS deviation: prices never change (see prices.Spot), so a pool's history is a single price, in
// force since the start of the day.
func (s *Service) DescribeSpotPriceHistory(ctx context.Context, in *awsec2.DescribeSpotPriceHistoryInput) (*awsec2.DescribeSpotPriceHistoryOutput, error) {
	sc := resource.ScopeOf(ctx)
	type price struct{ name, zone, zoneID, usd string }
	since := s.Now().Truncate(24 * time.Hour)
	match, err := filter.Compile(in.Filters, filter.Fields[price]{
		"availability-zone":    filter.One(func(p price) string { return p.zone }),
		"availability-zone-id": filter.One(func(p price) string { return p.zoneID }),
		"instance-type":        filter.One(func(p price) string { return p.name }),
		"product-description":  func(price) []string { return []string{LinuxProduct, LinuxProduct + " (Amazon VPC)"} },
		"spot-price":           filter.One(func(p price) string { return p.usd }),
		"timestamp":            func(price) []string { return []string{resource.TimeText(since)} },
	}, nil)
	if err != nil {
		return nil, err
	}
	for _, t := range in.InstanceTypes {
		if !instancetypes.Valid(string(t)) {
			return nil, ec2err.InvalidValue(t, "instanceType", "")
		}
	}
	r, _ := regions.Lookup(sc.Region)
	zones := r.Zones
	if in.AvailabilityZone != nil || in.AvailabilityZoneId != nil {
		z, err := resource.ChooseZone(sc, aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
		if err != nil {
			return nil, ec2err.InvalidParameterValue("Invalid availability zone: [%s]", aws.ToString(in.AvailabilityZone)+aws.ToString(in.AvailabilityZoneId))
		}
		zones = []regions.Zone{z}
	}
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	wanted := len(in.ProductDescriptions) == 0 || slices.ContainsFunc(in.ProductDescriptions, func(p string) bool { return strings.HasPrefix(p, LinuxProduct) })
	if in.EndTime != nil && in.EndTime.Before(since) {
		wanted = false
	}
	var found []price
	for _, name := range instancetypes.Names() {
		if !wanted || len(in.InstanceTypes) > 0 && !slices.Contains(in.InstanceTypes, ec2types.InstanceType(name)) || !SpotOffered(name) {
			continue
		}
		for _, z := range zones {
			usd, ok := prices.Spot(sc.Region, z.Name, name)
			p := price{name, z.Name, z.ID, strconv.FormatFloat(usd, 'f', 6, 64)}
			if ok && Offered(name, z.ID) && match(p) {
				found = append(found, p)
			}
		}
	}
	if in.MaxResults == nil || *in.MaxResults == 0 {
		in.MaxResults = aws.Int32(1000)
	}
	id := func(p price) string { return p.name + "/" + p.zone }
	slices.SortFunc(found, func(a, b price) int { return strings.Compare(id(a), id(b)) })
	found, next, err := resource.Paginate(found, id, in.MaxResults, in.NextToken, resource.Limits{Min: 1, Max: 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeSpotPriceHistoryOutput{NextToken: next, SpotPriceHistory: make([]ec2types.SpotPrice, len(found))}
	for i, p := range found {
		out.SpotPriceHistory[i] = ec2types.SpotPrice{
			InstanceType: ec2types.InstanceType(p.name), AvailabilityZone: aws.String(p.zone), AvailabilityZoneId: aws.String(p.zoneID),
			ProductDescription: LinuxProduct, SpotPrice: aws.String(p.usd), Timestamp: aws.Time(since),
		}
	}
	return out, nil
}
