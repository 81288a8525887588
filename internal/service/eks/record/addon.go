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
	// Addon is DescribeAddon's answer.
	Addon          ekstypes.Addon
	Token, Request string
	// Since is when Status was entered.
	Since time.Time
	// Resolve says what becomes of fields that others set.
	Resolve ekstypes.ResolveConflicts
	// Next is what an update makes of the add-on; UpdateID is the update.
	Next     *AddonSpec `json:",omitempty"`
	UpdateID string     `json:",omitempty"`
	// Untouched says that nothing was applied yet: objects of the add-on's that are
	// there are the user's own, and deleting the add-on leaves them.
	Untouched bool `json:",omitempty"`
	// Applied says that the objects are as wanted, and wait for their pods; Had, that
	// all objects of what the add-on is were applied once.
	Applied bool
	Had     bool `json:",omitempty"`
	// Ailing is since when pods of an ACTIVE add-on are missing.
	Ailing time.Time
	// Preserve says that deleting leaves the objects.
	Preserve bool `json:",omitempty"`
	// Scaling is how far EKS has scaled the add-on, nil if it has not.
	Scaling *AddonScaling `json:",omitempty"`
}

// An AddonSpec is what can be changed of an add-on.
type AddonSpec struct {
	Version       string
	Configuration string
	Role          string
	// Namespace, which stays, is empty for the usual one. Replicas, if not 0, is what
	// EKS has scaled it to.
	Namespace string `json:",omitempty"`
	Replicas  int    `json:"-"`
}

// NamespaceOrDefault is where the add-on's objects are.
func (p AddonSpec) NamespaceOrDefault() string { return cmp.Or(p.Namespace, addons.Namespace) }

// Spec is what the add-on is now.
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

// Set makes the add-on what p says, except for its namespace and replicas.
func (r *Addon) Set(p AddonSpec) {
	r.Addon.AddonVersion = &p.Version
	r.Addon.ConfigurationValues, r.Addon.ServiceAccountRoleArn = Optional(p.Configuration), Optional(p.Role)
}

// Enter changes the status.
func (r *Addon) Enter(st ekstypes.AddonStatus, now time.Time, issues ...ekstypes.AddonIssue) {
	if issues == nil {
		issues = []ekstypes.AddonIssue{}
	}
	now = now.UTC().Truncate(time.Millisecond)
	r.Addon.Status, r.Since, r.Ailing, r.Addon.ModifiedAt = st, now, time.Time{}, &now
	r.Addon.Health = &ekstypes.AddonHealth{Issues: issues}
}

// AddonScaling is how far an add-on is scaled.
type AddonScaling struct {
	// Replicas were set At.
	Replicas int
	At       time.Time
	// Demands are those of the window, oldest first, one a bucket at most; each held
	// until the next came.
	Demands []Demand
}

// A Demand is how many replicas the nodes of the cluster asked for since a time.
type Demand struct {
	Replicas int
	Since    time.Time
}
