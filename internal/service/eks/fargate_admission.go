package eks

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
	"github.com/drydock-dev/drydock/internal/store"
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

// stampFargate makes a new pod one of Fargate's if a profile matches, in the pod and
// as operations of a JSON patch; none if it is not for Fargate, or stamped already.
//
// AWS deviation: EKS has a webhook of its own for it,
// 0500-amazon-eks-fargate-mutation.amazonaws.com. Here one call does both, so that
// clusters without profiles pay nothing.
func (s *Service) stampFargate(cluster store.Key, namespace string, pod *corev1.Pod) ([]patchOperation, error) {
	if pod.Spec.SchedulerName == fargateScheduler {
		return nil, nil
	}
	choice, err := s.explainFargate(cluster, namespace, pod)
	if err != nil || choice.Profile == "" {
		return nil, err
	}
	ops := setText("/metadata/labels", &pod.Labels, labelFargateProfile, choice.Profile)
	ops = append(ops, setText("/metadata/annotations", &pod.Annotations, annotationLogging, loggingDisabled)...)
	if size, ok := fargatesizes.For(&pod.Spec); ok {
		ops = append(ops, setText("/metadata/annotations", &pod.Annotations, annotationCapacity, size.String())...)
	}
	// The priority goes with its class: admission computed another one before.
	pod.Spec.SchedulerName, pod.Spec.PriorityClassName, pod.Spec.Priority = fargateScheduler, nodeCriticalClass, new(int32(nodeCriticalPriority))
	return append(ops,
		patchOperation{"add", "/spec/schedulerName", fargateScheduler},
		patchOperation{"add", "/spec/priorityClassName", nodeCriticalClass},
		patchOperation{"add", "/spec/priority", nodeCriticalPriority},
	), nil
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
