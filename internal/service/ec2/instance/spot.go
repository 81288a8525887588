package instance

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// States of a Spot Instance request.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html
const (
	spotOpen      = "open"
	spotActive    = "active"
	spotDisabled  = "disabled"
	spotClosed    = "closed"
	spotCancelled = "cancelled"
	spotFailed    = "failed"
)

// spotNotYet is the status code of an open request before its start.
const spotNotYet = "not-scheduled-yet"

// spotRetry is the interval between attempts to fulfill an open request.
const spotRetry = time.Second

// A SpotRequest is a Spot Instance request for one instance.
type SpotRequest struct {
	ID string
	spotSpec
	State      string
	StatusCode string
	Status     string
	StatusTime time.Time
	InstanceID string `json:",omitempty"`
	// The request as DescribeSpotInstanceRequests shows it.
	ImageID, Type, SubnetID, KeyName string `json:",omitempty"`
	Zone, ZoneID                     string `json:",omitempty"` // of the launched instance
	Created                          time.Time
	ValidFrom                        time.Time `json:",omitzero"`
	// Request is the RunInstances request, if it may be needed to fulfill the Spot request later or again.
	Request json.RawMessage `json:",omitempty"`
	Tags    tag.Set         `json:",omitempty"`
}

// set changes the state and its explanation.
func (r *SpotRequest) set(now time.Time, state, code, status string) {
	r.State, r.StatusCode, r.Status, r.StatusTime = state, code, status, now
}

// SDK renders the record for the SDK.
func (r SpotRequest) SDK(resource.Scope) ec2types.SpotInstanceRequest {
	out := ec2types.SpotInstanceRequest{
		SpotInstanceRequestId: aws.String(r.ID), State: ec2types.SpotInstanceState(r.State), Type: ec2types.SpotInstanceTypeOneTime,
		Status:     &ec2types.SpotInstanceStatus{Code: aws.String(r.StatusCode), Message: aws.String(r.Status), UpdateTime: aws.Time(r.StatusTime)},
		InstanceId: resource.Optional(r.InstanceID), CreateTime: aws.Time(r.Created), SpotPrice: resource.Optional(r.MaxPrice),
		InstanceInterruptionBehavior: ec2types.InstanceInterruptionBehavior(r.Behavior), ProductDescription: ec2types.RIProductDescriptionLinuxUnix,
		LaunchedAvailabilityZone: resource.Optional(r.Zone), LaunchedAvailabilityZoneId: resource.Optional(r.ZoneID), Tags: r.Tags.SDK(),
		LaunchSpecification: &ec2types.LaunchSpecification{
			ImageId: resource.Optional(r.ImageID), InstanceType: ec2types.InstanceType(r.Type), SubnetId: resource.Optional(r.SubnetID), KeyName: resource.Optional(r.KeyName),
		},
	}
	if r.Persistent {
		out.Type = ec2types.SpotInstanceTypePersistent
	}
	if !r.ValidUntil.IsZero() {
		out.ValidUntil = aws.Time(r.ValidUntil)
	}
	if !r.ValidFrom.IsZero() {
		out.ValidFrom = aws.Time(r.ValidFrom)
	}
	return out
}

func newSpotID() string { return "sir-" + ids.Hex(8) }

// newSpotRequest returns a new request that is waiting to be fulfilled.
func (s *Service) newSpotRequest(l *launch) (SpotRequest, error) {
	now := s.Now()
	r := SpotRequest{
		ID: newSpotID(), spotSpec: *l.spot, Created: now, Tags: l.spotTags,
		ImageID: l.image.ID, Type: l.typ.Name, SubnetID: l.subnet.ID, KeyName: aws.ToString(l.in.KeyName),
	}
	r.set(now, spotOpen, "pending-evaluation", "Your Spot request has been submitted for review, and is pending evaluation.")
	if l.spot.Persistent {
		in := mergedInput(l.in)
		in.MinCount, in.MaxCount = aws.Int32(1), aws.Int32(1)
		raw, err := launchtemplate.CompactJSON(in)
		if err != nil {
			return r, err
		}
		r.Request = raw
	}
	return r, nil
}

