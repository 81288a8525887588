package addon

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// EKS scales CoreDNS by the highest demand of the last ten minutes: up at once, down by at most a
// third every three minutes.
// https://docs.aws.amazon.com/eks/latest/userguide/coredns-autoscaling.html
const (
	nodesPerReplica = 16
	coresPerReplica = 256
	scalingWindow   = 10 * time.Minute
	scalingDown     = 3 * time.Minute
	scalingPercent  = 33
	// The window is divided into buckets. Only the highest demand of a bucket is kept, and only if
	// it differs from the one before, so there are at most maxDemands.
	scalingBucket = 30 * time.Second
	maxDemands    = int(scalingWindow/scalingBucket) + 2
)

// scalingDemand is the number of replicas that the nodes of a cluster call for.
func scalingDemand(nodes []*corev1.Node) int {
	var cores int64
	for _, n := range nodes {
		cores += n.Status.Capacity.Cpu().Value()
	}
	up := func(n, per int) int { return (n + per - 1) / per }
	return max(up(len(nodes), nodesPerReplica), up(int(cores), coresPerReplica))
}

// nextScaling returns the scaling that follows s, which may be nil, when asked replicas are needed.
// changed reports whether it differs from s and must be stored.
func nextScaling(s *record.AddonScaling, limits addons.AutoScaling, asked int, now time.Time) (next record.AddonScaling, changed bool) {
	asked = limits.Clamp(asked)
	if s == nil {
		return record.AddonScaling{Replicas: asked, At: now, Demands: []record.Demand{{Replicas: asked, Since: now}}}, true
	}
	next = record.AddonScaling{Replicas: s.Replicas, At: s.At, Demands: slices.Clone(s.Demands)}
	switch last := len(next.Demands) - 1; {
	case last >= 0 && next.Demands[last].Replicas == asked:
	case last >= 0 && next.Demands[last].Since.Truncate(scalingBucket).Equal(now.Truncate(scalingBucket)):
		if asked > next.Demands[last].Replicas {
			next.Demands[last].Replicas, changed = asked, true
		}
	default:
		next.Demands, changed = append(next.Demands, record.Demand{Replicas: asked, Since: now}), true
	}
	for len(next.Demands) > 1 && (len(next.Demands) > maxDemands || now.Sub(next.Demands[1].Since) >= scalingWindow) {
		next.Demands = next.Demands[1:]
	}
	peak := 0
	for _, d := range next.Demands {
		peak = max(peak, d.Replicas)
	}
	to := limits.Clamp(peak)
	if to < s.Replicas {
		if now.Sub(s.At) < scalingDown {
			to = limits.Clamp(s.Replicas)
		} else {
			to = max(to, s.Replicas*(100-scalingPercent)/100)
		}
	}
	if to != s.Replicas {
		next.Replicas, next.At, changed = to, now, true
	}
	return next, changed
}

// scale records and applies the number of replicas that EKS wants, no matter who scaled the add-on
// last. It reports whether it changed the number.
func (w *work) scale(ctx context.Context) (bool, error) {
	if !w.a.Scales() {
		return false, nil
	}
	spec := w.rec.Spec()
	v := w.a.Version(spec.Version)
	if v == nil {
		return false, nil
	}
	values, err := parseConfiguration(w.cluster.Name, w.a, v, spec.Configuration)
	if err != nil {
		return false, err
	}
	limits, on := w.a.AutoScaling(values)
	if !on {
		if w.rec.Scaling == nil {
			return false, nil
		}
		return false, w.change(ctx, func(r *record.Addon) { r.Scaling = nil }, nil)
	}
	nodes := w.nodes()
	select {
	case <-nodes.Synced:
	default:
		return false, nil // try again at the next check
	}
	next, changed := nextScaling(w.rec.Scaling, limits, scalingDemand(nodes.All()), w.s.Clock.Now())
	if changed {
		if err := w.change(ctx, func(r *record.Addon) { r.Scaling = &next }, nil); err != nil {
			return false, err
		}
	}
	spec.Replicas = next.Replicas
	scaled, err := w.applyReplicas(ctx, spec, limits)
	if err != nil {
		return false, fmt.Errorf("scaling %s: %w", w.a.Name, err)
	}
	return scaled, nil
}

// applyReplicas sets the number of replicas, no matter who set it last, and keeps other fields that
// others changed. It reports whether the number changed. It does nothing if the object is missing.
func (w *work) applyReplicas(ctx context.Context, spec record.AddonSpec, limits addons.AutoScaling) (bool, error) {
	objects, err := objectsOf(w.a, spec, w.cluster)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind()+"/"+o.GetName() == limits.Object })
	if i < 0 {
		return false, fmt.Errorf("the add-on has no %s to scale", limits.Object)
	}
	now, err := w.objects.Get(ctx, objects[i])
	if apierrors.IsNotFound(err) {
		return false, nil // health reports the missing object
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", plane.Describe(objects[i]), err)
	}
	if n, _, _ := unstructured.NestedInt64(now.Object, "spec", "replicas"); n == int64(spec.Replicas) {
		return false, nil
	}
	only := objects[i : i+1]
	conflicts, _, err := findConflicts(ctx, w.objects, only)
	if err != nil {
		return false, err
	}
	for o, fields := range conflicts {
		for _, f := range fields {
			if !strings.HasPrefix(f, ".spec.replicas") && !removeField(o.Object, f) {
				return false, fmt.Errorf("%s: cannot leave %s as it is", plane.Describe(o), f)
			}
		}
	}
	return true, applyObjects(ctx, w.objects, only, plane.ApplyOptions{Force: true})
}

// setReplicas sets the number of replicas of the object that EKS scales.
func setReplicas(objects []*unstructured.Unstructured, limits addons.AutoScaling, n int) error {
	for _, o := range objects {
		if o.GetKind()+"/"+o.GetName() == limits.Object {
			return unstructured.SetNestedField(o.Object, int64(limits.Clamp(n)), "spec", "replicas")
		}
	}
	return fmt.Errorf("the add-on has no %s to scale", limits.Object)
}
