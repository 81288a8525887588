package simulated

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/node/simulated/image"
)

// apply takes over the pods that the watch reports.
func (k *kubelet) apply(u update) {
	switch {
	case u.all:
		present := map[types.UID]bool{}
		for i := range u.list {
			present[u.list[i].UID] = true
			k.observe(&u.list[i])
		}
		for uid, p := range k.pods {
			if !present[uid] {
				k.forget(p)
			}
		}
		k.rebooted = false // pods that come later did not exist before the reboot
		if k.cni == nil {
			k.loseCNI()
		}
	case u.gone:
		if p := k.pods[u.pod.UID]; p != nil {
			k.forget(p)
		}
	default:
		k.observe(u.pod)
	}
	k.m.pods(len(k.pods))
}

func (k *kubelet) observe(obj *corev1.Pod) {
	if _, static := obj.Annotations[corev1.MirrorPodAnnotationKey]; static {
		return
	}
	now := k.now()
	p := k.pods[obj.UID]
	if p == nil {
		p = &pod{podMachine: newPod(obj, k.env(), k.rebooted), requests: requestsOf(obj)}
		k.m.images.found(p.podMachine)
		if p.hasSandbox && !p.hostNetwork && !p.ended() {
			k.ipam.pool.claim(p.ip, p.uid)
		}
		k.pods[obj.UID] = p
		if p.aws = newAWSNode(obj); p.aws != nil && k.cni.daemon() == nil {
			k.cni = p
			p.adopted = k.network && p.daemon() != nil
		}
		if p.started.IsZero() && !p.deleting {
			if reason, message, ok := k.admit(p); !ok {
				p.reject(now, reason, message)
			}
		}
		p.due = now
		return
	}
	p.podMachine.observe(obj, k.env())
	if p.retry == 0 {
		p.due = now
	}
}

// forget drops a pod whose object is gone.
func (k *kubelet) forget(p *pod) {
	delete(k.pods, p.uid)
	if p == k.cni {
		k.loseCNI()
	}
	k.events.forget(p.uid)
	k.m.setPodSteps(p.namespace+"/"+p.name, nil)
	k.release(p)
}

// release gives a pod's address back.
func (k *kubelet) release(p *pod) {
	if p.freed || p.hostNetwork || !p.ip.IsValid() {
		return
	}
	p.freed = true
	k.ipam.pool.release(p.ip, p.uid, k.now().Add(k.ipam.cfg.cooldown))
	k.ipam.changed()
}

func (k *kubelet) env() env {
	c := &k.m.rt.options
	e := env{
		now: k.now(), hostIP: k.hostIP,
		jobDuration: c.JobDuration, initDuration: c.InitDuration, startDuration: c.StartDuration,
	}
	return e
}

// sync brings a pod to its current state and tells the API server.
func (k *kubelet) sync(ctx context.Context, p *pod) {
	e := k.env()
	e.has, e.pull = k.m.images.has, func(n image.Name) pulled { return k.m.images.pull(ctx, n, e.now) }
	e.refers = func(namespace string, r ref) error { return k.refs.check(ctx, namespace, r) }
	e.address = func() (netip.Addr, time.Time, *sandboxError) { return k.address(ctx, p) }
	p.due = p.advance(e)
	for _, h := range p.happened {
		k.events.podEvent(p, h)
	}
	p.happened = nil
	k.notePod(p)
	if p == k.cni {
		k.followCNI(ctx)
	}
	if !p.holdsAddress() && p.hasSandbox {
		k.release(p)
	}

	// The last status of a pod that is being deleted matters only to those who wait for it. Mostly that is a Job
	// controller, and those hold a finalizer.
	if p.dirty && (!p.stopped || p.finalizers) {
		body, err := p.patch(k.hostIP)
		if err == nil {
			err = k.client.do(ctx, http.MethodPatch, podPath(p.podMachine)+"/status", nil, body, nil)
		}
		if !k.settled(ctx, p, "reporting a pod's status", err) {
			return
		}
		p.dirty = false
	}
	if p.stopped && !p.removed {
		opts := &metav1.DeleteOptions{
			TypeMeta:           metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
			GracePeriodSeconds: ptr(int64(0)),
			Preconditions:      &metav1.Preconditions{UID: &p.uid},
		}
		err := k.client.do(ctx, http.MethodDelete, podPath(p.podMachine), nil, opts, nil)
		if !k.settled(ctx, p, "removing a pod", err) {
			return
		}
		p.removed = true
	}
}

func podPath(p *podMachine) string {
	return "/api/v1/namespaces/" + p.namespace + "/pods/" + p.name
}

// settled reports whether a call about a pod need not be repeated. If it must be, settled schedules that.
func (k *kubelet) settled(ctx context.Context, p *pod, what string, err error) bool {
	switch {
	case err == nil:
		p.retry = 0
		return true
	case apierrors.IsNotFound(err), apierrors.IsConflict(err) && p.stopped:
		// The pod was deleted, or another pod has its name; the watch will show that.
		p.retry = 0
		return true
	}
	p.retry = min(max(2*p.retry, 500*time.Millisecond), 30*time.Second)
	p.due = k.now().Add(p.retry)
	k.trouble(ctx, what, err)
	return false
}
