package ec2

import (
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
	"github.com/drydock-dev/drydock/internal/store"
)

// The states of a Spot Instance request.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-request-status.html
const (
	spotOpen      = "open"
	spotActive    = "active"
	spotDisabled  = "disabled"
	spotClosed    = "closed"
	spotCancelled = "cancelled"
)

// spotRetry is how soon an open request is tried again.
const spotRetry = time.Second

// A spotRequestRecord is a Spot Instance request, of one instance.
type spotRequestRecord struct {
	ID string
	spotSpec
	State      string
	StatusCode string
	Status     string
	StatusTime time.Time
	InstanceID string `json:",omitempty"`
	// What was asked for, as described.
	ImageID, Type, SubnetID, KeyName string `json:",omitempty"`
	Zone, ZoneID                     string `json:",omitempty"` // where it was launched
	Created                          time.Time
	// Request is the RunInstances request, of requests that may have to be
	// fulfilled by and by.
	Request json.RawMessage `json:",omitempty"`
	Tags    Tags            `json:",omitempty"`
}

// set changes the state and its explanation.
func (r *spotRequestRecord) set(now time.Time, state, code, status string) {
	r.State, r.StatusCode, r.Status, r.StatusTime = state, code, status, now
}

func (r spotRequestRecord) sdk(scope) ec2types.SpotInstanceRequest {
	out := ec2types.SpotInstanceRequest{
		SpotInstanceRequestId: aws.String(r.ID), State: ec2types.SpotInstanceState(r.State), Type: ec2types.SpotInstanceTypeOneTime,
		Status:     &ec2types.SpotInstanceStatus{Code: aws.String(r.StatusCode), Message: aws.String(r.Status), UpdateTime: aws.Time(r.StatusTime)},
		InstanceId: optional(r.InstanceID), CreateTime: aws.Time(r.Created), SpotPrice: optional(r.MaxPrice),
		InstanceInterruptionBehavior: ec2types.InstanceInterruptionBehavior(r.Behavior), ProductDescription: ec2types.RIProductDescriptionLinuxUnix,
		LaunchedAvailabilityZone: optional(r.Zone), LaunchedAvailabilityZoneId: optional(r.ZoneID), Tags: r.Tags.sdk(),
		LaunchSpecification: &ec2types.LaunchSpecification{
			ImageId: optional(r.ImageID), InstanceType: ec2types.InstanceType(r.Type), SubnetId: optional(r.SubnetID), KeyName: optional(r.KeyName),
		},
	}
	if r.Persistent {
		out.Type = ec2types.SpotInstanceTypePersistent
	}
	if !r.ValidUntil.IsZero() {
		out.ValidUntil = aws.Time(r.ValidUntil)
	}
	return out
}

// newSpotRequest is a request that waits to be fulfilled.
func (s *Service) newSpotRequest(l *launch) (spotRequestRecord, error) {
	now := s.now()
	r := spotRequestRecord{
		ID: "sir-" + ids.Hex(8), spotSpec: *l.spot, Created: now, Tags: l.spotTags,
		ImageID: l.image.ID, Type: l.typ.Name, SubnetID: l.subnet.ID, KeyName: aws.ToString(l.in.KeyName),
	}
	r.set(now, spotOpen, "pending-evaluation", "Your Spot request has been submitted for review, and is pending evaluation.")
	if l.spot.Persistent {
		in := mergedInput(l.in)
		in.MinCount, in.MaxCount = aws.Int32(1), aws.Int32(1)
		raw, err := compactJSON(in)
		if err != nil {
			return r, err
		}
		r.Request = raw
	}
	return r, nil
}

