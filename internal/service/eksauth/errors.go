package eksauth

import (
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// https://github.com/boto/botocore/issues/3117
func errExpired(now, at time.Time) error {
	return awserr.Newf("ExpiredTokenException", "The token included in the request is expired: current date/time %s must be before the expiration date/time %s.",
		now.UTC().Format(time.RFC3339Nano), at.UTC().Format(time.RFC3339))
}

// from memory
func errInvalidToken() error {
	return awserr.New("InvalidTokenException", "The token included in the request is invalid.")
}

// from memory
func errNoAssociation() error {
	return awserr.New("ResourceNotFoundException", "No pod identity association found for the service account of the token.")
}

// [seen] aws-samples/eks-workshop-v2, about a role whose trust policy lacks EKS's principal or its
// tags
func errNotAssumable(why error) error {
	return awserr.New("AccessDeniedException", "Unauthorized Exception! EKS does not have permissions to assume the associated role.").WithCause(why)
}
