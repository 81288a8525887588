package elbv2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Run: s.Run, RoleUsage: s.roleUsage}
}

// roleUsage returns the load balancers of an account: they need the service's role.
func (s *Service) roleUsage(_ context.Context, account, principal string) (map[string][]string, error) {
	if principal != elbnet.ServiceName {
		return nil, nil
	}
	items, err := loadBalancers.List(s.store, store.Scope{Account: account})
	usage := map[string][]string{}
	for _, i := range items {
		usage[i.Key.Region] = append(usage[i.Key.Region], aws.ToString(i.Value.LB.LoadBalancerArn))
	}
	return usage, err
}
