// Package cloudformation answers what clients ask of AWS CloudFormation before they
// do anything else: which stacks there are. There are none, since none can be made
// yet: what would make one is refused. eksctl asks so in `get cluster`, to tell the
// clusters that it has made. Only internal/app may import it.
package cloudformation

import (
	"context"

	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// A Service is CloudFormation.
type Service struct{}

// New returns the service.
func New() *Service { return &Service{} }

// AWS declares the operations the service answers.
func (s *Service) AWS() awsapi.Service {
	const noStacks = "no stack can be made: `eksctl create` of a cluster, node group, iamserviceaccount, accessentry, and of an addon or podidentityassociation whose role it is to make, stops here"
	return awsapi.Service{Name: "cloudformation", Handler: s, Refused: []awsapi.Refusal{{Operations: "CreateChangeSet CreateStack", Why: noStacks}}, Operations: []awsapi.Operation{
		{Name: "DescribeStacks", Members: "NextToken StackName"},
		{Name: "ListStacks", Members: "NextToken StackStatusFilter"},
	}}
}

// DescribeStacks describes the stack of the request, or all.
func (s *Service) DescribeStacks(_ context.Context, in *awscloudformation.DescribeStacksInput) (*awscloudformation.DescribeStacksOutput, error) {
	if in.StackName != nil {
		return nil, stackNotFound(*in.StackName)
	}
	return &awscloudformation.DescribeStacksOutput{Stacks: []cloudformationtypes.Stack{}}, nil
}

// ListStacks lists the stacks, also those that were deleted.
func (s *Service) ListStacks(context.Context, *awscloudformation.ListStacksInput) (*awscloudformation.ListStacksOutput, error) {
	return &awscloudformation.ListStacksOutput{StackSummaries: []cloudformationtypes.StackSummary{}}, nil
}
