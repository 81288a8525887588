package nodegroup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Rehearsed is what updating a node group to the recommended release for a Kubernetes version did on a copy of its cluster.
type Rehearsed struct {
	// Name is the group's, and From and To are its releases. To is empty if it stays.
	Name, From, To string
	// Nodes were replaced, and Pods moved.
	Nodes, Pods int
	// Refused is why EKS would refuse the update, and Fix what would help. Manual is why it has no release to update the group to, so that the user has to.
	Refused, Fix, Manual string
	// Node cannot be drained because of Stuck, so the update fails there.
	Node  string
	Stuck []Unmoved
	// Homeless are new pods that fit on no node, and Lost the evicted pods that no controller creates again.
	Homeless []Unmoved
	Lost     []string
	// Unknown says of which pods it cannot be predicted whether they can be evicted and where they go.
	Unknown []string
}

// An Unmoved is a pod that cannot be evicted or scheduled. Pod is empty if Reason names the pods.
type Unmoved struct{ Pod, Reason string }

// unmovedAfter is how long nothing may change on a copy before what is left counts as stuck. Its controllers need milliseconds.
const unmovedAfter = 10 * time.Second

// rehearsedStep is the interval between looks at a copy.
const rehearsedStep = 100 * time.Millisecond

// RehearseNodegroup updates a node group on a copy of its cluster, whose Kubernetes version cluster already has. New nodes look like the old
// ones, with the kubelet of the new release. The old ones are drained one after the other, as the update
// does: the copy's own API server decides on evictions, and its scheduler where the new pods go.
func (s *Service) RehearseNodegroup(ctx context.Context, key store.Key, cluster *record.Cluster, g *record.Nodegroup, ses *plane.Session) (Rehearsed, error) {
	owner, name := key.Owner(), *g.Nodegroup.NodegroupName
	out := Rehearsed{Name: name, From: aws.ToString(g.Nodegroup.ReleaseVersion)}
	if g.Nodegroup.AmiType == ekstypes.AMITypesCustom {
		out.Manual = "its AMI is your own: make a version of its launch template with an AMI for Kubernetes " + *cluster.Cluster.Version
		return out, nil
	}
	r, err := s.newRollout(ctx, owner, cluster, g, &awseks.UpdateNodegroupVersionInput{ClusterName: &owner.ID, NodegroupName: &name})
	if err == nil && aws.ToString(r.ReleaseVersion) == out.From {
		return out, nil
	}
	out.Fix = "create a node group with another AMI type and move the pods to it"
	if err == nil {
		err = updatable(owner.ID, name, g)
		out.Fix = fmt.Sprintf("drydock why nodegroup %s --cluster %s", name, owner.ID)
	}
	switch {
	case awserr.CodeOf(err) != "":
		out.Refused = awserr.TextOf(err)
		return out, nil
	case err != nil:
		return out, err
	}
	out.To = aws.ToString(r.ReleaseVersion)
	return out, s.replaceOnCopy(ctx, &out, owner.Region, g, r, ses)
}

