package app

import (
	"context"

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
			"autoscaling": d.scaling.Authz(),
			"ec2":         d.ec2.Authz(),

			"elasticloadbalancing": loadBalancingAuthz{d.elb.Authz(), d.elbv2.Authz()},
			"eks":                  d.eks.Authz(),
			"eks-auth":             d.eks.Authz(),
			"iam":                  d.iam.Authz(),
			"kms":                  d.kms.Authz(),
			"ssm":                  d.ssm.Authz(),
		},
		EndpointPolicy: d.ec2.EndpointPolicy,

		Store:   d.store,
		Journal: d.journal,
	})
}

// authorizeLaunch decides whether the caller of a fleet may launch from one of its
// pools, as if it called RunInstances itself.
func (d *daemon) authorizeLaunch(ctx context.Context, in *awsec2.RunInstancesInput) error {
	return d.authorizer.AuthorizeAs(ctx, "ec2", "RunInstances", in)
}

// authorizeTargets decides about what STS is asked for.
func (d *daemon) authorizeTargets(ctx context.Context, call *awsapi.Call, in any, targets ...authz.Target) error {
	return d.authorizer.AuthorizeTargets(ctx, call, in, targets...)
}
