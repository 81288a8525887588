// Package clock holds the only table of how long operations take in Drydock's AWS.
//
// All code that waits for an AWS-like duration reads it here, so that `drydock up --timing` has one meaning. The
// clock itself is k8s.io/utils/clock, which tests replace.
package clock

import (
	"context"
	"time"

	"k8s.io/utils/clock"
)

// Stamp returns a clock's time as records store it: in UTC, in whole milliseconds.
func Stamp(c clock.PassiveClock) time.Time { return c.Now().UTC().Truncate(time.Millisecond) }

// Sleep waits for d. It returns false if ctx ended first.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// Timing is how long states last. Zero means no longer than necessary.
type Timing struct {
	Name string // fast or aws
	// ClusterCreating is the minimum time that a cluster stays CREATING.
	ClusterCreating time.Duration
	// ClusterDeleting is the minimum time that a cluster stays DELETING.
	ClusterDeleting time.Duration
	// NodegroupCreating is the minimum time that a node group stays CREATING.
	NodegroupCreating time.Duration
	// NodegroupTimeout is how long a node group waits for the next node to join before it gives up: CREATE_FAILED, or
	// a failed update.
	NodegroupTimeout time.Duration
	// NodegroupUnhealthy is how long nodes of a node group may be missing or NotReady before the group is DEGRADED.
	NodegroupUnhealthy time.Duration
	// NodeRepair is how long a node is NotReady before node auto repair replaces it.
	NodeRepair time.Duration
	// NodeDrain is how long pods may delay the end of their node.
	NodeDrain time.Duration
	// NodegroupDrain is the same while the node's whole group is being deleted.
	NodegroupDrain time.Duration
	// PodsEndWithNode ends the pods of a node that is removed at once. Otherwise they stay
	// until the pod garbage collector finds them, which takes 40 to 60 seconds.
	PodsEndWithNode bool
	// AddonApplying is the minimum time that an add-on stays CREATING or UPDATING. AddonUnhealthy is how long its
	// pods may be missing before it is DEGRADED.
	AddonApplying, AddonUnhealthy time.Duration
	// AddonRollout is how long the rollout of an add-on's update may take before the update has failed. AddonStuck is
	// the same if its pods cannot start.
	AddonRollout, AddonStuck time.Duration
	// ClusterUpdating is the minimum time that an update of a cluster stays InProgress.
	ClusterUpdating time.Duration
	// ClusterPlatform is how often a cluster gets a new platform version. If it is zero, AWS does not maintain clusters
	// by itself: it also does not upgrade those whose version has reached the end of its support.
	ClusterPlatform time.Duration
	// ClusterKeyPause is the longest pause between two attempts of a control plane that waits for its KMS key.
	ClusterKeyPause time.Duration
	// FargateProfileCreating and FargateProfileDeleting are the minimum times that a Fargate profile stays CREATING
	// and DELETING.
	FargateProfileCreating, FargateProfileDeleting time.Duration
	// FargateProfileTimeout is how long the creation of a Fargate profile is retried before it is CREATE_FAILED.
	FargateProfileTimeout time.Duration
	// InstancePending is how long an instance is pending.
	InstancePending time.Duration
	// InstanceBoot is how long a running instance takes until cloud-init starts.
	InstanceBoot time.Duration
	// PodStart is how long a pod's containers take to start, including the time to pull their images.
	PodStart time.Duration
	// GuestPatience divides the waits between attempts in an instance's programs, which take minutes on AWS.
	GuestPatience int
	// HealthCheckPatience divides how long a target must fail a load balancer's health checks, according to their
	// interval and threshold, before an Auto Scaling group replaces it.
	HealthCheckPatience int
	// GuestDial is how long an instance's program waits for an answer to its first packet before it reports a
	// timeout.
	GuestDial time.Duration
	// InstanceShuttingDown is how long an instance takes to stop or terminate.
	InstanceShuttingDown time.Duration
	// InstanceTerminatedVisible is how long a terminated instance is still described.
	InstanceTerminatedVisible time.Duration
	// NATGatewayPending is how long a NAT gateway takes to become available.
	NATGatewayPending time.Duration
	// NATGatewayDeleting is how long a NAT gateway stays deleting.
	NATGatewayDeleting time.Duration
	// NATGatewayDeletedVisible is how long a deleted or failed NAT gateway is still described.
	NATGatewayDeletedVisible time.Duration
	// TransitGatewayPending is how long a transit gateway, an attachment or a route table of one takes to be created
	// or changed.
	TransitGatewayPending time.Duration
	// TransitGatewayDeleting is how long any of them takes to be deleted.
	TransitGatewayDeleting time.Duration
	// TransitGatewayDeletedVisible is how long any of them is still described when it is deleted.
	TransitGatewayDeletedVisible time.Duration
	// EndpointPending is how long an interface endpoint or an Instance Connect endpoint takes to be created.
	EndpointPending time.Duration
	// EndpointDeleting is how long either takes to be deleted.
	EndpointDeleting time.Duration
	// LoadBalancerProvisioning is how long a load balancer takes to become active.
	LoadBalancerProvisioning time.Duration
	// StackDeleting is the minimum time that it takes to delete a stack. eksctl starts a
	// deletion and then describes the stack by name, which fails once the stack is gone.
	StackDeleting time.Duration
	// PeeringOverVisible is how long a peering connection that was deleted,
	// rejected, failed or expired is still described.
	PeeringOverVisible time.Duration
	// QueuePause is how long the name of a deleted queue cannot be reused, and how long after a purge a queue cannot
	// be purged again.
	QueuePause time.Duration
	// SpotWarning is how long in advance a Spot Instance is warned of its interruption, unless the user says it.
	SpotWarning time.Duration
	// FargateNotice is how long pods on Fargate that cannot be evicted from a host that is to be patched are left alone,
	// unless the user says it.
	FargateNotice time.Duration
}

