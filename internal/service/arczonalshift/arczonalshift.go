// Package arczonalshift implements zonal shifts of Amazon Application Recovery Controller (ARC): a user moves a
// resource away from one Availability Zone for a time.
//
//	aws arc-zonal-shift start-zonal-shift ──► record ──► Zone ──► the resource's own service: EKS cordons nodes
//
// The package keeps the shifts but does not apply them: the service of a resource asks Zone and produces the
// effect. internal/app tells it which resources can be shifted. Only the composition root imports it.
package arczonalshift

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsshift "github.com/aws/aws-sdk-go-v2/service/arczonalshift"
	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Resource is a managed resource: one that can be shifted.
type Resource struct {
	ARN, Name string
	// Zones returns the IDs of the Availability Zones that it is in.
	Zones func(context.Context) ([]string, error)
	// Created tells it from an earlier resource of the same name, whose shifts do not affect it.
	Created time.Time
	Tags    map[string]string
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	Clock clock.PassiveClock // nil means the real clock
}

// Service is ARC zonal shift.
type Service struct {
	store     *store.Store
	resources func(account, region string) []Resource // of Module
	clock     clock.PassiveClock
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, clock: cfg.Clock}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

const (
	// longest is the longest time for which a shift can be started or extended.
	longest = 72 * time.Hour
	// kept is how long ended shifts are listed. AWS does not say how long it keeps them.
	kept = 30 * 24 * time.Hour
)

// Zone returns the ID of the Availability Zone that a resource created at a time is shifted away from, and until when,
// or "".
func (s *Service) Zone(resource string, created time.Time) (id string, until time.Time) {
	a, err := arn.Parse(resource)
	if err != nil {
		return "", time.Time{}
	}
	if sh := s.active(s.store, regional.At(a.Account, a.Region), resource, created); sh != nil {
		return sh.AwayFrom, sh.Expiry
	}
	return "", time.Time{}
}

// active returns the shift in force of a resource, or nil. There is at most one.
func (s *Service) active(r store.Reader, sc regional.Scope, resource string, created time.Time) *shiftRecord {
	now := s.now()
	for _, i := range shifts.All(r, sc.All()) {
		if sh := &i.Value; sh.Resource == resource && sh.status(now) == shifttypes.ZonalShiftStatusActive && !sh.Start.Before(created.Truncate(time.Millisecond)) {
			return sh
		}
	}
	return nil
}

// Watch watches zonal shifts.
func (s *Service) Watch(scope store.Scope) *store.Watcher { return shifts.Watch(s.store, scope) }

// ResourceOf returns the ARN of the resource of a shift that Watch reported, or "" if the shift is gone.
func (s *Service) ResourceOf(k store.Key) string {
	sh, err := shifts.Get(s.store, k)
	if err != nil {
		return ""
	}
	return sh.Resource
}

// managed returns a managed resource of the caller.
func (s *Service) managed(ctx context.Context, name *string) (Resource, error) {
	sc := regional.Of(ctx)
	a, err := arn.Parse(aws.ToString(name))
	if err != nil || a.Region != sc.Region {
		return Resource{}, errIdentifier(aws.ToString(name))
	}
	all := s.resources(sc.Account, sc.Region)
	i := slices.IndexFunc(all, func(r Resource) bool { return r.ARN == *name })
	if i < 0 {
		return Resource{}, errNoResource(*name)
	}
	return all[i], nil
}

// weights returns 0 for the zone that a resource is shifted away from and 1 for its others.
func weights(zones []string, sh *shiftRecord) map[string]float32 {
	out := map[string]float32{}
	for _, z := range zones {
		out[z] = 1
		if sh != nil && z == sh.AwayFrom {
			out[z] = 0
		}
	}
	return out
}

func inResource(sh *shiftRecord) []shifttypes.ZonalShiftInResource {
	if sh == nil {
		return []shifttypes.ZonalShiftInResource{}
	}
	return []shifttypes.ZonalShiftInResource{{
		AppliedStatus: shifttypes.AppliedStatusApplied, AwayFrom: &sh.AwayFrom, Comment: &sh.Comment, ExpiryTime: &sh.Expiry,
		ResourceIdentifier: &sh.Resource, StartTime: &sh.Start, ZonalShiftId: &sh.ID, ShiftType: shifttypes.ShiftTypeZonalShift,
	}}
}

