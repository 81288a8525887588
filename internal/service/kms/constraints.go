package kms

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{At: "ListAliases.Limit", Max: new(100.0), Source: "https://docs.aws.amazon.com/kms/latest/APIReference/API_ListAliases.html"},
	{At: "ListGrants.Limit", Max: new(100.0), Source: "https://docs.aws.amazon.com/kms/latest/APIReference/API_ListGrants.html"},
	{At: "ListResourceTags.Limit", Max: new(50.0), Source: "https://docs.aws.amazon.com/kms/latest/APIReference/API_ListResourceTags.html"},
	{At: "ListRetirableGrants.Limit", Max: new(100.0), Source: "https://docs.aws.amazon.com/kms/latest/APIReference/API_ListRetirableGrants.html"},
}
