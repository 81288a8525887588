// Package quotatable keeps the values of service quotas that accounts have been granted. A service that has quotas
// declares them in its module, each table through a Provider, and reads the values in force from it. Service Quotas
// shows and raises them.
package quotatable

import (
	"context"
	"errors"
	"fmt"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Provider has the quotas of one service.
type Provider interface {
	// ServiceCode is one of quotas.Services: vpc, eks, …
	ServiceCode() string
	// Quotas returns all quotas with the account's values, always in the same order.
	Quotas(ctx context.Context, account, region string) ([]quotas.Quota, error)
	// Set changes the value of a quota that Quotas returns. Repeating it has no effect.
	Set(ctx context.Context, account, region, code string, value float64) error
}

// Applied has the values that differ from AWS's defaults, under SERVICE/CODE.
var Applied = store.NewCollection[AppliedRecord]("servicequotas", "applied")

// An AppliedRecord is the value of a quota that an account has in a region.
type AppliedRecord struct{ Value float64 }

// A Table is a Provider based on the catalogue, with values kept in the store.
type Table struct {
	store    *store.Store
	service  string
	defaults map[string]float64
}

var _ Provider = (*Table)(nil)

// New returns the table of a service in the catalogue. defaults override AWS's, by code.
func New(st *store.Store, service string, defaults map[string]float64) *Table {
	return &Table{store: st, service: service, defaults: defaults}
}

// ServiceCode is the service's code.
func (t *Table) ServiceCode() string { return t.service }

// Quotas returns the catalogue's quotas with the account's values.
func (t *Table) Quotas(_ context.Context, account, region string) ([]quotas.Quota, error) {
	all := quotas.Of(t.service)
	for i, q := range all {
		value, err := t.Value(account, region, q.Code)
		if err != nil {
			return nil, err
		}
		all[i].Value = value
	}
	return all, nil
}

// Value returns a quota's value in an account and region. A code that is not in the catalogue is an
// error.
func (t *Table) Value(account, region, code string) (float64, error) {
	rec, err := Applied.Get(t.store, t.key(account, region, code))
	if err == nil {
		return rec.Value, nil
	}
	if !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	if v, ok := t.defaults[code]; ok {
		return v, nil
	}
	q, ok := quotas.Lookup(t.service, code)
	if !ok {
		return 0, fmt.Errorf("no quota of %s has the code %s", t.service, code)
	}
	return q.Default, nil
}

// Set changes a quota's value.
func (t *Table) Set(ctx context.Context, account, region, code string, value float64) error {
	return t.store.Update(ctx, func(tx *store.Tx) error {
		return Applied.Put(tx, t.key(account, region, code), AppliedRecord{value})
	})
}

func (t *Table) key(account, region, code string) store.Key {
	return regional.At(account, region).Key(t.service + "/" + code)
}

// Fixed is a Provider of the catalogue's values for a service that enforces them but cannot change
// them yet. A request for an increase is refused with 501 rather than granted without effect.
type Fixed string

var _ Provider = Fixed("")

// ServiceCode is the service's code.
func (f Fixed) ServiceCode() string { return string(f) }

// Quotas returns the catalogue's quotas.
func (f Fixed) Quotas(context.Context, string, string) ([]quotas.Quota, error) {
	return quotas.Of(string(f)), nil
}

// Set always returns an error.
func (f Fixed) Set(context.Context, string, string, string, float64) error {
	return awserr.NotImplemented("increasing quotas of " + string(f))
}
