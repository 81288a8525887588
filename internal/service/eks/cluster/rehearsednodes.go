package cluster

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks/nodegroup"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// checkSelfManaged adds a finding for the nodes that no one but the user updates.
func (r *Rehearsal) checkSelfManaged(nodes []*corev1.Node) {
	var names []string
	for _, n := range nodes {
		if minor := nodeMinor(n); minor == 0 || minor >= eksversions.Number(r.To) {
			continue
		}
		switch {
		case n.Labels[plane.LabelNodegroup] != "", n.Labels["karpenter.sh/nodepool"] != "", n.Labels[labelCompute] != "": // node groups, Karpenter, Auto Mode, Fargate and hybrid nodes
		default:
			names = append(names, n.Name)
		}
	}
	if len(names) > 0 {
		r.found("self-managed-nodes", SeverityWarning, shortList(names), "replace the instances by ones from an AMI for Kubernetes "+r.To, "EKS does not update nodes that are in no node group")
	}
}

// rehearseAddons updates the add-ons on the copy. rec has the new version.
func (s *Service) rehearseAddons(ctx context.Context, key store.Key, rec record.Cluster, ses *plane.Session, out *Rehearsal) error {
	done, err := s.addons.RehearseAddons(ctx, key, rec, ses)
	for _, a := range done {
		step := Step{Kind: "add-on", Name: a.Name, From: a.From, To: a.To, Text: "updated"}
		switch {
		case a.Problem != "":
			step.Text, step.Failed = "fails", true
			out.found("add-on-update", SeverityError, a.Name, a.Fix, "%s", a.Problem)
		case a.To == "" && a.Unknown != "":
			step.Text = "unknown"
		case a.To == "":
			step.Text = "stays: it supports Kubernetes " + out.To
		}
		if a.Unknown != "" {
			out.Unknown = append(out.Unknown, a.Unknown)
		}
		out.Steps = append(out.Steps, step)
	}
	return err
}

// rehearseNodegroups updates the node groups on the copy, unless it is unknown where their pods would go. rec has the new version.
func (s *Service) rehearseNodegroups(ctx context.Context, key store.Key, rec *record.Cluster, ses *plane.Session, unknown string, out *Rehearsal) error {
	for _, g := range record.Nodegroups.All(s.Store, key.AllBelow()) {
		if unknown != "" {
			out.Steps = append(out.Steps, Step{Kind: "node-group", Name: *g.Value.Nodegroup.NodegroupName, From: aws.ToString(g.Value.Nodegroup.ReleaseVersion), Text: "unknown: " + unknown})
			continue
		}
		done, err := s.groups.RehearseNodegroup(ctx, g.Key, rec, &g.Value, ses)
		if err != nil {
			return fmt.Errorf("updating node group %s on the copy: %w", done.Name, err)
		}
		out.nodegroup(&done)
	}
	return nil
}

// nodegroup adds the result of a node group's update.
func (r *Rehearsal) nodegroup(g *nodegroup.Rehearsed) {
	step := Step{Kind: "node-group", Name: g.Name, From: g.From, To: g.To, Text: counted(g.Nodes, "node") + " replaced, " + counted(g.Pods, "pod") + " moved"}
	update := fmt.Sprintf("aws eks update-nodegroup-version --cluster-name %s --nodegroup-name %s", r.Cluster, g.Name)
	switch {
	case g.Refused != "":
		step.Text, step.Failed = "fails", true
		r.found("node-group", SeverityError, g.Name, g.Fix, "EKS refuses the update: %s", g.Refused)
	case g.Manual != "":
		step.Text = "stays"
		r.found("node-group", SeverityWarning, g.Name, update+" --launch-template id=ID,version=VERSION", "%s", g.Manual)
	case g.To == "":
		step.Text = "stays: it has the newest release"
	case len(g.Stuck) > 0:
		step.Text, step.Failed = step.Text+"; fails at node "+g.Node, true
		r.found("node-group", SeverityError, g.Name, "free capacity or relax the budgets until the pods can be evicted, or delete them by "+update+" --force", "the update fails with PodEvictionFailure at node %s: %s", g.Node, reasons(g.Stuck))
	}
	if len(g.Homeless) > 0 {
		step.Text += "; no node takes " + counted(len(g.Homeless), "pod")
		r.found("scheduling", SeverityError, g.Name, "", "once the nodes are replaced, no node takes %s", reasons(g.Homeless))
	}
	if len(g.Lost) > 0 {
		r.found("bare-pod", SeverityWarning, g.Name, "manage them with a Deployment", "no controller will recreate these pods after their node is replaced: %s", shortList(g.Lost))
	}
	if len(g.Unknown) > 0 && !step.Failed {
		step.Text += "; the rest is unknown"
	}
	r.Unknown = append(r.Unknown, g.Unknown...)
	r.Steps = append(r.Steps, step)
}

