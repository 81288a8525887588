package fargate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/store"
)

// sync brings one pod a step closer to its desired state.
func (s *Scheduler) sync(ctx context.Context, uid types.UID) (again time.Duration, err error) {
	pod := s.pod(uid)
	m, err := machines.Get(s.cfg.Store, s.key(uid))
	have := err == nil
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, err
	}
	switch {
	case pod == nil && have:
		return 0, s.remove(ctx, &m)
	case pod == nil:
		return 0, nil
	case have && pod.Spec.NodeName != "" && (m.Interface == "" || pod.Spec.NodeName != m.nodeName(s.cfg.Region)):
		return 0, s.remove(ctx, &m) // the pod was bound elsewhere
	case have:
		return s.launch(ctx, pod, &m)
	case pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || ended(pod) || len(pod.Spec.SchedulingGates) > 0:
		return 0, nil
	}
	return s.place(ctx, pod)
}

func (s *Scheduler) pod(uid types.UID) *corev1.Pod {
	objs, err := s.pods.ByIndex(byUID, string(uid))
	if err != nil || len(objs) == 0 {
		return nil
	}
	p, _ := objs[0].(*corev1.Pod)
	return p
}

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// place decides whether Fargate runs a pod, and records the machine for it.
//
// AWS deviation: Fargate does not retry a pod that it refused; here, a pod that was blocked by something outside of
// it continues once that is fixed.
func (s *Scheduler) place(ctx context.Context, pod *corev1.Pod) (time.Duration, error) {
	if why, claimed := unsupported(pod, s.claims(ctx)); why != "" {
		again := time.Duration(0)
		if claimed {
			again = lookAgain
		}
		return again, s.refuse(ctx, pod, ReasonUnsupported, why)
	}
	size, ok := size(pod)
	if !ok {
		return 0, s.refuse(ctx, pod, ReasonTooLarge, textTooLarge)
	}
	disk, ok := fargatesizes.DiskGiB(&pod.Spec)
	if !ok {
		return 0, s.refuse(ctx, pod, ReasonStorage, textStorage)
	}
	name := pod.Labels[LabelProfile]
	profile, err := s.cfg.Profile(ctx, name, pod)
	var blocked *BlockedError
	switch {
	case errors.As(err, &blocked):
		return lookAgain, s.refuse(ctx, pod, ReasonBlocked, blocked.Reason)
	case errors.Is(err, ErrNoProfile): // from memory
		return lookAgain, s.refuse(ctx, pod, ReasonBlocked, fmt.Sprintf("Misconfigured Fargate Profile: fargate profile %s not found", name))
	case err != nil:
		return 0, err
	}
	cluster, err := s.cfg.Describe(ctx)
	if err != nil {
		return 0, err
	}
	groups, err := s.groups(ctx, pod, cluster.SecurityGroups)
	if err != nil {
		return 0, err
	}
	logging, err := s.logs(ctx)
	if err != nil {
		return 0, err
	}
	if profile.Runtime == machine.Containers {
		logging = logging.sent(s.cfg.Region)
	} else {
		logging.data = nil
	}
	m := podMachine{
		UID: ids.UUID(), PodUID: pod.UID, Namespace: pod.Namespace, Pod: pod.Name, Profile: name, RoleARN: profile.RoleARN,
		Size: size, DiskGiB: disk, KubeletVersion: cluster.KubeletVersion, IPv6: cluster.IPFamily == "ipv6", Groups: groups, Runtime: profile.Runtime, Logging: logging.data, Since: s.clock.Now().UTC(),
	}
	for i, subnet := range s.order(profile.Subnets) {
		s.occupy(m.Subnet, subnet)
		m.Subnet = subnet
		if err := s.save(ctx, &m, i == 0); err != nil {
			return 0, err
		}
		err := s.attach(ctx, &m)
		if err == nil {
			s.noteLogging(ctx, pod, logging)
			return s.launch(ctx, pod, &m)
		}
		if !errors.Is(err, ErrNoAddress) {
			return s.unattached(ctx, pod, &m, err)
		}
	}
	if err := s.forget(ctx, &m); err != nil {
		return 0, err
	}
	// from memory
	return lookAgain, s.refuse(ctx, pod, ReasonNoAddress, fmt.Sprintf("Pod provisioning failed: no free IP addresses in subnets %v of fargate profile %s", profile.Subnets, name))
}

