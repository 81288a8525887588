package app

import (
	"context"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/authz"
)

// newAuthorizer makes what decides about requests. The services register what they have
// stored of the resources that these touch.
func (d *daemon) newAuthorizer() *authz.Authorizer {
	return authz.New(authz.Config{
		Policies: d.iam.PoliciesOf,
		Store:    d.store,
		Journal:  d.journal,
	})
}

// authorizeLaunch decides whether the caller of a fleet may launch from one of its
// pools, as if it called RunInstances itself.
func (d *daemon) authorizeLaunch(ctx context.Context, in *awsec2.RunInstancesInput) error {
	return d.authorizer.AuthorizeAs(ctx, "ec2", "RunInstances", in)
}
