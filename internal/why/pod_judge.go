package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	volumehelper "k8s.io/component-helpers/storage/volume"
	"k8s.io/klog/v2"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// This file has the judges of changes to pods and nodes. The scheduler itself runs in the control plane's child
// process; here Kubernetes' own helpers apply its filters:
// https://kubernetes.io/docs/reference/scheduling/config/#scheduling-plugins

// schedulable returns why none of the nodes would take a pod, or nil.
func (c *podChain) schedulable(pod *corev1.Pod, nodes []corev1.Node) error {
	if err := unjudged(&pod.Spec); err != nil {
		return err
	}
	err := errors.New("the cluster has no nodes")
	for i := range nodes {
		if err = c.admits(pod, &nodes[i]); err == nil {
			return nil
		}
	}
	return err
}

// unjudged returns an error for a pod with rules that cannot be tried on a copy.
func unjudged(spec *corev1.PodSpec) error {
	rules := ""
	if a := spec.Affinity; a != nil && (a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0) {
		rules = "affinity to other pods"
	}
	for _, s := range spec.TopologySpreadConstraints {
		if s.WhenUnsatisfiable == corev1.DoNotSchedule {
			rules = "topologySpreadConstraints"
		}
	}
	if len(spec.ResourceClaims) > 0 {
		rules = "resourceClaims"
	}
	if rules == "" {
		return nil
	}
	return fmt.Errorf("whether its %s are kept cannot be tried", rules)
}

// admits returns why the scheduler would not put a pod on a node, or nil.
func (c *podChain) admits(pod *corev1.Pod, n *corev1.Node) error {
	spec := &pod.Spec
	if n.Spec.Unschedulable && !corev1helpers.TolerationsTolerateTaint(klog.Background(), spec.Tolerations, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, false) {
		return fmt.Errorf("%s is cordoned", n.Name)
	}
	if t := untolerated(n, spec.Tolerations, ""); t != nil {
		return fmt.Errorf("%s has the taint %s", n.Name, t.ToString())
	}
	if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(n); err != nil || !ok {
		return fmt.Errorf("%s has other labels than the pod wants", n.Name)
	}
	for i := range c.facts.Volumes {
		v := &c.facts.Volumes[i]
		if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
			if s, err := nodeaffinity.NewNodeSelector(a.Required); err != nil || !s.Match(n) {
				return fmt.Errorf("the volume %s cannot be used on %s, by its node affinity", v.Name, n.Name)
			}
		}
	}
	return c.room(pod, n)
}

// room returns why a node has no room for another pod, or nil.
func (c *podChain) room(pod *corev1.Pod, n *corev1.Node) error {
	left := corev1.ResourceList{}
	maps.Copy(left, n.Status.Allocatable)
	take := func(p *corev1.Pod) (lacks corev1.ResourceName) {
		wanted := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
		wanted[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
		for name, q := range wanted {
			has, ok := left[name]
			if !ok && q.IsZero() {
				continue
			}
			if has.Sub(q); has.Sign() < 0 {
				lacks = name
			}
			left[name] = has
		}
		return lacks
	}
	ports := hostPorts(pod)
	for i := range c.facts.Scheduled {
		p := &c.facts.Scheduled[i]
		if p.Spec.NodeName != n.Name || p.UID == pod.UID && p.UID != "" {
			continue
		}
		take(p)
		for _, port := range hostPorts(p) {
			if slices.Contains(ports, port) {
				return fmt.Errorf("%s has the port %s taken", n.Name, port)
			}
		}
		if a := p.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
			for _, t := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
				if s, err := metav1.LabelSelectorAsSelector(t.LabelSelector); err == nil && s.String() != "" && s.Matches(labels.Set(pod.Labels)) {
					return fmt.Errorf("whether %s keeps the pod away cannot be tried", p.Name)
				}
			}
		}
	}
	if lacks := take(pod); lacks != "" {
		return fmt.Errorf("%s has not enough %s left", n.Name, lacks)
	}
	return nil
}

func hostPorts(p *corev1.Pod) (out []string) {
	for i := range p.Spec.Containers {
		for _, port := range p.Spec.Containers[i].Ports {
			if port.HostPort > 0 {
				out = append(out, fmt.Sprint(port.HostPort, "/", cmp.Or(port.Protocol, corev1.ProtocolTCP)))
			}
		}
	}
	return out
}

