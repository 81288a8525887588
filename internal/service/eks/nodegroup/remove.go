package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// remove drains and deletes everything in a DELETING group, then its record.
func (w *work) remove(ctx context.Context) (time.Duration, error) {
	if err := w.deleteScalingGroup(); err != nil {
		return 0, fmt.Errorf("removing the Auto Scaling group: %w", err)
	}
	asg, err := w.scalingGroup()
	if err != nil {
		return 0, err
	}
	ses, err := w.session(ctx)
	if err != nil {
		return 0, err
	}
	if asg != nil {
		if err := w.drainLeaving(ctx, ses, asg); err != nil && w.s.Clock.Since(w.g.Since) < w.s.Timing.NodeDrain {
			return 0, err
		}
		return drainStep, nil
	}
	var stale []string
	for _, n := range ses.Nodes().InNodegroup(*w.g.Nodegroup.NodegroupName) {
		stale = append(stale, kube.InstanceID(n.Spec.ProviderID))
	}
	if err := w.deleteNodes(ctx, ses, stale); err != nil && w.s.Clock.Since(w.g.Since) < w.s.Timing.NodeDrain {
		return 0, err
	}
	if done, err := w.removeRemoteAccess(ctx); !done || err != nil {
		return drainStep, err
	}
	return 0, w.removeRest(ctx, ses)
}

// removeRest removes the remaining resources of a group without instances.
func (w *work) removeRest(ctx context.Context, ses *plane.Session) error {
	name := "eks-" + w.g.UUID
	if _, err := w.s.Instances.DeleteLaunchTemplate(w.svc, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name}); err != nil && !strings.HasPrefix(awserr.CodeOf(err), "InvalidLaunchTemplate") {
		return fmt.Errorf("removing the launch template: %w", err)
	}
	if err := w.removeInstanceProfile(); err != nil {
		return err
	}
	inherited := w.heir(w.s.Store)
	var err error
	switch {
	case inherited != nil && !w.cluster.UsesAPI(): // an earlier attempt may have unmapped it
		err = access.MapNodeRole(ctx, ses, w.g.Role.ARN, access.TypeEC2Linux)
	case inherited == nil && w.cluster.UsesConfigMap():
		err = access.UnmapNodeRole(ctx, ses, w.g.Role.ARN, access.TypeEC2Linux)
	}
	if err != nil && w.s.Clock.Since(w.g.Since) < w.s.Timing.NodeDrain {
		return err
	}
	if err := record.DeleteAll(ctx, w.s.Store, record.Updates, w.key.Owner().AllBelow(), func(u *record.Update) bool { return u.Nodegroup == *w.g.Nodegroup.NodegroupName }); err != nil {
		return err
	}
	return w.s.Store.Update(ctx, func(tx *store.Tx) error {
		g, err := record.Nodegroups.Get(tx, w.key)
		if err != nil || g.UUID != w.g.UUID {
			return store.IgnoreNotFound(err)
		}
		heir := w.heir(tx)
		if heir != nil && inherited == nil {
			return errInherited
		}
		record.Nodegroups.Delete(tx, w.key)
		if !g.AccessEntryMade {
			return nil
		}
		return access.Dismiss(tx, record.Nodegroups, w.key.Owner(), g.Role, heir, func(o *record.Nodegroup) *bool { return &o.AccessEntryMade })
	})
}

// errInherited makes the reconciler call removeRest again.
var errInherited = errors.New("another node group with the same node role was created during the deletion")

// heir returns another node group of the cluster that has the same node role and is not being
// deleted, or nil if there is none.
func (w *work) heir(r store.Reader) *store.Key {
	return record.Other(r, record.Nodegroups, w.key, func(o *record.Nodegroup) bool {
		return o.Role == w.g.Role && o.Nodegroup.Status != ekstypes.NodegroupStatusDeleting
	})
}

// drain takes one step towards emptying a node: it cordons the node and evicts pods. It reports
// whether there is nothing left to wait for. Pods protected by a disruption budget stay and are
// tried again; with force, they are deleted. A node that is not Ready cannot end its pods, so
// evicted pods on it count as gone.
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
		protected := apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) // the latter if several budgets protect the pod
		if force && protected {
			err = s.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.UID))})
			protected = false
		}
		if err != nil && !protected && !apierrors.IsNotFound(err) {
			return false, fmt.Errorf("evicting %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return done, nil
}

// evictable reports whether draining moves a pod: not one that has ended, and not one that belongs
// to the node itself.
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
