package autoscaling

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
)

// An upkeep has the settings in a request that say when and how instances are replaced.
type upkeep struct {
	lifetime     *int32
	maintenance  *autoscalingtypes.InstanceMaintenancePolicy
	distribution *autoscalingtypes.AvailabilityZoneDistribution
	impairment   *autoscalingtypes.AvailabilityZoneImpairmentPolicy
}

// setUpkeep validates the settings that a request has and applies them.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_CreateAutoScalingGroup.html
func setUpkeep(g *autoscalingtypes.AutoScalingGroup, u upkeep) error {
	if n := u.lifetime; n != nil {
		if *n != 0 && (*n < 86400 || *n > 31536000) {
			return errLifetime()
		}
		if g.MaxInstanceLifetime = n; *n == 0 {
			g.MaxInstanceLifetime = nil
		}
	}
	if p := u.maintenance; p != nil {
		lo, hi := aws.ToInt32(p.MinHealthyPercentage), aws.ToInt32(p.MaxHealthyPercentage)
		switch {
		case p.MinHealthyPercentage == nil && p.MaxHealthyPercentage == nil: // nothing to change
		case p.MinHealthyPercentage == nil || p.MaxHealthyPercentage == nil || (lo == -1) != (hi == -1):
			return errMaintenancePair()
		case lo == -1:
			g.InstanceMaintenancePolicy = nil
		case lo < 0 || lo > 100 || hi < 100 || hi > 200 || hi-lo > 100:
			return errMaintenanceRange()
		default:
			g.InstanceMaintenancePolicy = p
		}
	}
	if d := u.distribution; d != nil && d.CapacityDistributionStrategy != "" {
		g.AvailabilityZoneDistribution = d
	}
	if p := u.impairment; p != nil {
		if aws.ToBool(p.ZonalShiftEnabled) && p.ImpairedZoneHealthCheckBehavior == "" {
			return errImpairment()
		}
		g.AvailabilityZoneImpairmentPolicy = p
	}
	return nil
}

// balancedOnly reports whether instances are launched in no other zone if a launch fails.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-availability-zone-balanced.html
func (g *groupRecord) balancedOnly() bool {
	d := g.Group.AvailabilityZoneDistribution
	return d != nil && d.CapacityDistributionStrategy == autoscalingtypes.CapacityDistributionStrategyBalancedOnly
}

// launchesFirst reports whether the maintenance policy has replacements in service before an
// unhealthy instance is terminated.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-instance-maintenance-policy.html
func (g *groupRecord) launchesFirst() bool {
	p := g.Group.InstanceMaintenancePolicy
	return p != nil && *p.MinHealthyPercentage == 100 && *p.MaxHealthyPercentage > 100 && !g.Deleting
}

// What an activity says about an instance that was replaced, and about its replacement. unhealthyCause
// stands for the health check that failed.
const (
	unhealthyCause = "a failed health check"
	lifetimeCause  = "the maximum instance lifetime of the group"                                                            // from memory
	lifetimeOwed   = "an instance was launched in response to an instance that reached the maximum lifetime being replaced." // from memory
)

// failedCheck returns the cause for terminating an unhealthy instance.
func (m *memberRecord) failedCheck() string {
	switch {
	case m.ByUser:
		return healthUser
	case m.ByBalancer:
		return healthELB
	}
	return healthEC2
}

// dueFor returns why an instance in service is to be replaced, or "".
func (w *work) dueFor(m *memberRecord) string {
	switch {
	case m.State != autoscalingtypes.LifecycleStateInService:
	case m.Unhealthy && w.g.launchesFirst() && w.g.runs("ReplaceUnhealthy"):
		return unhealthyCause
	case w.g.Group.MaxInstanceLifetime != nil && !m.Protected && w.left(m) <= 0:
		return lifetimeCause
	}
	return ""
}

// left returns how much of its maximum lifetime an instance has left.
func (w *work) left(m *memberRecord) time.Duration {
	return time.Duration(*w.g.Group.MaxInstanceLifetime)*time.Second - w.s.now().Sub(m.InService)
}

// turnover replaces instances that are unhealthy or have reached their maximum lifetime, in a group
// that has as many instances as it wants. busy means that it did something or waits for instances.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/asg-max-instance-lifetime.html
func (w *work) turnover(ctx context.Context, all []memberRecord, c count) (busy bool, again time.Duration, err error) {
	due := map[string][]memberRecord{}
	healthy := 0
	for _, m := range all {
		cause := w.dueFor(&m)
		if cause != "" {
			due[cause] = append(due[cause], m)
		} else if w.g.Group.MaxInstanceLifetime != nil && m.State == autoscalingtypes.LifecycleStateInService && !m.Protected {
			again = earlier(again, w.left(&m))
		}
		if m.State == autoscalingtypes.LifecycleStateInService {
			healthy += w.g.weight(&m)
		}
	}
	cause, owed := unhealthyCause, unhealthyOwed
	if len(due[cause]) == 0 {
		cause, owed = lifetimeCause, lifetimeOwed
	}
	if len(due[cause]) == 0 || c.moving {
		return len(due[cause]) > 0, again, nil
	}
	if wait := w.g.RetryAt.Sub(w.s.now()); wait > 0 {
		return true, wait, nil
	}
	floor, ceiling := int32(90), int32(100)
	if p := w.g.Group.InstanceMaintenancePolicy; p != nil {
		floor, ceiling = *p.MinHealthyPercentage, *p.MaxHealthyPercentage
	}
	return true, again, w.exchange(ctx, all, due[cause], healthy, floor, ceiling, owed, cause)
}

// outOfService returns the sentence about an instance that is taken out of service for a cause.
func outOfService(cause string, m *memberRecord) string {
	if cause == unhealthyCause {
		return m.failedCheck()
	}
	return "an instance was taken out of service in response to " + strings.TrimSuffix(cause, ".") + "."
}
