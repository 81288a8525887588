package app

import (
	"context"

	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/servicequotas"
)

// networkQuotas are a service's quotas, of which EC2 keeps those it enforces on
// networks.
type networkQuotas struct {
	servicequotas.Provider // the others

	ec2 *ec2.Service
}

// Quotas returns the other provider's with EC2's values.
func (n networkQuotas) Quotas(ctx context.Context, account, region string) ([]quotas.Quota, error) {
	all, err := n.Provider.Quotas(ctx, account, region)
	if err != nil {
		return nil, err
	}
	for i, q := range all {
		if !n.keeps(q.Code) {
			continue
		}
		if all[i].Value, _, err = n.ec2.QuotaValue(account, region, q.Code); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Set changes a value.
func (n networkQuotas) Set(ctx context.Context, account, region, code string, value float64) error {
	if n.keeps(code) {
		return n.ec2.SetQuota(ctx, account, region, code, value)
	}
	return n.Provider.Set(ctx, account, region, code, value)
}

func (n networkQuotas) keeps(code string) bool {
	for _, q := range n.ec2.Quotas() {
		if q.Code == code && q.Service == n.ServiceCode() {
			return true
		}
	}
	return false
}
