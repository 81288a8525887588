package record

import (
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// PodIdentities are kept under CLUSTER/NAMESPACE/SERVICEACCOUNT, of which there can
// be one: the names of Kubernetes have no slash.
var PodIdentities = store.NewCollection[PodIdentity]("eks", "podidentity")

// A PodIdentity is a Pod Identity association.
type PodIdentity struct {
	Association ekstypes.PodIdentityAssociation
	// Token and Request make CreatePodIdentityAssociation idempotent.
	Token, Request string
}

// PodIdentityKey is the key of a service account's association.
func PodIdentityKey(cluster store.Key, namespace, serviceAccount string) store.Key {
	return Below(cluster, namespace+"/"+serviceAccount)
}
