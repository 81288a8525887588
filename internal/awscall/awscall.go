// Package awscall holds the clients with which AWS services call one another in process (awsapi.API): typed methods
// over the SDK's inputs and outputs. The context determines the caller, see awsapi.API. The methods are generated
// from the list in tools/clientgen.
//
// It does not depend on any service. Only internal/app imports it; services declare the part of a client that they
// need as an interface.
package awscall

//go:generate go run ../../tools/clientgen

import (
	"context"
	"errors"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// Under returns an API that makes a user's calls under a service's own service-linked role: EKS checks a user's
// subnets itself, even if the user may not describe them. Calls made by another role are unchanged.
func Under(role awsapi.ServiceRole, api awsapi.API, clock clock.PassiveClock) awsapi.API {
	return under{role, api, clock}
}

type under struct {
	role  awsapi.ServiceRole
	api   awsapi.API
	clock clock.PassiveClock
}

// Call implements awsapi.API.
func (u under) Call(ctx context.Context, in any) (any, error) {
	if call := awsapi.CallFrom(ctx); call.Principal.Type != awsapi.AWSService {
		ctx = awsapi.AsService(ctx, call.Account, call.Region, u.role, u.clock.Now())
	}
	return u.api.Call(ctx, in)
}

// EnsureServiceRole makes a service-linked role in the account of ctx's call unless it
// exists, as services do when they are first used. The service's user needs
// iam:CreateServiceLinkedRole for it.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/using-service-linked-roles.html
func (c IAM) EnsureServiceRole(ctx context.Context, role awsapi.ServiceRole) error {
	call := awsapi.CallFrom(ctx)
	_, err := c.GetRole(awsapi.AsService(ctx, call.Account, call.Region, role, call.Time), &awsiam.GetRoleInput{RoleName: &role.Name})
	if missing := (*iamtypes.NoSuchEntityException)(nil); !errors.As(err, &missing) {
		return err
	}
	_, err = c.CreateServiceLinkedRole(ctx, &awsiam.CreateServiceLinkedRoleInput{AWSServiceName: &role.Service})
	if taken := (*iamtypes.InvalidInputException)(nil); errors.As(err, &taken) {
		return nil // another call was faster
	}
	return err
}
