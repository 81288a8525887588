package logs

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{
		At:     "PutRetentionPolicy.retentionInDays",
		Enum:   strings.Fields("1 3 5 7 14 30 60 90 120 150 180 365 400 545 731 1096 1827 2192 2557 2922 3288 3653"),
		Source: "https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutRetentionPolicy.html",
	},
}
