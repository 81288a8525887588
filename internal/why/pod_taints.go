package why

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/internal/advice"
)

// ofFargate reports whether a node belongs to a single Fargate pod.
func ofFargate(n *corev1.Node) bool { return n.Labels["eks.amazonaws.com/compute-type"] == "fargate" }

// allowedBy reports whether the pod's node selector and required affinity allow a node.
func (c *podChain) allowedBy(n *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(c.pod).Match(n)
	return err == nil && ok
}

// repelledBy returns the taint that keeps the pod from a node, or nil. If key is not empty, the taint must have that
// key.
func (c *podChain) repelledBy(n *corev1.Node, key string) *corev1.Taint {
	return untolerated(n, c.pod.Spec.Tolerations, key)
}

func untolerated(n *corev1.Node, tolerations []corev1.Toleration, key string) *corev1.Taint {
	taint, found := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), n.Spec.Taints, tolerations, func(t *corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && (key == "" || t.Key == key)
	}, false)
	if !found {
		return nil
	}
	return &taint
}

// tainted finds the node that a taint keeps the pod from. It prefers nodes that the pod's affinity allows, and EC2's
// nodes to Fargate's. Newer schedulers do not name the taint: then key is empty.
func (c *podChain) tainted(key string) (*corev1.Node, corev1.Taint) {
	var best *corev1.Node
	var taint corev1.Taint
	rank := -1
	for i := range c.facts.Nodes {
		n := &c.facts.Nodes[i]
		t := c.repelledBy(n, key)
		if t == nil {
			continue
		}
		r := 0
		if c.allowedBy(n) {
			r += 2
		}
		if !ofFargate(n) {
			r++
		}
		if r > rank {
			best, taint, rank = n, *t, r
		}
	}
	return best, taint
}

// taintedBy explains which taint the scheduler refers to, and returns fixes.
func (c *podChain) taintedBy(reason string) (text string, fixes []advice.Fix) {
	_, named, _ := strings.Cut(reason, "{")
	key, _, _ := strings.Cut(named, ": ")
	n, t := c.tainted(key)
	switch {
	case n == nil:
		return reason, nil
	case t.Key == "eks.amazonaws.com/compute-type" && t.Value == "fargate":
		return reason + ": a Fargate node runs only the pod it was created for", c.moreNodes()
	case !c.allowedBy(n): // the pod would not go there even without the taint
		return reason + ": " + n.Name + " for one", nil
	case strings.HasPrefix(t.Key, "node.kubernetes.io/"), strings.HasPrefix(t.Key, "node.cloudprovider.kubernetes.io/"):
		return reason + ": " + n.Name + " for one", oneSketch("look at what the node lacks", "drydock why node "+n.Name)
	}
	wanted := tolerationOf(&t)
	if patch := c.toleration(wanted); patch != "" {
		fixes = advice.Try(c.onNodes(func(pod *corev1.Pod, _ []corev1.Node) { pod.Spec.Tolerations = append(pod.Spec.Tolerations, wanted) }),
			[]advice.Change{{Kind: advice.PatchObject, Resource: c.maker(), Value: "toleration of " + t.ToString()}}, patch)
	}
	return fmt.Sprintf("%s: %s has %s", reason, n.Name, t.ToString()), append(fixes, advice.Try(c.nodeNamed(n.Name, func(n *corev1.Node) {
		n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(o corev1.Taint) bool { return o.Key == t.Key })
	}), []advice.Change{{Kind: advice.RemoveTaint, Resource: "node/" + n.Name, Value: t.Key}}, "kubectl taint nodes "+n.Name+" "+t.Key+"-")...)
}

// tolerationOf returns the toleration of a taint.
func tolerationOf(t *corev1.Taint) corev1.Toleration {
	out := corev1.Toleration{Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect}
	if t.Value == "" {
		out.Operator = corev1.TolerationOpExists
	}
	return out
}

// toleration returns the command that gives the pod a toleration, or "" if the pod's owner cannot be changed.
func (c *podChain) toleration(wanted corev1.Toleration) string {
	maker := c.maker()
	kind, _, _ := strings.Cut(maker, "/")
	path, tolerations := "/spec/template/spec/tolerations", slices.Clone(c.pod.Spec.Tolerations)
	switch kind {
	case "pod":
		path = "/spec/tolerations"
	case "deployment", "replicaset", "statefulset", "daemonset":
		tolerations = slices.DeleteFunc(tolerations, func(t corev1.Toleration) bool { return t.TolerationSeconds != nil }) // added by admission
	default:
		return ""
	}
	patch, err := json.Marshal([]map[string]any{{"op": "add", "path": path, "value": append(tolerations, wanted)}})
	if err != nil {
		return ""
	}
	return "kubectl patch " + maker + " --namespace " + c.pod.Namespace + " --type json -p '" + string(patch) + "'"
}

// selected explains which nodes the pod selects, and how to get one.
func (c *podChain) selected(reason string) (text string, fixes []advice.Fix) {
	var wanted []string
	for k, v := range c.pod.Spec.NodeSelector {
		wanted = append(wanted, k+"="+v)
	}
	slices.Sort(wanted)
	if len(wanted) == 0 {
		return reason + ": no node matches the pod's node affinity", nil
	}
	text = reason + ": the pod wants nodes with " + strings.Join(wanted, ", ")
	// Other pods may select the current value of a label.
	taken := func(n *corev1.Node) bool {
		for k, v := range c.pod.Spec.NodeSelector {
			if has, ok := n.Labels[k]; ok && has != v {
				return true
			}
		}
		return false
	}
	rank := func(n *corev1.Node) (r int) {
		if c.repelledBy(n, "") != nil {
			r++
		}
		if taken(n) {
			r += 2
		}
		return r
	}
	var other *corev1.Node // preferably one that only lacks the labels
	for i := range c.facts.Nodes {
		switch n := &c.facts.Nodes[i]; {
		case c.allowedBy(n):
			return text, nil // such nodes exist, and something else keeps the pod from them
		case ofFargate(n):
		case other == nil || rank(n) < rank(other):
			other = n
		}
	}
	switch group := c.pod.Spec.NodeSelector["eks.amazonaws.com/nodegroup"]; {
	case group != "":
		return text, oneSketch("look at what the node group lacks", "drydock why nodegroup "+group+" --cluster "+c.facts.Cluster)
	case other != nil && taken(other):
		return text, oneSketch("set NODE to a node whose labels may change (kubectl get nodes --show-labels): every one has another value, which other pods may select",
			"kubectl label node $NODE --overwrite "+strings.Join(wanted, " "))
	case other != nil:
		return text, advice.Try(c.nodeNamed(other.Name, func(n *corev1.Node) {
			n.Labels = labels.Merge(n.Labels, c.pod.Spec.NodeSelector)
		}), []advice.Change{{Kind: advice.PatchObject, Resource: "node/" + other.Name, Value: strings.Join(wanted, ",")}}, "kubectl label node "+other.Name+" "+strings.Join(wanted, " "))
	}
	return text, c.moreNodes()
}