// fulfilSpot links an instance that is being launched to its Spot request.
func (s *Service) fulfilSpot(tx *store.Tx, sc resource.Scope, l *launch, i *record.Instance) error {
	var r SpotRequest
	var err error
	if l.spotRequest != "" {
		r, err = resource.Get(tx, SpotRequests, sc, l.spotRequest)
		if err == nil && r.State != spotOpen {
			return errSpotNotOpen
		}
	} else {
		r, err = s.newSpotRequest(l)
	}
	if err != nil {
		return err
	}
	r.InstanceID, r.Zone, r.ZoneID = i.ID, i.Zone, i.ZoneID
	r.set(s.Now(), spotActive, "fulfilled", "Your Spot request is fulfilled.")
	i.SpotRequestID, i.SpotPersistent = r.ID, r.Persistent
	return SpotRequests.Put(tx, sc.Key(r.ID), r)
}

// spotRole is the service-linked role by which EC2 fulfils requests that stay open.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/service-linked-roles-spot-instance-requests.html
var spotRole = awsapi.ServiceRole{Service: "spot.amazonaws.com", Name: "AWSServiceRoleForEC2Spot", Session: "EC2Spot"} // session from memory

// errSpotNotOpen is of a request that was cancelled or fulfilled in the meantime.
var errSpotNotOpen = ec2err.New("IncorrectState", "The Spot Instance request is not open.")

// changeSpot changes an instance's Spot request, if it has one.
func changeSpot(tx *store.Tx, sc resource.Scope, i *record.Instance, fn func(*SpotRequest)) error {
	if i.SpotRequestID == "" {
		return nil
	}
	err := SpotRequests.Update(tx, sc.Key(i.SpotRequestID), func(r *SpotRequest) error {
		fn(r)
		return nil
	})
	return store.IgnoreNotFound(err)
}

// [seen] for terminated instances, in the status messages of Spot requests
func spotReclaimed(how string) string {
	return "Your Spot instance was " + how + " because there is no Spot capacity available that matches your request."
}

// endSpot closes the request of a terminated instance, or reopens it if it is persistent.
func (s *Service) endSpot(tx *store.Tx, sc resource.Scope, i *record.Instance) error {
	code, status := "instance-terminated-by-user", "Spot Instance terminated due to user-initiated termination."
	if i.ReasonCode == reasonSpotTermination {
		code, status = "instance-terminated-no-capacity", spotReclaimed("terminated")
	}
	return changeSpot(tx, sc, i, func(r *SpotRequest) {
		switch {
		case r.State == spotCancelled || r.InstanceID != i.ID:
		case r.Persistent:
			r.InstanceID = ""
			r.set(s.Now(), spotOpen, code, status)
		default:
			r.set(s.Now(), spotClosed, code, status)
		}
	})
}

// reconcileSpot fulfills open requests and deletes the records of old closed ones.
func (s *Service) reconcileSpot(ctx context.Context, k store.Key) (time.Duration, error) {
	r, err := SpotRequests.Get(s.Store, k)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	switch r.State {
	case spotOpen:
		if !r.ValidUntil.IsZero() && !s.Now().Before(r.ValidUntil) {
			return 0, s.setSpot(ctx, k, spotOpen, spotCancelled, "schedule-expired", "Your Spot request has expired.")
		}
		if wait := r.ValidFrom.Sub(s.Now()); wait > 0 {
			return wait, nil
		}
		return s.tryOpenSpot(ctx, k, r)
	case spotClosed, spotCancelled, spotFailed:
		if i, err := record.Instances.Get(s.Store, resource.KeyScope(k).Key(r.InstanceID)); err == nil && i.State != record.Terminated {
			return s.Timing.InstanceTerminatedVisible, nil
		}
		if left := r.StatusTime.Add(s.Timing.InstanceTerminatedVisible).Sub(s.Now()); left > 0 {
			return left, nil
		}
		return 0, s.Store.Update(ctx, func(tx *store.Tx) error {
			SpotRequests.Delete(tx, k)
			return nil
		})
	}
	return 0, nil
}

