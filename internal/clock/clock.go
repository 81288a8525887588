// Package clock holds the one table of how long Drydock's AWS takes over things.
//
// Everything that waits for an AWS-like duration reads it here, so that
// `drydock up --timing` has one meaning. The clock itself is
// k8s.io/utils/clock, which tests replace.
package clock

import "time"

// Timing is how long states last. Zero means: as quickly as they are true.
type Timing struct {
	Name string // fast or aws
	// ClusterCreating is the least time a cluster stays CREATING.
	ClusterCreating time.Duration
	// ClusterDeleting is the least time a cluster stays DELETING.
	ClusterDeleting time.Duration
	// NodegroupCreating is the least time a node group stays CREATING.
	NodegroupCreating time.Duration
	// NodegroupTimeout is after how long a node group whose nodes did not join
	// becomes CREATE_FAILED.
	NodegroupTimeout time.Duration
	// ClusterUpdating is the least time an update of a cluster stays InProgress.
	ClusterUpdating time.Duration
	// InstancePending is how long an instance boots.
	InstancePending time.Duration
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
	// EndpointPending is how long an interface endpoint or an Instance Connect
	// endpoint takes to be made.
	EndpointPending time.Duration
	// EndpointDeleting is how long either takes to be deleted.
	EndpointDeleting time.Duration
	// PeeringOverVisible is how long a peering connection that was deleted,
	// rejected, failed or expired is still described.
	PeeringOverVisible time.Duration
}

// Fast passes through states as quickly as they are true.
func Fast() Timing {
	return Timing{
		Name:                      "fast",
		NodegroupTimeout:          2 * time.Minute,
		InstanceTerminatedVisible: time.Hour,
		NATGatewayDeletedVisible:  time.Hour,
		PeeringOverVisible:        2 * time.Hour,
	}
}

// AWS has durations like those seen on AWS.
func AWS() Timing {
	return Timing{
		Name:                      "aws",
		ClusterCreating:           9 * time.Minute,
		ClusterDeleting:           3 * time.Minute,
		NodegroupCreating:         90 * time.Second,
		NodegroupTimeout:          25 * time.Minute,
		ClusterUpdating:           3 * time.Minute,
		InstancePending:           15 * time.Second,
		InstanceShuttingDown:      30 * time.Second,
		InstanceTerminatedVisible: time.Hour,
		NATGatewayPending:         90 * time.Second,
		NATGatewayDeleting:        45 * time.Second,
		NATGatewayDeletedVisible:  time.Hour,
		EndpointPending:           45 * time.Second,
		EndpointDeleting:          30 * time.Second,
		PeeringOverVisible:        2 * time.Hour,
	}
}
