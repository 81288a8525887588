package cloudtrail

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/store"
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

// trailNotFound uses AWS's text as quoted by Terraform's AWS provider and others.
func trailNotFound(key store.Key, sc regional.Scope) error {
	return &cloudtrailtypes.TrailNotFoundException{Message: aws.String("Unknown trail: " + trailARN(key) + " for the user: " + sc.Account)}
}

func trailExists(name, account string) error {
	return &cloudtrailtypes.TrailAlreadyExistsException{Message: aws.String("Trail " + name + " already exists for customer: " + account)}
}

func tooManyTrails(account string) error {
	return &cloudtrailtypes.MaximumNumberOfTrailsExceededException{Message: aws.String(fmt.Sprintf("User: %s already has %d trails.", account, maxTrails))}
}

func invalidTrailName(format string, args ...any) error {
	return &cloudtrailtypes.InvalidTrailNameException{Message: aws.String(fmt.Sprintf(format, args...))}
}

func invalidHomeRegion(key store.Key, sc regional.Scope) error {
	return &cloudtrailtypes.InvalidHomeRegionException{Message: aws.String("The trail " + trailARN(key) + " was created in the region " + key.Region +
		" and can only be changed there, not in " + sc.Region + ".")}
}

func globalRequired() error {
	return &cloudtrailtypes.InvalidParameterCombinationException{Message: aws.String("Multi-Region trail must include global service events.")}
}

func reservedTag(key string) error {
	return &cloudtrailtypes.InvalidTagParameterException{Message: aws.String("Tag keys cannot start with aws: (" + key + ").")}
}

func tooManyTags() error {
	return &cloudtrailtypes.TagsLimitExceededException{Message: aws.String(fmt.Sprintf("The number of tags exceeds the maximum of %d.", maxTags))}
}
