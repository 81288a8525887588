package nodegroup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// settle is how long to wait for more node changes before looking at them, for every 20 missing nodes, because each look checks
// all of them.
const settle = 20 * time.Millisecond

// await waits until all members have a good node, but at most for limit. It looks only at nodes:
// listing a large group's instances whenever a node joins would be expensive.
func (w *work) await(ctx context.Context, nodes *plane.Nodes, members []member, good func(*corev1.Node) bool, limit time.Duration) {
	timeout := w.s.Clock.After(limit)
	for {
		changed := nodes.Next()
		if members = withoutNode(members, nodes, good); len(members) == 0 {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			return
		case <-ctx.Done():
			return
		}
		select { // combine several changes into one
		case <-w.s.Clock.After(settle * time.Duration(1+len(members)/20)):
		case <-ctx.Done():
			return
		}
	}
}

// anyNode is a condition for await that every node meets.
func anyNode(*corev1.Node) bool { return true }

// withoutNode returns the members without a good node.
func withoutNode(members []member, nodes *plane.Nodes, good func(*corev1.Node) bool) []member {
	var out []member
	for _, m := range members {
		if n := nodes.OfInstance(m.id); n == nil || !good(n) {
			out = append(out, m)
		}
	}
	return out
}

func memberIDs(members []member) []string {
	out := []string{}
	for _, m := range members {
		out = append(out, m.id)
	}
	slices.Sort(out)
	return out
}

// deleteNodes deletes the nodes of terminated instances, as a cloud controller manager does on AWS.
func (w *work) deleteNodes(ctx context.Context, ses *plane.Session, instanceIDs []string) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(nodeWorkers)
	for _, id := range instanceIDs {
		n := ses.Nodes().OfInstance(id)
		if n == nil {
			continue
		}
		eg.Go(func() error {
			err := ses.Client.CoreV1().Nodes().Delete(ctx, n.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(n.UID))})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil
			}
			if err != nil || !w.s.Timing.PodsEndWithNode {
				return err
			}
			return kube.EndPods(ctx, ses.Client, n.Name)
		})
	}
	return eg.Wait()
}

// adopt labels and taints nodes that joined without the group's labels (custom images), and deletes
// nodes whose instance is gone.
func (w *work) adopt(ctx context.Context, ses *plane.Session, asg *scalingGroup) error {
	mine := map[string]bool{}
	var strangers, newcomers []member
	for _, m := range asg.leaving {
		mine[m.id] = true
	}
	for _, m := range asg.staying {
		mine[m.id] = true
		if n := ses.Nodes().OfInstance(m.id); n != nil && n.Labels[plane.LabelNodegroup] == "" {
			if r := w.g.Rollout; r != nil && asg.versions[m.id] == r.TemplateVersion {
				newcomers = append(newcomers, m)
			} else {
				strangers = append(strangers, m)
			}
		}
	}
	var gone []string
	for _, n := range ses.Nodes().InNodegroup(*w.g.Nodegroup.NodegroupName) {
		if id := kube.InstanceID(n.Spec.ProviderID); !mine[id] && id != "" {
			gone = append(gone, id)
		}
	}
	gone, err := w.s.EndedInstances(w.svc, gone)
	if err != nil {
		return err
	}
	if err := w.deleteNodes(ctx, ses, gone); err != nil {
		return err
	}
	if err := w.relabel(ctx, ses, w.g.Target(), newcomers); err != nil {
		return err
	}
	return w.relabel(ctx, ses, w.g, strangers)
}

// relabel puts a record's labels and taints on the nodes of members.
func (w *work) relabel(ctx context.Context, ses *plane.Session, g *record.Nodegroup, members []member) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(nodeWorkers)
	for _, m := range members {
		n := ses.Nodes().OfInstance(m.id)
		if n == nil {
			continue
		}
		patch := nodePatch(n, g)
		if patch == nil {
			continue
		}
		eg.Go(func() error {
			_, err := ses.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.MergePatchType, patch, metav1.PatchOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("labelling %s: %w", n.Name, err)
			}
			return nil
		})
	}
	return eg.Wait()
}

// nodePatch returns the merge patch that gives a node the group's labels and taints, or nil if it
// has them. Taints are a list, so the patch includes the node's resource version in order not to
// lose other taints.
func nodePatch(n *corev1.Node, g *record.Nodegroup) []byte {
	labels := map[string]any{}
	for k, v := range nodeLabels(g) {
		if had, ok := n.Labels[k]; !ok || had != v {
			labels[k] = v
		}
	}
	for _, k := range g.RemovedLabels {
		if _, has := n.Labels[k]; has && g.Nodegroup.Labels[k] == "" {
			labels[k] = nil
		}
	}
	key := func(t corev1.Taint) string { return t.Key + ":" + string(t.Effect) }
	want := map[string]corev1.Taint{}
	drop := map[string]bool{}
	for _, t := range g.RemovedTaints {
		drop[aws.ToString(t.Key)+":"+taintEffect(t.Effect)] = true
	}
	for _, t := range g.Nodegroup.Taints {
		c := corev1.Taint{Key: aws.ToString(t.Key), Value: aws.ToString(t.Value), Effect: corev1.TaintEffect(taintEffect(t.Effect))}
		want[key(c)] = c
		delete(drop, key(c))
	}
	var taints []corev1.Taint
	changed := false
	for _, t := range n.Spec.Taints {
		c, mine := want[key(t)]
		switch {
		case drop[key(t)]:
			changed = true
			continue
		case mine && c.Value != t.Value:
			t, changed = c, true
		}
		delete(want, key(t))
		taints = append(taints, t)
	}
	for _, k := range slices.Sorted(maps.Keys(want)) {
		taints, changed = append(taints, want[k]), true
	}
	if len(labels) == 0 && !changed {
		return nil
	}
	patch := map[string]any{"metadata": map[string]any{"labels": labels}}
	if changed {
		patch["metadata"] = map[string]any{"labels": labels, "resourceVersion": n.ResourceVersion}
		patch["spec"] = map[string]any{"taints": taints}
	}
	raw, err := json.Marshal(patch)
	if err != nil {
		return nil // strings always marshal
	}
	return raw
}