// GetManagedResource describes a managed resource and its shift.
func (s *Service) GetManagedResource(ctx context.Context, in *awsshift.GetManagedResourceInput) (*awsshift.GetManagedResourceOutput, error) {
	r, err := s.managed(ctx, in.ResourceIdentifier)
	if err != nil {
		return nil, err
	}
	zones, err := r.Zones(ctx)
	if err != nil {
		return nil, err
	}
	sh := s.active(s.store, regional.Of(ctx), r.ARN, r.Created)
	return &awsshift.GetManagedResourceOutput{
		Arn: &r.ARN, Name: &r.Name, AppliedWeights: weights(zones, sh), ZonalShifts: inResource(sh),
		Autoshifts: []shifttypes.AutoshiftInResource{}, ZonalAutoshiftStatus: shifttypes.ZonalAutoshiftStatusDisabled,
	}, nil
}

// ListManagedResources lists the managed resources.
func (s *Service) ListManagedResources(ctx context.Context, in *awsshift.ListManagedResourcesInput) (*awsshift.ListManagedResourcesOutput, error) {
	sc := regional.Of(ctx)
	all := s.resources(sc.Account, sc.Region)
	slices.SortFunc(all, func(a, b Resource) int { return strings.Compare(a.ARN, b.ARN) })
	page, next, err := paging.Cut(paging.Rules{Usual: 100, BadToken: errToken}, all, func(r Resource) string { return r.ARN }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsshift.ListManagedResourcesOutput{Items: []shifttypes.ManagedResourceSummary{}, NextToken: next}
	for _, r := range page {
		zones, err := r.Zones(ctx)
		if err != nil {
			return nil, err
		}
		sh := s.active(s.store, sc, r.ARN, r.Created)
		out.Items = append(out.Items, shifttypes.ManagedResourceSummary{
			Arn: &r.ARN, Name: &r.Name, AvailabilityZones: zones, AppliedWeights: weights(zones, sh), ZonalShifts: inResource(sh),
			Autoshifts: []shifttypes.AutoshiftInResource{}, ZonalAutoshiftStatus: shifttypes.ZonalAutoshiftStatusDisabled, PracticeRunStatus: shifttypes.ZonalAutoshiftStatusDisabled,
		})
	}
	return out, nil
}

// expiry returns when a shift ends that is to last for a time such as 20h or 120m, whose form the API model checks.
func (s *Service) expiry(in string) (time.Time, error) {
	d, err := time.ParseDuration(in)
	if err != nil || d > longest {
		return time.Time{}, errExpiresIn(in)
	}
	return s.now().Add(d), nil
}

// StartZonalShift moves a resource away from a zone.
func (s *Service) StartZonalShift(ctx context.Context, in *awsshift.StartZonalShiftInput) (*awsshift.StartZonalShiftOutput, error) {
	sc := regional.Of(ctx)
	expiry, err := s.expiry(aws.ToString(in.ExpiresIn))
	if err != nil {
		return nil, err
	}
	away := aws.ToString(in.AwayFrom)
	region, _ := regions.Lookup(sc.Region)
	if z, ok := region.Zone(away); !ok || z.ID != away {
		return nil, errZone(away, sc.Region)
	}
	r, err := s.managed(ctx, in.ResourceIdentifier)
	if err != nil {
		return nil, err
	}
	zones, err := r.Zones(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(zones, away) {
		return nil, errNotInZone(r.ARN, away)
	}
	sh := shiftRecord{ID: ids.UUID(), Resource: r.ARN, AwayFrom: away, Start: s.now(), Expiry: expiry, Comment: aws.ToString(in.Comment)}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if other := s.active(tx, sc, r.ARN, r.Created); other != nil {
			return errExists(r.ARN, other.ID)
		}
		for _, old := range shifts.All(tx, sc.All()) {
			if s.now().Sub(old.Value.end()) > kept {
				shifts.Delete(tx, old.Key)
			}
		}
		return shifts.Create(tx, sc.Key(sh.ID), sh)
	})
	return &awsshift.StartZonalShiftOutput{
		AwayFrom: &sh.AwayFrom, Comment: &sh.Comment, ExpiryTime: &sh.Expiry, ResourceIdentifier: &sh.Resource, StartTime: &sh.Start,
		Status: shifttypes.ZonalShiftStatusActive, ZonalShiftId: &sh.ID,
	}, err
}

