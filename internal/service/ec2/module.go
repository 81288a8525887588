package ec2

import (
	"context"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/ec2/fleet"
	"github.com/drydock-dev/drydock/internal/service/ec2/load"
)

// Module declares the service to the daemon. machines boots its instances.
func (s *Service) Module(machines Machines) module.Module {
	return module.Module{
		Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable(), Run: func(ctx context.Context) error { return s.RunOn(ctx, machines) },
		RoleUsage: []module.RoleUsage{module.InUse(fleet.ServiceRole.Service, s.Store, fleet.Fleets.Collection, fleet.UsesRole)},
		Import:    load.Records, Quotas: s.quotas(),
	}
}
