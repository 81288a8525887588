package capacity

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxInstances is the most instances that a reservation is for, EC2's documented limit of one request.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html
const maxInstances = 1000

// linux is the platform of all instances here.
const linux = string(ec2types.CapacityReservationInstancePlatformLinuxUnix)

// States of a reservation. Whether it has expired follows from its end date.
const (
	active    = string(ec2types.CapacityReservationStateActive)
	cancelled = string(ec2types.CapacityReservationStateCancelled)
	expired   = string(ec2types.CapacityReservationStateExpired)
)

// A Reservation is a Capacity Reservation.
type Reservation struct {
	ID           string
	Type         string // of the instances
	Platform     string
	Zone, ZoneID string
	Tenancy      string
	Count        int32
	EBSOptimized bool   `json:",omitempty"`
	Match        string // open or targeted
	Cancelled    bool   `json:",omitempty"`
	Created      time.Time
	End          time.Time // zero: until it is canceled
	Tags         tag.Set   `json:",omitempty"`
}

// ID describes the IDs of reservations.
var ID = resource.IDKind{Prefix: "cr", Malformed: "InvalidCapacityReservationId.Malformed", NotFoundCode: "InvalidCapacityReservationId.NotFound",
	NotFoundOne: "The capacity reservation '%s' was not found.", NotFoundMany: "The capacity reservations '%s' were not found."}

// Reservations is the collection.
var Reservations = resource.NewKind("capacity-reservation", ID, func(r *Reservation) (string, *tag.Set) { return r.ID, &r.Tags })

func (r Reservation) state(now time.Time) string {
	switch {
	case r.Cancelled:
		return cancelled
	case !r.End.IsZero() && !now.Before(r.End):
		return expired
	}
	return active
}

