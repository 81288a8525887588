package eks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
)

// fargateScheduler is the scheduler of a profile's pods.
const fargateScheduler = "fargate-scheduler"

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
	key, rec, err := s.clusterByPlane(planeID)
	if err != nil {
		return nil, nil // no cluster's yet, or no more
	}
	if ses, err := s.sessions.open(key, rec.Plane.ID); err == nil {
		fargateWebhookOf(ses).called.Store(true)
	}
	if pod.Spec.SchedulerName == fargateScheduler {
		return nil, nil
	}
	choice, err := s.explainFargate(key, namespace, pod)
	if err != nil || choice.Profile == "" {
		return nil, err
	}
	ops := setText("/metadata/labels", &pod.Labels, labelFargateProfile, choice.Profile)
	ops = append(ops, setText("/metadata/annotations", &pod.Annotations, annotationLogging, loggingDisabled)...)
	if size, ok := fargatesizes.For(&pod.Spec); ok {
		ops = append(ops, setText("/metadata/annotations", &pod.Annotations, annotationCapacity, size.String())...)
	}
	// The priority goes with its class: admission computed another one before.
	ops = append(ops,
		patchOperation{"add", "/spec/schedulerName", fargateScheduler},
		patchOperation{"add", "/spec/priorityClassName", nodeCriticalClass},
		patchOperation{"add", "/spec/priority", nodeCriticalPriority},
	)
	return encodePatch(ops, nil)
}

// A fargateWebhook is Fargate's webhook in one cluster.
type fargateWebhook struct {
	put    atomic.Bool // it is in the cluster
	called atomic.Bool // the API server has called it
}

func fargateWebhookOf(ses *session) *fargateWebhook {
	return sessionValue(ses, func(*session) *fargateWebhook { return &fargateWebhook{} })
}

// errWebhookUnnoticed says that the API server does not call Fargate's webhook yet.
var errWebhookUnnoticed = errors.New("the API server does not call Fargate's webhook yet")

// ensureFargateWebhook puts Fargate's webhook into a cluster and returns once the API
// server calls it: a profile that is ACTIVE gets all pods that match. A pod that is
// made for no longer than the request asks the API server for a call.
func (s *Service) ensureFargateWebhook(ctx context.Context, ses *session) error {
	if err := s.putFargateWebhook(ctx, ses); err != nil {
		return err
	}
	if fargateWebhookOf(ses).called.Load() {
		return nil
	}
	_, err := ses.client.CoreV1().Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "fargate-webhook-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "none", Image: "none"}}},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case fargateWebhookOf(ses).called.Load(): // whoever else refused the pod
		return nil
	case err != nil:
		return fmt.Errorf("%w: %w", errWebhookUnnoticed, err)
	}
	return errWebhookUnnoticed
}

// putFargateWebhook puts Fargate's webhook into a cluster, if it is not there. What the
// API server called before was another one, then.
func (s *Service) putFargateWebhook(ctx context.Context, ses *session) error {
	_, err := ses.client.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, s.cfg.ControlPlanes.FargateWebhook(), metav1.CreateOptions{})
	switch {
	case err == nil:
		fargateWebhookOf(ses).called.Store(false)
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("making Fargate's webhook: %w", err)
	}
	fargateWebhookOf(ses).put.Store(true)
	return nil
}

// setText sets an entry of a map of texts, which may be nil.
func setText(path string, in *map[string]string, key, value string) []patchOperation {
	if *in == nil {
		*in = map[string]string{key: value}
		return []patchOperation{{"add", path, map[string]string{key: value}}}
	}
	(*in)[key] = value
	return []patchOperation{{"add", path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value}}
}
