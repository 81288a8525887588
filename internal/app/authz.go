package app

import (
	"context"
	"errors"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

// newAuthorizer connects what decides about requests with what the services have
// stored of the resources that these touch.
func (d *daemon) newAuthorizer() *authz.Authorizer {
	return authz.New(authz.Config{
		Policies: d.iam.PoliciesOf,
		Resolvers: map[string]authz.Resolver{
			"ec2": d.ec2.Authz(),
			"eks": d.eks.Authz(),
			"iam": d.iam.Authz(),
			"ssm": d.ssm.Authz(),
		},
		Store: d.store,
	})
}

// authorizeLaunch decides whether the caller of a fleet may launch from one of its
// pools, as if it called RunInstances itself.
func (d *daemon) authorizeLaunch(ctx context.Context, in *awsec2.RunInstancesInput) error {
	call := *awsapi.CallFrom(ctx)
	call.Service, call.Operation = "ec2", "RunInstances"
	err := d.authorizer.Authorize(ctx, &call, in)
	if denial := (*authz.Denial)(nil); errors.As(err, &denial) {
		return denial.Render()
	}
	return err
}