func (s *Service) tryOpenSpot(ctx context.Context, k store.Key, r SpotRequest) (time.Duration, error) {
	var in awsec2.RunInstancesInput
	if err := json.Unmarshal(r.Request, &in); err != nil {
		return 0, fmt.Errorf("spot request %s: %w", r.ID, err)
	}
	ctx = purpose{spotRequest: r.ID}.in(awsapi.AsService(ctx, k.Account, k.Region, spotRole, s.Now()))
	_, err := s.launcher.RunInstances(ctx, &in)
	var api smithy.APIError
	switch {
	case err == nil || errors.Is(err, errSpotNotOpen):
		return 0, nil
	case !errors.As(err, &api):
		return 0, err
	}
	code := cmp.Or(spotWaits(api.ErrorCode()), "bad-parameters")
	if code == "bad-parameters" && !r.Persistent {
		return 0, s.setSpot(ctx, k, spotOpen, spotFailed, code, api.ErrorMessage())
	}
	if r.StatusCode == code {
		return spotRetry, nil
	}
	return spotRetry, s.setSpot(ctx, k, spotOpen, spotOpen, code, api.ErrorMessage())
}

// spotWaits returns the status code of a request that stays open because its launch has failed with an error code, or "".
func spotWaits(errorCode string) string {
	switch errorCode {
	case "InsufficientInstanceCapacity":
		return "capacity-not-available"
	case "SpotMaxPriceTooLow":
		return "price-too-low"
	case "MaxSpotInstanceCountExceeded":
		return "limit-exceeded"
	}
	return ""
}

// setSpot changes a request if it is still in the state from.
func (s *Service) setSpot(ctx context.Context, k store.Key, from, to, code, status string) error {
	err := SpotRequests.UpdateOne(ctx, s.Store, k, func(r *SpotRequest) error {
		if r.State == from {
			r.set(s.Now(), to, code, status)
		}
		return nil
	})
	return store.IgnoreNotFound(err)
}

// DescribeSpotInstanceRequests lists Spot Instance requests.
func (s *Service) DescribeSpotInstanceRequests(ctx context.Context, in *awsec2.DescribeSpotInstanceRequestsInput) (*awsec2.DescribeSpotInstanceRequestsOutput, error) {
	sc := resource.ScopeOf(ctx)
	type v = SpotRequest
	known := filter.Fields[v]{
		"availability-zone-group": filter.Never[v],
		"create-time":             filter.One(func(r v) string { return resource.TimeText(r.Created) }),
		"fault-code":              filter.Never[v],
		"fault-message":           filter.Never[v],
		"instance-id":             filter.One(func(r v) string { return r.InstanceID }),
		"launch-group":            filter.Never[v],
		"launch.block-device-mapping.delete-on-termination": filter.Never[v],
		"launch.block-device-mapping.device-name":           filter.Never[v],
		"launch.block-device-mapping.snapshot-id":           filter.Never[v],
		"launch.block-device-mapping.volume-size":           filter.Never[v],
		"launch.block-device-mapping.volume-type":           filter.Never[v],
		"launch.group-id":                         filter.Never[v],
		"launch.group-name":                       filter.Never[v],
		"launch.image-id":                         filter.One(func(r v) string { return r.ImageID }),
		"launch.instance-type":                    filter.One(func(r v) string { return r.Type }),
		"launch.kernel-id":                        filter.Never[v],
		"launch.key-name":                         filter.One(func(r v) string { return r.KeyName }),
		"launch.monitoring-enabled":               filter.Never[v],
		"launch.network-interface.subnet-id":      filter.One(func(r v) string { return r.SubnetID }),
		"launch.ramdisk-id":                       filter.Never[v],
		"launched-availability-zone":              filter.One(func(r v) string { return r.Zone }),
		"launched-availability-zone-id":           filter.One(func(r v) string { return r.ZoneID }),
		"network-interface.addresses.primary":     filter.Never[v],
		"network-interface.delete-on-termination": filter.Never[v],
		"network-interface.description":           filter.Never[v],
		"network-interface.device-index":          filter.Never[v],
		"network-interface.group-id":              filter.Never[v],
		"network-interface.network-interface-id":  filter.Never[v],
		"network-interface.private-ip-address":    filter.Never[v],
		"network-interface.subnet-id":             filter.One(func(r v) string { return r.SubnetID }),
		"product-description":                     func(v) []string { return []string{instancetype.LinuxProduct} },
		"spot-instance-request-id":                filter.One(func(r v) string { return r.ID }),
		"spot-price":                              filter.One(func(r v) string { return r.MaxPrice }),
		"state":                                   filter.One(func(r v) string { return r.State }),
		"status-code":                             filter.One(func(r v) string { return r.StatusCode }),
		"status-message":                          filter.One(func(r v) string { return r.Status }),
		"type":                                    filter.One(func(r v) string { return string(r.SDK(sc).Type) }),
		"valid-from":                              filter.One(func(r v) string { return optionalTime(r.ValidFrom) }),
		"valid-until":                             filter.One(func(r v) string { return optionalTime(r.ValidUntil) }),
	}
	found, next, err := resource.Describe(s.Store, sc, SpotRequests, resource.Query{
		IDs: in.SpotInstanceRequestIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, known)
	return &awsec2.DescribeSpotInstanceRequestsOutput{SpotInstanceRequests: resource.SDKAll(sc, found), NextToken: next}, err
}

func optionalTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return resource.TimeText(t)
}

