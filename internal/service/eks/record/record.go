// Package record defines what EKS stores: a type and a collection for each kind of resource, and
// their keys. It is below all other packages of EKS, so that each part can look up the resources
// of others without importing them. Its methods derive values from records and never change them.
package record

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// The service's records. Descriptions of clusters and node groups are kept as SDK types, next to
// internal data that AWS does not show. The IDs of everything in a cluster begin with "CLUSTER/".
var (
	Clusters      = store.NewCollection[Cluster]("eks", "cluster", store.Same, store.Same, store.Same, store.Same, store.Same, store.Same) // version 2 has Upgraded, 3 PlatformTo and Authorities, 4 SupportEnded, 5 NodeRole, 6 Rollback, 7 Source
	Nodegroups    = store.NewCollection[Nodegroup]("eks", "nodegroup", store.Same)                                                         // version 2 has Rebooted
	AccessEntries = store.NewCollection[AccessEntry]("eks", "accessentry")
	Updates       = store.NewCollection[Update]("eks", "update", store.Same, store.Same, store.Same, store.Same, store.Same, store.Same, store.Same, store.Same, store.Same) // version 2 has Logging, 3 Version, 4 IdentityProvider, 5 ZonalShift and Tier, 6 RemoteNetwork and Authority, 7 SupportEnded, 8 AutoMode, 9 Capability, 10 Components
)

// ZonalShifts are kept under the cluster's name as long as a shift has an effect.
var ZonalShifts = store.NewCollection[ZonalShift]("eks", "zonalshift")

// A ZonalShift is what EKS did for a zonal shift of a cluster, and undoes when the shift ends.
type ZonalShift struct {
	UID  string // the cluster's
	Zone string // the name of the zone
	// Suspended are the processes of Auto Scaling groups that EKS suspended, by node group.
	Suspended map[string][]string `json:",omitempty"`
}

// ClusterKey returns the key of the caller's cluster with a name.
func ClusterKey(call *awsapi.Call, name string) store.Key {
	return store.Key{Account: call.Account, Region: call.Region, ID: name}
}

// Fingerprint identifies the content of a request, ignoring its token.
func Fingerprint[T any](in *T) string {
	untokened := *in
	if token := reflect.ValueOf(&untokened).Elem().FieldByName("ClientRequestToken"); token.IsValid() {
		token.SetZero()
	}
	raw, err := json.Marshal(untokened)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:16])
}

// deleteBatch keeps transactions below a hundred operations.
const deleteBatch = 90

// DeleteAll deletes records of a scope in small transactions: all of them, or those that match
// which.
func DeleteAll[T any](ctx context.Context, st *store.Store, c store.Collection[T], scope store.Scope, which func(*T) bool) error {
	items := c.All(st, scope)
	if which != nil {
		items = slices.DeleteFunc(items, func(i store.Item[T]) bool { return !which(&i.Value) })
	}
	for batch := range slices.Chunk(items, deleteBatch) {
		if err := st.Update(ctx, func(tx *store.Tx) error {
			for _, i := range batch {
				c.Delete(tx, i.Key)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// Optional returns nil for "", for members that AWS omits if they are empty.
func Optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// Other returns the key of another record of the same cluster that matches is, or nil if there is
// none.
func Other[T any](r store.Reader, c store.Collection[T], key store.Key, is func(*T) bool) *store.Key {
	all := c.All(r, key.Owner().AllBelow())
	i := slices.IndexFunc(all, func(o store.Item[T]) bool { return o.Key != key && is(&o.Value) })
	if i < 0 {
		return nil
	}
	return &all[i].Key
}

// An AccessEntry gives an IAM principal access to a cluster. It is kept under CLUSTER/PRINCIPAL.
type AccessEntry struct {
	Entry ekstypes.AccessEntry
	// PrincipalID was the identity's unique ID when the entry was created. A role that is deleted
	// and created again with the same ARN has another ID and gets no access.
	// https://docs.aws.amazon.com/eks/latest/userguide/deleting-access-entries.html
	PrincipalID string
	Policies    []ekstypes.AssociatedAccessPolicy
	Token       string
	Request     string
	// Managed entries belong to EKS and cannot be changed.
	Managed bool
}

// An Identity is one IAM identity. A role or user that is deleted and created again with the same
// ARN is a different one.
type Identity struct {
	ARN string
	ID  string
}

// DeletedID stands for the ID of an identity that the source of a twin had deleted, and that AWS does not return.
const DeletedID = "deleted"

// FargateProfiles are kept under CLUSTER/NAME.
var FargateProfiles = store.NewCollection[FargateProfile]("eks", "fargateprofile")

// A FargateProfile is a Fargate profile. Only its status and tags change.
type FargateProfile struct {
	Profile        ekstypes.FargateProfile
	UUID           string // last part of the ARN
	Token, Request string
	Since          time.Time
	// Role is the pod execution role.
	Role Identity
	// AccessEntryMade reports whether EKS created the role's access entry.
	AccessEntryMade bool
}

// Name is the profile's name.
func (p *FargateProfile) Name() string { return *p.Profile.FargateProfileName }

// IdentityProviders are kept under CLUSTER/oidc/NAME.
var IdentityProviders = store.NewCollection[IdentityProvider]("eks", "identityprovider")

// An IdentityProvider is an OIDC identity provider of a cluster. Only its status and tags change.
type IdentityProvider struct {
	Config ekstypes.OidcIdentityProviderConfig
}

// IdentityProviderKey returns the key of a cluster's identity provider configuration.
func IdentityProviderKey(cluster store.Key, name string) store.Key {
	return cluster.Below("oidc/" + name)
}

// Capabilities are kept under CLUSTER/NAME.
var Capabilities = store.NewCollection[Capability]("eks", "capability")

// A Capability is an EKS capability of a cluster.
type Capability struct {
	Capability     ekstypes.Capability
	Token, Request string
}

// PodIdentities are kept under CLUSTER/NAMESPACE/SERVICEACCOUNT, since a service account has at
// most one. Kubernetes names contain no slash.
var PodIdentities = store.NewCollection[PodIdentity]("eks", "podidentity")

// A PodIdentity is a Pod Identity association.
type PodIdentity struct {
	Association ekstypes.PodIdentityAssociation
	// Token and Request make CreatePodIdentityAssociation idempotent.
	Token, Request string
}

// PodIdentityKey returns the key of a service account's association.
func PodIdentityKey(cluster store.Key, namespace, serviceAccount string) store.Key {
	return cluster.Below(namespace + "/" + serviceAccount)
}
