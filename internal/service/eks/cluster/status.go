package cluster

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Status is what `drydock status` shows of a cluster.
type Status struct {
	Account, Region, Name string
	Version               string
	Status                string
	Endpoint              string // empty until ACTIVE
	PlaneID               string // empty until claimed
	Owner                 string // what its control plane is claimed for
}

const unreadable = "UNREADABLE"

// Unreadable reports whether the cluster's record cannot be read. All that is known of it
// then is its name.
func (s Status) Unreadable() bool { return s.Status == unreadable }

// Clusters returns the clusters of all accounts and regions.
func (s *Service) Clusters(_ context.Context) ([]Status, error) {
	all := record.Clusters.All(s.Store, store.Scope{})
	out := make([]Status, 0, len(all))
	for _, i := range all {
		c := i.Value.Cluster
		out = append(out, Status{
			Account: i.Key.Account, Region: i.Key.Region, Name: i.Key.ID, Version: aws.ToString(c.Version),
			Status: string(c.Status), Endpoint: aws.ToString(c.Endpoint), PlaneID: i.Value.Plane.ID, Owner: i.Value.Owner(),
		})
	}
	for _, k := range record.Clusters.Unreadable(s.Store, store.Scope{}) {
		out = append(out, Status{Account: k.Account, Region: k.Region, Name: k.ID, Status: unreadable})
	}
	return out, nil
}