// SpotSettled reports whether no request that has started is waiting to be fulfilled.
func SpotSettled(out *awsec2.DescribeSpotInstanceRequestsOutput) bool {
	return !slices.ContainsFunc(out.SpotInstanceRequests, func(r ec2types.SpotInstanceRequest) bool {
		return r.State == spotOpen && *r.Status.Code != spotNotYet
	})
}

// CancelSpotInstanceRequests cancels requests. Their instances keep running.
func (s *Service) CancelSpotInstanceRequests(ctx context.Context, in *awsec2.CancelSpotInstanceRequestsInput) (*awsec2.CancelSpotInstanceRequestsOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.SpotInstanceRequestIds) == 0 {
		return nil, ec2err.Missing("spotInstanceRequestId")
	}
	if _, err := resource.Choose(s.Store, SpotRequests, sc, in.SpotInstanceRequestIds, resource.All); err != nil {
		return nil, err
	}
	out := &awsec2.CancelSpotInstanceRequestsOutput{}
	for chunk := range slices.Chunk(resource.SortedUnique(in.SpotInstanceRequestIds), 80) {
		err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
			for _, id := range chunk {
				r, err := resource.Get(tx, SpotRequests, sc, id)
				if err != nil {
					return err
				}
				switch {
				case r.State == spotClosed || r.State == spotCancelled || r.State == spotFailed:
				case r.InstanceID != "":
					r.set(s.Now(), spotCancelled, "request-canceled-and-instance-running", "Your Spot request is canceled, but your instance is still running.")
				default:
					r.set(s.Now(), spotCancelled, "canceled-before-fulfillment", "Your Spot request is canceled before it was fulfilled.")
				}
				if err := SpotRequests.Put(tx, sc.Key(id), r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, id := range in.SpotInstanceRequestIds {
		if r, err := SpotRequests.Get(s.Store, sc.Key(id)); err == nil {
			out.CancelledSpotInstanceRequests = append(out.CancelledSpotInstanceRequests, ec2types.CancelledSpotInstanceRequest{
				SpotInstanceRequestId: aws.String(id), State: ec2types.CancelSpotInstanceRequestState(r.State),
			})
		}
	}
	return out, nil
}

var SpotRequests = resource.NewKind("spot-request", resource.SpotRequestID, func(v *SpotRequest) (string, *tag.Set) { return v.ID, &v.Tags }, store.Same) // version 2 has ValidFrom
