package nodegroup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// drain takes one step of emptying a node: cordon it, evict what may be
// evicted. It reports whether nothing is left to wait for. Pods that a
// disruption budget protects stay and are tried again. A node that is not Ready ends
// no pods: those that were evicted from it count as gone. With force, no budget
// protects.
func drain(ctx context.Context, s *plane.Session, n *corev1.Node, force bool) (done bool, err error) {
	if !n.Spec.Unschedulable {
		patch := []byte(`{"spec":{"unschedulable":true}}`)
		_, err := s.Client.CoreV1().Nodes().Patch(ctx, n.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		} else if err != nil {
			return false, fmt.Errorf("cordoning %s: %w", n.Name, err)
		}
	}
	pods, err := s.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", n.Name).String()})
	if err != nil {
		return false, fmt.Errorf("listing the pods of %s: %w", n.Name, err)
	}
	done = true
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName != n.Name || !evictable(p) {
			continue
		}
		if p.DeletionTimestamp != nil { // on its way
			done = done && !kube.NodeReady(n)
			continue
		}
		done = false
		err := s.Client.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace}})
		if force && apierrors.IsTooManyRequests(err) {
			err = s.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsTooManyRequests(err) {
			return false, fmt.Errorf("evicting %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return done, nil
}

// evictable reports whether draining moves a pod away: not what has ended, not
// what the node itself runs.
func evictable(p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return false
	}
	if _, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return false
	}
	owner := metav1.GetControllerOf(p)
	return owner == nil || owner.Kind != "DaemonSet"
}
