package cloudformation

import (
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// capacityHandlers are the types that say where instances run: placement groups and capacity reservations.
func capacityHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::PlacementGroup": made(handler{
			find: func(r *request) (string, error) {
				out, err := call[awsec2.DescribePlacementGroupsOutput](r, &awsec2.DescribePlacementGroupsInput{GroupNames: []string{r.generated(r.o.rec.Name, maxPlacementName)}})
				if err != nil {
					return "", err
				}
				return *out.PlacementGroups[0].GroupName, nil
			},
			read: idAs("GroupName"),
			remove: one[awsec2.DeletePlacementGroupOutput](func(r *request) any {
				return &awsec2.DeletePlacementGroupInput{GroupName: &r.id}
			}),
		}, "Tags", func(r *request, in *awsec2.CreatePlacementGroupInput) {
			in.GroupName = aws.String(r.generated(r.o.rec.Name, maxPlacementName))
			spec := ec2types.TagSpecification{ResourceType: ec2types.ResourceTypePlacementGroup}
			for _, t := range r.tags() {
				spec.Tags = append(spec.Tags, ec2types.Tag{Key: &t.Key, Value: &t.Value})
			}
			if len(spec.Tags) > 0 {
				in.TagSpecifications = []ec2types.TagSpecification{spec}
			}
		}, func(_ *request, out *awsec2.CreatePlacementGroupOutput) *string { return out.PlacementGroup.GroupName }),
		"AWS::EC2::CapacityReservation": madeWith(handler{
			inPlace: "EndDate EndDateType InstanceCount InstanceMatchCriteria", update: updateReservation,
			find: byTags("capacity-reservation"),
			read: readReservation, live: "AvailableInstanceCount State TotalInstanceCount",
			remove: one[awsec2.CancelCapacityReservationOutput](func(r *request) any {
				return &awsec2.CancelCapacityReservationInput{CapacityReservationId: &r.id}
			}),
		}, "EndDate", func(r *request, in *awsec2.CreateCapacityReservationInput) (err error) {
			in.ClientToken = &r.token
			own := r.tagSpecs(ec2types.ResourceTypeCapacityReservation)[0]
			for _, spec := range in.TagSpecifications {
				own.Tags = append(own.Tags, spec.Tags...)
			}
			in.TagSpecifications = []ec2types.TagSpecification{own}
			in.EndDate, err = r.time("EndDate")
			return err
		}, func(_ *request, out *awsec2.CreateCapacityReservationOutput) *string {
			return out.CapacityReservation.CapacityReservationId
		}),
	}
}

// maxPlacementName is the maximum length of a placement group's name.
const maxPlacementName = 255

// time returns a property that is a time, or nil.
func (r *request) time(property string) (*time.Time, error) {
	text := r.text(property)
	if text == "" {
		return nil, nil //nolint:nilnil // the property is missing
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil, &invalidProperties{"Value of property " + property + " must be a time such as 2030-01-02T03:04:05Z"} // our own text
	}
	return &t, nil
}

func updateReservation(r *request) error {
	in := &awsec2.ModifyCapacityReservationInput{CapacityReservationId: &r.id}
	err := r.onlyChanged(in, "EndDateType", "InstanceCount", "InstanceMatchCriteria")
	if err == nil && r.changed("EndDate") {
		in.EndDate, err = r.time("EndDate")
	}
	if err != nil {
		return err
	}
	_, err = call[awsec2.ModifyCapacityReservationOutput](r, in)
	return err
}

func readReservation(r *request) (map[string]any, error) {
	out, err := call[awsec2.DescribeCapacityReservationsOutput](r, &awsec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{r.id}})
	if err != nil {
		return nil, err
	}
	if len(out.CapacityReservations) == 0 {
		return nil, errors.New("the capacity reservation does not exist")
	}
	c := &out.CapacityReservations[0]
	return map[string]any{
		"Id": c.CapacityReservationId, "CapacityReservationArn": c.CapacityReservationArn, "OwnerId": c.OwnerId, "State": string(c.State),
		"AvailabilityZone": c.AvailabilityZone, "AvailabilityZoneId": c.AvailabilityZoneId, "AvailableInstanceCount": c.AvailableInstanceCount,
		"InstanceType": c.InstanceType, "Tenancy": string(c.Tenancy), "TotalInstanceCount": c.TotalInstanceCount,
	}, nil
}
