package authz_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Every resource of a call is checked with every tag of the call. A request that contains as many of both as possible
// is rejected.
func TestManyResourcesWithManyTags(t *testing.T) {
	in := &awsautoscaling.CreateOrUpdateTagsInput{}
	for i := range 5000 {
		n := aws.String(strconv.Itoa(i))
		in.Tags = append(in.Tags, autoscalingtypes.Tag{Key: n, Value: n, ResourceId: n})
	}
	call := awsapi.Call{Service: "autoscaling", Operation: "CreateOrUpdateTags"}
	err := decide(t, call, in, allow("*", "*", ""), "")
	if api := smithy.APIError(nil); !errors.As(err, &api) || api.ErrorCode() != "ValidationError" {
		t.Errorf("error %v", err)
	}
	in.Tags = in.Tags[:50*20] // the maximum that AWS's quotas allow
	if err := decide(t, call, in, allow("*", "*", ""), ""); err != nil {
		t.Error(err)
	}
}

// Deciding stops when the caller gives up.
func TestAuthorizeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	a := authz.New(authz.Config{
		Policies: func(awsapi.Principal) (policy.Policies, bool) {
			return policy.Policies{Boundary: &policy.Source{Document: &policy.Document{}}}, false
		},
		Resolvers: map[string]authz.Resolver{"ec2": resolverFunc(func() {
			if asked++; asked == 2 {
				cancel()
			}
		})},
	})
	err := a.Authorize(ctx, &awsapi.Call{
		Service: "ec2", Operation: "TerminateInstances", Account: "111122223333", Region: "us-east-1",
		Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: "111122223333", Name: "me"},
	}, &awsec2.TerminateInstancesInput{InstanceIds: []string{"i-1", "i-2", "i-3", "i-4"}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

type resolverFunc func()

func (f resolverFunc) Resource(context.Context, string, string, string, string) (authz.Resource, bool) {
	f()
	return authz.Resource{}, false
}
