package servicequotas

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{At: "NextToken", Unchecked: awsapi.UncheckedPattern, Source: "https://docs.aws.amazon.com/servicequotas/2019-06-24/apireference/API_ListServiceQuotas.html"}, // it is InvalidPaginationTokenException
}
