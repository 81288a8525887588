package ssm

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{At: "ParameterStringFilterKey", Unchecked: awsapi.UncheckedPattern, Source: "moto, recorded from AWS"}, // it is InvalidFilterKey
	{At: "PutParameter.Value", Min: new(1.0), Source: "https://github.com/ministryofjustice/modernisation-platform/pull/8116"},
}
