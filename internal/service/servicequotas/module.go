package servicequotas

import "github.com/drydock-dev/drydock/internal/module"

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Import: importRecords, Run: s.resume}
}
