package awsapi

import (
	"errors"

	"github.com/aws/smithy-go"
)

// IsThrottle reports whether err, from an AWS operation, means that the caller exceeded its request rate. Such an
// error says nothing about the requested resource, so a reconciler tries again.
func IsThrottle(err error) bool {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return false
	}
	switch api.ErrorCode() {
	case "RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException", "SlowDown":
		return true
	}
	return false
}
