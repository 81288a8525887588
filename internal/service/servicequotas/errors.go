package servicequotas

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	servicequotastypes "github.com/aws/aws-sdk-go-v2/service/servicequotas/types"
)

// https://github.com/aws/aws-cli/issues/4569
func errNoService() error {
	return &servicequotastypes.NoSuchResourceException{Message: aws.String("The request failed because the specified service does not exist.")}
}

// GetServiceQuota gives no text: https://github.com/aws/aws-cli/issues/6629
func errNoQuota() error { return &servicequotastypes.NoSuchResourceException{} }

// from memory
func errNoRequest() error {
	return &servicequotastypes.NoSuchResourceException{Message: aws.String("The request failed because the specified quota increase request does not exist.")}
}

func illegal(format string, args ...any) error {
	return &servicequotastypes.IllegalArgumentException{Message: aws.String(fmt.Sprintf(format, args...))}
}

// https://github.com/cloud-custodian/cloud-custodian/pull/8939
func errNotMore() error {
	return illegal("You must provide a quota value greater than the current quota value")
}

// from memory
func errNotAdjustable() error {
	return illegal("The request failed because the specified service quota is not adjustable.")
}

// from memory
func errNextToken() error {
	return &servicequotastypes.InvalidPaginationTokenException{Message: aws.String("The request failed because the pagination token is not valid.")}
}
