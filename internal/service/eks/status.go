package eks

import (
	"context"

	"github.com/drydock-dev/drydock/internal/store"
)

// A ClusterStatus is what `drydock status` shows of a cluster.
type ClusterStatus struct {
	Account, Region, Name string
	Version               string
	Status                string
	Endpoint              string // empty until ACTIVE
	PlaneID               string // empty until claimed
	Owner                 string // what its control plane is claimed for
}

// Clusters returns the clusters of all accounts and regions.
func (s *Service) Clusters(_ context.Context) ([]ClusterStatus, error) {
	all, err := clusters.List(s.store, store.Scope{})
	if err != nil {
		return nil, err
	}
	out := make([]ClusterStatus, 0, len(all))
	for _, i := range all {
		c := i.Value.Cluster
		out = append(out, ClusterStatus{
			Account: i.Key.Account, Region: i.Key.Region, Name: i.Key.ID, Version: text(c.Version),
			Status: string(c.Status), Endpoint: text(c.Endpoint), PlaneID: i.Value.Plane.ID, Owner: i.Value.owner(),
		})
	}
	return out, nil
}
