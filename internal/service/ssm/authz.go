package ssm

import (
	"context"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
)

// Authz provides package authz with the stored attributes of parameters.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. A parameter is identified by NAME, NAME:VERSION or its ARN.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if kind != "parameter" {
		return authz.Resource{}, false
	}
	p, _, err := r.s.find(scope{regional.At(account, region)}, id)
	if err != nil {
		return authz.Resource{}, false
	}
	return authz.Resource{ARN: scope{regional.At(account, region)}.arn(p.Name), Tags: p.Tags}, true
}
