package why

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/node"
)

// unscheduled explains, from the scheduler's message, why no node was found for the pod.
func (c *podChain) unscheduled() {
	var message string
	for _, cond := range c.pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse {
			message = cond.Message
		}
	}
	if message == "" {
		if e := c.lastEvent("FailedScheduling"); e != nil {
			message = e.Message
		}
	}
	if c.unbound(message) {
		return
	}
	if message == "" {
		if len(c.pod.Spec.SchedulingGates) > 0 {
			c.fail(podScheduling, "scheduling gate "+c.pod.Spec.SchedulingGates[0].Name, &api.Reason{By: node.ByKubernetes, Code: "SchedulingGated", Component: c.pod.Spec.SchedulingGates[0].Name, Text: "the controller that set the gate must remove it"})
			return
		}
		c.Steps = append(c.Steps, api.Step{Name: podScheduling, State: api.StepPending, Evidence: "the scheduler " + c.pod.Spec.SchedulerName + " has not reported anything yet"})
		return
	}
	reasons := schedulerReasons(message)
	why := &api.Reason{By: node.ByKubernetes, Code: "Unschedulable", Component: c.pod.Spec.SchedulerName}
	var lines []string
	for _, r := range reasons {
		text, fixes := c.schedulerReason(r)
		lines = append(lines, text)
		for _, f := range fixes {
			if !slices.ContainsFunc(why.Fixes, func(o advice.Fix) bool { return o.Shell() == f.Shell() }) {
				why.Fixes = append(why.Fixes, f)
			}
		}
	}
	if e := c.lastEventOf("FailedScheduling", "karpenter"); e != nil {
		lines = append(lines, "Karpenter launches no node for it: "+e.Message+" (drydock why cluster "+c.facts.Cluster+" says which node pools are not ready)")
	}
	why.Text = strings.Join(lines, "\n")
	c.fail(podScheduling, message, why)
}

// schedulerReasons parses the reasons in the scheduler's sentence: "0/3 nodes are available: 1 Insufficient cpu, 2
// node(s) had untolerated taint {a: b}. preemption: …"
func schedulerReasons(message string) []string {
	_, list, ok := strings.Cut(message, "nodes are available: ")
	if !ok {
		return []string{message}
	}
	for _, end := range []string{". preemption:", ". no new claims"} {
		list, _, _ = strings.Cut(list, end)
	}
	list = strings.TrimSuffix(strings.TrimSpace(list), ".")
	var out []string
	depth, from := 0, 0
	for i := range len(list) {
		switch list[i] {
		case '{', '(':
			depth++
		case '}', ')':
			depth = max(0, depth-1)
		case ',':
			if depth == 0 {
				out = append(out, strings.TrimSpace(list[from:i]))
				from = i + 1
			}
		}
	}
	return append(out, strings.TrimSpace(list[from:]))
}

// schedulerReason explains a reason with the actual and required values, and returns fixes.
func (c *podChain) schedulerReason(reason string) (text string, fixes []advice.Fix) {
	switch {
	case strings.Contains(reason, "no nodes available"):
		return "the cluster has no nodes (drydock why cluster " + c.facts.Cluster + " looks at machines that did not join)", c.moreNodes()
	case strings.Contains(reason, "Insufficient ") || strings.Contains(reason, "Too many pods"):
		largest := c.largest()
		if largest == nil {
			return reason, c.moreNodes()
		}
		sum, has := c.requests(), largest.Status.Allocatable
		text = fmt.Sprintf("%s: the pod wants %s; %s has cpu %s, memory %s, %s pods for all of its pods", reason, wants(sum), largest.Name, has.Cpu(), has.Memory(), has.Pods())
		for name, wanted := range sum {
			if room, ok := has[name]; !ok || wanted.Cmp(room) > 0 { // another node of the same kind does not help
				return text, []advice.Fix{
					advice.Sketch("set CPU and MEMORY to less than "+largest.Name+" has, which runs other pods as well",
						"kubectl set resources "+c.maker()+" --requests=cpu=$CPU,memory=$MEMORY --namespace "+c.pod.Namespace),
					c.newNodegroup("TYPE to an instance type that is large enough", " --instance-types $TYPE"),
				}
			}
		}
		return text, c.moreNodes()
	case strings.Contains(reason, "untolerated taint"):
		return c.taintedBy(reason)
	case strings.Contains(reason, "node affinity/selector"):
		return c.selected(reason)
	case strings.Contains(reason, "were unschedulable"):
		for i := range c.facts.Nodes {
			if n := &c.facts.Nodes[i]; n.Spec.Unschedulable {
				return reason + ": " + n.Name + " is cordoned", advice.Try(c.nodeNamed(n.Name, func(n *corev1.Node) { n.Spec.Unschedulable = false }),
					[]advice.Change{{Kind: advice.PatchObject, Resource: "node/" + n.Name, Value: "schedulable"}}, "kubectl uncordon "+n.Name)
			}
		}
	case strings.Contains(reason, "PersistentVolumeClaim") || strings.Contains(reason, "persistentvolumeclaim"):
		return reason, []advice.Fix{advice.Sketch("see what the claims wait for", "kubectl describe persistentvolumeclaims --namespace "+c.pod.Namespace)}
	}
	return reason, nil
}

