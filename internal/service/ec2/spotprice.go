package ec2

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
)

// linuxProduct is the only product there is: every image is a Linux.
const linuxProduct = "Linux/UNIX"

// spotOffered reports whether a type is sold on the Spot market.
func spotOffered(instanceType string) bool {
	info, ok := instancetypes.Info(instanceType)
	return ok && slices.Contains(info.SupportedUsageClasses, ec2types.UsageClassTypeSpot)
}

// decimal is a price as a number; 0 for what is none.
func decimal(price string) float64 {
	f, _ := strconv.ParseFloat(price, 64)
	return f
}

// onDemandPrice is what a type costs an hour. Types whose price is not known come
// after those like them: they are priced by their vCPUs and memory.
func onDemandPrice(region string, t instancetypes.Type) float64 {
	if p, ok := prices.OnDemand(region, t.Name); ok {
		return p
	}
	return float64(t.VCPU)*0.05 + float64(t.MemoryMiB)/1024*0.01
}

func spotPrice(region, zone string, t instancetypes.Type) float64 {
	if p, ok := prices.Spot(region, zone, t.Name); ok {
		return p
	}
	return onDemandPrice(region, t) * prices.SpotShare
}

// DescribeSpotPriceHistory lists Spot prices.
//
// AWS deviation: prices do not move (see prices.Spot), so that the history of a
// pool is the one price, in force since the beginning of the day.
func (s *Service) DescribeSpotPriceHistory(ctx context.Context, in *awsec2.DescribeSpotPriceHistoryInput) (*awsec2.DescribeSpotPriceHistoryOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type price struct{ name, zone, zoneID, usd string }
	since := s.now().Truncate(24 * time.Hour)
	match, err := compileFilters(in.Filters, fields[price]{
		"availability-zone":    one(func(p price) string { return p.zone }),
		"availability-zone-id": one(func(p price) string { return p.zoneID }),
		"instance-type":        one(func(p price) string { return p.name }),
		"product-description":  func(price) []string { return []string{linuxProduct, linuxProduct + " (Amazon VPC)"} },
		"spot-price":           one(func(p price) string { return p.usd }),
		"timestamp":            func(price) []string { return []string{timeText(since)} },
	}, nil)
	if err != nil {
		return nil, err
	}
	for _, t := range in.InstanceTypes {
		if !instancetypes.Valid(string(t)) {
			return nil, errInvalidValue(t, "instanceType", "")
		}
	}
	r, _ := regions.Lookup(sc.region)
	zones := r.Zones
	if in.AvailabilityZone != nil || in.AvailabilityZoneId != nil {
		z, err := chooseZone(sc, aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
		if err != nil {
			return nil, errInvalidParameter("Invalid availability zone: [%s]", aws.ToString(in.AvailabilityZone)+aws.ToString(in.AvailabilityZoneId))
		}
		zones = []regions.Zone{z}
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	wanted := len(in.ProductDescriptions) == 0 || slices.ContainsFunc(in.ProductDescriptions, func(p string) bool { return strings.HasPrefix(p, linuxProduct) })
	if in.EndTime != nil && in.EndTime.Before(since) {
		wanted = false
	}
	var found []price
	for _, name := range instancetypes.Names() {
		if !wanted || len(in.InstanceTypes) > 0 && !slices.Contains(in.InstanceTypes, ec2types.InstanceType(name)) || !spotOffered(name) {
			continue
		}
		for _, z := range zones {
			usd, ok := prices.Spot(sc.region, z.Name, name)
			p := price{name, z.Name, z.ID, strconv.FormatFloat(usd, 'f', 6, 64)}
			if ok && offered(name, z.ID) && match(p) {
				found = append(found, p)
			}
		}
	}
	if in.MaxResults == nil || *in.MaxResults == 0 {
		in.MaxResults = aws.Int32(1000)
	}
	id := func(p price) string { return p.name + "/" + p.zone }
	slices.SortFunc(found, func(a, b price) int { return strings.Compare(id(a), id(b)) })
	found, next, err := paginate(found, id, in.MaxResults, in.NextToken, limits{1, 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeSpotPriceHistoryOutput{NextToken: next, SpotPriceHistory: make([]ec2types.SpotPrice, len(found))}
	for i, p := range found {
		out.SpotPriceHistory[i] = ec2types.SpotPrice{
			InstanceType: ec2types.InstanceType(p.name), AvailabilityZone: aws.String(p.zone), AvailabilityZoneId: aws.String(p.zoneID),
			ProductDescription: linuxProduct, SpotPrice: aws.String(p.usd), Timestamp: aws.Time(since),
		}
	}
	return out, nil
}
