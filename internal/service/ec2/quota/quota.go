package quota

import (
	catalog "github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Quota limits an account's resources in a region.
type Quota = catalog.Quota

// An Override is a quota of an account and region that differs from the default.
type Override struct{ Value float64 }

// Codes of the network quotas. The catalogue has their defaults.
const (
	VPCs             = "L-F678F1CE"
	Subnets          = "L-407747CB"
	CIDRs            = "L-83CA0A9D"
	CIDRs6           = "L-085A6257"
	RouteTables      = "L-589F43AA"
	Routes           = "L-93826ACB"
	InternetGateways = "L-A4707A72"
	EgressGateways   = "L-45FE3B85"
	NATGateways      = "L-FE5A380F"
	ACLs             = "L-B4A6D682"
	ACLEntries       = "L-2AEEBF1A"
	Groups           = "L-E79EC296"
	Rules            = "L-0EA8095F"
	GroupsPerENI     = "L-2AFB9258"
	Peerings         = "L-7E9ECCDB"
	PeeringRequests  = "L-DC9F7029"
	GatewayEndpoints = "L-1B52E74A"
	Endpoints        = "L-29B6F2EB"
	Addresses        = "L-0263D0A3"

	// https://docs.aws.amazon.com/vpc/latest/tgw/transit-gateway-quotas.html
	TransitGateways    = "L-A2478D36"
	TransitRouteTables = "L-43872EB7"
)

// A catalogName identifies a quota in the catalogue.
type catalogName struct{ service, code string }

func catalogNames() []catalogName {
	var out []catalogName
	for _, code := range []string{
		VPCs, Subnets, CIDRs, CIDRs6, RouteTables, Routes, InternetGateways, EgressGateways,
		NATGateways, ACLs, ACLEntries, Groups, Rules, GroupsPerENI, Peerings, PeeringRequests,
		GatewayEndpoints, Endpoints,
	} {
		out = append(out, catalogName{"vpc", code})
	}
	for _, code := range []string{Addresses, TransitGateways, TransitRouteTables} {
		out = append(out, catalogName{"ec2", code})
	}
	return out
}

// Lookup returns the network quota with a code, or false if EC2 does not enforce it.
func Lookup(code string) (Quota, bool) {
	for _, n := range catalogNames() {
		if n.code == code {
			return catalog.Lookup(n.service, code)
		}
	}
	return Quota{}, false
}

// Value returns the value of a quota in an account and region.
func Value(r store.Reader, sc resource.Scope, code string) (float64, error) {
	rec, err := Overrides.Get(r, sc.Key(code))
	if resource.NotFound(err) {
		q, _ := Lookup(code)
		return q.Default, nil
	}
	return rec.Value, err
}

// Check returns exceeded if n is above a quota.
func Check(r store.Reader, sc resource.Scope, code string, n int, exceeded error) error {
	most, err := Value(r, sc, code)
	if err != nil {
		return err
	}
	if float64(n) > most {
		return exceeded
	}
	return nil
}

// Room returns exceeded if there is no room for one more resource within a quota. counts selects
// the resources that count.
func Room[T any](r store.Reader, sc resource.Scope, code string, c resource.Records[T], counts func(T) bool, exceeded error) error {
	n := resource.Count(r, c, sc, counts)
	return Check(r, sc, code, n+1, exceeded)
}

// Overrides are the quotas set by users.
var Overrides = store.NewCollection[Override]("ec2", "quota")