// Fast leaves every state as soon as possible, and soon gives up on what can no longer succeed.
func Fast() Timing {
	return Timing{
		Name:                         "fast",
		NodegroupTimeout:             time.Minute,
		NodegroupUnhealthy:           10 * time.Second,
		NodeRepair:                   15 * time.Second,
		NodeDrain:                    time.Minute,
		NodegroupDrain:               2 * time.Second,
		PodsEndWithNode:              true,
		AddonUnhealthy:               3 * time.Second,
		StackDeleting:                time.Second,
		AddonRollout:                 3 * time.Minute,
		AddonStuck:                   10 * time.Second,
		ClusterKeyPause:              5 * time.Second,
		FargateProfileTimeout:        time.Minute,
		GuestPatience:                20,
		HealthCheckPatience:          5,
		GuestDial:                    500 * time.Millisecond,
		InstanceTerminatedVisible:    time.Hour,
		NATGatewayDeletedVisible:     time.Hour,
		TransitGatewayDeletedVisible: time.Hour,
		PeeringOverVisible:           2 * time.Hour,
		SpotWarning:                  5 * time.Second,
		FargateNotice:                30 * time.Second,
	}
}

// AWS has durations as seen on AWS. Their sources, if AWS states them:
//
//   - NodeDrain: 15 minutes,
//     https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
//   - NodegroupDrain: 5 minutes,
//     https://docs.aws.amazon.com/eks/latest/userguide/delete-managed-node-group.html
//   - NodegroupTimeout: users report 21 to 25 minutes,
//     https://github.com/hashicorp/terraform-provider-aws/issues/29416
//   - AddonRollout, AddonStuck: an update whose pods cannot be scheduled is InProgress
//     after 20 minutes, https://github.com/aws/containers-roadmap/issues/2242
//   - SpotWarning: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
//   - NodeRepair: https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html
//
// The others are what users see, from memory.
func AWS() Timing {
	return Timing{
		Name:                         "aws",
		ClusterCreating:              9 * time.Minute,
		ClusterDeleting:              3 * time.Minute,
		NodegroupCreating:            90 * time.Second,
		NodegroupTimeout:             24 * time.Minute,
		NodegroupUnhealthy:           10 * time.Minute,
		NodeRepair:                   30 * time.Minute,
		NodeDrain:                    15 * time.Minute,
		NodegroupDrain:               5 * time.Minute,
		AddonApplying:                20 * time.Second,
		AddonUnhealthy:               5 * time.Minute,
		StackDeleting:                10 * time.Second,
		AddonRollout:                 30 * time.Minute,
		AddonStuck:                   30 * time.Minute,
		ClusterUpdating:              3 * time.Minute,
		ClusterPlatform:              35 * 24 * time.Hour, // https://docs.aws.amazon.com/eks/latest/userguide/platform-versions.html
		ClusterKeyPause:              30 * time.Second,
		FargateProfileCreating:       90 * time.Second,
		FargateProfileDeleting:       2 * time.Minute,
		FargateProfileTimeout:        10 * time.Minute,
		InstancePending:              15 * time.Second,
		InstanceBoot:                 20 * time.Second,
		PodStart:                     4 * time.Second,
		GuestPatience:                1,
		HealthCheckPatience:          1,
		GuestDial:                    5 * time.Second, // programs wait 30 s and more, and do nothing else in that time
		InstanceShuttingDown:         30 * time.Second,
		InstanceTerminatedVisible:    time.Hour,
		NATGatewayPending:            90 * time.Second,
		NATGatewayDeleting:           45 * time.Second,
		NATGatewayDeletedVisible:     time.Hour,
		TransitGatewayPending:        2 * time.Minute,
		TransitGatewayDeleting:       90 * time.Second,
		TransitGatewayDeletedVisible: time.Hour,
		EndpointPending:              45 * time.Second,
		EndpointDeleting:             30 * time.Second,
		LoadBalancerProvisioning:     2 * time.Minute,
		PeeringOverVisible:           2 * time.Hour,
		QueuePause:                   time.Minute,
		SpotWarning:                  2 * time.Minute,
		FargateNotice:                3 * 24 * time.Hour, // https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-patching.html has an example
	}
}
