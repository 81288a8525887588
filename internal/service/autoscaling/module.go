package autoscaling

import (
	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{
		Service: s.AWS(), Resolver: s.Authz(), Run: s.Run, Events: s.Events, Import: importRecords, Quotas: []quotatable.Provider{quotatable.Fixed("autoscaling")},
		RoleUsage: []module.RoleUsage{module.InUse(serviceRole.Service, s.store, groups, func(r store.Item[groupRecord]) string {
			return aws.ToString(r.Value.Group.AutoScalingGroupARN)
		})},
	}
}