// CreateCapacityReservation reserves capacity from now on.
func (s *Service) CreateCapacityReservation(ctx context.Context, in *awsec2.CreateCapacityReservationInput) (*awsec2.CreateCapacityReservationOutput, error) {
	sc := resource.ScopeOf(ctx)
	name := aws.ToString(in.InstanceType)
	switch {
	case name == "":
		return nil, ec2err.Missing("instanceType")
	case in.InstancePlatform == "":
		return nil, ec2err.Missing("instancePlatform")
	case in.InstanceCount == nil:
		return nil, ec2err.Missing("instanceCount")
	case *in.InstanceCount < 1 || *in.InstanceCount > maxInstances:
		return nil, ec2err.InvalidValue(*in.InstanceCount, "instanceCount", "")
	case !slices.Contains(in.InstancePlatform.Values(), in.InstancePlatform):
		return nil, ec2err.InvalidValue(in.InstancePlatform, "instancePlatform", "")
	case aws.ToBool(in.EphemeralStorage):
		return nil, awserr.NotImplemented("EphemeralStorage=true of EC2 CreateCapacityReservation")
	case in.Tenancy != "" && !slices.Contains(in.Tenancy.Values(), in.Tenancy):
		return nil, ec2err.InvalidValue(in.Tenancy, "tenancy", "")
	case in.InstanceMatchCriteria != "" && !slices.Contains(in.InstanceMatchCriteria.Values(), in.InstanceMatchCriteria):
		return nil, ec2err.InvalidValue(in.InstanceMatchCriteria, "instanceMatchCriteria", "")
	}
	t, ok := instancetypes.Lookup(name)
	if !ok {
		return nil, ec2err.InstanceType(name)
	}
	zone, err := resource.ChooseZone(sc, aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
	if err != nil {
		return nil, err
	}
	if !instancetype.Offered(t.Name, zone.ID) {
		return nil, ec2err.UnsupportedZone(t.Name, zone.Name, instancetype.OfferingZones(sc.Region, t.Name))
	}
	end, err := s.end(in.EndDateType, in.EndDate, "")
	if err != nil {
		return nil, err
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeCapacityReservation)
	if err != nil {
		return nil, err
	}
	if err := s.Check(sc, t.Name, zone.Name, false); err != nil {
		return nil, err
	}
	r, err := resource.Create(ctx, s.Core, Reservations, in.DryRun, in.ClientToken, in, func(_ *store.Tx, r *Reservation) error {
		*r = Reservation{
			ID: ids.Resource("cr"), Type: t.Name, Platform: string(in.InstancePlatform), Zone: zone.Name, ZoneID: zone.ID,
			Tenancy: resource.Or(string(in.Tenancy), "default"), Count: *in.InstanceCount, EBSOptimized: aws.ToBool(in.EbsOptimized),
			Match: resource.Or(string(in.InstanceMatchCriteria), string(ec2types.InstanceMatchCriteriaOpen)), Created: s.Now(), End: end, Tags: tags,
		}
		return nil
	})
	return &awsec2.CreateCapacityReservationOutput{CapacityReservation: new(s.sdk(s.Store, sc, r))}, err
}

// end returns when a reservation ends, zero for never. The type of a change may be left out: then it is the
// reservation's own.
func (s *Service) end(kind ec2types.EndDateType, date *time.Time, own ec2types.EndDateType) (time.Time, error) {
	switch {
	case kind != "" && !slices.Contains(kind.Values(), kind):
		return time.Time{}, ec2err.InvalidValue(kind, "endDateType", "")
	case kind == ec2types.EndDateTypeLimited && date == nil:
		return time.Time{}, ec2err.Combination("The parameter EndDate is required if EndDateType is limited")
	case date != nil && kind != ec2types.EndDateTypeLimited && own != ec2types.EndDateTypeLimited:
		return time.Time{}, ec2err.Combination("The parameter EndDate can be used only if EndDateType is limited")
	case date == nil:
		return time.Time{}, nil
	case !date.After(s.Now()):
		return time.Time{}, ec2err.InvalidValue(resource.TimeText(*date), "endDate", "The end date must be in the future.")
	}
	return date.UTC(), nil
}

// ModifyCapacityReservation changes how many instances an active reservation is for, when it ends, and whether launches
// have to name it.
func (s *Service) ModifyCapacityReservation(ctx context.Context, in *awsec2.ModifyCapacityReservationInput) (*awsec2.ModifyCapacityReservationOutput, error) {
	sc := resource.ScopeOf(ctx)
	if m := in.InstanceMatchCriteria; m != "" && !slices.Contains(m.Values(), m) {
		return nil, ec2err.InvalidValue(m, "instanceMatchCriteria", "")
	}
	_, err := resource.Change(ctx, s.Core, Reservations, in.DryRun, in.CapacityReservationId, func(tx *store.Tx, r *Reservation) error {
		if r.state(s.Now()) != active {
			return notActive(r.ID, r.state(s.Now()))
		}
		if in.EndDateType != "" || in.EndDate != nil {
			end, err := s.end(in.EndDateType, in.EndDate, r.endType())
			if err != nil {
				return err
			}
			r.End = end
		}
		if n := in.InstanceCount; n != nil {
			switch used := int32(len(users(tx, sc, r.ID))); {
			case *n < 1 || *n > maxInstances:
				return ec2err.InvalidValue(*n, "instanceCount", "")
			case *n < used:
				return ec2err.InvalidValue(*n, "instanceCount", fmt.Sprintf("The Capacity Reservation has %d running instances.", used))
			case *n > r.Count:
				if err := s.Check(sc, r.Type, r.Zone, false); err != nil {
					return err
				}
			}
			r.Count = *n
		}
		r.Match = resource.Or(string(in.InstanceMatchCriteria), r.Match)
		return nil
	})
	return &awsec2.ModifyCapacityReservationOutput{Return: aws.Bool(err == nil)}, err
}

// CancelCapacityReservation gives a reservation up. Its instances go on running, outside of it.
func (s *Service) CancelCapacityReservation(ctx context.Context, in *awsec2.CancelCapacityReservationInput) (*awsec2.CancelCapacityReservationOutput, error) {
	_, err := resource.Change(ctx, s.Core, Reservations, in.DryRun, in.CapacityReservationId, func(_ *store.Tx, r *Reservation) error {
		if state := r.state(s.Now()); state != active {
			return notActive(r.ID, state)
		}
		r.Cancelled = true
		return nil
	})
	return &awsec2.CancelCapacityReservationOutput{Return: aws.Bool(err == nil)}, err
}

func notActive(id, state string) error {
	return ec2err.New("IncorrectState", "The capacity reservation '%s' is in the state '%s'.", id, state) // text from memory
}

// DescribeCapacityReservations lists reservations, also those that have ended.
func (s *Service) DescribeCapacityReservations(ctx context.Context, in *awsec2.DescribeCapacityReservationsInput) (*awsec2.DescribeCapacityReservationsOutput, error) {
	sc, now := resource.ScopeOf(ctx), s.Now()
	one := filter.One[Reservation]
	found, next, err := resource.Describe(s.Store, sc, Reservations, resource.Query{
		IDs: in.CapacityReservationIds, Exclusive: "capacityReservationId", Filters: in.Filters, DryRun: in.DryRun,
		MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 1000},
	}, filter.Fields[Reservation]{
		"availability-zone":                   one(func(r Reservation) string { return r.Zone }),
		"availability-zone-id":                one(func(r Reservation) string { return r.ZoneID }),
		"end-date":                            one(func(r Reservation) string { return endText(r.End) }),
		"end-date-type":                       one(func(r Reservation) string { return string(r.endType()) }),
		"instance-match-criteria":             one(func(r Reservation) string { return r.Match }),
		"instance-platform":                   one(func(r Reservation) string { return r.Platform }),
		"instance-type":                       one(func(r Reservation) string { return r.Type }),
		"owner-id":                            one(func(Reservation) string { return sc.Account }),
		"start-date":                          one(func(r Reservation) string { return resource.TimeText(r.Created) }),
		"state":                               one(func(r Reservation) string { return r.state(now) }),
		"tenancy":                             one(func(r Reservation) string { return r.Tenancy }),
		"interruptible":                       filter.Flag(func(Reservation) bool { return false }),
		"capacity-reservation-fleet-id":       filter.Never[Reservation],
		"commitment-info.commitment-end-date": filter.Never[Reservation],
		"commitment-info.committed-instance-count": filter.Never[Reservation],
		"delivery-preference":                      filter.Never[Reservation],
		"outpost-arn":                              filter.Never[Reservation],
		"placement-group-arn":                      filter.Never[Reservation],
	})
	return &awsec2.DescribeCapacityReservationsOutput{NextToken: next, CapacityReservations: resource.Map(found, func(r Reservation) ec2types.CapacityReservation {
		return s.sdk(s.Store, sc, r)
	})}, err
}

