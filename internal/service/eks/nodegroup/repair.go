package nodegroup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// Node auto repair: https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html

// repairAfter is after how many minutes EKS repairs a node that has a condition. A node without the Ready condition is
// NotReady; the other conditions are set by the node monitoring agent.
func repairAfter() map[corev1.NodeConditionType]int32 {
	return map[corev1.NodeConditionType]int32{
		corev1.NodeReady: readyMinutes, "AcceleratedHardwareReady": 10, "ContainerRuntimeReady": 30, "KernelReady": 30, "NetworkingReady": 30, "StorageReady": 30,
	}
}

// readyMinutes is what Timing.NodeRepair stands for. Other waits are scaled like it.
const readyMinutes = 30

// longestMinutes, two years, keeps the arithmetic of times in range.
const longestMinutes = 1 << 20

// checkNodeRepair checks a node auto repair configuration.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_NodeRepairConfig.html
func checkNodeRepair(cluster, ng string, in *ekstypes.NodeRepairConfig) error {
	if in == nil {
		return nil
	}
	if in.MaxParallelNodesRepairedCount != nil && in.MaxParallelNodesRepairedPercentage != nil ||
		in.MaxUnhealthyNodeThresholdCount != nil && in.MaxUnhealthyNodeThresholdPercentage != nil {
		return errNodeRepairBoth(cluster, ng)
	}
	for name, n := range map[string]*int32{"maxParallelNodesRepairedCount": in.MaxParallelNodesRepairedCount, "maxUnhealthyNodeThresholdCount": in.MaxUnhealthyNodeThresholdCount} {
		if n != nil && *n < 1 {
			return errNodeRepair(cluster, ng, name+" must be at least 1")
		}
	}
	for name, n := range map[string]*int32{"maxParallelNodesRepairedPercentage": in.MaxParallelNodesRepairedPercentage, "maxUnhealthyNodeThresholdPercentage": in.MaxUnhealthyNodeThresholdPercentage} {
		if n != nil && (*n < 1 || *n > 100) {
			return errNodeRepair(cluster, ng, name+" must be between 1 and 100")
		}
	}
	if len(in.NodeRepairConfigOverrides) > maxRepairOverrides {
		return errNodeRepair(cluster, ng, fmt.Sprintf("at most %d nodeRepairConfigOverrides can be specified", maxRepairOverrides))
	}
	for _, o := range in.NodeRepairConfigOverrides {
		switch {
		case aws.ToString(o.NodeMonitoringCondition) == "" || aws.ToString(o.NodeUnhealthyReason) == "" || o.MinRepairWaitTimeMins == nil || o.RepairAction == "":
			return errNodeRepair(cluster, ng, "nodeRepairConfigOverrides must specify nodeMonitoringCondition, nodeUnhealthyReason, minRepairWaitTimeMins and repairAction")
		case *o.MinRepairWaitTimeMins < 1:
			return errNodeRepair(cluster, ng, "minRepairWaitTimeMins must be at least 1")
		case !slices.Contains(o.RepairAction.Values(), o.RepairAction):
			return errNodeRepair(cluster, ng, "invalid repairAction "+string(o.RepairAction))
		}
	}
	return nil
}

// maxRepairOverrides bounds the overrides of a node group. AWS's limit is not documented.
const maxRepairOverrides = 100

// A repair is what EKS does about an unhealthy node, and when.
type repair struct {
	member
	action ekstypes.RepairAction
	due    time.Time
}

