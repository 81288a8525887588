// Package wafregional answers the question that older load balancer controllers ask AWS WAF Classic: which web ACL
// protects a load balancer. None does: AWS has let nobody create one since May 2025. Only the composition root imports
// the package.
package wafregional

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	awswaf "github.com/aws/aws-sdk-go-v2/service/wafregional"
	waftypes "github.com/aws/aws-sdk-go-v2/service/wafregional/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
)

// Service is AWS WAF Classic Regional.
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
		Name: "wafregional", Handler: s, Authorization: authorization,
		Operations: []awsapi.Operation{{Name: "GetWebACLForResource", Members: "ResourceArn"}},
		Refused: []awsapi.Refusal{{
			Operations: "CreateWebACL AssociateWebACL DisassociateWebACL",
			Why:        "AWS has retired AWS WAF Classic.",
		}},
	}
}

// GetWebACLForResource returns no web ACL for any Application Load Balancer.
func (s *Service) GetWebACLForResource(ctx context.Context, in *awswaf.GetWebACLForResourceInput) (*awswaf.GetWebACLForResourceOutput, error) {
	sc, name := regional.Of(ctx), aws.ToString(in.ResourceArn)
	if _, err := arn.Parse(name); err != nil {
		return nil, errARN()
	}
	if !s.isApplication(sc.Account, sc.Region, name) {
		return nil, errNoResource()
	}
	return &awswaf.GetWebACLForResourceOutput{}, nil
}

// errARN has no message. [seen] hashicorp/terraform#28076
func errARN() error {
	return &waftypes.WAFInvalidParameterException{
		Field: "ResourceArn", Parameter: aws.String("RESOURCE_ARN"), Reason: waftypes.ParameterExceptionReasonIllegalArgument,
	}
}

// [seen] kubernetes-sigs/aws-load-balancer-controller#758
func errNoResource() error {
	return &waftypes.WAFNonexistentItemException{Message: aws.String("The referenced item does not exist.")}
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{
		"GetWebACLForResource": {Resources: "loadbalancer/app/=ResourceArn", Source: "SAR"},
	},
}
