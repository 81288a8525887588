// Package subscription manages EKS Anywhere subscriptions: their terms, renewal and end. They license nothing, because
// there is no License Manager.
package subscription

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on EKS Anywhere subscriptions.
type Service struct{ *base.Service }

// New returns the part of EKS that keeps subscriptions.
func New(b *base.Service) *Service { return &Service{b} }

// CreateEksAnywhereSubscription begins a subscription.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateEksAnywhereSubscription.html
func (s *Service) CreateEksAnywhereSubscription(ctx context.Context, in *awseks.CreateEksAnywhereSubscriptionInput) (*awseks.CreateEksAnywhereSubscriptionOutput, error) {
	call := awsapi.CallFrom(ctx)
	if err := base.CheckName(in.Name, "name", "subscription name", "", 100); err != nil {
		return nil, err
	}
	if '0' <= (*in.Name)[0] && (*in.Name)[0] <= '9' {
		return nil, errName()
	}
	if err := base.CheckTags("", in.Tags); err != nil {
		return nil, err
	}
	if in.Term == nil {
		return nil, ekserr.Missing("term")
	}
	term := *in.Term
	if term.Unit == "" {
		term.Unit = ekstypes.EksAnywhereSubscriptionTermUnitMonths
	}
	licences, kind := max(in.LicenseQuantity, 1), in.LicenseType
	if kind == "" {
		kind = ekstypes.EksAnywhereSubscriptionLicenseTypeCluster
	}
	switch {
	case term.Unit != ekstypes.EksAnywhereSubscriptionTermUnitMonths:
		return nil, errTermUnit(term.Unit)
	case term.Duration != 12 && term.Duration != 36:
		return nil, errTermDuration(term.Duration)
	case in.LicenseQuantity < 0 || in.LicenseQuantity > 100:
		return nil, errLicenseQuantity(in.LicenseQuantity)
	case kind != ekstypes.EksAnywhereSubscriptionLicenseTypeCluster:
		return nil, errLicenseType(kind)
	}
	now, id := s.Now(), ids.UUID()
	rec := record.Subscription{Name: *in.Name, Token: aws.ToString(in.ClientRequestToken), Request: record.Fingerprint(in), Subscription: ekstypes.EksAnywhereSubscription{
		Id: &id, Arn: new(arn.New("eks", call.Region, call.Account, "eks-anywhere-subscription/"+id)), AutoRenew: in.AutoRenew,
		CreatedAt: &now, EffectiveDate: &now, ExpirationDate: new(now.AddDate(0, int(term.Duration), 0)), Term: &term,
		LicenseArns: []string{}, LicenseQuantity: licences, LicenseType: kind, Tags: base.TagsOrEmpty(in.Tags),
	}}
	out := rec.At(now)
	out.Status = new(string(ekstypes.EksAnywhereSubscriptionStatusCreating))
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		for _, i := range record.Subscriptions.All(tx, store.Scope{Account: call.Account, Region: call.Region}) {
			if i.Value.Name == *in.Name {
				out = i.Value.At(now)
				return base.Repeats("", in.ClientRequestToken, rec.Request, i.Value.Token, i.Value.Request, errExists(*in.Name))
			}
		}
		return record.Subscriptions.Create(tx, store.Key{Account: call.Account, Region: call.Region, ID: id}, rec)
	})
	return &awseks.CreateEksAnywhereSubscriptionOutput{Subscription: &out}, err
}

// DescribeEksAnywhereSubscription returns a subscription.
func (s *Service) DescribeEksAnywhereSubscription(ctx context.Context, in *awseks.DescribeEksAnywhereSubscriptionInput) (*awseks.DescribeEksAnywhereSubscriptionOutput, error) {
	_, rec, err := find(ctx, s.Store, in.Id)
	if err != nil {
		return nil, err
	}
	return &awseks.DescribeEksAnywhereSubscriptionOutput{Subscription: new(rec.At(s.Now()))}, nil
}

// ListEksAnywhereSubscriptions returns the subscriptions, or those of some statuses.
func (s *Service) ListEksAnywhereSubscriptions(ctx context.Context, in *awseks.ListEksAnywhereSubscriptionsInput) (*awseks.ListEksAnywhereSubscriptionsOutput, error) {
	call, now := awsapi.CallFrom(ctx), s.Now()
	all := []ekstypes.EksAnywhereSubscription{}
	for _, i := range record.Subscriptions.All(s.Store, store.Scope{Account: call.Account, Region: call.Region}) {
		if sub := i.Value.At(now); len(in.IncludeStatus) == 0 || slices.Contains(in.IncludeStatus, ekstypes.EksAnywhereSubscriptionStatus(*sub.Status)) {
			all = append(all, sub)
		}
	}
	size := in.MaxResults
	if size == nil {
		size = new(int32(10)) // other lists of EKS have 100
	}
	page, next, err := base.Page(all, func(sub ekstypes.EksAnywhereSubscription) string { return *sub.Id }, size, in.NextToken)
	return &awseks.ListEksAnywhereSubscriptionsOutput{Subscriptions: page, NextToken: next}, err
}

// UpdateEksAnywhereSubscription sets whether a subscription is renewed.
func (s *Service) UpdateEksAnywhereSubscription(ctx context.Context, in *awseks.UpdateEksAnywhereSubscriptionInput) (*awseks.UpdateEksAnywhereSubscriptionOutput, error) {
	var out ekstypes.EksAnywhereSubscription
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		key, rec, err := find(ctx, tx, in.Id)
		if err != nil {
			return err
		}
		if out = rec.At(s.Now()); *out.Status == string(ekstypes.EksAnywhereSubscriptionStatusExpired) {
			return errExpired(*in.Id)
		}
		out.AutoRenew = in.AutoRenew
		return record.Subscriptions.Update(tx, key, func(r *record.Subscription) error {
			r.Subscription = out // with its present term, which earlier renewals led to
			return nil
		})
	})
	return &awseks.UpdateEksAnywhereSubscriptionOutput{Subscription: &out}, err
}

// DeleteEksAnywhereSubscription removes a subscription that has ended. AWS cancels others by hand.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DeleteEksAnywhereSubscription.html
func (s *Service) DeleteEksAnywhereSubscription(ctx context.Context, in *awseks.DeleteEksAnywhereSubscriptionInput) (*awseks.DeleteEksAnywhereSubscriptionOutput, error) {
	var out ekstypes.EksAnywhereSubscription
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		key, rec, err := find(ctx, tx, in.Id)
		if err != nil {
			return err
		}
		if out = rec.At(s.Now()); *out.Status != string(ekstypes.EksAnywhereSubscriptionStatusExpired) {
			return errActive(*in.Id)
		}
		out.Status = new(string(ekstypes.EksAnywhereSubscriptionStatusDeleting))
		record.Subscriptions.Delete(tx, key)
		return nil
	})
	return &awseks.DeleteEksAnywhereSubscriptionOutput{Subscription: &out}, err
}

// find returns the caller's subscription with an ID.
func find(ctx context.Context, r store.Reader, id *string) (store.Key, record.Subscription, error) {
	call := awsapi.CallFrom(ctx)
	if aws.ToString(id) == "" {
		return store.Key{}, record.Subscription{}, ekserr.Missing("id")
	}
	key := store.Key{Account: call.Account, Region: call.Region, ID: *id}
	rec, err := record.Subscriptions.Get(r, key)
	return key, rec, store.NotFoundAs(err, errNotFound(*id))
}