// repair replaces or reboots the instances of unhealthy nodes, if node auto repair is on. The Auto Scaling group replaces
// an instance that is terminated. It stops if too many nodes are unhealthy, because then something else is wrong, and
// during a zonal shift.
func (w *work) repair(ctx context.Context, nodes *plane.Nodes, asg *scalingGroup) error {
	c := w.g.Nodegroup.NodeRepairConfig
	if c == nil || !aws.ToBool(c.Enabled) || w.shift() != nil {
		return nil
	}
	now := w.s.Clock.Now().UTC()
	var repairs []repair
	unhealthy, rebooted := 0, map[string]time.Time{}
	for _, m := range asg.staying {
		if slices.Contains(asg.joining, m) {
			continue
		}
		sick, due := w.diagnose(m, nodes.OfInstance(m.id), now)
		if !sick {
			continue
		}
		unhealthy++
		if at, ok := w.g.Rebooted[m.id]; ok {
			rebooted[m.id] = at
		}
		if due != nil {
			repairs = append(repairs, *due)
		}
	}
	slices.SortFunc(repairs, func(a, b repair) int { return a.due.Compare(b.due) })
	n := max(repairable(c, len(asg.staying), unhealthy)-len(asg.leaving), 0)
	for _, r := range repairs[:min(n, len(repairs))] {
		if r.action == ekstypes.RepairActionReplace {
			if err := w.terminate(r.id, false); err != nil {
				return err
			}
			continue
		}
		_, err := w.s.Instances.RebootInstances(w.svc, &awsec2.RebootInstancesInput{InstanceIds: []string{r.id}})
		if err != nil {
			return fmt.Errorf("rebooting %s: %w", r.id, err)
		}
		rebooted[r.id] = now
	}
	if maps.Equal(rebooted, w.g.Rebooted) {
		return nil
	}
	return w.change(ctx, func(g *record.Nodegroup) { g.Rebooted = rebooted })
}

// diagnose reports whether a member's node is unhealthy, and the repair that is due, if any. Of several, a repair that
// replaces the instance comes before a reboot.
func (w *work) diagnose(m member, n *corev1.Node, now time.Time) (sick bool, first *repair) {
	consider := func(kind corev1.NodeConditionType, reason string, since time.Time) {
		action, minutes := ekstypes.RepairActionReplace, repairAfter()[kind]
		for _, o := range w.g.Nodegroup.NodeRepairConfig.NodeRepairConfigOverrides {
			if *o.NodeMonitoringCondition == string(kind) && *o.NodeUnhealthyReason == reason {
				action, minutes = o.RepairAction, *o.MinRepairWaitTimeMins
			}
		}
		if at := w.g.Rebooted[m.id]; action == ekstypes.RepairActionReboot && at.After(since) {
			since = at // the reboot did not help: wait as long for the next one
		}
		due := since.Add(time.Duration(min(minutes, longestMinutes)) * w.s.Timing.NodeRepair / readyMinutes)
		switch {
		case action == ekstypes.RepairActionNoAction, now.Before(due):
		case first == nil, action == ekstypes.RepairActionReplace && first.action != action, action == first.action && due.Before(first.due):
			first = &repair{m, action, due}
		}
	}
	missing, known := w.g.Missing[m.id]
	if n == nil {
		if known {
			consider(corev1.NodeReady, "", missing)
		}
		return true, first
	}
	for _, c := range n.Status.Conditions {
		switch _, repaired := repairAfter()[c.Type]; {
		case !repaired || c.Status == corev1.ConditionTrue:
		case c.Type == corev1.NodeReady:
			sick = true
			if known {
				consider(c.Type, c.Reason, missing)
			}
		case c.Status == corev1.ConditionFalse:
			sick = true
			consider(c.Type, c.Reason, c.LastTransitionTime.Time)
		}
	}
	return sick, first
}

// repairable is how many of a group's unhealthy nodes may be repaired at once. By default, repair
// stops in groups of more than five nodes if more than 20 % are unhealthy. // from memory
func repairable(c *ekstypes.NodeRepairConfig, nodes, unhealthy int) int {
	share := func(percent int32) int { return max(1, nodes*int(percent)/100) }
	switch {
	case c.MaxUnhealthyNodeThresholdCount != nil:
		if unhealthy > int(*c.MaxUnhealthyNodeThresholdCount) {
			return 0
		}
	case c.MaxUnhealthyNodeThresholdPercentage != nil:
		if unhealthy*100 > nodes*int(*c.MaxUnhealthyNodeThresholdPercentage) {
			return 0
		}
	case nodes > 5 && unhealthy*100 > nodes*20:
		return 0
	}
	switch {
	case c.MaxParallelNodesRepairedCount != nil:
		return int(*c.MaxParallelNodesRepairedCount)
	case c.MaxParallelNodesRepairedPercentage != nil:
		return share(*c.MaxParallelNodesRepairedPercentage)
	}
	return nodes
}
