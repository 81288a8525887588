package app

import (
	"context"
	"errors"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/store"
)

// Calls between services that have no equivalent in the AWS API.

// imageExists tells SSM whether an image exists, for parameters that hold image IDs.
func (d *daemon) imageExists(ctx context.Context, account, region, id string) (bool, error) {
	ctx = awsapi.AsService(ctx, account, region, awsapi.ServiceRole{Service: "ssm.amazonaws.com", Name: "AWSServiceRoleForAmazonSSM", Session: "SSM"}, time.Now())
	_, err := awscall.EC2{API: d.server}.DescribeImages(ctx, &awsec2.DescribeImagesInput{ImageIds: []string{id}})
	if api, ok := errors.AsType[smithy.APIError](err); ok && strings.HasPrefix(api.ErrorCode(), "InvalidAMIID.") {
		return false, nil
	}
	return err == nil, err
}

// authorizeLaunch decides whether the caller that creates a fleet may launch from one of its pools, as if the caller
// had called RunInstances.
func (d *daemon) authorizeLaunch(ctx context.Context, in *awsec2.RunInstancesInput) error {
	return d.authorizer.AuthorizeAs(ctx, "ec2", "RunInstances", in)
}

// ensureRole returns a function that creates an account's service-linked role if it does not exist, as AWS services
// do when they are first used.
func (d *daemon) ensureRole(principal string) func(ctx context.Context, account string) error {
	return func(ctx context.Context, account string) error {
		_, err := d.iam.EnsureServiceLinkedRole(ctx, account, principal)
		return err
	}
}

// groups gives EKS access to Auto Scaling groups: by API calls, and by look-ups of their members.
type groups struct {
	awscall.AutoScaling
	members
}

type members interface {
	CompleteLifecycleActions(ctx context.Context, group, hook, result string, instanceIDs []string) error
	WatchMembers(store.Scope) *store.Watcher
	MemberGroup(store.Key) string
}
