package resource

import (
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
)

// Unsuccessful returns the entry for one failed resource of a call that handles several, or nil if
// err is nil. An error that is not AWS's fails the whole call.
func Unsuccessful(id string, err error) (*ec2types.UnsuccessfulItem, error) {
	if err == nil {
		return nil, nil
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return nil, err
	}
	return &ec2types.UnsuccessfulItem{
		ResourceId: aws.String(id),
		Error:      &ec2types.UnsuccessfulItemError{Code: aws.String(api.ErrorCode()), Message: aws.String(api.ErrorMessage())},
	}, nil
}
