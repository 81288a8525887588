package ec2

import (
	"cmp"
	"context"
	"fmt"

	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// quotas returns what Service Quotas shows of EC2 and of VPC.
func (s *Service) quotas() []quotatable.Provider {
	return []quotatable.Provider{networkQuotas{s.vcpus, s}, networkQuotas{quotatable.Fixed("vpc"), s}}
}

// vcpuQuotas are the quotas of EC2. Only those of vCPUs can be changed; of the others, EC2 only reads those of networks.
type vcpuQuotas struct {
	*quotatable.Table

	vcpus int // of Config
}

// otherVCPUQuota is how many vCPUs an account may run in a bucket whose quota is not in the catalogue: as many as in the
// others.
const otherVCPUQuota = 1152

func newVCPUQuotas(st *store.Store, vcpus int) vcpuQuotas {
	defaults := map[string]float64{}
	for _, q := range quotas.Of("ec2") {
		if vcpus > 0 && q.CountsVCPUs() {
			defaults[q.Code] = float64(vcpus)
		}
	}
	return vcpuQuotas{quotatable.New(st, "ec2", defaults), vcpus}
}

// value returns how many vCPUs of the bucket with a code an account may run in a region.
func (v vcpuQuotas) value(_ context.Context, account, region, code string) int {
	if _, ok := quotas.Lookup("ec2", code); ok {
		if v, err := v.Value(account, region, code); err == nil {
			return int(v)
		}
	}
	return cmp.Or(v.vcpus, otherVCPUQuota)
}

// Set refuses to change quotas that EC2 does not read.
func (v vcpuQuotas) Set(ctx context.Context, account, region, code string, value float64) error {
	if q, ok := quotas.Lookup("ec2", code); !ok || !q.CountsVCPUs() {
		return quotatable.Fixed("ec2").Set(ctx, account, region, code, value)
	}
	return v.Table.Set(ctx, account, region, code, value)
}

// networkQuotas are the quotas of EC2 or VPC, with the values of those that are enforced on networks, which are EC2's own
// records.
type networkQuotas struct {
	quotatable.Provider // stores all other quotas

	ec2 *Service
}

// Quotas returns the provider's quotas with EC2's values in place.
func (n networkQuotas) Quotas(ctx context.Context, account, region string) ([]quotas.Quota, error) {
	all, err := n.Provider.Quotas(ctx, account, region)
	if err != nil {
		return nil, err
	}
	for i, q := range all {
		if !n.keeps(q.Code) {
			continue
		}
		if all[i].Value, err = quota.Value(n.ec2.Store, resource.Scope{Account: account, Region: region}, q.Code); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Set changes a quota in the place that stores it.
func (n networkQuotas) Set(ctx context.Context, account, region, code string, value float64) error {
	if n.keeps(code) {
		return n.ec2.setQuota(ctx, account, region, code, value)
	}
	return n.Provider.Set(ctx, account, region, code, value)
}

func (n networkQuotas) keeps(code string) bool {
	q, ok := quota.Lookup(code)
	return ok && q.Service == n.ServiceCode()
}

// setQuota changes a quota of networks in an account and region.
func (s *Service) setQuota(ctx context.Context, account, region, code string, value float64) error {
	if !(value >= 0) {
		return fmt.Errorf("a quota cannot be %v", value)
	}
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		return quota.Overrides.Put(tx, resource.Scope{Account: account, Region: region}.Key(code), quota.Override{Value: value})
	})
}
