package instance

import (
	"context"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// Drydock cannot create Capacity Reservations and placement groups, so there are none. Karpenter
// and the load balancer controller list them anyway.

// nothing is the element type for filters of lists that are always empty.
type nothing struct{}

func noFields(names ...string) filter.Fields[nothing] {
	out := filter.Fields[nothing]{}
	for _, n := range names {
		out[n] = filter.Never[nothing]
	}
	return out
}

// DescribeCapacityReservations returns an empty list.
func (s *Service) DescribeCapacityReservations(ctx context.Context, in *awsec2.DescribeCapacityReservationsInput) (*awsec2.DescribeCapacityReservationsOutput, error) {
	known := noFields("availability-zone", "availability-zone-id", "capacity-reservation-fleet-id", "commitment-info.commitment-end-date", "commitment-info.committed-instance-count",
		"delivery-preference", "end-date", "end-date-type", "instance-match-criteria", "instance-platform", "instance-type", "interruptible", "outpost-arn", "owner-id", "placement-group-arn", "start-date", "state", "tenancy")
	if _, err := filter.Compile(in.Filters, known, func(nothing) tag.Set { return nil }); err != nil {
		return nil, err
	}
	if len(in.CapacityReservationIds) > 0 {
		return nil, ec2err.New("InvalidCapacityReservationId.NotFound", "The capacity reservation '%s' was not found.", in.CapacityReservationIds[0])
	}
	return &awsec2.DescribeCapacityReservationsOutput{CapacityReservations: []ec2types.CapacityReservation{}}, resource.CheckDryRun(in.DryRun)
}

// DescribePlacementGroups returns an empty list.
func (s *Service) DescribePlacementGroups(ctx context.Context, in *awsec2.DescribePlacementGroupsInput) (*awsec2.DescribePlacementGroupsOutput, error) {
	if _, err := filter.Compile(in.Filters, noFields("group-name", "group-arn", "spread-level", "state", "strategy"), func(nothing) tag.Set { return nil }); err != nil {
		return nil, err
	}
	for _, name := range append(in.GroupNames, in.GroupIds...) {
		return nil, ec2err.New("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
	}
	return &awsec2.DescribePlacementGroupsOutput{PlacementGroups: []ec2types.PlacementGroup{}}, resource.CheckDryRun(in.DryRun)
}
