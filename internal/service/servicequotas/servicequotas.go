// Package servicequotas answers Service Quotas: an account's quotas and requests to increase them.
// The services that enforce quotas own their values (package quotatable).
//
// AWS deviation: an increase is granted at once; AWS opens a case. Only the composition root
// imports the package.
package servicequotas

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs. Store is required.
type Config struct {
	Store *store.Store
	// Providers returns the quotas of all services.
	Providers func() []quotatable.Provider
	Clock     clock.PassiveClock // nil means the real clock
}

// Service answers the operations.
type Service struct {
	store     *store.Store
	providers func() []quotatable.Provider // sorted by service code
	clock     clock.PassiveClock
}

// New returns the service.
func New(cfg Config) *Service {
	sorted := func() []quotatable.Provider {
		return slices.SortedFunc(slices.Values(cfg.Providers()), func(a, b quotatable.Provider) int { return strings.Compare(a.ServiceCode(), b.ServiceCode()) })
	}
	return &Service{store: cfg.Store, providers: sorted, clock: cmp.Or[clock.PassiveClock](cfg.Clock, clock.RealClock{})}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "servicequotas",
		Handler:       s,
		Authorization: authorization,
		Constraints:   constraints,
		Operations: []awsapi.Operation{
			{Name: "ListServices", Members: "MaxResults NextToken"},
			{Name: "ListServiceQuotas", Members: "MaxResults NextToken QuotaAppliedAtLevel QuotaCode ServiceCode"},
			{Name: "GetServiceQuota", Members: "QuotaCode ServiceCode"},
			{Name: "ListAWSDefaultServiceQuotas", Members: "MaxResults NextToken ServiceCode"},
			{Name: "GetAWSDefaultServiceQuota", Members: "QuotaCode ServiceCode"},
			{Name: "RequestServiceQuotaIncrease", Members: "DesiredValue QuotaCode ServiceCode SupportCaseAllowed",
				Except: "quotas that are fixed in Drydock (those of services without a quota table)"},
			{Name: "GetRequestedServiceQuotaChange", Members: "RequestId"},
			{Name: "ListRequestedServiceQuotaChangeHistory", Members: "MaxResults NextToken QuotaRequestedAtLevel ServiceCode Status"},
			{Name: "ListRequestedServiceQuotaChangeHistoryByQuota", Members: "MaxResults NextToken QuotaCode QuotaRequestedAtLevel ServiceCode Status"},
		},
	}
}

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(q quotas.Quota) string {
	return arn.New("servicequotas", sc.Region, sc.Account, q.Service+"/"+q.Code)
}

func (s *Service) now() time.Time { return timing.Stamp(s.clock) }

// provider returns the provider of a service.
func (s *Service) provider(code string) (quotatable.Provider, error) {
	for _, p := range s.providers() {
		if p.ServiceCode() == code {
			return p, nil
		}
	}
	return nil, errNoService()
}

// quotas returns a service's quotas with the account's values.
func (s *Service) quotas(ctx context.Context, sc scope, service *string) (quotatable.Provider, []quotas.Quota, error) {
	p, err := s.provider(aws.ToString(service))
	if err != nil {
		return nil, nil, err
	}
	all, err := p.Quotas(ctx, sc.Account, sc.Region)
	return p, all, err
}

// quota returns one quota with the account's value.
func (s *Service) quota(ctx context.Context, sc scope, service *string, code string) (quotatable.Provider, quotas.Quota, error) {
	p, all, err := s.quotas(ctx, sc, service)
	if err != nil {
		return nil, quotas.Quota{}, err
	}
	if i := slices.IndexFunc(all, func(q quotas.Quota) bool { return q.Code == code }); i >= 0 {
		return p, all[i], nil
	}
	return nil, quotas.Quota{}, errNoQuota()
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	KeyMembers: map[string]string{
		"service": "ServiceCode",
	},
}
