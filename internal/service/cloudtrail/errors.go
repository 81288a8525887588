package cloudtrail

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
)

// Texts without another source are from memory. Codes and conditions are from
// https://docs.aws.amazon.com/awscloudtrail/latest/APIReference/API_LookupEvents.html.

func invalidTimeRange() error {
	return &cloudtrailtypes.InvalidTimeRangeException{Message: aws.String("The start time is after the end time, or the time range is outside the range of possible values.")}
}

func invalidMaxResults() error {
	return &cloudtrailtypes.InvalidMaxResultsException{Message: aws.String("Max results must be between 1 and 50.")}
}

func invalidLookupAttributes(why string) error {
	return &cloudtrailtypes.InvalidLookupAttributesException{Message: aws.String(why)}
}

func invalidNextToken() error {
	return &cloudtrailtypes.InvalidNextTokenException{Message: aws.String("The specified token is not valid, or the parameters of the request differ from those of the first one.")}
}
