// Package cloudformation answers what clients ask of AWS CloudFormation before they
// do anything else: which stacks there are. There are none, because creating one is
// refused. eksctl calls this in `get cluster`, to find the clusters that it has
// created. Only internal/app may import it.
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
	const noStacks = "stacks cannot be created, so these commands fail: `eksctl create` of a cluster, nodegroup, iamserviceaccount or accessentry, and of an addon or podidentityassociation if eksctl is to create its role"
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
