package record

import (
	"cmp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/store"
)

// Addons are kept under CLUSTER/NAME.
var Addons = store.NewCollection[Addon]("eks", "addon")

// An Addon is an add-on of a cluster.
type Addon struct {
	// Addon is the description that DescribeAddon returns.
	Addon          ekstypes.Addon
	Token, Request string
	// Since is when the add-on entered its current status.
	Since time.Time
	// Resolve says how to treat fields that others have set.
	Resolve ekstypes.ResolveConflicts
	// Next is the add-on's specification after the update with UpdateID.
	Next     *AddonSpec `json:",omitempty"`
	UpdateID string     `json:",omitempty"`
	// Untouched means that nothing has been applied yet. Existing objects with the add-on's names
	// are the user's own, and deleting the add-on leaves them.
	Untouched bool `json:",omitempty"`
	// Applied means that the objects are up to date and only pods are awaited. Had means that all
	// objects of the current specification have been applied at least once.
	Applied bool
	Had     bool `json:",omitempty"`
	// Ailing is since when pods of an ACTIVE add-on have been missing.
	Ailing time.Time
	// Preserve means that deleting the add-on keeps its objects.
	Preserve bool `json:",omitempty"`
	// Scaling is how EKS has scaled the add-on, or nil if it has not.
	Scaling *AddonScaling `json:",omitempty"`
}

// An AddonSpec is the part of an add-on that users configure.
type AddonSpec struct {
	Version       string
	Configuration string
	Role          string
	// Namespace is empty for the default one and never changes. Replicas, if not 0, is the number
	// of replicas that EKS has set.
	Namespace string `json:",omitempty"`
	Replicas  int    `json:"-"`
}

// NamespaceOrDefault returns the namespace of the add-on's objects.
func (p AddonSpec) NamespaceOrDefault() string { return cmp.Or(p.Namespace, addons.Namespace) }

// Spec returns the add-on's current specification.
func (r *Addon) Spec() AddonSpec {
	p := AddonSpec{Version: aws.ToString(r.Addon.AddonVersion), Configuration: aws.ToString(r.Addon.ConfigurationValues), Role: aws.ToString(r.Addon.ServiceAccountRoleArn)}
	if r.Addon.NamespaceConfig != nil {
		p.Namespace = aws.ToString(r.Addon.NamespaceConfig.Namespace)
	}
	if r.Scaling != nil {
		p.Replicas = r.Scaling.Replicas
	}
	return p
}

// Set applies p to the add-on, except for its namespace and replicas.
func (r *Addon) Set(p AddonSpec) {
	r.Addon.AddonVersion = &p.Version
	r.Addon.ConfigurationValues, r.Addon.ServiceAccountRoleArn = Optional(p.Configuration), Optional(p.Role)
}

// Enter changes the status and records when.
func (r *Addon) Enter(st ekstypes.AddonStatus, now time.Time, issues ...ekstypes.AddonIssue) {
	if issues == nil {
		issues = []ekstypes.AddonIssue{}
	}
	now = now.UTC().Truncate(time.Millisecond)
	r.Addon.Status, r.Since, r.Ailing, r.Addon.ModifiedAt = st, now, time.Time{}, &now
	r.Addon.Health = &ekstypes.AddonHealth{Issues: issues}
}

// AddonScaling is how EKS has scaled an add-on.
type AddonScaling struct {
	// Replicas were set at At.
	Replicas int
	At       time.Time
	// Demands are the demands in the window, oldest first, at most one per bucket. Each holds until
	// the next.
	Demands []Demand
}

// A Demand is the number of replicas that the cluster's nodes have called for since a time.
type Demand struct {
	Replicas int
	Since    time.Time
}
