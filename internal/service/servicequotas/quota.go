package servicequotas

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	servicequotastypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"

	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/quotatable"
)

// ListServices lists the services that have quotas.
func (s *Service) ListServices(_ context.Context, in *awsservicequotas.ListServicesInput) (*awsservicequotas.ListServicesOutput, error) {
	found, next, err := paging.CutInOrder(pages, s.providers(), quotatable.Provider.ServiceCode, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsservicequotas.ListServicesOutput{NextToken: next, Services: []servicequotastypes.ServiceInfo{}}
	for _, p := range found {
		name, _ := quotas.ServiceName(p.ServiceCode())
		out.Services = append(out.Services, servicequotastypes.ServiceInfo{ServiceCode: aws.String(p.ServiceCode()), ServiceName: aws.String(name)})
	}
	return out, nil
}

// sdk converts a quota to its SDK type, with the account's value or AWS's default.
func (sc scope) sdk(q quotas.Quota, value float64) servicequotastypes.ServiceQuota {
	name, _ := quotas.ServiceName(q.Service)
	return servicequotastypes.ServiceQuota{
		Adjustable: q.Adjustable, QuotaArn: aws.String(sc.arn(q)), QuotaCode: aws.String(q.Code), QuotaName: aws.String(q.Name),
		ServiceCode: aws.String(q.Service), ServiceName: aws.String(name), Unit: aws.String("None"), Value: aws.Float64(value),
		QuotaAppliedAtLevel: servicequotastypes.AppliedLevelEnumAccount,
	}
}

// ofAccounts reports whether a request is for account-level quotas. There are no resource-level
// quotas.
func ofAccounts(level servicequotastypes.AppliedLevelEnum) bool {
	return level != servicequotastypes.AppliedLevelEnumResource
}

// page returns a page of quotas with their values: the account's or AWS's defaults.
func (sc scope) page(all []quotas.Quota, value func(quotas.Quota) float64, size *int32, token *string) ([]servicequotastypes.ServiceQuota, *string, error) {
	found, next, err := paging.CutInOrder(pages, all, func(q quotas.Quota) string { return q.Code }, size, token)
	out := []servicequotastypes.ServiceQuota{}
	for _, q := range found {
		out = append(out, sc.sdk(q, value(q)))
	}
	return out, next, err
}

// ListServiceQuotas lists a service's quotas with the account's values.
func (s *Service) ListServiceQuotas(ctx context.Context, in *awsservicequotas.ListServiceQuotasInput) (*awsservicequotas.ListServiceQuotasOutput, error) {
	sc := scopeOf(ctx)
	_, all, err := s.quotas(ctx, sc, in.ServiceCode)
	if err != nil {
		return nil, err
	}
	var matching []quotas.Quota
	for _, q := range all {
		if ofAccounts(in.QuotaAppliedAtLevel) && (in.QuotaCode == nil || *in.QuotaCode == q.Code) {
			matching = append(matching, q)
		}
	}
	if in.QuotaCode != nil && ofAccounts(in.QuotaAppliedAtLevel) && matching == nil {
		return nil, errNoQuota()
	}
	found, next, err := sc.page(matching, func(q quotas.Quota) float64 { return q.Value }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsservicequotas.ListServiceQuotasOutput{NextToken: next, Quotas: found}, nil
}

// GetServiceQuota returns one quota with the account's value.
func (s *Service) GetServiceQuota(ctx context.Context, in *awsservicequotas.GetServiceQuotaInput) (*awsservicequotas.GetServiceQuotaOutput, error) {
	sc := scopeOf(ctx)
	_, q, err := s.quota(ctx, sc, in.ServiceCode, aws.ToString(in.QuotaCode))
	if err != nil {
		return nil, err
	}
	out := sc.sdk(q, q.Value)
	return &awsservicequotas.GetServiceQuotaOutput{Quota: &out}, nil
}

// byDefault is the scope of AWS's default values. Their ARNs contain no account.
func (sc scope) byDefault() scope { return scope{regional.At("", sc.Region)} }

// ListAWSDefaultServiceQuotas lists a service's quotas with AWS's values.
func (s *Service) ListAWSDefaultServiceQuotas(ctx context.Context, in *awsservicequotas.ListAWSDefaultServiceQuotasInput) (*awsservicequotas.ListAWSDefaultServiceQuotasOutput, error) {
	sc := scopeOf(ctx)
	_, all, err := s.quotas(ctx, sc, in.ServiceCode)
	if err != nil {
		return nil, err
	}
	found, next, err := sc.byDefault().page(all, func(q quotas.Quota) float64 { return q.Default }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsservicequotas.ListAWSDefaultServiceQuotasOutput{NextToken: next, Quotas: found}, nil
}

// GetAWSDefaultServiceQuota returns one quota with AWS's value.
func (s *Service) GetAWSDefaultServiceQuota(ctx context.Context, in *awsservicequotas.GetAWSDefaultServiceQuotaInput) (*awsservicequotas.GetAWSDefaultServiceQuotaOutput, error) {
	sc := scopeOf(ctx)
	_, q, err := s.quota(ctx, sc, in.ServiceCode, aws.ToString(in.QuotaCode))
	if err != nil {
		return nil, err
	}
	out := sc.byDefault().sdk(q, q.Default)
	return &awsservicequotas.GetAWSDefaultServiceQuotaOutput{Quota: &out}, nil
}

var pages = paging.Rules{Usual: 100, BadToken: func(string) error { return errNextToken() }}
