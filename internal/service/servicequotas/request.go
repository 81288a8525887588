package servicequotas

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsservicequotas "github.com/aws/aws-sdk-go-v2/service/servicequotas"
	servicequotastypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
	"github.com/aws/smithy-go"
	"github.com/google/uuid"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/store"
)

// requests has the requested increases, by ID.
var requests = store.NewCollection[requestRecord]("servicequotas", "request")

type requestRecord struct {
	ID        string
	Service   string
	Code      string
	Name      string
	Desired   float64
	Created   time.Time
	Requester string // a JSON document, as on AWS
	// Pending means that the increase has not been granted yet. That takes only a moment.
	Pending bool `json:",omitempty"`
}

func (r requestRecord) sdk(sc scope) servicequotastypes.RequestedServiceQuotaChange {
	name, _ := quotas.ServiceName(r.Service)
	status := servicequotastypes.RequestStatusApproved
	if r.Pending {
		status = servicequotastypes.RequestStatusPending
	}
	return servicequotastypes.RequestedServiceQuotaChange{
		Id: aws.String(r.ID), ServiceCode: aws.String(r.Service), ServiceName: aws.String(name), QuotaCode: aws.String(r.Code), QuotaName: aws.String(r.Name),
		QuotaArn: aws.String(sc.arn(quotas.Quota{Service: r.Service, Code: r.Code})), DesiredValue: aws.Float64(r.Desired),
		// AWS deviation: the increase is granted at once, and no case is opened.
		Status:  status,
		Created: aws.Time(r.Created), LastUpdated: aws.Time(r.Created), Requester: aws.String(r.Requester), Unit: aws.String("None"),
		QuotaRequestedAtLevel: servicequotastypes.AppliedLevelEnumAccount,
	}
}

// RequestServiceQuotaIncrease requests an increase, which is granted.
func (s *Service) RequestServiceQuotaIncrease(ctx context.Context, in *awsservicequotas.RequestServiceQuotaIncreaseInput) (*awsservicequotas.RequestServiceQuotaIncreaseOutput, error) {
	sc := scopeOf(ctx)
	desired := aws.ToFloat64(in.DesiredValue)
	rec := requestRecord{
		ID: strings.ReplaceAll(uuid.NewString(), "-", ""), Service: aws.ToString(in.ServiceCode), Code: aws.ToString(in.QuotaCode), Desired: desired,
		Created: s.now(), Requester: `{"accountId":"` + sc.Account + `","callerArn":"` + awsapi.CallFrom(ctx).Principal.ARN + `"}`,
	}
	p, q, err := s.quota(ctx, sc, &rec.Service, rec.Code)
	if err != nil {
		return nil, err
	}
	if !q.Adjustable {
		return nil, errNotAdjustable()
	}
	if desired <= q.Value {
		return nil, errNotMore()
	}
	rec.Name, rec.Pending = q.Name, true
	if err := s.store.Update(ctx, func(tx *store.Tx) error { return requests.Create(tx, sc.Key(rec.ID), rec) }); err != nil {
		return nil, err
	}
	if err := s.grant(ctx, sc, p, rec); err != nil {
		// If the daemon stops before the refused request is deleted, resume deletes it.
		return nil, errors.Join(err, s.forget(context.WithoutCancel(ctx), sc.Key(rec.ID)))
	}
	rec.Pending = false
	out := rec.sdk(sc)
	return &awsservicequotas.RequestServiceQuotaIncreaseOutput{RequestedQuota: &out}, nil
}

// grant applies a requested value, unless a higher one has been granted in the meantime.
func (s *Service) grant(ctx context.Context, sc scope, p quotatable.Provider, rec requestRecord) error {
	_, q, err := s.quota(ctx, sc, &rec.Service, rec.Code)
	if err != nil {
		return err
	}
	if rec.Desired > q.Value {
		if err := p.Set(ctx, sc.Account, sc.Region, rec.Code, rec.Desired); err != nil {
			return err
		}
	}
	return store.IgnoreNotFound(requests.UpdateOne(ctx, s.store, sc.Key(rec.ID), func(r *requestRecord) error { // it may have been refused meanwhile
		r.Pending = false
		return nil
	}))
}

