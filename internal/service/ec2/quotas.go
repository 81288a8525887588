package ec2

import (
	"context"
	"fmt"
	"slices"

	"github.com/drydock-dev/drydock/internal/store"
)

// A Quota bounds what an account may have in a region.
type Quota struct {
	Code        string // L-F678F1CE
	Name        string
	Default     float64
	Adjustable  bool
	ServiceCode string // vpc or ec2
}

// A quotaRecord is a quota of an account and region that is not the default.
type quotaRecord struct{ Value float64 }

// The codes of the quotas that the network enforces.
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

// networkQuotas are AWS's defaults. Codes as service-quotas returns them;
// values: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html
func networkQuotas() []Quota {
	return []Quota{
		{quotaVPCs, "VPCs per Region", 5, true, "vpc"},
		{quotaSubnets, "Subnets per VPC", 200, true, "vpc"},
		{quotaCIDRs, "IPv4 CIDR blocks per VPC", 5, true, "vpc"},
		{quotaCIDRs6, "IPv6 CIDR blocks per VPC", 5, true, "vpc"},
		{quotaRouteTables, "Route tables per VPC", 200, true, "vpc"},
		{quotaRoutes, "Routes per route table", 500, true, "vpc"},
		{quotaInternetGateways, "Internet gateways per Region", 5, true, "vpc"},
		{quotaEgressGateways, "Egress-only internet gateways per Region", 5, true, "vpc"},
		{quotaNATGateways, "NAT gateways per Availability Zone", 5, true, "vpc"},
		{quotaACLs, "Network ACLs per VPC", 200, true, "vpc"},
		{quotaACLEntries, "Rules per network ACL", 20, true, "vpc"},
		{quotaGroups, "VPC security groups per Region", 2500, true, "vpc"},
		{quotaRules, "Inbound or outbound rules per security group", 60, true, "vpc"},
		{quotaGroupsPerENI, "Security groups per network interface", 5, true, "vpc"},
		{quotaPeerings, "Active VPC peering connections per VPC", 50, true, "vpc"},
		{quotaPeeringRequests, "Outstanding VPC peering connection requests", 25, true, "vpc"},
		{quotaGatewayEndpoints, "Gateway VPC endpoints per Region", 20, true, "vpc"},
		{quotaEndpoints, "Interface VPC endpoints per VPC", 50, true, "vpc"},
		{quotaAddresses, "EC2-VPC Elastic IPs", 5, true, "ec2"},
	}
}

// Quotas lists the quotas that the service enforces on networks.
func (s *Service) Quotas() []Quota { return networkQuotas() }

func lookupQuota(code string) (Quota, bool) {
	all := networkQuotas()
	i := slices.IndexFunc(all, func(q Quota) bool { return q.Code == code })
	if i < 0 {
		return Quota{}, false
	}
	return all[i], true
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
	if value < 0 {
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
