package record

import (
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// A Nodegroup is a managed node group, kept under CLUSTER/NAME.
type Nodegroup struct {
	Nodegroup ekstypes.Nodegroup
	// UUID is the last part of the ARN and of the names of what EKS makes for
	// the group.
	UUID           string
	Token, Request string
	Since          time.Time

	// Role is the node role.
	Role Identity
	// ImageID is the AMI its instances boot from.
	ImageID string
	// MachineTypes are the instance types it launches: its own, or its user's
	// launch template's.
	MachineTypes []string
	// InstanceProfile is the profile made for the node role, and the name of the
	// group's own launch template and of its Auto Scaling group: eks-UUID.
	InstanceProfile  string
	LaunchTemplateID string
	// TemplateVersion is the launch template's version for new instances; empty: 1.
	TemplateVersion string `json:",omitempty"`
	// ScalingGroupMade says that the Auto Scaling group was made.
	ScalingGroupMade bool `json:",omitempty"`
	// AccessEntryMade says the node role's access entry was EKS's own doing.
	AccessEntryMade bool
	// UpdateID is the update in progress.
	UpdateID string
	// TemplateStale says labels or taints changed since the launch template's
	// version was made.
	TemplateStale bool
	// Rollout is the update in progress that replaces nodes.
	Rollout *Rollout `json:",omitempty"`
	// Draining are the instances that leave, and since when they drain.
	Draining map[string]time.Time
	// Missing are the instances without a Ready node, and since when.
	Missing map[string]time.Time `json:",omitempty"`
	// Labels and Taints removed from the group but not yet from all its nodes.
	RemovedLabels []string
	RemovedTaints []ekstypes.Taint
}

// ResourceName is the name of the group's Auto Scaling group.
func (g *Nodegroup) ResourceName() string {
	return "eks-" + *g.Nodegroup.NodegroupName + "-" + g.UUID
}

// Target is the group's record as it is after the rollout.
func (g *Nodegroup) Target() *Nodegroup {
	r := g.Rollout
	if r == nil {
		return g
	}
	after := *g
	after.ImageID, after.MachineTypes, after.TemplateVersion = r.ImageID, r.MachineTypes, r.TemplateVersion
	after.Nodegroup.Version, after.Nodegroup.ReleaseVersion = r.Version, r.ReleaseVersion
	after.Nodegroup.LaunchTemplate, after.Nodegroup.InstanceTypes = r.LaunchTemplate, r.InstanceTypes
	return &after
}

// LaunchVersion is the version of the group's launch template that new instances
// are launched from.
func (g *Nodegroup) LaunchVersion() string {
	if g.TemplateVersion == "" {
		return "1"
	}
	return g.TemplateVersion
}

// A Rollout replaces the nodes of a group by such of another image or version of the
// user's launch template.
type Rollout struct {
	// The group's new state.
	ImageID                 string
	Version, ReleaseVersion *string
	LaunchTemplate          *ekstypes.LaunchTemplateSpecification
	InstanceTypes           []string
	MachineTypes            []string
	Force                   bool
	// TemplateVersion is the version of the group's own launch template for the new
	// nodes; empty until it is made.
	TemplateVersion string `json:",omitempty"`
	// Size is the group's size before and after.
	Size ekstypes.NodegroupScalingConfig
	// Evicting are the instances whose nodes are drained, and since when.
	Evicting map[string]time.Time `json:",omitempty"`
	// ShortSince is since when new nodes are awaited.
	ShortSince time.Time `json:",omitzero"`
	// Failure, once there is one, turns the rollout back.
	Failure *ekstypes.ErrorDetail `json:",omitempty"`
}
