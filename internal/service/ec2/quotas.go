package ec2

import (
	"context"
	"fmt"

	catalog "github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Quota bounds what an account may have in a region.
type Quota = catalog.Quota

// A quotaRecord is a quota of an account and region that is not the default.
type quotaRecord struct{ Value float64 }

// The codes of the quotas that the network enforces; the catalogue has their defaults.
const (
	quotaVPCs             = "L-F678F1CE"
	quotaSubnets          = "L-407747CB"
	quotaCIDRs            = "L-83CA0A9D"
	quotaCIDRs6           = "L-085A6257"
	quotaRouteTables      = "L-589F43AA"
	quotaRoutes           = "L-93826ACB"
	quotaInternetGateways = "L-A4707A72"
	quotaEgressGateways   = "L-45FE3B85"
	quotaNATGateways      = "L-FE5A380F"
	quotaACLs             = "L-B4A6D682"
	quotaACLEntries       = "L-2AEEBF1A"
	quotaGroups           = "L-E79EC296"
	quotaRules            = "L-0EA8095F"
	quotaGroupsPerENI     = "L-2AFB9258"
	quotaPeerings         = "L-7E9ECCDB"
	quotaPeeringRequests  = "L-DC9F7029"
	quotaGatewayEndpoints = "L-1B52E74A"
	quotaEndpoints        = "L-29B6F2EB"
	quotaAddresses        = "L-0263D0A3"
)

// A quotaName names a quota of the catalogue.
type quotaName struct{ service, code string }

func quotaNames() []quotaName {
	var out []quotaName
	for _, code := range []string{
		quotaVPCs, quotaSubnets, quotaCIDRs, quotaCIDRs6, quotaRouteTables, quotaRoutes, quotaInternetGateways, quotaEgressGateways,
		quotaNATGateways, quotaACLs, quotaACLEntries, quotaGroups, quotaRules, quotaGroupsPerENI, quotaPeerings, quotaPeeringRequests,
		quotaGatewayEndpoints, quotaEndpoints,
	} {
		out = append(out, quotaName{"vpc", code})
	}
	return append(out, quotaName{"ec2", quotaAddresses})
}

// Quotas lists the quotas that the service enforces on networks.
func (s *Service) Quotas() []Quota { return enforcedQuotas() }

func enforcedQuotas() []Quota {
	var out []Quota
	for _, n := range quotaNames() {
		if q, ok := catalog.Lookup(n.service, n.code); ok {
			out = append(out, q)
		}
	}
	return out
}

func lookupQuota(code string) (Quota, bool) {
	for _, n := range quotaNames() {
		if n.code == code {
			return catalog.Lookup(n.service, code)
		}
	}
	return Quota{}, false
}

// QuotaValue returns what holds in an account and region; false for a code that
// the service does not know.
func (s *Service) QuotaValue(account, region, code string) (float64, bool, error) {
	if _, ok := lookupQuota(code); !ok {
		return 0, false, nil
	}
	v, err := quota(s.store, scope{account, region}, code)
	return v, true, err
}

// SetQuota changes a quota of an account and region.
func (s *Service) SetQuota(ctx context.Context, account, region, code string, value float64) error {
	if _, ok := lookupQuota(code); !ok {
		return fmt.Errorf("no quota has the code %s", code)
	}
	if !(value >= 0) {
		return fmt.Errorf("a quota cannot be %v", value)
	}
	return s.store.Update(ctx, func(tx *store.Tx) error {
		return quotas.Put(tx, scope{account, region}.key(code), quotaRecord{value})
	})
}

func quota(r store.Reader, sc scope, code string) (float64, error) {
	rec, err := quotas.Get(r, sc.key(code))
	if notFound(err) {
		q, _ := lookupQuota(code)
		return q.Default, nil
	}
	return rec.Value, err
}

// checkQuota refuses n of something with err if that is more than a quota allows.
func checkQuota(r store.Reader, sc scope, code string, n int, exceeded error) error {
	most, err := quota(r, sc, code)
	if err != nil {
		return err
	}
	if float64(n) > most {
		return exceeded
	}
	return nil
}
