package ec2

import (
	"context"
	"fmt"

	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// Quotas lists the network quotas that the service enforces.
func (s *Service) Quotas() []quota.Quota { return quota.All() }

// QuotaValue returns a quota's value in an account and region, or false if the service does not
// know the code.
func (s *Service) QuotaValue(account, region, code string) (float64, bool, error) {
	if _, ok := quota.Lookup(code); !ok {
		return 0, false, nil
	}
	v, err := quota.Value(s.Store, resource.Scope{Account: account, Region: region}, code)
	return v, true, err
}

// SetQuota changes a quota of an account and region.
func (s *Service) SetQuota(ctx context.Context, account, region, code string, value float64) error {
	if _, ok := quota.Lookup(code); !ok {
		return fmt.Errorf("no quota has the code %s", code)
	}
	if !(value >= 0) {
		return fmt.Errorf("a quota cannot be %v", value)
	}
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		return quota.Overrides.Put(tx, resource.Scope{Account: account, Region: region}.Key(code), quota.Override{Value: value})
	})
}
