package prices_test

import (
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/catalog/prices"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

func TestOnDemand(t *testing.T) {
	for _, tc := range []struct {
		region, instanceType string
		want                 float64
	}{
		// https://aws.amazon.com/ec2/pricing/on-demand/ has had these for years
		{"us-east-1", "m5.large", 0.096},
		{"us-east-1", "t3.medium", 0.0416},
		{"us-east-1", "c5.metal", 4.08},
		{"eu-central-1", "m5.large", 0.096}, // the reference region's
		{"us-east-1", "m5.huge", 0},
		{"mars-north-1", "m5.large", 0},
		{"", "", 0},
	} {
		got, ok := prices.OnDemand(tc.region, tc.instanceType)
		if got != tc.want || ok != (tc.want != 0) {
			t.Errorf("OnDemand(%q, %q) = %v, %v, want %v", tc.region, tc.instanceType, got, ok, tc.want)
		}
	}
	if prices.Date().Year() < 2026 {
		t.Errorf("prices of %v", prices.Date())
	}
}

func TestEveryPrice(t *testing.T) {
	names := prices.InstanceTypes("us-east-1")
	if len(names) < 1000 {
		t.Errorf("%d prices", len(names))
	}
	known := 0
	for _, name := range names {
		if instancetypes.Valid(name) {
			known++
		}
		usd, ok := prices.OnDemand("us-east-1", name)
		if !ok || usd <= 0 || usd > 1000 {
			t.Errorf("%s costs %v", name, usd)
		}
	}
	if known < len(names)*8/10 {
		t.Errorf("only %d of %d priced types are in the catalogue of instance types", known, len(names))
	}
}

func TestSpot(t *testing.T) {
	different := map[float64]bool{}
	for _, r := range regions.All() {
		for _, z := range r.Zones {
			usd, ok := prices.Spot(r.Name, z.Name, "m5.large")
			again, _ := prices.Spot(r.Name, z.Name, "m5.large")
			if !ok || usd != again || usd < 0.096*prices.SpotShare*0.74 || usd > 0.096*prices.SpotShare*1.26 {
				t.Errorf("%s: %v %v %v", z.Name, usd, again, ok)
			}
			different[usd] = true
		}
	}
	if len(different) < 10 {
		t.Errorf("all zones cost the same: %v", different)
	}
	if _, ok := prices.Spot("us-east-1", "us-east-1a", "m5.huge"); ok {
		t.Error("a price of no type")
	}
}
