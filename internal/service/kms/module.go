package kms

import (
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable(), Import: importRecords, Run: s.Run, Events: s.Events}
}