func endText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return resource.TimeText(t)
}

func (r Reservation) endType() ec2types.EndDateType {
	if r.End.IsZero() {
		return ec2types.EndDateTypeUnlimited
	}
	return ec2types.EndDateTypeLimited
}

func (s *Service) sdk(from store.Reader, sc resource.Scope, r Reservation) ec2types.CapacityReservation {
	state := r.state(s.Now())
	out := ec2types.CapacityReservation{
		CapacityReservationId: aws.String(r.ID), CapacityReservationArn: aws.String(sc.ARN("capacity-reservation", r.ID)), OwnerId: aws.String(sc.Account),
		AvailabilityZone: aws.String(r.Zone), AvailabilityZoneId: aws.String(r.ZoneID), InstanceType: aws.String(r.Type),
		InstancePlatform: ec2types.CapacityReservationInstancePlatform(r.Platform), Tenancy: ec2types.CapacityReservationTenancy(r.Tenancy),
		TotalInstanceCount: aws.Int32(r.Count), AvailableInstanceCount: aws.Int32(0), EbsOptimized: aws.Bool(r.EBSOptimized), EphemeralStorage: aws.Bool(false),
		State: ec2types.CapacityReservationState(state), CreateDate: aws.Time(r.Created), StartDate: aws.Time(r.Created), EndDateType: r.endType(),
		InstanceMatchCriteria: ec2types.InstanceMatchCriteria(r.Match), ReservationType: ec2types.CapacityReservationTypeDefault, Tags: r.Tags.SDK(),
	}
	if !r.End.IsZero() {
		out.EndDate = aws.Time(r.End)
	}
	if state == active {
		used := int32(len(users(from, sc, r.ID)))
		out.AvailableInstanceCount = aws.Int32(max(r.Count-used, 0))
		if used > 0 {
			out.CapacityAllocations = []ec2types.CapacityAllocation{{AllocationType: ec2types.AllocationTypeUsed, Count: aws.Int32(used)}}
		}
	}
	return out
}

