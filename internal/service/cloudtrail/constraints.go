package cloudtrail

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{At: "LookupAttributeKey", Unchecked: awsapi.UncheckedEnum, Source: sourceLookup},      // it is InvalidLookupAttributesException
	{At: "LookupEvents.MaxResults", Unchecked: awsapi.UncheckedSize, Source: sourceLookup}, // it is InvalidMaxResultsException
}

const sourceLookup = "https://docs.aws.amazon.com/awscloudtrail/latest/APIReference/API_LookupEvents.html"
