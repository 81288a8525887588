package addon

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// splitAPIs divides an add-on's objects into those that say which APIs its pods serve, and all others.
func splitAPIs(objects []*unstructured.Unstructured) (apis, others []*unstructured.Unstructured) {
	for _, o := range objects {
		if addons.IsAPI(o) {
			apis = append(apis, o)
		} else {
			others = append(others, o)
		}
	}
	return apis, others
}

// offer adds the APIs that the add-on's pods serve to the cluster if a pod is on a node that runs containers, and removes
// them if all are on simulated nodes.
//
// AWS deviation: EKS adds them with the other objects. Pods on simulated nodes run nothing, and in a cluster with an API that
// nothing serves no namespace can be deleted. There metrics-server lacks v1beta1.metrics.k8s.io, and kubectl says "Metrics
// API not available", as in a cluster without the add-on.
func (w *work) offer(ctx context.Context) {
	if !w.a.HasAPIs() {
		return
	}
	if err := w.tryOffer(ctx); err != nil && ctx.Err() == nil {
		w.s.Log.Debug("adding or removing the APIs of an add-on", "addon", w.key.String(), "err", err) // the cluster's problem, tried again with the next look
	}
}

func (w *work) tryOffer(ctx context.Context) error {
	placed, served, err := w.placed(ctx)
	if err != nil || !placed {
		return err
	}
	objects, err := objectsOf(w.a, w.rec.Spec(), w.cluster)
	if err != nil {
		return err
	}
	apis, _ := splitAPIs(objects)
	if !served {
		return w.removeOurs(ctx, apis, false)
	}
	for _, o := range apis {
		_, err := w.objects.Get(ctx, o)
		if apierrors.IsNotFound(err) {
			err = w.objects.Apply(ctx, o, plane.ApplyOptions{})
		}
		if err != nil {
			return fmt.Errorf("%s: %w", plane.Describe(o), err)
		}
	}
	return nil
}

// placed reports whether the add-on has pods on nodes, and whether one of the nodes runs containers.
func (w *work) placed(ctx context.Context) (placed, served bool, err error) {
	nodes := w.nodes()
	select {
	case <-nodes.Synced:
	default:
		return false, false, errNodesUnknown
	}
	instances := map[string]string{}
	for _, n := range nodes.All() {
		instances[n.Name] = kube.InstanceID(n.Spec.ProviderID)
	}
	for _, o := range w.a.Workloads(w.rec.Spec().NamespaceOrDefault()) {
		got, err := w.objects.Get(ctx, o)
		if err != nil {
			return false, false, err
		}
		pods, err := w.objects.Pods(ctx, got)
		if err != nil {
			return false, false, err
		}
		for i := range pods {
			if instance, ok := instances[pods[i].Spec.NodeName]; ok {
				placed = true
				served = served || w.s.RunsContainers(instance)
			}
		}
	}
	return placed, served, nil
}