// users returns the instances that take up a reservation's capacity.
func users(r store.Reader, sc resource.Scope, id string) []record.Instance {
	return resource.List(r, record.Instances, sc, func(i record.Instance) bool {
		return i.ReservedIn == id && (i.State == record.Pending || i.State == record.Running)
	})
}

// A Want says which reservations a launch may or must use. The zero Want uses the open ones that fit.
type Want struct {
	Preference string // open, none or capacity-reservations-only; empty means open
	ID         string // a single reservation, or empty
}

// Must reports whether the launch fails outside of a reservation.
func (w Want) Must() bool {
	return w.ID != "" || w.Preference == string(ec2types.CapacityReservationPreferenceCapacityReservationsOnly)
}

// CheckWant returns an error if the reservation that a launch names does not exist or is for other instances.
func (s *Service) CheckWant(sc resource.Scope, w Want, instanceType, zone, tenancy string) error {
	if w.ID == "" {
		return nil
	}
	r, err := resource.Get(s.Store, Reservations, sc, w.ID)
	if err != nil {
		return err
	}
	if state := r.state(s.Now()); state != active {
		return notActive(r.ID, state)
	}
	if !r.fits(instanceType, zone, tenancy) {
		return Exceeded()
	}
	return nil
}

// Exceeded is EC2's error if a reservation has no room for a launch.
// https://github.com/aws/karpenter-provider-aws/blob/v1.14.1/pkg/errors/errors.go has the code.
func Exceeded() error {
	return ec2err.New("ReservationCapacityExceeded", "The requested reservation does not have sufficient compatible and available capacity for this request.")
}

func (r Reservation) fits(instanceType, zone, tenancy string) bool {
	return r.Type == instanceType && r.Zone == zone && r.Tenancy == resource.Or(tenancy, "default") && r.Platform == linux
}

// choose returns the reservation with room that serves a launch, the oldest first, or "" if there is none.
func (s *Service) choose(from store.Reader, sc resource.Scope, w Want, instanceType, zone, tenancy string) (string, int32) {
	if w.Preference == string(ec2types.CapacityReservationPreferenceNone) {
		return "", 0
	}
	now := s.Now()
	candidates := resource.List(from, Reservations, sc, func(r Reservation) bool {
		return r.state(now) == active && r.fits(instanceType, zone, tenancy) && (w.ID == r.ID || w.ID == "" && r.Match == string(ec2types.InstanceMatchCriteriaOpen))
	})
	slices.SortFunc(candidates, func(a, b Reservation) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	best, room := "", int32(0)
	for _, r := range candidates {
		left := r.Count - int32(len(users(from, sc, r.ID)))
		if left > 0 && best == "" {
			best = r.ID
		}
		room += max(left, 0)
	}
	return best, room
}

// Current returns id if its reservation is active, or "".
func (s *Service) Current(r store.Reader, sc resource.Scope, id string) string {
	if id == "" {
		return ""
	}
	v, err := Reservations.Get(r, sc.Key(id))
	if err != nil || v.state(s.Now()) != active {
		return ""
	}
	return id
}

// Room returns for how many instances there is reserved capacity that a launch may use.
func (s *Service) Room(sc resource.Scope, w Want, instanceType, zone, tenancy string) int {
	_, room := s.choose(s.Store, sc, w, instanceType, zone, tenancy)
	return int(room)
}

// Take puts an instance into a reservation that serves it, if there is one. It returns an error if there is none and the
// instance must have one.
func (s *Service) Take(tx *store.Tx, sc resource.Scope, w Want, i *record.Instance) error {
	i.ReservedIn, _ = s.choose(tx, sc, w, i.Type, i.Zone, i.Tenancy)
	if i.ReservedIn == "" && w.Must() {
		return Exceeded()
	}
	return nil
}
