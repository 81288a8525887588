package subscription

import (
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// The rules and codes are from the API reference, the texts from memory.

func errName() error {
	return ekserr.InvalidParameter("", "The name parameter is invalid. It must start with an alphabetic character.")
}

func errTermUnit(unit ekstypes.EksAnywhereSubscriptionTermUnit) error {
	return ekserr.InvalidParameter("", "Invalid term unit: %s. The only valid value is MONTHS.", unit)
}

func errTermDuration(months int32) error {
	return ekserr.InvalidParameter("", "Invalid term duration: %d. Valid values are 12 and 36.", months)
}

func errLicenseQuantity(n int32) error {
	return ekserr.InvalidParameter("", "Invalid licenseQuantity: %d. Valid values are between 1 and 100.", n)
}

func errLicenseType(t ekstypes.EksAnywhereSubscriptionLicenseType) error {
	return ekserr.InvalidParameter("", "Invalid licenseType: %s. The only valid value is Cluster.", t)
}

func errExists(name string) error {
	return &ekstypes.ResourceInUseException{Message: new("Subscription already exists with name: " + name)}
}

func errNotFound(id string) error {
	return ekserr.NotFound("No subscription found for id: %s", id)
}

func errExpired(id string) error {
	return ekserr.InvalidRequest("", "Subscription %s has expired and cannot be updated.", id)
}

func errActive(id string) error {
	return ekserr.InvalidRequest("", "Subscription %s is active. Only expired or inactive subscriptions can be deleted.", id)
}
