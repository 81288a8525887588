package fargate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/store"
)

// PatchFargate recycles the hosts of a cluster's Fargate pods, as AWS does to patch their operating system. Pods that are older
// than the fault are evicted. About a pod that a disruption budget keeps, it sends an event with the time at which the fault
// is due; called again then, with due set, it evicts such a pod or else deletes it.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-patching.html
func (s *Service) PatchFargate(ctx context.Context, bus serviceevents.Bus, f *fault.Fault, due bool) error {
	const evicted = "evicted"
	thing := "fault/" + f.ID
	if !due && bus.Emitted(f.Account, f.Region, thing) == evicted {
		return nil // AWS does not try again before it is due
	}
	key := store.Key{Account: f.Account, Region: f.Region, ID: f.Cluster}
	cluster, err := record.Clusters.Get(s.Store, key)
	if err != nil {
		return store.IgnoreNotFound(err) // there is nothing left to patch
	}
	if err := base.Usable(cluster); err != nil {
		return err
	}
	ses, err := s.Sessions.Open(key, cluster.Plane.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, planeWait)
	defer cancel()
	list, err := ses.Client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{LabelSelector: labelProfile})
	if err != nil {
		return fmt.Errorf("listing the Fargate pods of %s: %w", f.Cluster, err)
	}
	// A pod that cannot be patched must not keep the others from being patched.
	var g errgroup.Group
	g.SetLimit(podWorkers)
	errs := make([]error, len(list.Items))
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Spec.SchedulerName != scheduler || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil || pod.CreationTimestamp.After(f.Since) {
			continue
		}
		g.Go(func() error {
			announced := thing + "/" + string(pod.UID)
			if !due && bus.Emitted(f.Account, f.Region, announced) == evicted {
				return nil
			}
			refused, err := recycle(ctx, ses, pod, due)
			switch {
			case err != nil:
			case due:
				err = bus.Forget(f.Account, f.Region, announced)
			case refused != "":
				err = bus.EmitOnce(f.Account, f.Region, announced, evicted, scheduledTermination(f, pod, refused))
			}
			errs[i] = err
			return nil
		})
	}
	_ = g.Wait() // errs has the errors
	if err := errors.Join(errs...); err != nil || due {
		return err
	}
	return bus.EmitOnce(f.Account, f.Region, thing, evicted, nil)
}

// recycle evicts a pod. If a disruption budget refuses that, it deletes the pod if that is due, or else returns the reason.
func recycle(ctx context.Context, ses *plane.Session, pod *corev1.Pod, due bool) (refused string, err error) {
	pods := ses.Client.CoreV1().Pods(pod.Namespace)
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	err = pods.EvictV1(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, DeleteOptions: &only})
	// The API server answers 500 for a pod that several budgets cover.
	if apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) {
		if !due {
			return err.Error(), nil
		}
		err = pods.Delete(ctx, pod.Name, only)
	}
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return "", fmt.Errorf("evicting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return "", nil
}

// scheduledTermination returns the event about a pod that could not be evicted.
func scheduledTermination(f *fault.Fault, pod *corev1.Pod, refused string) *serviceevents.Event {
	return &serviceevents.Event{
		DetailType: "EKS Fargate Pod Scheduled Termination", Source: "aws.eks", Resources: []string{pod.Namespace + "/" + pod.Name},
		Detail: serviceevents.Detail(map[string]any{
			"clusterName": f.Cluster, "fargateProfileName": pod.Labels[labelProfile], "podName": pod.Name, "podNamespace": pod.Namespace,
			"evictErrorMessage": refused, "scheduledTerminationTime": f.Until.UTC().Format("2006-01-02T15:04:05.000Z") + "[" + time.UTC.String() + "]",
		}),
	}
}