// fulfilSpot ties an instance that is being launched to its Spot request.
func (s *Service) fulfilSpot(tx *store.Tx, sc scope, l *launch, i *instanceRecord) error {
	var r spotRequestRecord
	var err error
	if l.spotRequest != "" {
		r, err = get(tx, spotRequests, sc, spotRequestID, l.spotRequest)
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
	r.set(s.now(), spotActive, "fulfilled", "Your Spot request is fulfilled.")
	i.SpotRequestID, i.SpotPersistent = r.ID, r.Persistent
	return spotRequests.Put(tx, sc.key(r.ID), r)
}

// errSpotNotOpen: somebody cancelled or fulfilled the request meanwhile.
var errSpotNotOpen = errors.New("the Spot request is not open")

// changeSpot changes the request of an instance, if it has one.
func changeSpot(tx *store.Tx, sc scope, i *instanceRecord, fn func(*spotRequestRecord)) error {
	if i.SpotRequestID == "" {
		return nil
	}
	err := spotRequests.Update(tx, sc.key(i.SpotRequestID), func(r *spotRequestRecord) error {
		fn(r)
		return nil
	})
	if notFound(err) {
		return nil
	}
	return err
}

// [seen] for terminated instances, in the status messages of Spot requests
func spotReclaimed(how string) string {
	return "Your Spot instance was " + how + " because there is no Spot capacity available that matches your request."
}

// endSpot closes the request of a terminated instance; a persistent one is open again.
func (s *Service) endSpot(tx *store.Tx, sc scope, i *instanceRecord) error {
	code, status := "instance-terminated-by-user", "Spot Instance terminated due to user-initiated termination."
	if i.ReasonCode == reasonSpotTermination {
		code, status = "instance-terminated-no-capacity", spotReclaimed("terminated")
	}
	return changeSpot(tx, sc, i, func(r *spotRequestRecord) {
		switch {
		case r.State == spotCancelled || r.InstanceID != i.ID:
		case r.Persistent:
			r.InstanceID = ""
			r.set(s.now(), spotOpen, code, status)
		default:
			r.set(s.now(), spotClosed, code, status)
		}
	})
}

// reconcileSpot fulfils open requests and forgets ended ones in time.
func (s *Service) reconcileSpot(ctx context.Context, k store.Key) (time.Duration, error) {
	r, err := spotRequests.Get(s.store, k)
	if notFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	switch r.State {
	case spotOpen:
		if !r.ValidUntil.IsZero() && !s.now().Before(r.ValidUntil) {
			return 0, s.setSpot(ctx, k, spotOpen, spotCancelled, "schedule-expired", "Your Spot request has expired.")
		}
		return s.tryOpenSpot(ctx, k, r)
	case spotClosed, spotCancelled:
		if i, err := instances.Get(s.store, keyScope(k).key(r.InstanceID)); err == nil && i.State != stateTerminated {
			return s.timing.InstanceTerminatedVisible, nil
		}
		if left := r.StatusTime.Add(s.timing.InstanceTerminatedVisible).Sub(s.now()); left > 0 {
			return left, nil
		}
		return 0, s.store.Update(ctx, func(tx *store.Tx) error {
			spotRequests.Delete(tx, k)
			return nil
		})
	}
	return 0, nil
}

func (s *Service) tryOpenSpot(ctx context.Context, k store.Key, r spotRequestRecord) (time.Duration, error) {
	var in awsec2.RunInstancesInput
	if err := json.Unmarshal(r.Request, &in); err != nil {
		return 0, fmt.Errorf("spot request %s: %w", r.ID, err)
	}
	ctx = awsapi.WithCall(ctx, &awsapi.Call{
		Service: "ec2", Operation: "RunInstances", Account: k.Account, Region: k.Region,
		Principal: awsapi.Principal{Type: awsapi.AWSService, Account: k.Account, Name: "spot.amazonaws.com"},
	})
	_, err := s.run(ctx, keyScope(k), &in, launchOptions{internal: true, spotRequest: r.ID})
	var api smithy.APIError
	switch {
	case err == nil || errors.Is(err, errSpotNotOpen):
		return 0, nil
	case !errors.As(err, &api):
		return 0, err
	}
	code := "bad-parameters"
	switch api.ErrorCode() {
	case "InsufficientInstanceCapacity":
		code = "capacity-not-available"
	case "SpotMaxPriceTooLow":
		code = "price-too-low"
	case "MaxSpotInstanceCountExceeded":
		code = "limit-exceeded"
	}
	if r.StatusCode == code {
		return spotRetry, nil
	}
	return spotRetry, s.setSpot(ctx, k, spotOpen, spotOpen, code, api.ErrorMessage())
}

// setSpot changes a request that is still in the state from.
func (s *Service) setSpot(ctx context.Context, k store.Key, from, to, code, status string) error {
	err := spotRequests.UpdateOne(ctx, s.store, k, func(r *spotRequestRecord) error {
		if r.State == from {
			r.set(s.now(), to, code, status)
		}
		return nil
	})
	if notFound(err) {
		return nil
	}
	return err
}

// DescribeSpotInstanceRequests lists Spot Instance requests.
func (s *Service) DescribeSpotInstanceRequests(ctx context.Context, in *awsec2.DescribeSpotInstanceRequestsInput) (*awsec2.DescribeSpotInstanceRequestsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	type v = spotRequestRecord
	match, err := compileFilters(in.Filters, fields[v]{
		"availability-zone-group": never[v],
		"create-time":             one(func(r v) string { return timeText(r.Created) }),
		"fault-code":              never[v],
		"fault-message":           never[v],
		"instance-id":             one(func(r v) string { return r.InstanceID }),
		"launch-group":            never[v],
		"launch.block-device-mapping.delete-on-termination": never[v],
		"launch.block-device-mapping.device-name":           never[v],
		"launch.block-device-mapping.snapshot-id":           never[v],
		"launch.block-device-mapping.volume-size":           never[v],
		"launch.block-device-mapping.volume-type":           never[v],
		"launch.group-id":                         never[v],
		"launch.group-name":                       never[v],
		"launch.image-id":                         one(func(r v) string { return r.ImageID }),
		"launch.instance-type":                    one(func(r v) string { return r.Type }),
		"launch.kernel-id":                        never[v],
		"launch.key-name":                         one(func(r v) string { return r.KeyName }),
		"launch.monitoring-enabled":               never[v],
		"launch.network-interface.subnet-id":      one(func(r v) string { return r.SubnetID }),
		"launch.ramdisk-id":                       never[v],
		"launched-availability-zone":              one(func(r v) string { return r.Zone }),
		"launched-availability-zone-id":           one(func(r v) string { return r.ZoneID }),
		"network-interface.addresses.primary":     never[v],
		"network-interface.delete-on-termination": never[v],
		"network-interface.description":           never[v],
		"network-interface.device-index":          never[v],
		"network-interface.group-id":              never[v],
		"network-interface.network-interface-id":  never[v],
		"network-interface.private-ip-address":    never[v],
		"network-interface.subnet-id":             one(func(r v) string { return r.SubnetID }),
		"product-description":                     func(v) []string { return []string{linuxProduct} },
		"spot-instance-request-id":                one(func(r v) string { return r.ID }),
		"spot-price":                              one(func(r v) string { return r.MaxPrice }),
		"state":                                   one(func(r v) string { return r.State }),
		"status-code":                             one(func(r v) string { return r.StatusCode }),
		"status-message":                          one(func(r v) string { return r.Status }),
		"type":                                    one(func(r v) string { return string(r.sdk(sc).Type) }),
		"valid-from":                              never[v],
		"valid-until": one(func(r v) string {
			if r.ValidUntil.IsZero() {
				return ""
			}
			return timeText(r.ValidUntil)
		}),
	}, func(r v) Tags { return r.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	found, err := choose(s.store, spotRequests, sc, spotRequestID, in.SpotInstanceRequestIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(r v) string { return r.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	return &awsec2.DescribeSpotInstanceRequestsOutput{SpotInstanceRequests: sdkAll(sc, found), NextToken: next}, err
}

// spotSettled is false while a request waits to be fulfilled.
func spotSettled(out *awsec2.DescribeSpotInstanceRequestsOutput) bool {
	return !slices.ContainsFunc(out.SpotInstanceRequests, func(r ec2types.SpotInstanceRequest) bool { return r.State == spotOpen })
}

// CancelSpotInstanceRequests cancels requests; their instances run on.
func (s *Service) CancelSpotInstanceRequests(ctx context.Context, in *awsec2.CancelSpotInstanceRequestsInput) (*awsec2.CancelSpotInstanceRequestsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.SpotInstanceRequestIds) == 0 {
		return nil, errMissing("spotInstanceRequestId")
	}
	if _, err := choose(s.store, spotRequests, sc, spotRequestID, in.SpotInstanceRequestIds, func(spotRequestRecord) bool { return true }); err != nil {
		return nil, err
	}
	out := &awsec2.CancelSpotInstanceRequestsOutput{}
	for chunk := range slices.Chunk(sortedUnique(in.SpotInstanceRequestIds), 80) {
		err := s.update(ctx, in.DryRun, func(tx *store.Tx) error {
			for _, id := range chunk {
				r, err := get(tx, spotRequests, sc, spotRequestID, id)
				if err != nil {
					return err
				}
				switch {
				case r.State == spotClosed || r.State == spotCancelled:
				case r.InstanceID != "":
					r.set(s.now(), spotCancelled, "request-canceled-and-instance-running", "Your Spot request is canceled, but your instance is still running.")
				default:
					r.set(s.now(), spotCancelled, "canceled-before-fulfillment", "Your Spot request is canceled before it was fulfilled.")
				}
				if err := spotRequests.Put(tx, sc.key(id), r); err != nil {
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
		if r, err := spotRequests.Get(s.store, sc.key(id)); err == nil {
			out.CancelledSpotInstanceRequests = append(out.CancelledSpotInstanceRequests, ec2types.CancelledSpotInstanceRequest{
				SpotInstanceRequestId: aws.String(id), State: ec2types.CancelSpotInstanceRequestState(r.State),
			})
		}
	}
	return out, nil
}
