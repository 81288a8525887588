package eks

import (
	"context"
	"maps"
	"slices"

	"github.com/drydock-dev/drydock/internal/store"
)

// Doors are the ways into a cluster, for explanations of why somebody found none.
type Doors struct {
	// API and ConfigMap say which of the two the authentication mode has.
	API, ConfigMap bool
	// Entries are the principals with an access entry.
	Entries []string
	// Mapped are the ARNs of aws-auth, in lower case, as they are compared.
	Mapped []string
	// Invalid says what is wrong with aws-auth.
	Invalid error
}

// Doors returns those of a cluster by its control plane.
func (s *Service) Doors(ctx context.Context, planeID string) (Doors, error) {
	key, rec, err := s.clusterByPlane(planeID)
	if err != nil {
		return Doors{}, err
	}
	out := Doors{API: rec.usesAPI(), ConfigMap: rec.usesConfigMap()}
	if out.API {
		list, err := accessEntries.List(s.store, store.Scope{Account: key.Account, Region: key.Region})
		if err != nil {
			return out, err
		}
		for _, e := range list {
			if text(e.Value.Entry.ClusterName) == rec.name() {
				out.Entries = append(out.Entries, text(e.Value.Entry.PrincipalArn))
			}
		}
	}
	if out.ConfigMap {
		auth, err := s.authMap(ctx, planeID)
		if err != nil || auth == nil {
			return out, err
		}
		out.Invalid = auth.invalid
		out.Mapped = append(slices.Sorted(maps.Keys(auth.roles)), slices.Sorted(maps.Keys(auth.users))...)
	}
	return out, nil
}
