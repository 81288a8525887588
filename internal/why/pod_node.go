package why

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/node"
)

// onNode checks the node that the pod is bound to, by its own steps if it is an instance in Drydock.
func (c *podChain) onNode() error {
	name, n := c.pod.Spec.NodeName, c.facts.Node
	if n == nil {
		c.fail(podNode, "there is no node "+name, &api.Reason{By: node.ByKubernetes, Component: name,
			Text: "its instance is gone; Kubernetes will delete its pods", Fixes: advice.Try(func(changes []advice.Change) error {
				if metav1.GetControllerOf(c.pod) == nil {
					return errors.New("no controller makes the pod again")
				}
				return c.onNodes(func(*corev1.Pod, []corev1.Node) {})(changes)
			}, []advice.Change{{Kind: advice.DeleteObject, Resource: "pod " + c.pod.Namespace + "/" + c.pod.Name}}, "kubectl delete pod "+c.pod.Name+" --namespace "+c.pod.Namespace+" --force")})
		return nil
	}
	id, ok := c.x.FindNode(c.facts.Account, c.facts.Region, name)
	if ok {
		c.onHost = c.x.cfg.Machines.PodSteps(id, c.pod.Namespace, c.pod.Name)
	}
	ready := conditionOf(n, corev1.NodeReady)
	if ready != nil && ready.Status == corev1.ConditionTrue {
		says := name + " is Ready"
		if zone := n.Labels[corev1.LabelTopologyZone]; zone != "" {
			says += ", " + cmp.Or(n.Labels[corev1.LabelInstanceTypeStable], "a node") + " in " + zone
		}
		c.ok(podNode, says)
		return nil
	}
	says, why := name+" is not Ready", &api.Reason{By: node.ByKubernetes, Component: name, Text: "the node has never been Ready", Fixes: oneSketch("look at what the node lacks", "drydock why node "+name)}
	if ready != nil {
		why.Code, why.Text = ready.Reason, ready.Message
	}
	if ok {
		e, err := c.x.explainNode(c.facts.Account, c.facts.Region, id, nil)
		if err != nil {
			return err
		}
		c.Notes = append(c.Notes, e.Notes...)
		if s := e.FirstFailed(); s != nil {
			says += ": " + s.Name + " fails: " + s.Evidence
			if s.Reason != nil {
				why = s.Reason
			}
		}
	}
	c.fail(podNode, says, why)
	return nil
}

