package eks

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/quotatable"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/load"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon. machines are those of its nodes.
func (s *Service) Module(machines Machines) module.Module {
	st := s.clusters.Store
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable(), Run: func(ctx context.Context) error { return s.RunOn(ctx, machines) }, Events: s.Events, Import: load.Records, Quotas: []quotatable.Provider{s.clusters.QuotaTable}, RoleUsage: []module.RoleUsage{
		module.InUse(base.ServiceRole.Service, st, record.Clusters, func(i store.Item[record.Cluster]) string { return aws.ToString(i.Value.Cluster.Arn) }),
		module.InUse(base.FargateRole.Service, st, record.FargateProfiles, func(i store.Item[record.FargateProfile]) string {
			return aws.ToString(i.Value.Profile.FargateProfileArn)
		}),
		module.InUse(base.ConnectorRole.Service, st, record.ConnectedClusters, func(i store.Item[record.ConnectedCluster]) string {
			return aws.ToString(i.Value.Cluster.Arn)
		}),
		module.InUse(base.NodegroupRole.Service, st, record.Nodegroups, func(i store.Item[record.Nodegroup]) string { return aws.ToString(i.Value.Nodegroup.NodegroupArn) }),
	}}
}

// The service-linked roles under which EKS calls other services.
var (
	ServiceRole = base.ServiceRole
	FargateRole = base.FargateRole
)
