package eks

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Run: s.Run, RoleUsage: s.roleUsage}
}

// ServiceRole is the service-linked role under which EKS calls other services.
var ServiceRole = base.ServiceRole

// roleUsage returns the clusters or the node groups of an account: they need the role of
// EKS, or that of its node groups.
func (s *Service) roleUsage(_ context.Context, account, principal string) (map[string][]string, error) {
	usage := map[string][]string{}
	switch principal {
	case base.ServiceRole.Service:
		for _, i := range record.Clusters.All(s.clusters.Store, store.Scope{Account: account}) {
			usage[i.Key.Region] = append(usage[i.Key.Region], aws.ToString(i.Value.Cluster.Arn))
		}
		return usage, nil
	case "eks-nodegroup.amazonaws.com":
		for _, i := range record.Nodegroups.All(s.clusters.Store, store.Scope{Account: account}) {
			usage[i.Key.Region] = append(usage[i.Key.Region], aws.ToString(i.Value.Nodegroup.NodegroupArn))
		}
		return usage, nil
	}
	return nil, nil
}