// resume grants requests that were left pending when the daemon stopped.
func (s *Service) resume(ctx context.Context) error {
	for _, it := range requests.All(s.store, store.Scope{}) {
		if !it.Value.Pending {
			continue
		}
		p, err := s.provider(it.Value.Service)
		if err != nil {
			continue // a service that no longer exists
		}
		err = s.grant(ctx, scope{regional.At(it.Key.Account, it.Key.Region)}, p, it.Value)
		if _, refused := errors.AsType[smithy.APIError](err); refused {
			err = s.forget(ctx, it.Key)
		}
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("granting quota request %s: %w", it.Value.ID, err)
		}
	}
	return nil
}

// forget deletes a request that the provider has refused.
func (s *Service) forget(ctx context.Context, k store.Key) error {
	return s.store.Update(ctx, func(tx *store.Tx) error {
		requests.Delete(tx, k)
		return nil
	})
}

// GetRequestedServiceQuotaChange returns one request.
func (s *Service) GetRequestedServiceQuotaChange(ctx context.Context, in *awsservicequotas.GetRequestedServiceQuotaChangeInput) (*awsservicequotas.GetRequestedServiceQuotaChangeOutput, error) {
	sc := scopeOf(ctx)
	rec, err := requests.Get(s.store, sc.Key(aws.ToString(in.RequestId)))
	if store.IsNotFound(err) {
		return nil, errNoRequest()
	}
	if err != nil {
		return nil, err
	}
	out := rec.sdk(sc)
	return &awsservicequotas.GetRequestedServiceQuotaChangeOutput{RequestedQuota: &out}, nil
}

// history returns a page of requests, newest first.
func (s *Service) history(sc scope, service, code string, in *awsservicequotas.ListRequestedServiceQuotaChangeHistoryInput) ([]servicequotastypes.RequestedServiceQuotaChange, *string, error) {
	items := requests.All(s.store, sc.All())
	slices.SortStableFunc(items, func(a, b store.Item[requestRecord]) int { return b.Value.Created.Compare(a.Value.Created) })
	out := []servicequotastypes.RequestedServiceQuotaChange{}
	for _, it := range items {
		r := it.Value.sdk(sc)
		if ofAccounts(in.QuotaRequestedAtLevel) && (service == "" || service == it.Value.Service) && (code == "" || code == it.Value.Code) && (in.Status == "" || in.Status == r.Status) {
			out = append(out, r)
		}
	}
	return paging.CutInOrder(pages, out, func(r servicequotastypes.RequestedServiceQuotaChange) string { return *r.Id }, in.MaxResults, in.NextToken)
}

// ListRequestedServiceQuotaChangeHistory lists the requests of an account.
func (s *Service) ListRequestedServiceQuotaChangeHistory(ctx context.Context, in *awsservicequotas.ListRequestedServiceQuotaChangeHistoryInput) (*awsservicequotas.ListRequestedServiceQuotaChangeHistoryOutput, error) {
	service := aws.ToString(in.ServiceCode)
	if service != "" {
		if _, err := s.provider(service); err != nil {
			return nil, err
		}
	}
	found, next, err := s.history(scopeOf(ctx), service, "", in)
	if err != nil {
		return nil, err
	}
	return &awsservicequotas.ListRequestedServiceQuotaChangeHistoryOutput{NextToken: next, RequestedQuotas: found}, nil
}

// ListRequestedServiceQuotaChangeHistoryByQuota lists the requests for one quota.
func (s *Service) ListRequestedServiceQuotaChangeHistoryByQuota(ctx context.Context, in *awsservicequotas.ListRequestedServiceQuotaChangeHistoryByQuotaInput) (*awsservicequotas.ListRequestedServiceQuotaChangeHistoryByQuotaOutput, error) {
	sc := scopeOf(ctx)
	if _, _, err := s.quota(ctx, sc, in.ServiceCode, aws.ToString(in.QuotaCode)); err != nil {
		return nil, err
	}
	found, next, err := s.history(sc, *in.ServiceCode, *in.QuotaCode, &awsservicequotas.ListRequestedServiceQuotaChangeHistoryInput{
		MaxResults: in.MaxResults, NextToken: in.NextToken, QuotaRequestedAtLevel: in.QuotaRequestedAtLevel, Status: in.Status,
	})
	if err != nil {
		return nil, err
	}
	return &awsservicequotas.ListRequestedServiceQuotaChangeHistoryByQuotaOutput{NextToken: next, RequestedQuotas: found}, nil
}
