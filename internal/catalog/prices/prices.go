// Package prices is the catalogue of EC2's hourly prices in US dollars: Linux, shared tenancy (dedicated for bare
// metal, as AWS lists it), embedded.
//
// AWS deviation: the source only has the prices of us-east-1. Karpenter, too, assumes them everywhere until the Price
// List API answers. Here every other region has the same prices, and Spot prices are derived (Spot). Any package may
// import it.
package prices

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

//go:embed prices.tsv.gz
var packed []byte

// reference is the region whose prices apply to all regions without their own.
const reference = "us-east-1"

type table struct {
	date     time.Time
	byRegion map[string]map[string]float64
}

var catalogue = sync.OnceValue(func() table {
	t, err := unpack()
	if err != nil {
		panic(fmt.Sprintf("prices: embedded data: %v", err)) // a broken build
	}
	return t
})

func unpack() (table, error) {
	t := table{byRegion: map[string]map[string]float64{}}
	zr, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return t, err
	}
	data, err := io.ReadAll(zr)
	if err != nil {
		return t, err
	}
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if f[0] == "#" {
			if t.date, err = time.Parse(time.DateOnly, f[1]); err != nil {
				return t, err
			}
			continue
		}
		usd, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return t, err
		}
		if t.byRegion[f[0]] == nil {
			t.byRegion[f[0]] = map[string]float64{}
		}
		t.byRegion[f[0]][f[1]] = usd
	}
	return t, nil
}

// Date returns the date of the prices.
func Date() time.Time { return catalogue().date }

// of returns the prices of a region, or nil if there is no such region.
func of(region string) map[string]float64 {
	t := catalogue()
	if own, ok := t.byRegion[region]; ok {
		return own
	}
	if _, ok := regions.Lookup(region); ok {
		return t.byRegion[reference]
	}
	return nil
}

// InstanceTypes returns the types that have a price in a region, sorted.
func InstanceTypes(region string) []string {
	var out []string
	for name := range of(region) {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// OnDemand returns the hourly price of an instance type in a region, or false if the region or the type's price is
// not known.
func OnDemand(region, instanceType string) (usd float64, ok bool) {
	usd, ok = of(region)[instanceType]
	return usd, ok
}

// SpotShare is the middle of the range of Spot's prices, as a share of the On-Demand price. AWS publishes no such
// number, only "up to 90 %" off; advisors report mostly 60 to 70 % off.
const SpotShare = 0.35

// Spot returns the hourly price of a Spot Instance in an availability zone.
//
// AWS deviation: real Spot prices follow demand. These are SpotShare of the On-Demand price, plus or minus a quarter
// depending on type and zone, and never change: pools differ, and a test's cheapest pool stays the cheapest.
func Spot(region, zone, instanceType string) (usd float64, ok bool) {
	usd, ok = OnDemand(region, instanceType)
	if !ok {
		return 0, false
	}
	h := fnv.New32a()
	_, _ = io.WriteString(h, zone+"/"+instanceType) // a hash never fails
	swing := float64(h.Sum32()%1001)/1000*0.5 - 0.25
	return math.Round(usd*SpotShare*(1+swing)*1e6) / 1e6, true
}
