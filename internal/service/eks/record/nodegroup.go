package record

import (
	"cmp"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// A Nodegroup is a managed node group, kept under CLUSTER/NAME.
type Nodegroup struct {
	Nodegroup ekstypes.Nodegroup
	// UUID is the last part of the ARN, and of the names of resources that EKS creates for the
	// group.
	UUID           string
	Token, Request string
	Since          time.Time

	// Role is the node role.
	Role Identity
	// ImageID is the AMI that its instances boot from.
	ImageID string
	// MachineTypes are the instance types that it launches: its own, or those of the user's launch
	// template.
	MachineTypes []string
	// InstanceProfile is the profile created for the node role. The group's own launch template and
	// Auto Scaling group have the same name: eks-UUID.
	InstanceProfile  string
	LaunchTemplateID string
	// TemplateVersion is the launch template version for new instances; empty means 1.
	TemplateVersion string `json:",omitempty"`
	// ScalingGroupMade reports whether the Auto Scaling group was created.
	ScalingGroupMade bool `json:",omitempty"`
	// AccessEntryMade reports whether EKS created the node role's access entry.
	AccessEntryMade bool
	// UpdateID is the update in progress.
	UpdateID string
	// TemplateStale reports whether labels or taints have changed since the launch template version
	// was created.
	TemplateStale bool
	// Rollout is the update in progress that replaces nodes.
	Rollout *Rollout `json:",omitempty"`
	// Draining are the instances that are leaving, with the time when draining began.
	Draining map[string]time.Time
	// Missing are the instances without a Ready node, with the time since when.
	Missing map[string]time.Time `json:",omitempty"`
	// Rebooted are the unhealthy instances that node auto repair rebooted, with the time of the last reboot.
	Rebooted map[string]time.Time `json:",omitempty"`
	// Labels and taints that were removed from the group but not yet from all its nodes.
	RemovedLabels []string
	RemovedTaints []ekstypes.Taint
}

// ResourceName is the name of the group's Auto Scaling group.
func (g *Nodegroup) ResourceName() string {
	return "eks-" + *g.Nodegroup.NodegroupName + "-" + g.UUID
}

// Target returns the group's record as it will be after the rollout.
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

// LaunchVersion is the version of the group's launch template for new instances.
func (g *Nodegroup) LaunchVersion() string { return cmp.Or(g.TemplateVersion, "1") }

// A Rollout replaces a group's nodes, because of a new image or a new version of the user's launch
// template.
type Rollout struct {
	// The group's new image and template.
	ImageID                 string
	Version, ReleaseVersion *string
	LaunchTemplate          *ekstypes.LaunchTemplateSpecification
	InstanceTypes           []string
	MachineTypes            []string
	Force                   bool
	// TemplateVersion is the version of the group's own launch template for the new nodes. It is
	// empty until that version has been created.
	TemplateVersion string `json:",omitempty"`
	// Size is the group's size before and after the rollout.
	Size ekstypes.NodegroupScalingConfig
	// Evicting are the instances whose nodes are being drained, with the time when draining began.
	Evicting map[string]time.Time `json:",omitempty"`
	// ShortSince is since when the rollout has been waiting for new nodes.
	ShortSince time.Time `json:",omitzero"`
	// Failure is why the rollout failed. Once it is set, the rollout is being rolled back.
	Failure *ekstypes.ErrorDetail `json:",omitempty"`
}
