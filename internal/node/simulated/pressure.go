package simulated

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The kubelet's eviction manager.
// https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
const (
	// evictInterval is how often the kubelet evicts a pod while the disk is full.
	evictInterval = 10 * time.Second
	// pressureTransition is how long a node keeps reporting disk pressure after it is over.
	pressureTransition = 5 * time.Minute
)

// faults applies the faults of the machine: it kills the kubelet, or reports a full disk and evicts pods.
func (k *kubelet) faults() {
	if k.m.rt.options.Broken == nil {
		return
	}
	if k.os != nil && k.os.ami != nil {
		k.os.ami.Refresh("kubelet")
	}
	now := k.now()
	full := k.m.diskFull()
	if full {
		k.fullAt = now
	}
	pressure := full || k.pressure && now.Sub(k.fullAt) < pressureTransition/time.Duration(cmp.Or(k.m.rt.options.Patience, 1))
	if pressure != k.pressure {
		k.pressure, k.pressureChanged, k.statusDue = pressure, true, now
		reason := "NodeHasNoDiskPressure"
		if pressure {
			reason = "NodeHasDiskPressure"
			k.events.nodeEvent(now, corev1.EventTypeWarning, "EvictionThresholdMet", "Attempting to reclaim ephemeral-storage")
			k.os.klog('W', "eviction_manager.go:384", "Eviction manager: attempting to reclaim", "resourceName", "ephemeral-storage")
		}
		k.events.nodeEvent(now, corev1.EventTypeNormal, reason, fmt.Sprintf("Node %s status is now: %s", k.name, reason))
	}
	if full && !now.Before(k.evictDue) {
		k.evictDue = now.Add(evictInterval)
		k.evict(now)
	}
}

// evict evicts the pod that started last.
//
// AWS deviation: the kubelet ranks pods by their disk usage, but simulated pods use no disk space.
func (k *kubelet) evict(now time.Time) {
	var last *pod
	for _, p := range k.pods {
		if !p.ended() && !p.deleting && p.namespace != "kube-system" && (last == nil || p.started.After(last.started) || p.started.Equal(last.started) && p.name > last.name) {
			last = p
		}
	}
	if last == nil {
		return
	}
	last.stop(now)
	last.phase, last.reason = corev1.PodFailed, "Evicted"
	last.message = fmt.Sprintf("The node was low on resource: ephemeral-storage. Threshold quantity: %d, available: 0. ", int64(cmp.Or(k.m.in.DiskGiB, 20))<<30/10)
	last.event(now, corev1.EventTypeWarning, "Evicted", last.message, nil)
	last.dirty, last.due = true, now
	k.os.klog('I', "eviction_manager.go:627", "Eviction manager: pod is evicted successfully", "pod", last.namespace+"/"+last.name)
}
