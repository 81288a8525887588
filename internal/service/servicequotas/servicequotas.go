// Package servicequotas answers Service Quotas: what an account may have, and
// asking for more. The values belong to the services that enforce them, each a
// Provider; Table is one over the catalogue that most of them can use.
//
// AWS deviation: an increase is granted at once, where AWS opens a case.
// Only the composition root imports it.
package servicequotas

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Provider has the quotas of one service.
type Provider interface {
	// ServiceCode is one of quotas.Services: vpc, eks, …
	ServiceCode() string
	// Quotas returns them all with the values that hold for the account, in an
	// order that does not change.
	Quotas(r store.Reader, account, region string) ([]quotas.Quota, error)
	// Set changes a value of a quota that Quotas returns, in a transaction of
	// the caller.
	Set(tx *store.Tx, account, region, code string, value float64) error
}

// Config is what the service needs. Store is required.
type Config struct {
	Store     *store.Store
	Providers []Provider
	Clock     clock.PassiveClock // nil: the real one
}

// Service answers the operations.
type Service struct {
	store     *store.Store
	providers []Provider // sorted by service code
	clock     clock.PassiveClock
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, providers: slices.Clone(cfg.Providers), clock: cfg.Clock}
	slices.SortFunc(s.providers, func(a, b Provider) int { return strings.Compare(a.ServiceCode(), b.ServiceCode()) })
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	return s
}

// AWS is the service as the front door sees it.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:    "servicequotas",
		Handler: s,
		Operations: []awsapi.Operation{
			{Name: "ListServices", Members: "MaxResults NextToken"},
			{Name: "ListServiceQuotas", Members: "MaxResults NextToken QuotaAppliedAtLevel QuotaCode ServiceCode"},
			{Name: "GetServiceQuota", Members: "QuotaCode ServiceCode"},
			{Name: "ListAWSDefaultServiceQuotas", Members: "MaxResults NextToken ServiceCode"},
			{Name: "GetAWSDefaultServiceQuota", Members: "QuotaCode ServiceCode"},
			{Name: "RequestServiceQuotaIncrease", Members: "DesiredValue QuotaCode ServiceCode SupportCaseAllowed",
				Except: "quotas that Drydock has fixed (those of services without a table of their own)"},
			{Name: "GetRequestedServiceQuotaChange", Members: "RequestId"},
			{Name: "ListRequestedServiceQuotaChangeHistory", Members: "MaxResults NextToken QuotaRequestedAtLevel ServiceCode Status"},
			{Name: "ListRequestedServiceQuotaChangeHistoryByQuota", Members: "MaxResults NextToken QuotaCode QuotaRequestedAtLevel ServiceCode Status"},
		},
	}
}

type scope struct{ account, region string }

func scopeOf(ctx context.Context) scope {
	call := awsapi.CallFrom(ctx)
	return scope{call.Account, call.Region}
}

func (sc scope) key(id string) store.Key {
	return store.Key{Account: sc.account, Region: sc.region, ID: id}
}

func (sc scope) arn(q quotas.Quota) string {
	return arn.New("servicequotas", sc.region, sc.account, q.Service+"/"+q.Code)
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

// provider returns the provider of a service.
func (s *Service) provider(code string) (Provider, error) {
	for _, p := range s.providers {
		if p.ServiceCode() == code {
			return p, nil
		}
	}
	return nil, errNoService()
}

// quota returns one quota with the account's value.
func (s *Service) quota(r store.Reader, sc scope, service, code string) (Provider, quotas.Quota, error) {
	p, err := s.provider(service)
	if err != nil {
		return nil, quotas.Quota{}, err
	}
	all, err := p.Quotas(r, sc.account, sc.region)
	if err != nil {
		return nil, quotas.Quota{}, err
	}
	for _, q := range all {
		if q.Code == code {
			return p, q, nil
		}
	}
	return nil, quotas.Quota{}, errNoQuota()
}

// applied holds the values that differ from AWS's defaults, under SERVICE/CODE.
var applied = store.NewCollection[appliedRecord]("servicequotas", "applied")

type appliedRecord struct{ Value float64 }

// A Table is a provider over the catalogue, with values kept in the store.
// Services ask it for what holds.
type Table struct {
	service  string
	defaults map[string]float64
}

var _ Provider = (*Table)(nil)

// NewTable returns the table of a service in the catalogue. defaults replace
// AWS's by code.
func NewTable(service string, defaults map[string]float64) *Table {
	return &Table{service: service, defaults: defaults}
}

// ServiceCode is the service's code.
func (t *Table) ServiceCode() string { return t.service }

// Quotas returns the catalogue's with the account's values.
func (t *Table) Quotas(r store.Reader, account, region string) ([]quotas.Quota, error) {
	all := quotas.Of(t.service)
	for i, q := range all {
		value, err := t.Value(r, account, region, q.Code)
		if err != nil {
			return nil, err
		}
		all[i].Value = value
	}
	return all, nil
}

// Value returns what holds for an account in a region. Within a transaction it
// is part of it. A code that is not in the catalogue is an error.
func (t *Table) Value(r store.Reader, account, region, code string) (float64, error) {
	rec, err := applied.Get(r, scope{account, region}.key(t.service+"/"+code))
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
		return 0, errNoQuota()
	}
	return q.Default, nil
}

// Set changes what holds.
func (t *Table) Set(tx *store.Tx, account, region, code string, value float64) error {
	return applied.Put(tx, scope{account, region}.key(t.service+"/"+code), appliedRecord{value})
}

// Fixed is a provider of the catalogue's values for a service that enforces
// them but cannot change them yet: asking for more is refused with 501 rather
// than granted without effect.
type Fixed string

var _ Provider = Fixed("")

// ServiceCode is the service's code.
func (f Fixed) ServiceCode() string { return string(f) }

// Quotas returns the catalogue's.
func (f Fixed) Quotas(store.Reader, string, string) ([]quotas.Quota, error) {
	return quotas.Of(string(f)), nil
}

// Set refuses.
func (f Fixed) Set(*store.Tx, string, string, string, float64) error {
	return awserr.NotImplemented("increasing quotas of " + string(f))
}
