package fargate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
	"github.com/drydock-dev/drydock/internal/service/eks/jsonpatch"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// scheduler is the scheduler of a profile's pods.
const scheduler = "fargate-scheduler"

const (
	annotationCapacity = "CapacityProvisioned"
	annotationLogging  = "Logging"
	// loggingDisabled is what Fargate's scheduler takes back where there is one.
	loggingDisabled = "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND"

	nodeCriticalClass    = "system-node-critical"
	nodeCriticalPriority = 2000001000
)

// MutateFargatePod returns the JSON patch that makes a new pod one of Fargate's if a
// profile matches; nil if it is not for Fargate, or its already.
func (s *Service) MutateFargatePod(_ context.Context, planeID, namespace string, pod *corev1.Pod) ([]byte, error) {
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return nil, nil // the control plane belongs to no cluster yet, or no longer
	}
	if ses, err := s.Sessions.Open(key, rec.Plane.ID); err == nil {
		webhookOf(ses).called.Store(true)
	}
	if pod.Spec.SchedulerName == scheduler {
		return nil, nil
	}
	choice, err := s.explain(key, namespace, pod)
	if err != nil || choice.Profile == "" {
		return nil, err
	}
	ops := []jsonpatch.Operation{
		jsonpatch.SetEntry("/metadata/labels", &pod.Labels, labelProfile, choice.Profile),
		jsonpatch.SetEntry("/metadata/annotations", &pod.Annotations, annotationLogging, loggingDisabled),
	}
	if size, ok := fargatesizes.For(&pod.Spec); ok {
		ops = append(ops, jsonpatch.SetEntry("/metadata/annotations", &pod.Annotations, annotationCapacity, size.String()))
	}
	// The priority goes with its class: admission computed another one before.
	ops = append(ops,
		jsonpatch.Add("/spec/schedulerName", scheduler),
		jsonpatch.Add("/spec/priorityClassName", nodeCriticalClass),
		jsonpatch.Add("/spec/priority", nodeCriticalPriority),
	)
	return jsonpatch.Encode(ops, nil)
}

// A webhook is Fargate's webhook in one cluster.
type webhook struct {
	put    atomic.Bool // it is in the cluster
	called atomic.Bool // the API server has called it
}

func webhookOf(ses *plane.Session) *webhook {
	return plane.Value(ses, func(*plane.Session) *webhook { return &webhook{} })
}

// errWebhookUnnoticed says that the API server does not call Fargate's webhook yet.
var errWebhookUnnoticed = errors.New("the API server does not call Fargate's webhook yet")

// ensureWebhook puts Fargate's webhook into a cluster and returns once the API
// server calls it: a profile that is ACTIVE gets all pods that match. A pod that is
// made for no longer than the request asks the API server for a call.
func (s *Service) ensureWebhook(ctx context.Context, ses *plane.Session) error {
	if err := s.putWebhook(ctx, ses); err != nil {
		return err
	}
	if webhookOf(ses).called.Load() {
		return nil
	}
	_, err := ses.Client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "fargate-webhook-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case webhookOf(ses).called.Load(): // another admission plugin refused the pod
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errWebhookUnnoticed, err)
	}
	return errWebhookUnnoticed
}

// putWebhook puts Fargate's webhook into a cluster, if it is not there.
// Otherwise the API server still calls an old one.
func (s *Service) putWebhook(ctx context.Context, ses *plane.Session) error {
	_, err := ses.Client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, s.ControlPlanes.FargateWebhook(), metav1.CreateOptions{})
	switch {
	case err == nil:
		webhookOf(ses).called.Store(false)
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("creating Fargate's webhook: %w", err)
	}
	webhookOf(ses).put.Store(true)
	return nil
}
