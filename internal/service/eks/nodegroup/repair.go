package nodegroup

import (
	"slices"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

// checkNodeRepair checks the configuration of node auto repair.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_NodeRepairConfig.html
func checkNodeRepair(cluster, ng string, in *ekstypes.NodeRepairConfig) error {
	if in == nil {
		return nil
	}
	switch {
	case in.MaxParallelNodesRepairedCount != nil && in.MaxParallelNodesRepairedPercentage != nil:
		return errNodeRepair(cluster, ng, "only one of maxParallelNodesRepairedCount and maxParallelNodesRepairedPercentage can be specified")
	case in.MaxUnhealthyNodeThresholdCount != nil && in.MaxUnhealthyNodeThresholdPercentage != nil:
		return errNodeRepair(cluster, ng, "only one of maxUnhealthyNodeThresholdCount and maxUnhealthyNodeThresholdPercentage can be specified")
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
	return nil
}

// repair ends instances whose nodes have been gone or NotReady for long, where the
// group's node auto repair is on; the Auto Scaling group replaces them. It stops when
// too many are unhealthy: then something else is wrong.
// https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html
func (w *work) repair(asg *scalingGroup, unready []member) error {
	c := w.g.Nodegroup.NodeRepairConfig
	if c == nil || c.Enabled == nil || !*c.Enabled {
		return nil
	}
	sick := w.missingFor(unready, w.s.Timing.NodeRepair)
	if n := repairable(c, len(asg.staying), len(unready)) - len(asg.leaving); n > 0 {
		slices.SortFunc(sick, func(a, b member) int { return w.g.Missing[a.id].Compare(w.g.Missing[b.id]) })
		for _, m := range sick[:min(n, len(sick))] {
			if err := w.terminate(m.id, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// repairable is how many of a group's unhealthy nodes may be repaired at once. Where
// nothing is said, repair stops in groups of more than five nodes of which more than
// 20 % are unhealthy. // from memory
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
