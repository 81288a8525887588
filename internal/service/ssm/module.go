package ssm

import (
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon, whose instances are those of fleet.
func (s *Service) Module(fleet Fleet) module.Module {
	s.fleet = fleet
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable()}
}
