package awsapi

import (
	"errors"

	"github.com/aws/smithy-go"
)

// IsThrottle reports whether err, the answer of an AWS operation, says that the caller
// asks too often. It says nothing about what was asked for: a reconciler tries again.
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
