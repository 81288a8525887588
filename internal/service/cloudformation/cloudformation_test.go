package cloudformation_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestThereAreNoStacks(t *testing.T) {
	s := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{cloudformation.New().AWS()}
	}})
	ctx, client := t.Context(), awscloudformation.NewFromConfig(s.AWSConfig(s.Account(t)))
	list, err := client.ListStacks(ctx, &awscloudformation.ListStacksInput{StackStatusFilter: []cloudformationtypes.StackStatus{"CREATE_COMPLETE"}})
	if err != nil || len(list.StackSummaries) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	all, err := client.DescribeStacks(ctx, nil)
	if err != nil || len(all.Stacks) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
	for _, tt := range []struct {
		name, code string
		call       func() error
	}{
		{"a stack by name", "ValidationError", func() error {
			_, err := client.DescribeStacks(ctx, &awscloudformation.DescribeStacksInput{StackName: aws.String("x")})
			return err
		}},
		{"a new stack", "NotImplemented", func() error {
			_, err := client.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: aws.String("x")})
			return err
		}},
	} {
		var refused smithy.APIError
		if err := tt.call(); !errors.As(err, &refused) || refused.ErrorCode() != tt.code {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.code)
		}
	}
}