func conditionOf(n *corev1.Node, t corev1.NodeConditionType) *corev1.NodeCondition {
	for i := range n.Status.Conditions {
		if n.Status.Conditions[i].Type == t {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// lastEvent returns the newest of the pod's events that has the given reason, or nil.
func (c *podChain) lastEvent(reason string) *corev1.Event {
	for i := len(c.facts.Events) - 1; i >= 0; i-- {
		if e := &c.facts.Events[i]; e.Reason == reason {
			return e
		}
	}
	return nil
}

// lastEventOf returns the last event with a reason that a component has reported, or nil.
func (c *podChain) lastEventOf(reason, component string) *corev1.Event {
	for i := len(c.facts.Events) - 1; i >= 0; i-- {
		if e := &c.facts.Events[i]; e.Reason == reason && (e.Source.Component == component || e.ReportingController == component) {
			return e
		}
	}
	return nil
}

func (c *podChain) address() bool {
	switch ip := c.pod.Status.PodIP; {
	case c.pod.Spec.HostNetwork:
		c.ok(podAddress, "the node's")
		return true
	case ip != "":
		c.ok(podAddress, ip)
		return true
	}
	if e := c.lastEvent("FailedCreatePodSandBox"); e != nil {
		why := &api.Reason{By: node.ByKubernetes, Code: e.Reason, Component: "aws-node", Text: "the VPC CNI plugin has not set up its network"}
		if s := c.hosted(podAddress); s != nil && s.Cause == node.CauseNoPodAddress {
			why.Code, why.Text, why.Fixes = node.CauseNoPodAddress, "the node has no free address for pods: its interfaces have as many as they can, or its subnet has none left", c.addressFixes()
		}
		c.fail(podAddress, e.Message, why)
		return false
	}
	return c.configured() // volumes are set up before the sandbox
}

// addressFixes returns fixes that make room for the pod's address: first in the subnet, then on more nodes.
func (c *podChain) addressFixes() []advice.Fix {
	var fixes []advice.Fix
	if id, ok := c.x.FindNode(c.facts.Account, c.facts.Region, c.pod.Spec.NodeName); ok {
		if m, err := c.x.cfg.Machines.Instance(id); err == nil {
			fixes = append(fixes, advice.Sketch("every subnet of the VPC has its own free addresses; look for one with room, and launch nodes there",
				"aws ec2 describe-subnets --subnet-ids "+m.SubnetID+" --query 'Subnets[].AvailableIpAddressCount' --region "+c.facts.Region))
		}
	}
	for _, f := range c.moreNodes() { // another node has an address for the pod, if it is recreated there
		fixes = append(fixes, advice.Sketch("then delete the pod, so that it is made again on a node with free addresses", f.Commands...))
	}
	return fixes
}

// waiting finds a container that is waiting for one of the given reasons.
func (c *podChain) waiting(reasons ...string) (container, image string, why corev1.ContainerStateWaiting, ok bool) {
	for _, list := range [][]corev1.ContainerStatus{c.pod.Status.InitContainerStatuses, c.pod.Status.ContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && slices.Contains(reasons, w.Reason) {
				return list[i].Name, list[i].Image, *w, true
			}
		}
	}
	return "", "", corev1.ContainerStateWaiting{}, false
}

const imageNeverPull = "ErrImageNeverPull"

func (c *podChain) image() bool {
	container, image, waits, ok := c.waiting("ErrImagePull", "ImagePullBackOff", "InvalidImageName", imageNeverPull, "ImageInspectError")
	if !ok {
		_, _, _, later := c.waiting("CreateContainerConfigError", "CreateContainerError", "CrashLoopBackOff")
		if later || c.started() {
			var images []string
			for i := range c.pod.Spec.Containers {
				images = append(images, c.pod.Spec.Containers[i].Image)
			}
			c.ok(podImage, strings.Join(images, ", "))
		}
		return true
	}
	message := waits.Message
	if s := c.hosted(podImage); s != nil {
		message = s.Evidence // the waiting container may say only that it is backing off
	}
	why := &api.Reason{By: node.ByKubernetes, Code: node.CauseImagePull, Component: image, Text: "container " + container + " has no image", Fixes: c.setImage(container)}
	if waits.Reason == imageNeverPull {
		why.Code, why.Text = imageNeverPull, "the node does not have the image of container "+container+", and may not pull it (imagePullPolicy: Never)"
		why.Fixes = append(c.allowPull(container, image), why.Fixes...)
	}
	if waits.Reason == node.CauseImageName {
		why.Code, why.Text = node.CauseImageName, fmt.Sprintf("%q is not the name of an image", image)
	}
	c.fail(podImage, message, why)
	return false
}

// allowPull returns the command that lets a container's image be pulled, or nil if the pod has no maker that would
// replace it.
func (c *podChain) allowPull(container, image string) []advice.Fix {
	maker := c.maker()
	if kind, _, _ := strings.Cut(maker, "/"); !slices.Contains([]string{"deployment", "statefulset", "daemonset"}, kind) {
		return nil
	}
	list := "containers"
	if slices.ContainsFunc(c.pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == container }) {
		list = "initContainers"
	}
	return advice.Try(c.pullable(image), []advice.Change{{Kind: advice.PatchObject, Resource: maker, Value: "imagePullPolicy IfNotPresent"}}, "kubectl patch "+maker+" --namespace "+c.pod.Namespace+` --patch '{"spec":{"template":{"spec":{"`+list+`":[{"name":"`+container+`","imagePullPolicy":"IfNotPresent"}]}}}}'`)
}

// setImage returns the command that changes a container's image.
func (c *podChain) setImage(container string) []advice.Fix {
	return oneSketch("set IMAGE to one that there is", "kubectl set image "+c.maker()+" "+container+"=$IMAGE --namespace "+c.pod.Namespace)
}

// maker returns the object to change so that new pods differ from this one.
func (c *podChain) maker() string {
	if len(c.pod.OwnerReferences) > 0 {
		o := &c.pod.OwnerReferences[0]
		kind, name := strings.ToLower(o.Kind), o.Name
		if hash := c.pod.Labels["pod-template-hash"]; kind == "replicaset" && hash != "" && strings.HasSuffix(name, "-"+hash) {
			return "deployment/" + strings.TrimSuffix(name, "-"+hash)
		}
		return kind + "/" + name
	}
	return "pod/" + c.pod.Name
}

// started reports whether every container has run.
func (c *podChain) started() bool {
	for i := range c.pod.Status.ContainerStatuses {
		if s := &c.pod.Status.ContainerStatuses[i]; s.State.Waiting != nil && s.LastTerminationState.Terminated == nil {
			return false
		}
	}
	return len(c.pod.Status.ContainerStatuses) > 0
}

func (c *podChain) configuration() bool {
	if c.configured() && c.started() {
		if n := slices.IndexFunc(c.Steps, func(s api.Step) bool { return s.Name == podConfiguration }); n < 0 {
			c.ok(podConfiguration, "the ConfigMaps and Secrets that it names exist")
		}
		return true
	}
	return false
}

// configured checks the objects that the pod refers to, and what the kubelet says about it.
func (c *podChain) configured() bool {
	if slices.ContainsFunc(c.Steps, func(s api.Step) bool { return s.Name == podConfiguration }) {
		return true
	}
	var evidence string
	if _, _, waits, ok := c.waiting("CreateContainerConfigError", "CreateContainerError"); ok {
		evidence = waits.Message
	} else if e := c.lastEvent("FailedMount"); e != nil && c.pod.Status.Phase == corev1.PodPending {
		evidence = e.Message
	}
	if len(c.facts.Missing) == 0 {
		if evidence == "" {
			return true
		}
		c.fail(podConfiguration, evidence, nil)
		return false
	}
	m := c.facts.Missing[0]
	what := m.Kind + " " + c.pod.Namespace + "/" + m.Name
	why := &api.Reason{By: node.ByKubernetes, Code: "NotFound", Component: what, Text: "the pod names it, but it does not exist"}
	in := " --namespace " + c.pod.Namespace
	switch {
	case m.Key != "":
		data := map[string]string{"ConfigMap": "data", "Secret": "stringData"}[m.Kind]
		why.Text = "the pod names its key " + m.Key + ", which it does not have"
		why.Fixes = oneSketch("set VALUE to what the pod is to have as "+m.Key,
			"kubectl patch "+strings.ToLower(m.Kind)+" "+m.Name+in+` --type merge --patch '{"`+data+`":{"`+m.Key+`":"'"$VALUE"'"}}'`)
	case m.Wants != "":
		create := map[string]string{"ConfigMap": "kubectl create configmap ", "Secret": "kubectl create secret generic "}[m.Kind]
		why.Fixes = oneSketch("set VALUE to what the pod is to have as "+m.Wants, create+m.Name+in+" --from-literal="+m.Wants+`="$VALUE"`)
	case m.Kind == "Secret":
		why.Fixes = advice.Try(c.referenced(m), []advice.Change{{Kind: advice.CreateObject, Resource: what}}, "kubectl create secret generic "+m.Name+in)
	default:
		why.Fixes = advice.Try(c.referenced(m), []advice.Change{{Kind: advice.CreateObject, Resource: what}}, "kubectl create configmap "+m.Name+in)
	}
	if evidence == "" {
		evidence = what + " is missing"
	}
	if c.pod.Status.Phase == corev1.PodRunning {
		// Containers that have started keep their configuration.
		c.Steps = append(c.Steps, api.Step{Name: podConfiguration, State: api.StepWarning, Evidence: evidence + ": its containers could not be restarted", Reason: why})
		return true
	}
	c.fail(podConfiguration, evidence, why)
	return false
}

// identity follows the service account's chain for this pod.
func (c *podChain) identity(ctx context.Context) {
	sa := c.facts.Identity
	name := sa.ServiceAccount
	if sa.RoleARN == "" && sa.Association == nil {
		c.ok(podIdentity, "service account "+name+", without its own IAM role")
		return
	}
	without := slices.Contains(sa.WithoutToken, c.pod.Name)
	sa.Bare = slices.DeleteFunc(slices.Clone(sa.Bare), func(name string) bool { return name != c.pod.Name })
	sa.Pods, sa.WithoutToken = []string{c.pod.Name}, nil
	if without {
		sa.WithoutToken = sa.Pods
	}
	e := c.x.explainServiceAccount(ctx, &sa)
	role := sa.RoleARN
	if sa.Association != nil {
		role = sa.Association.RoleARN
	}
	broken := e.Broken()
	if broken == nil {
		c.ok(podIdentity, "service account "+name+" gives it "+role+", by "+e.Mechanism)
		return
	}
	why := &api.Reason{By: node.ByIAM, Code: broken.Name, Component: role, Text: strings.Join(append([]string{broken.Says}, broken.Details...), "\n")}
	why.Fixes = append(slices.Clone(broken.Fixes), advice.Sketch("this shows the whole chain", "drydock why serviceaccount "+c.pod.Namespace+"/"+name+" --cluster "+c.facts.Cluster))
	c.fail(podIdentity, broken.Error, why)
}

// containers checks the running containers.
func (c *podChain) containers() {
	ready, restarts := 0, int32(0)
	for i := range c.pod.Status.ContainerStatuses {
		s := &c.pod.Status.ContainerStatuses[i]
		restarts += s.RestartCount
		if s.Ready {
			ready++
		}
		if t := s.LastTerminationState.Terminated; t != nil && s.State.Waiting != nil {
			c.fail(podRunning, s.Name+": "+s.State.Waiting.Message, &api.Reason{By: "container", Code: s.State.Waiting.Reason, Component: s.Name,
				Text:  fmt.Sprintf("it ended with exit code %d (%s), %d times", t.ExitCode, cmp.Or(t.Reason, "Error"), s.RestartCount),
				Fixes: oneSketch("only the program knows why it ended; this is what it printed", "kubectl logs "+c.pod.Name+" --container "+s.Name+" --previous --namespace "+c.pod.Namespace)})
			return
		}
	}
	total := len(c.pod.Spec.Containers)
	switch {
	case c.pod.Status.Phase == corev1.PodFailed:
		c.fail(podRunning, cmp.Or(c.pod.Status.Message, "its containers have failed"), &api.Reason{By: node.ByKubernetes, Code: cmp.Or(c.pod.Status.Reason, "Failed"), Component: c.pod.Spec.NodeName, Text: "the pod has ended and will not be restarted"})
	case c.pod.Status.Phase == corev1.PodRunning && ready == total:
		c.Running = true
		c.ok(podRunning, fmt.Sprintf("%d of %d containers ready, %d restarts", ready, total, restarts))
	case c.pod.Status.Phase == corev1.PodRunning:
		c.Steps = append(c.Steps, api.Step{Name: podRunning, State: api.StepWarning, Evidence: fmt.Sprintf("%d of %d containers ready, %d restarts", ready, total, restarts)})
	}
}
