package access

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// KnownPrincipals are the principals that a cluster maps, for explanations of why another
// is unauthorized.
type KnownPrincipals struct {
	// API and ConfigMap say which of the two the authentication mode has.
	API, ConfigMap bool
	// Entries are the principals with an access entry.
	Entries []string
	// Mapped are the ARNs of aws-auth, in lower case, as they are compared.
	Mapped []string
	// Invalid says what is wrong with aws-auth.
	Invalid error
}

// MapRoles returns mapRoles of a cluster's aws-auth as it is when a role is that of nodes of
// a type, and whether there is an aws-auth.
func (s *Service) MapRoles(ctx context.Context, planeID, roleARN, typ string) (mapRoles string, exists bool, err error) {
	auth, err := s.AuthMap(ctx, planeID)
	if err != nil {
		return "", false, err
	}
	return auth.MappedAs(roleARN, typ)
}

// KnownPrincipals returns those of a cluster by its control plane.
func (s *Service) KnownPrincipals(ctx context.Context, planeID string) (KnownPrincipals, error) {
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return KnownPrincipals{}, err
	}
	out := KnownPrincipals{API: rec.UsesAPI(), ConfigMap: rec.UsesConfigMap()}
	if out.API {
		for _, e := range record.AccessEntries.All(s.Store, store.Scope{Account: key.Account, Region: key.Region}) {
			if aws.ToString(e.Value.Entry.ClusterName) == rec.Name() {
				out.Entries = append(out.Entries, aws.ToString(e.Value.Entry.PrincipalArn))
			}
		}
	}
	if out.ConfigMap {
		auth, err := s.AuthMap(ctx, planeID)
		if err != nil || auth == nil {
			return out, err
		}
		out.Invalid = auth.Invalid
		out.Mapped = append(slices.Sorted(maps.Keys(auth.roles)), slices.Sorted(maps.Keys(auth.users))...)
	}
	return out, nil
}