// unattached handles an interface that could not be created. If it was refused, the machine's record is removed, and
// the pod is placed again later with its security groups at that time. Other errors are retried with the machine's
// record.
func (s *Scheduler) unattached(ctx context.Context, pod *corev1.Pod, m *podMachine, err error) (time.Duration, error) {
	reason, why, refused := refusal(err)
	if !refused {
		return 0, err
	}
	if err := s.forget(ctx, m); err != nil {
		return 0, err
	}
	if pod.DeletionTimestamp != nil {
		return 0, nil
	}
	return lookAgain, s.refuse(ctx, pod, reason, "Pod provisioning failed: "+why) // from memory
}

// refusal returns the reason if an error of Network's MakeInterface means that no interface was created, whatever the
// subnet. ok is false for other errors.
func refusal(err error) (reason, why string, ok bool) {
	var groups *GroupsError
	var refused *RefusedError
	switch {
	case errors.As(err, &groups):
		return ReasonGroups, groups.Reason, true
	case errors.As(err, &refused):
		return ReasonRefused, refused.Reason, true
	}
	return "", "", false
}

// order puts subnets with fewer machines first, so that pods are spread over zones.
func (s *Scheduler) order(subnets []string) []string {
	out := slices.Clone(subnets)
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortStableFunc(out, func(a, b string) int { return s.subnets[a] - s.subnets[b] })
	return out
}

func (s *Scheduler) claims(ctx context.Context) claims {
	core := s.cfg.Client.CoreV1()
	return func(namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
		pvc, err := core.PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil || pvc.Status.Phase != corev1.ClaimBound {
			return pvc, nil, err
		}
		pv, err := core.PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
		return pvc, pv, err
	}
}

// launch does what is missing between a machine's record and its pod's binding.
func (s *Scheduler) launch(ctx context.Context, pod *corev1.Pod, m *podMachine) (time.Duration, error) {
	var failed error // to start it
	if !s.running(m) {
		cluster, err := s.cfg.Describe(ctx)
		if err != nil {
			return 0, err
		}
		if m.Interface == "" { // there was a crash in between
			err := s.attach(ctx, m)
			if errors.Is(err, ErrNoAddress) {
				return time.Millisecond, s.forget(ctx, m) // another subnet may have one
			}
			if err != nil {
				return s.unattached(ctx, pod, m, err)
			}
		}
		failed = s.start(ctx, m, cluster)
	}
	if pod.Spec.NodeName != "" {
		return 0, failed
	}
	if pod.DeletionTimestamp != nil {
		return 0, failed // the pod is being deleted, and the machine is removed afterwards
	}
	name := m.nodeName(s.cfg.Region)
	obj, ok, err := s.nodes.GetByKey(name)
	if n, isNode := obj.(*corev1.Node); failed == nil && err == nil && ok && isNode && kube.NodeReady(n) && n.Spec.ProviderID == m.providerID(s.cfg.Region) {
		return 0, s.bind(ctx, pod, name)
	}
	if wait := m.Since.Add(s.cfg.Timeout).Sub(s.clock.Now()); wait > 0 {
		return wait, failed
	}
	s.event(ctx, pod, corev1.EventTypeWarning, "FailedScheduling", "Pod provisioning timed out (will retry)")
	return time.Millisecond, s.remove(ctx, m)
}

func (s *Scheduler) bind(ctx context.Context, pod *corev1.Pod, nodeName string) error {
	err := s.cfg.Client.CoreV1().Pods(pod.Namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: nodeName},
	}, metav1.CreateOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // deleted or already bound: the watch will show which
	case err != nil:
		return fmt.Errorf("binding pod %s/%s to %s: %w", pod.Namespace, pod.Name, nodeName, err)
	}
	s.event(ctx, pod, corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s/%s to %s", pod.Namespace, pod.Name, nodeName))
	return nil
}