// replaceOnCopy replaces the nodes of a group on a copy.
func (s *Service) replaceOnCopy(ctx context.Context, out *Rehearsed, region string, g *record.Nodegroup, r *record.Rollout, ses *plane.Session) error {
	list, err := ses.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: plane.LabelNodegroup + "=" + out.Name})
	if err != nil {
		return err
	}
	pods, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	before := map[string]bool{}
	for i := range pods.Items {
		before[string(pods.Items[i].UID)] = true
	}
	unsure, err := unpredictable(ctx, ses, pods.Items)
	if err != nil {
		return err
	}
	operated := map[string][]string{} // the pods of operators that have to move
	old := list.Items
	kubelet := "v" + aws.ToString(r.Version) + ".0"
	if img, ok := images.ByID(region, r.ImageID); ok {
		kubelet = "v" + img.KubeletVersion
	}
	w := &work{s: s, g: &record.Nodegroup{Nodegroup: g.Nodegroup, Rollout: r}}
	r.Size = ekstypes.NodegroupScalingConfig{DesiredSize: new(int32(len(old)))} //nolint:gosec // a group's size
	zones := map[string]bool{}
	for i := range old {
		zones[old[i].Labels[corev1.LabelTopologyZone]] = true
	}
	ahead := int(w.surge(&scalingGroup{zones: len(zones)}))
	launched := 0
	launch := func(most int) error {
		for ; launched < min(most, len(old)); launched++ {
			if err := s.launchOnCopy(ctx, ses, &old[launched], kubelet, r.ImageID); err != nil {
				return err
			}
		}
		return nil
	}
	if err := launch(ahead); err != nil {
		return err
	}
	for i := range old {
		if err := markRetiring(ctx, ses, &old[i]); err != nil {
			return err
		}
		old[i].Spec.Unschedulable = true
	}
	for i := range old {
		n := &old[i]
		moved := 0
		for j := range pods.Items {
			if p := &pods.Items[j]; p.Spec.NodeName == n.Name && evictable(p) {
				moved++
				if by := kube.Operated(p); by != "" {
					operated[by] = append(operated[by], p.Namespace+"/"+p.Name)
				} else if metav1.GetControllerOf(p) == nil {
					out.Lost = append(out.Lost, p.Namespace+"/"+p.Name)
				}
			}
		}
		if out.Stuck, err = s.emptyOnCopy(ctx, ses, n); err != nil {
			return err
		}
		if out.Stuck, err = out.setAside(ctx, ses, unsure); err != nil {
			return err
		}
		if len(out.Stuck) > 0 { // EKS gives up, and the remaining nodes stay
			out.Node = n.Name
			for j := i + 1; j < len(old); j++ {
				if err := unmarkRetiring(ctx, ses, &old[j]); err != nil {
					return err
				}
			}
			break
		}
		out.Nodes, out.Pods = out.Nodes+1, out.Pods+moved
		if err := ses.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err := kube.EndPods(ctx, ses.Client, n.Name); err != nil { // those of DaemonSets
			return err
		}
		if err := launch(i + 1 + ahead); err != nil {
			return err
		}
	}
	for _, by := range slices.Sorted(maps.Keys(operated)) {
		out.Unknown = append(out.Unknown, fmt.Sprintf("the operator of %s does not run on the copy, so it is unknown whether it creates pods again when the nodes of node group %s are drained, and whether a node takes them: %s", by, out.Name, strings.Join(operated[by], ", ")))
	}
	out.Homeless, err = s.homelessOnCopy(ctx, ses, before)
	return err
}

// unpredictable returns why it cannot be predicted on a copy whether some pods can be evicted, by NAMESPACE/NAME: an operator looks after
// them, or their budget counts such pods, too.
func unpredictable(ctx context.Context, ses *plane.Session, pods []corev1.Pod) (map[string]string, error) {
	out := map[string]string{}
	for i := range pods {
		if by := kube.Operated(&pods[i]); by != "" {
			out[pods[i].Namespace+"/"+pods[i].Name] = "the operator of " + by + " does not run on the copy"
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	budgets, err := ses.Client.PolicyV1().PodDisruptionBudgets("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for i := range budgets.Items {
		b := &budgets.Items[i]
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil {
			continue
		}
		counted := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return p.Namespace != b.Namespace || !selector.Matches(labels.Set(p.Labels)) })
		if !slices.ContainsFunc(counted, func(p corev1.Pod) bool { return kube.Operated(&p) != "" }) {
			continue
		}
		for j := range counted {
			if name := counted[j].Namespace + "/" + counted[j].Name; out[name] == "" {
				out[name] = "budget " + b.Namespace + "/" + b.Name + " also counts pods of an operator, which does not run on the copy"
			}
		}
	}
	return out, nil
}

