package ssm

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

// publicPrefix is the prefix of AWS's public parameters.
const publicPrefix = "/aws/service/"

// public returns a public parameter.
func public(region, name string) (parameterRecord, bool) {
	if !strings.HasPrefix(name, publicPrefix) {
		return parameterRecord{}, false
	}
	if p, ok := images.ParameterByName(region, name); ok {
		return publicRecord(p), true
	}
	i, ok := slices.BinarySearchFunc(infrastructure(), name, func(p parameterRecord, n string) int { return strings.Compare(p.Name, n) })
	if !ok {
		return parameterRecord{}, false
	}
	return infrastructure()[i], true
}

// publicParameters returns all public parameters of a region, sorted by name.
func publicParameters(region string) []parameterRecord {
	var out []parameterRecord
	for _, p := range images.Parameters(region) {
		out = append(out, publicRecord(p))
	}
	out = append(out, infrastructure()...)
	slices.SortFunc(out, func(a, b parameterRecord) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// infrastructure returns the public parameters about regions and zones, sorted by name.
// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-public-parameters-global-infrastructure.html
var infrastructure = sync.OnceValue(func() []parameterRecord {
	const base = publicPrefix + "global-infrastructure/"
	var out []parameterRecord
	add := func(path, value string) {
		out = append(out, parameterRecord{
			Name: base + path, Type: "String", Value: value, DataType: "text", Tier: "Standard", Version: 1,
			Modified: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		})
	}
	for _, r := range regions.All() {
		add("regions/"+r.Name, r.Name)
		add("regions/"+r.Name+"/longName", r.LongName)
		add("regions/"+r.Name+"/domain", "amazonaws.com")
		add("regions/"+r.Name+"/partition", "aws")
		for _, z := range r.Zones {
			add("regions/"+r.Name+"/availability-zones/"+z.ID, z.ID)
			add("availability-zones/"+z.ID, z.ID)
			add("availability-zones/"+z.ID+"/parent-region", r.Name)
		}
	}
	slices.SortFunc(out, func(a, b parameterRecord) int { return strings.Compare(a.Name, b.Name) })
	return out
})

func publicRecord(p images.Parameter) parameterRecord {
	return parameterRecord{
		Name: p.Name, Type: "String", Value: p.Value, Modified: p.Modified, DataType: p.DataType, Tier: "Standard",
		Version: p.Modified.Unix() / 86400 % 1000, // stable, and higher in later releases
	}
}