// change changes an active shift.
func (s *Service) change(ctx context.Context, id *string, fn func(*shiftRecord)) (shiftRecord, error) {
	var out shiftRecord
	err := shifts.UpdateOne(ctx, s.store, regional.Of(ctx).Key(aws.ToString(id)), func(sh *shiftRecord) error {
		if sh.status(s.now()) != shifttypes.ZonalShiftStatusActive {
			return errNotActive(sh.ID)
		}
		fn(sh)
		out = *sh
		return nil
	})
	return out, store.NotFoundAs(err, errNoShift(aws.ToString(id)))
}

// UpdateZonalShift changes the comment or the end of an active shift. The new end counts from now.
func (s *Service) UpdateZonalShift(ctx context.Context, in *awsshift.UpdateZonalShiftInput) (*awsshift.UpdateZonalShiftOutput, error) {
	var expiry time.Time
	if in.ExpiresIn != nil {
		var err error
		if expiry, err = s.expiry(*in.ExpiresIn); err != nil {
			return nil, err
		}
	}
	sh, err := s.change(ctx, in.ZonalShiftId, func(sh *shiftRecord) {
		if in.ExpiresIn != nil {
			sh.Expiry = expiry
		}
		if in.Comment != nil {
			sh.Comment = *in.Comment
		}
	})
	return &awsshift.UpdateZonalShiftOutput{
		AwayFrom: &sh.AwayFrom, Comment: &sh.Comment, ExpiryTime: &sh.Expiry, ResourceIdentifier: &sh.Resource, StartTime: &sh.Start,
		Status: sh.status(s.now()), ZonalShiftId: &sh.ID,
	}, err
}

// CancelZonalShift ends an active shift.
func (s *Service) CancelZonalShift(ctx context.Context, in *awsshift.CancelZonalShiftInput) (*awsshift.CancelZonalShiftOutput, error) {
	sh, err := s.change(ctx, in.ZonalShiftId, func(sh *shiftRecord) { sh.Canceled = s.now() })
	return &awsshift.CancelZonalShiftOutput{
		AwayFrom: &sh.AwayFrom, Comment: &sh.Comment, ExpiryTime: &sh.Expiry, ResourceIdentifier: &sh.Resource, StartTime: &sh.Start,
		Status: sh.status(s.now()), ZonalShiftId: &sh.ID,
	}, err
}

// ListZonalShifts lists active and ended shifts, the latest first.
func (s *Service) ListZonalShifts(ctx context.Context, in *awsshift.ListZonalShiftsInput) (*awsshift.ListZonalShiftsOutput, error) {
	now := s.now()
	all := slices.DeleteFunc(shifts.All(s.store, regional.Of(ctx).All()), func(i store.Item[shiftRecord]) bool {
		return in.Status != "" && i.Value.status(now) != in.Status || in.ResourceIdentifier != nil && i.Value.Resource != *in.ResourceIdentifier
	})
	slices.SortFunc(all, func(a, b store.Item[shiftRecord]) int {
		if c := b.Value.Start.Compare(a.Value.Start); c != 0 {
			return c
		}
		return strings.Compare(a.Value.ID, b.Value.ID)
	})
	page, next, err := paging.CutInOrder(paging.Rules{Usual: 100, BadToken: errToken}, all, func(i store.Item[shiftRecord]) string { return i.Value.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awsshift.ListZonalShiftsOutput{Items: []shifttypes.ZonalShiftSummary{}, NextToken: next}
	for _, i := range page {
		sh := i.Value
		out.Items = append(out.Items, shifttypes.ZonalShiftSummary{
			AwayFrom: &sh.AwayFrom, Comment: &sh.Comment, ExpiryTime: &sh.Expiry, ResourceIdentifier: &sh.Resource, StartTime: &sh.Start,
			Status: sh.status(now), ZonalShiftId: &sh.ID, ShiftType: shifttypes.ShiftTypeZonalShift,
		})
	}
	return out, nil
}
