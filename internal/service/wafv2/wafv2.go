// Package wafv2 answers the question that load balancer controllers ask AWS WAF before they change anything: which web
// ACL protects a load balancer. None does, because web ACLs cannot be created here: nothing inspects the requests that
// load balancers forward. Only the composition root imports the package.
package wafv2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awswaf "github.com/aws/aws-sdk-go-v2/service/wafv2"
	waftypes "github.com/aws/aws-sdk-go-v2/service/wafv2/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
)

// Service is AWS WAF.
type Service struct {
	isApplication func(account, region, arn string) bool
}

// New returns the service. isApplication reports whether an ARN is that of an Application Load Balancer in an account
// and region.
func New(isApplication func(account, region, arn string) bool) *Service {
	return &Service{isApplication}
}

// Module declares the service to the daemon.
func (s *Service) Module() module.Module { return module.Module{Service: s.AWS()} }

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name: "wafv2", Handler: s, Authorization: authorization,
		Operations: []awsapi.Operation{{Name: "GetWebACLForResource", Members: "ResourceArn"}},
		Refused: []awsapi.Refusal{{
			Operations: "CreateWebACL AssociateWebACL DisassociateWebACL",
			Why:        "Nothing here inspects the requests that load balancers forward.",
		}},
	}
}

// GetWebACLForResource returns no web ACL for any Application Load Balancer.
func (s *Service) GetWebACLForResource(ctx context.Context, in *awswaf.GetWebACLForResourceInput) (*awswaf.GetWebACLForResourceOutput, error) {
	sc, name := regional.Of(ctx), aws.ToString(in.ResourceArn)
	if _, err := arn.Parse(name); err != nil {
		return nil, errARN(name)
	}
	if !s.isApplication(sc.Account, sc.Region, name) {
		return nil, errNoResource()
	}
	return &awswaf.GetWebACLForResourceOutput{}, nil
}

// [seen] hashicorp/terraform-provider-aws#28753
func errARN(name string) error {
	const text = "The ARN isn't valid. A valid ARN begins with arn: and includes other information separated by colons or slashes."
	return &waftypes.WAFInvalidParameterException{
		Message: aws.String("Error reason: " + text + ", field: RESOURCE_ARN, parameter: " + name),
		Field:   waftypes.ParameterExceptionFieldResourceArn, Parameter: &name, Reason: aws.String(text),
	}
}

// [seen] kubernetes-sigs/aws-load-balancer-controller#2022
func errNoResource() error {
	return &waftypes.WAFNonexistentItemException{Message: aws.String("AWS WAF couldn’t perform the operation because your resource doesn’t exist.")}
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{
		// SAR also requires the web ACL, but no web ACLs exist here.
		"GetWebACLForResource": {Resources: "loadbalancer/app/=ResourceArn", Source: "SAR"},
	},
}