// counted is a number of things.
func counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// reasons says why pods do not move, those with the same reason together.
func reasons(pods []nodegroup.Unmoved) string {
	var order []string
	by := map[string][]string{}
	for _, p := range pods {
		if by[p.Reason] == nil {
			order = append(order, p.Reason)
		}
		by[p.Reason] = append(by[p.Reason], p.Pod)
	}
	var out []string
	for _, reason := range order {
		switch names := by[reason]; {
		case names[0] == "":
			out = append(out, reason)
		case len(names) == 1:
			out = append(out, "pod "+names[0]+": "+reason)
		default:
			out = append(out, "pods "+shortList(names)+": "+reason)
		}
	}
	return strings.Join(out, "; ")
}

// leaseTick is the interval at which a rehearsal renews the leases of nodes. Their kubelets do not connect to the
// copy.
const leaseTick = 5 * time.Second

// actAsKubelets does for the nodes of a copy what their kubelets would do: it renews their leases, runs the pods that are scheduled
// from now on, and ends those that are deleted. Every new pod becomes ready at once: the copy has no images to pull
// and no containers to start. stop ends it.
func (s *Service) actAsKubelets(ctx context.Context, client kubernetes.Interface) (stop func(), err error) {
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	before := map[types.UID]bool{} // of these pods, those that have not started do not start here
	for i := range list.Items {
		before[list.Items[i].UID] = true
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.keepNodesAlive(ctx, client) })
	wg.Go(func() { s.runPods(ctx, client, before) })
	return func() { cancel(); wg.Wait() }, nil
}

// runPods runs and ends pods until ctx ends.
func (s *Service) runPods(ctx context.Context, client kubernetes.Interface, before map[types.UID]bool) {
	for ctx.Err() == nil {
		w, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{}) // begins with all pods
		if err == nil {
			s.runWatched(ctx, client, w, before)
			w.Stop()
		}
		select {
		case <-ctx.Done():
		case <-s.Clock.After(100 * time.Millisecond): // the API server is being replaced
		}
	}
}

// runWatched runs and ends the pods of a watch until it or ctx ends.
func (s *Service) runWatched(ctx context.Context, client kubernetes.Interface, w watch.Interface, before map[types.UID]bool) {
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.ResultChan():
			if !ok {
				return
			}
			if p, ok := e.Object.(*corev1.Pod); ok && p.Spec.NodeName != "" && e.Type != watch.Deleted {
				s.runPod(ctx, client, p, before[p.UID])
			}
		}
	}
}

// runPod brings one pod a step further. An error is tried again at the pod's next change.
func (s *Service) runPod(ctx context.Context, client kubernetes.Interface, p *corev1.Pod, old bool) {
	pods := client.CoreV1().Pods(p.Namespace)
	if p.DeletionTimestamp != nil {
		_ = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
		return
	}
	if old || p.Status.Phase != corev1.PodPending && p.Status.Phase != "" {
		return
	}
	p = p.DeepCopy()
	now := metav1.NewTime(s.Clock.Now())
	p.Status.Phase, p.Status.StartTime, p.Status.PodIP, p.Status.PodIPs = corev1.PodRunning, &now, rehearsedIP, []corev1.PodIP{{IP: rehearsedIP}}
	for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: ptr.To(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	_, _ = pods.UpdateStatus(ctx, p, metav1.UpdateOptions{})
}

// rehearsedIP is the address of pods that start on a copy, from a range reserved for documentation. Nothing connects to it.
const rehearsedIP = "192.0.2.1"

// keepNodesAlive renews the leases of all nodes, so that the copy's controllers do not evict their pods.
func (s *Service) keepNodesAlive(ctx context.Context, client kubernetes.Interface) {
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for {
		list, err := leases.List(ctx, metav1.ListOptions{})
		if err == nil {
			for i := range list.Items {
				l := &list.Items[i]
				l.Spec.RenewTime = &metav1.MicroTime{Time: s.Clock.Now()}
				_, _ = leases.Update(ctx, l, metav1.UpdateOptions{}) // retried at the next tick
			}
		}
		timer := s.Clock.NewTimer(leaseTick)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
		}
	}
}
