package elb

import (
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{
		Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable(), Run: s.Run, Import: importRecords,
		RoleUsage: []module.RoleUsage{module.InUse(elbnet.ServiceName, s.Store, loadBalancers, func(r store.Item[loadBalancerRecord]) string {
			return arn.New("elasticloadbalancing", r.Key.Region, r.Key.Account, "loadbalancer/"+r.Value.Name)
		})},
	}
}
