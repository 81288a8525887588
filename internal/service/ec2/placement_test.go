package ec2_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func (w *world) placementGroup(t testing.TB, in awsec2.CreatePlacementGroupInput) *ec2types.PlacementGroup {
	t.Helper()
	return must(w.CreatePlacementGroup(t.Context(), &in))(t).PlacementGroup
}

// placed returns a request for n instances in a group, as many as there is room for if min is less.
func placed(t testing.TB, group, zone string, minimum, maximum int32) *awsec2.RunInstancesInput {
	return &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: &minimum, MaxCount: &maximum,
		Placement: &ec2types.Placement{GroupName: &group, AvailabilityZone: aws.String(testkit.Region + zone)}}
}

func TestPlacementGroups(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	near := w.placementGroup(t, awsec2.CreatePlacementGroupInput{GroupName: aws.String("near"), TagSpecifications: []ec2types.TagSpecification{{ResourceType: "placement-group", Tags: []ec2types.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}}})
	apart := w.placementGroup(t, awsec2.CreatePlacementGroupInput{GroupName: aws.String("apart"), Strategy: "spread"})
	parts := w.placementGroup(t, awsec2.CreatePlacementGroupInput{GroupName: aws.String("parts"), Strategy: "partition", PartitionCount: aws.Int32(3)})
	if near.Strategy != "cluster" || apart.SpreadLevel != "rack" || aws.ToInt32(parts.PartitionCount) != 3 {
		t.Errorf("groups: %+v %+v %+v", near, apart, parts)
	}
	_, err := w.CreatePlacementGroup(ctx, &awsec2.CreatePlacementGroupInput{GroupName: aws.String("near")})
	wantCode(t, err, "InvalidPlacementGroup.Duplicate")

	// A cluster group keeps to one zone, and t3 does not go with it.
	first := must(w.RunInstances(ctx, placed(t, "near", "a", 1, 1)))(t).Instances[0]
	if aws.ToString(first.Placement.GroupName) != "near" || aws.ToString(first.Placement.GroupId) != *near.GroupId {
		t.Errorf("placement %+v", first.Placement)
	}
	_, err = w.RunInstances(ctx, placed(t, "near", "b", 1, 1))
	wantCode(t, err, "InsufficientInstanceCapacity")
	burstable := placed(t, "near", "a", 1, 1)
	burstable.InstanceType = "t3.medium"
	_, err = w.RunInstances(ctx, burstable)
	wantCode(t, err, "InvalidParameterCombination")

	// A spread group has seven instances in a zone, whether they are asked for together or not.
	if got := len(must(w.RunInstances(ctx, placed(t, "apart", "a", 1, 9)))(t).Instances); got != 7 {
		t.Errorf("%d instances in one zone of a spread group, want 7", got)
	}
	_, err = w.RunInstances(ctx, placed(t, "apart", "a", 1, 1))
	wantCode(t, err, "InsufficientInstanceCapacity")
	must(w.RunInstances(ctx, placed(t, "apart", "b", 1, 1)))(t)

	// Partitions are filled evenly, unless the launch names one.
	count := map[int32]int{}
	for _, i := range must(w.RunInstances(ctx, placed(t, "parts", "a", 6, 6)))(t).Instances {
		count[aws.ToInt32(i.Placement.PartitionNumber)]++
	}
	if count[1] != 2 || count[2] != 2 || count[3] != 2 {
		t.Errorf("instances by partition: %v", count)
	}
	third := placed(t, "parts", "a", 1, 1)
	third.Placement.PartitionNumber = aws.Int32(3)
	if got := must(w.RunInstances(ctx, third))(t).Instances[0].Placement.PartitionNumber; aws.ToInt32(got) != 3 {
		t.Errorf("partition %v", got)
	}
	third = placed(t, "parts", "a", 1, 1)
	third.Placement.PartitionNumber = aws.Int32(4)
	_, err = w.RunInstances(ctx, third)
	wantCode(t, err, "InvalidParameterValue")

	_, err = w.RunInstances(ctx, placed(t, "nowhere", "a", 1, 1))
	wantCode(t, err, "InvalidPlacementGroup.Unknown")
	_, err = w.DeletePlacementGroup(ctx, &awsec2.DeletePlacementGroupInput{GroupName: aws.String("near")})
	wantCode(t, err, "InvalidPlacementGroup.InUse")
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*first.InstanceId}}))(t)
	w.await(t, ec2types.InstanceStateNameTerminated, *first.InstanceId)
	must(w.DeletePlacementGroup(ctx, &awsec2.DeletePlacementGroupInput{GroupName: aws.String("near")}))(t)
	if got := must(w.DescribePlacementGroups(ctx, &awsec2.DescribePlacementGroupsInput{Filters: filter("strategy", "cluster", "spread")}))(t).PlacementGroups; len(got) != 1 || *got[0].GroupName != "apart" {
		t.Errorf("groups left: %+v", got)
	}
}

func (w *world) reserve(t testing.TB, n int32, match ec2types.InstanceMatchCriteria) *ec2types.CapacityReservation {
	t.Helper()
	return must(w.CreateCapacityReservation(t.Context(), &awsec2.CreateCapacityReservationInput{
		InstanceType: aws.String("m5.large"), InstancePlatform: "Linux/UNIX", AvailabilityZone: aws.String(testkit.Region + "a"), InstanceCount: &n, InstanceMatchCriteria: match,
	}))(t).CapacityReservation
}