// onNodes returns a judge that changes a copy of the pod and of the nodes, and asks whether one of the nodes would then
// take the pod.
func (c *podChain) onNodes(change func(pod *corev1.Pod, nodes []corev1.Node)) advice.Judge {
	return func([]advice.Change) error {
		pod, nodes := c.pod.DeepCopy(), make([]corev1.Node, len(c.facts.Nodes))
		for i := range nodes {
			c.facts.Nodes[i].DeepCopyInto(&nodes[i])
		}
		change(pod, nodes)
		pod.Spec.NodeName = ""
		return c.schedulable(pod, nodes)
	}
}

// nodeNamed returns a judge for a change of one node.
func (c *podChain) nodeNamed(name string, change func(*corev1.Node)) advice.Judge {
	return c.onNodes(func(_ *corev1.Pod, nodes []corev1.Node) {
		for i := range nodes {
			if nodes[i].Name == name {
				change(&nodes[i])
			}
		}
	})
}

// onAnother returns why a new node like an existing one would not take the pod, or nil. The new node also gets the
// existing one's DaemonSet pods.
func (c *podChain) onAnother(like *corev1.Node) error {
	n := like.DeepCopy()
	n.Name, n.Spec.Unschedulable = "a new node", false
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	n.Labels[corev1.LabelHostname] = n.Name
	own := *c.facts
	own.Scheduled = nil
	for i := range c.facts.Scheduled {
		p := c.facts.Scheduled[i]
		if o := metav1.GetControllerOf(&p); p.Spec.NodeName == like.Name && o != nil && o.Kind == "DaemonSet" {
			p.Spec.NodeName = n.Name
			own.Scheduled = append(own.Scheduled, p)
		}
	}
	return (&podChain{x: c.x, facts: &own, pod: c.pod}).schedulable(c.pod, []corev1.Node{*n})
}

// bindable returns a judge of new volumes, which asks Kubernetes' own matching whether each claim would bind to its
// volume, and whether a node would then take the pod.
func (c *podChain) bindable(claims []*corev1.PersistentVolumeClaim, volumes []*corev1.PersistentVolume) advice.Judge {
	return func([]advice.Change) error {
		for i, claim := range claims {
			v, err := volumehelper.FindMatchingVolume(claim, volumes[i:i+1], nil, nil, false, false)
			if err != nil {
				return err
			}
			if v == nil {
				return fmt.Errorf("the claim %s does not take it", claim.Name)
			}
		}
		return c.schedulable(c.pod, c.facts.Nodes)
	}
}

// referenced returns a judge of a new ConfigMap or Secret without contents, which asks whether the pod needs a key of it.
func (c *podChain) referenced(m eks.MissingObject) advice.Judge {
	return func([]advice.Change) error {
		for _, o := range c.facts.Missing {
			if o.Kind == m.Kind && o.Name == m.Name && o.Wants != "" {
				return errors.New("the pod needs its key " + o.Wants)
			}
		}
		return nil
	}
}

// pullable returns a judge that asks whether the pod's node could pull an image.
func (c *podChain) pullable(image string) advice.Judge {
	return func([]advice.Change) error {
		id, ok := c.x.FindNode(c.facts.Account, c.facts.Region, c.pod.Spec.NodeName)
		if !ok {
			return fmt.Errorf("whether %s can pull it cannot be tried", c.pod.Spec.NodeName)
		}
		return c.x.cfg.Machines.TryPull(context.Background(), id, image)
	}
}

// podSecurity returns the fix that lowers the level of a namespace to the strictest one that admits the pods of a
// template. This admits other such pods as well, so changing the pods should be considered first.
func podSecurity(namespace string, template *corev1.PodTemplateSpec) []advice.Fix {
	command := func(level string) string {
		return "kubectl label --overwrite namespace " + namespace + " pod-security.kubernetes.io/enforce=" + level
	}
	if template == nil {
		return oneSketch("set LEVEL to baseline or privileged, or have the pod keep to the namespace's level", command("$LEVEL"))
	}
	checks, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	if err != nil {
		return nil
	}
	judge := func(changes []advice.Change) error {
		level, err := psaapi.ParseLevel(changes[0].Value)
		if err != nil {
			return err
		}
		got := psapolicy.AggregateCheckResults(checks.EvaluatePod(psaapi.LevelVersion{Level: level, Version: psaapi.LatestVersion()}, &template.ObjectMeta, &template.Spec))
		if !got.Allowed {
			return errors.New(got.ForbiddenDetail())
		}
		return nil
	}
	for _, level := range []string{"baseline", "privileged"} {
		fix := advice.Try(judge, []advice.Change{{Kind: advice.SetPodSecurity, Resource: "namespace/" + namespace, Value: level}}, command(level))
		if fix[0].Proven {
			return fix
		}
	}
	return nil
}