// requests returns what the pod's containers request together.
func (c *podChain) requests() corev1.ResourceList {
	sum := corev1.ResourceList{}
	for i := range c.pod.Spec.Containers {
		for name, q := range c.pod.Spec.Containers[i].Resources.Requests {
			total := sum[name]
			total.Add(q)
			sum[name] = total
		}
	}
	return sum
}

func wants(sum corev1.ResourceList) string {
	var out []string
	for name, q := range sum {
		out = append(out, string(name)+" "+q.String())
	}
	slices.Sort(out)
	return strings.Join(append(out, "1 pod"), ", ")
}

// largest returns the node with the most CPU, or nil.
func (c *podChain) largest() *corev1.Node {
	var best *corev1.Node
	for i := range c.facts.Nodes {
		if n := &c.facts.Nodes[i]; best == nil || n.Status.Allocatable.Cpu().Cmp(*best.Status.Allocatable.Cpu()) > 0 {
			best = n
		}
	}
	return best
}

func (c *podChain) newNodegroup(more, flags string) advice.Fix {
	at, text := " --region "+c.facts.Region, "set NODE_ROLE to the ARN of a role for nodes (aws iam list-roles --query 'Roles[].Arn')"
	if more != "" {
		text += ", and " + more
	}
	return advice.Sketch(text, "aws eks create-nodegroup --cluster-name "+c.facts.Cluster+" --nodegroup-name workers --node-role $NODE_ROLE --subnets $(aws eks describe-cluster --name "+
		c.facts.Cluster+" --query cluster.resourcesVpcConfig.subnetIds --output text"+at+")"+flags+at)
}

// moreNodes returns commands that add nodes: a larger managed group, or a first one.
func (c *podChain) moreNodes() []advice.Fix {
	groups := map[string]int{}
	nodes := c.facts.Nodes
	if c.facts.Node != nil {
		nodes = append(nodes, *c.facts.Node)
	}
	for i := range nodes {
		if g := nodes[i].Labels["eks.amazonaws.com/nodegroup"]; g != "" {
			groups[g]++
		}
	}
	name := ""
	for g := range groups {
		if name == "" || groups[g] > groups[name] || groups[g] == groups[name] && g < name {
			name = g
		}
	}
	if name == "" {
		if c.toFargate != nil {
			return []advice.Fix{*c.toFargate, c.newNodegroup("", "")}
		}
		return []advice.Fix{c.newNodegroup("", "")}
	}
	return c.larger(name, slices.DeleteFunc(nodes, func(n corev1.Node) bool { return n.Labels["eks.amazonaws.com/nodegroup"] != name }))
}

// larger returns the fix that adds a node to a managed group that has the given nodes, and that raises the quota of its
// instances if necessary. If the quota keeps the group from launching the nodes that it already wants, raising the
// quota is enough. The pod has to fit on a new node in any zone of the group.
func (c *podChain) larger(name string, has []corev1.Node) []advice.Fix {
	account, region := c.facts.Account, c.facts.Region
	ctx := awsapi.WithCall(context.Background(), &awsapi.Call{Account: account, Region: region, Service: "eks"})
	update := func(most, desired int) string {
		return fmt.Sprintf("aws eks update-nodegroup-config --cluster-name %s --nodegroup-name %s --scaling-config maxSize=%d,desiredSize=%d --region %s", c.facts.Cluster, name, most, desired, region)
	}
	out, err := c.x.cfg.EKS.DescribeNodegroup(ctx, &awseks.DescribeNodegroupInput{ClusterName: &c.facts.Cluster, NodegroupName: &name})
	if err != nil || out.Nodegroup.ScalingConfig == nil {
		return oneSketch("the node group of these nodes is not known to EKS; give it one more, or another one", update(len(has)+1, len(has)+1))
	}
	g := out.Nodegroup
	most, wanted := int(aws.ToInt32(g.ScalingConfig.MaxSize)), int(aws.ToInt32(g.ScalingConfig.DesiredSize))
	judge := func(changes []advice.Change) error {
		desired := wanted
		for _, c := range changes {
			if n, err := strconv.Atoi(c.Value); c.Kind == advice.ScaleNodegroup && err == nil {
				desired = n
			}
		}
		if need, known := c.x.vcpus(ctx, account, region, g, desired); known {
			if err := need.fits(changes); err != nil {
				return err
			}
		}
		if err := c.x.mayLaunch(account, region, g); err != nil {
			return err
		}
		if len(g.Subnets) > 1 && len(c.facts.Volumes) > 0 {
			return errors.New("the new node may be in another zone than the pod's volume")
		}
		return c.onAnother(&has[0])
	}
	need, known := c.x.vcpus(ctx, account, region, g, wanted)
	if known {
		if changes, commands := need.raise(region); len(changes) > 0 {
			return advice.Try(judge, changes, commands...)
		}
	}
	var changes []advice.Change
	var commands []string
	if need.missing++; known {
		changes, commands = need.raise(region)
	}
	wanted++
	return advice.Try(judge, append(changes, advice.Change{Kind: advice.ScaleNodegroup, Resource: name, Value: strconv.Itoa(wanted)}), append(commands, update(max(most, wanted), wanted))...)
}
