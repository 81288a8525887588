package elbv2

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	{At: "CreateTargetGroup.ProtocolVersion", Enum: []string{"HTTP1", "HTTP2", "GRPC"}, Source: "https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_CreateTargetGroup.html"},
}
