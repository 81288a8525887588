package regions_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

func TestEveryRegionIsComplete(t *testing.T) {
	all := regions.All()
	if len(all) != 34 || !slices.IsSortedFunc(all, func(a, b regions.Region) int { return strings.Compare(a.Name, b.Name) }) {
		t.Fatalf("%d regions, or unsorted", len(all))
	}
	ids := map[string]bool{}
	for _, r := range all {
		if r.LongName == "" || len(r.Zones) < 2 {
			t.Errorf("%s: %+v", r.Name, r)
		}
		for _, z := range r.Zones {
			if ids[z.ID] {
				t.Errorf("zone ID %s twice", z.ID)
			}
			ids[z.ID] = true
		}
	}
}

func TestLookup(t *testing.T) {
	r, ok := regions.Lookup("us-east-1")
	if !ok || len(r.Zones) != 6 || r.LongName != "US East (N. Virginia)" {
		t.Fatalf("us-east-1: %+v", r)
	}
	for _, by := range []string{"us-east-1a", "use1-az1"} {
		if z, ok := r.Zone(by); !ok || z.ID != "use1-az1" || z.Name != "us-east-1a" {
			t.Errorf("%s: %+v", by, z)
		}
	}
	if _, ok := r.Zone("us-east-1z"); ok {
		t.Error("us-east-1z exists")
	}
	if _, ok := regions.Lookup("eu-fake-1"); ok {
		t.Error("eu-fake-1 exists")
	}
}

// A default VPC must be suitable for an EKS cluster.
func TestFirstThreeZonesAreSupportedByEKS(t *testing.T) {
	for _, r := range regions.All() {
		for _, z := range r.Zones[:min(3, len(r.Zones))] {
			if z.ID == "use1-az3" || z.ID == "usw1-az2" || z.ID == "cac1-az3" {
				t.Errorf("%s is among the first three zones", z.ID)
			}
		}
	}
}
