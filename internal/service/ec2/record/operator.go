package record

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
)

// OperatorOf returns the service that will manage what a request creates, or "". Only that service may name itself.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/amazon-ec2-managed-instances.html
func OperatorOf(ctx context.Context, in *ec2types.OperatorRequest) (string, error) {
	if in == nil || aws.ToString(in.Principal) == "" {
		return "", nil
	}
	call := awsapi.CallFrom(ctx)
	if by := *in.Principal; call.InvokedBy == by || call.Principal.Type == awsapi.AWSService && call.Principal.Name == by {
		return by, nil
	}
	return "", ec2err.New("OperationNotPermitted", "The Operator parameter is reserved for AWS services.") // from memory
}

// OperatorSDK renders the service that manages a resource, or "", for the SDK. Resources that AWS manages are hidden
// by default from lists of resources.
func OperatorSDK(principal string) *ec2types.OperatorResponse {
	if principal == "" {
		return &ec2types.OperatorResponse{Managed: aws.Bool(false)}
	}
	return &ec2types.OperatorResponse{Managed: aws.Bool(true), Principal: &principal, HiddenByDefault: aws.Bool(true)}
}

// Managed reports whether a service manages the instance.
func (i Instance) Managed() bool { return i.Operator != "" }
