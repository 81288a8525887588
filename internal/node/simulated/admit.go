package simulated

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// requests are the resources that a pod requests from its node.
type requests struct{ milliCPU, memory, storage int64 }

func requestsOf(p *corev1.Pod) requests {
	r := resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{})
	return requests{milliCPU: r.Cpu().MilliValue(), memory: r.Memory().Value(), storage: r.StorageEphemeral().Value()}
}

// admit refuses a pod that the node has no room for. The scheduler does not send such pods, but a pod that names its
// node bypasses the scheduler.
// https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/lifecycle/predicate.go
func (k *kubelet) admit(p *pod) (reason, message string, ok bool) {
	if k.pressure && p.namespace != "kube-system" {
		return "Evicted", "The node had condition: [DiskPressure]. ", false
	}
	var pods int64
	var used requests
	for _, other := range k.pods {
		if other == p || other.ended() {
			continue
		}
		pods++
		used.milliCPU += other.requests.milliCPU
		used.memory += other.requests.memory
		used.storage += other.requests.storage
	}
	capacity := &k.allocatable
	for _, r := range []struct {
		name                 corev1.ResourceName
		want, used, capacity int64
	}{
		{corev1.ResourcePods, 1, pods, int64(k.maxPods)},
		{corev1.ResourceCPU, p.requests.milliCPU, used.milliCPU, capacity.milliCPU},
		{corev1.ResourceMemory, p.requests.memory, used.memory, capacity.memory},
		{corev1.ResourceEphemeralStorage, p.requests.storage, used.storage, capacity.storage},
	} {
		if r.want > 0 && r.want > r.capacity-r.used {
			return "OutOf" + string(r.name), fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", r.name, r.want, r.used, r.capacity), false
		}
	}
	return "", "", true
}
