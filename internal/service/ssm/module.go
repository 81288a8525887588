package ssm

import (
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon. fleet has the daemon's instances.
func (s *Service) Module(fleet Fleet) module.Module {
	s.fleet = fleet
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable()}
}