// available returns how many more instances a reservation serves.
func (w *world) available(t testing.TB, id string) int32 {
	t.Helper()
	out := must(w.DescribeCapacityReservations(t.Context(), &awsec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{id}}))(t)
	return *out.CapacityReservations[0].AvailableInstanceCount
}

func TestCapacityReservations(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	open, targeted := w.reserve(t, 2, ""), w.reserve(t, 1, "targeted")
	run := func(n int32, spec *ec2types.CapacityReservationSpecification) ([]ec2types.Instance, error) {
		in := placed(t, "", "a", n, n)
		in.Placement.GroupName, in.CapacityReservationSpecification = nil, spec
		out, err := w.RunInstances(ctx, in)
		if err != nil {
			return nil, err
		}
		return out.Instances, nil
	}
	target := func(id string) *ec2types.CapacityReservationSpecification {
		return &ec2types.CapacityReservationSpecification{CapacityReservationTarget: &ec2types.CapacityReservationTarget{CapacityReservationId: &id}}
	}
	only := &ec2types.CapacityReservationSpecification{CapacityReservationPreference: "capacity-reservations-only"}

	// While the pool has no capacity, reserved capacity is all there is.
	w.short(fault.Fault{InstanceType: "m5.large"})
	_, err := w.CreateCapacityReservation(ctx, &awsec2.CreateCapacityReservationInput{InstanceType: aws.String("m5.large"), InstancePlatform: "Linux/UNIX", AvailabilityZone: aws.String(testkit.Region + "a"), InstanceCount: aws.Int32(1)})
	wantCode(t, err, "InsufficientInstanceCapacity")
	if _, err = run(1, &ec2types.CapacityReservationSpecification{CapacityReservationPreference: "none"}); !hasCode(err, "InsufficientInstanceCapacity") {
		t.Errorf("preference none: %v", err)
	}
	first := must(run(1, nil))(t)[0]
	if got := aws.ToString(first.CapacityReservationId); got != *open.CapacityReservationId || w.available(t, got) != 1 {
		t.Errorf("runs in %q, of which %d are left", got, w.available(t, *open.CapacityReservationId))
	}
	must(run(1, only))(t)
	_, err = run(1, nil)
	wantCode(t, err, "InsufficientInstanceCapacity")
	_, err = run(1, only)
	wantCode(t, err, "ReservationCapacityExceeded")
	named := must(run(1, target(*targeted.CapacityReservationId)))(t)[0]
	if got := aws.ToString(named.CapacityReservationId); got != *targeted.CapacityReservationId {
		t.Errorf("runs in %q, want %q", got, *targeted.CapacityReservationId)
	}
	_, err = run(1, target(*targeted.CapacityReservationId))
	wantCode(t, err, "ReservationCapacityExceeded")

	// A stopped instance leaves its reservation, and comes back to it.
	w.await(t, ec2types.InstanceStateNameRunning, *first.InstanceId)
	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{*first.InstanceId}}))(t)
	w.await(t, ec2types.InstanceStateNameStopped, *first.InstanceId)
	if got := w.available(t, *open.CapacityReservationId); got != 1 {
		t.Errorf("%d available after a stop, want 1", got)
	}
	must(w.StartInstances(ctx, &awsec2.StartInstancesInput{InstanceIds: []string{*first.InstanceId}}))(t)
	if got := w.await(t, ec2types.InstanceStateNameRunning, *first.InstanceId)[0]; aws.ToString(got.CapacityReservationId) != *open.CapacityReservationId {
		t.Errorf("runs in %q after a start", aws.ToString(got.CapacityReservationId))
	}

	// Its instances outlive a reservation.
	_, err = w.ModifyCapacityReservation(ctx, &awsec2.ModifyCapacityReservationInput{CapacityReservationId: open.CapacityReservationId, InstanceCount: aws.Int32(1)})
	wantCode(t, err, "InvalidParameterValue")
	must(w.CancelCapacityReservation(ctx, &awsec2.CancelCapacityReservationInput{CapacityReservationId: open.CapacityReservationId}))(t)
	if got := w.await(t, ec2types.InstanceStateNameRunning, *first.InstanceId)[0]; got.CapacityReservationId != nil {
		t.Errorf("runs in the canceled %q", *got.CapacityReservationId)
	}
	_, err = run(1, target(*open.CapacityReservationId))
	wantCode(t, err, "IncorrectState")
	w.short()
	if got := must(run(1, nil))(t)[0]; got.CapacityReservationId != nil {
		t.Errorf("runs in %q", *got.CapacityReservationId)
	}

	// A reservation with an end date ends by itself.
	end := time.Now().Add(time.Second)
	must(w.ModifyCapacityReservation(ctx, &awsec2.ModifyCapacityReservationInput{CapacityReservationId: targeted.CapacityReservationId, EndDateType: "limited", EndDate: &end}))(t)
	testkit.Eventually(t, 20*time.Second, func() error {
		got := must(w.DescribeCapacityReservations(ctx, &awsec2.DescribeCapacityReservationsInput{Filters: filter("state", "expired")}))(t).CapacityReservations
		if len(got) != 1 || *got[0].CapacityReservationId != *targeted.CapacityReservationId {
			return fmt.Errorf("expired: %+v", got)
		}
		return nil
	})
}

func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if !hasCode(err, code) {
		t.Errorf("got %v, want %s", err, code)
	}
}
