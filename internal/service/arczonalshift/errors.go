package arczonalshift

import (
	"fmt"

	shifttypes "github.com/aws/aws-sdk-go-v2/service/arczonalshift/types"
)

// No recorded answers of AWS were found. The codes and reasons are those of
// https://docs.aws.amazon.com/arc-zonal-shift/latest/api, whose descriptions the texts follow.

func invalid(reason shifttypes.ValidationExceptionReason, format string, args ...any) error {
	return &shifttypes.ValidationException{Reason: reason, Message: new(fmt.Sprintf(format, args...))}
}

func notFound(format string, args ...any) error {
	return &shifttypes.ResourceNotFoundException{Message: new(fmt.Sprintf(format, args...))}
}

func errIdentifier(name string) error {
	return invalid(shifttypes.ValidationExceptionReasonInvalidResourceIdentifier, "The resource identifier %q is not the ARN of a resource in this Region", name)
}

func errExpiresIn(value string) error {
	return invalid(shifttypes.ValidationExceptionReasonInvalidExpiresIn, "The value %s of expiresIn is longer than three days (72 hours)", value)
}

func errZone(zone, region string) error {
	return invalid(shifttypes.ValidationExceptionReasonInvalidAz, "%q is not the ID of an Availability Zone in %s", zone, region)
}

func errNotInZone(resource, zone string) error {
	return invalid(shifttypes.ValidationExceptionReasonUnsupportedAz, "The resource %s is not deployed in Availability Zone %s", resource, zone)
}

func errToken(string) error {
	return invalid(shifttypes.ValidationExceptionReasonInvalidToken, "The value of nextToken is not valid")
}

func errNoResource(name string) error {
	return notFound("The resource %s is not registered for zonal shift", name)
}

func errNoShift(id string) error { return notFound("No zonal shift was found with the ID %s", id) }

func errExists(resource, shift string) error {
	return &shifttypes.ConflictException{
		Reason: shifttypes.ConflictExceptionReasonZonalShiftAlreadyExists, ZonalShiftId: &shift,
		Message: new(fmt.Sprintf("There is already an active zonal shift for the resource %s", resource)),
	}
}

func errNotActive(shift string) error {
	return &shifttypes.ConflictException{
		Reason: shifttypes.ConflictExceptionReasonZonalShiftStatusNotActive, ZonalShiftId: &shift, Message: new("The zonal shift is not active"),
	}
}