// setAside deletes the pods that are stuck but unpredictable, and notes why. It returns the others.
func (r *Rehearsed) setAside(ctx context.Context, ses *plane.Session, unsure map[string]string) ([]Unmoved, error) {
	var stuck []Unmoved
	for _, u := range r.Stuck {
		why := unsure[u.Pod]
		if why == "" {
			stuck = append(stuck, u)
			continue
		}
		r.Unknown = append(r.Unknown, fmt.Sprintf("whether pod %s of node group %s can be evicted is unknown: %s", u.Pod, r.Name, why))
		namespace, name, _ := strings.Cut(u.Pod, "/")
		if err := ses.Client.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return stuck, nil
}

// launchOnCopy adds a node like another, with a kubelet of a version.
func (s *Service) launchOnCopy(ctx context.Context, ses *plane.Session, like *corev1.Node, kubelet, image string) error {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "next." + like.Name, Labels: map[string]string{}}, Spec: *like.Spec.DeepCopy(), Status: *like.Status.DeepCopy()}
	for k, v := range like.Labels {
		n.Labels[k] = v
	}
	delete(n.Labels, excludeLabel)
	n.Labels[corev1.LabelHostname] = n.Name[:min(len(n.Name), 63)]
	n.Labels["eks.amazonaws.com/nodegroup-image"] = image
	n.Spec.ProviderID, n.Spec.Unschedulable = "", false
	n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return strings.HasPrefix(t.Key, "node.kubernetes.io/") })
	now := metav1.NewTime(s.Clock.Now())
	n.Status.NodeInfo.KubeletVersion = kubelet
	n.Status.Images, n.Status.VolumesAttached, n.Status.VolumesInUse = nil, nil, nil
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastHeartbeatTime: now, LastTransitionTime: now}}
	if _, err := ses.Client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("adding node %s: %w", n.Name, err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Namespace: corev1.NamespaceNodeLease},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: now.Time}},
	}
	if _, err := ses.Client.CoordinationV1().Leases(lease.Namespace).Create(ctx, lease, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("adding the lease of node %s: %w", n.Name, err)
	}
	return nil
}

// emptyOnCopy drains a node, and returns the pods that stay on it for good.
func (s *Service) emptyOnCopy(ctx context.Context, ses *plane.Session, n *corev1.Node) ([]Unmoved, error) {
	return s.untilStuck(ctx, func() ([]Unmoved, error) {
		done, err := drain(ctx, ses, n, false)
		if done || err != nil {
			return nil, err
		}
		pods, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var left []Unmoved
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Spec.NodeName != n.Name || !evictable(p) || p.DeletionTimestamp != nil {
				continue
			}
			err := ses.Client.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}, DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			})
			reason := "it is being evicted"
			if err != nil {
				reason = err.Error()
			}
			left = append(left, Unmoved{p.Namespace + "/" + p.Name, reason})
		}
		if len(left) == 0 {
			left = []Unmoved{{Reason: "pods of " + n.Name + " are still terminating"}}
		}
		return left, nil
	})
}

// homelessOnCopy returns the pods that were not there before and that no node takes.
func (s *Service) homelessOnCopy(ctx context.Context, ses *plane.Session, before map[string]bool) ([]Unmoved, error) {
	return s.untilStuck(ctx, func() ([]Unmoved, error) {
		pods, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var out []Unmoved
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || before[string(p.UID)] || p.Status.Phase != corev1.PodPending {
				continue
			}
			reason := "the scheduler has not looked at it"
			for _, c := range p.Status.Conditions {
				if c.Type == corev1.PodScheduled && c.Message != "" {
					reason = c.Message
				}
			}
			out = append(out, Unmoved{p.Namespace + "/" + p.Name, reason})
		}
		return out, nil
	})
}

// untilStuck calls look until it returns nothing, or the same for unmovedAfter.
func (s *Service) untilStuck(ctx context.Context, look func() ([]Unmoved, error)) ([]Unmoved, error) {
	var last string
	since := s.Clock.Now()
	for {
		left, err := look()
		if err != nil || len(left) == 0 {
			return nil, err
		}
		if now := fmt.Sprint(left); now != last {
			last, since = now, s.Clock.Now()
		}
		if s.Clock.Since(since) >= unmovedAfter {
			return left, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.Clock.After(rehearsedStep):
		}
	}
}
