package fargate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// save writes a machine's record. new means that there must not be one yet.
func (s *Scheduler) save(ctx context.Context, m *podMachine, isNew bool) error {
	err := s.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		if isNew {
			return machines.Create(tx, s.key(m.PodUID), *m)
		}
		return machines.Put(tx, s.key(m.PodUID), *m)
	})
	if err != nil {
		return fmt.Errorf("noting the machine of pod %s/%s: %w", m.Namespace, m.Pod, err)
	}
	return nil
}

// attach creates the machine's network interface, and records it.
func (s *Scheduler) attach(ctx context.Context, m *podMachine) error {
	got, err := s.cfg.Network.MakeInterface(ctx, InterfaceRequest{
		Token: m.UID + "/" + m.Subnet, Subnet: m.Subnet, Groups: m.Groups, IPv6: m.IPv6,
		Description: fmt.Sprintf("Fargate pod %s/%s of cluster %s", m.Namespace, m.Pod, s.cfg.Cluster),
	})
	if err != nil {
		return err
	}
	m.Interface, m.VPC, m.Zone, m.Address, m.Address6 = got.ID, got.VPC, got.Zone, got.Address, got.Address6
	return s.save(ctx, m, false)
}

// occupy counts a machine in one subnet and no longer in another; either may be empty.
func (s *Scheduler) occupy(from, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.subnets[from]--; s.subnets[from] <= 0 {
		delete(s.subnets, from)
	}
	if to != "" {
		s.subnets[to]++
	}
}

// note records which pod a node is for.
func (s *Scheduler) note(m *podMachine) {
	if m.Interface == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byNode[m.nodeName(s.cfg.Region)] = m.PodUID
}

// running reports whether this daemon process has started the machine.
func (s *Scheduler) running(m *podMachine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return m.Interface != "" && s.started[m.PodUID] == m.Interface
}

func (s *Scheduler) start(ctx context.Context, m *podMachine, c Cluster) error {
	s.note(m)
	if err := s.cfg.Machines.Start(ctx, s.instance(m, c)); err != nil {
		return fmt.Errorf("starting a machine for pod %s/%s: %w", m.Namespace, m.Pod, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started[m.PodUID] = m.Interface
	return nil
}

// remove removes a machine and everything that was created for it. The node is deleted first: only then may its
// address and name be reused.
func (s *Scheduler) remove(ctx context.Context, m *podMachine) error {
	return s.end(ctx, m, func() error {
		name := m.nodeName(s.cfg.Region)
		err := s.cfg.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting node %s: %w", name, err)
		}
		return nil
	})
}

// end stops a machine, calls deleteNode to take it out of the cluster, and removes its interface and its record.
func (s *Scheduler) end(ctx context.Context, m *podMachine, deleteNode func() error) error {
	if m.Interface == "" {
		// There may have been a crash after the interface was created and before it was recorded. Asked with the same
		// token, EC2 returns the same interface.
		err := s.attach(ctx, m)
		if _, _, refused := refusal(err); refused || errors.Is(err, ErrNoAddress) {
			return s.forget(ctx, m) // there is no interface
		}
		if err != nil {
			return err
		}
	}
	if err := s.cfg.Machines.Stop(ctx, m.Interface); err != nil {
		return err
	}
	if err := deleteNode(); err != nil {
		return err
	}
	if err := s.cfg.Network.RemoveInterface(ctx, m.Interface); err != nil {
		return fmt.Errorf("removing %s of pod %s/%s: %w", m.Interface, m.Namespace, m.Pod, err)
	}
	s.mu.Lock()
	delete(s.byNode, m.nodeName(s.cfg.Region))
	delete(s.started, m.PodUID)
	s.mu.Unlock()
	return s.forget(ctx, m)
}

// forget removes a machine's record.
func (s *Scheduler) forget(ctx context.Context, m *podMachine) error {
	err := s.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		machines.Delete(tx, s.key(m.PodUID))
		return nil
	})
	if err == nil {
		s.occupy(m.Subnet, "")
	}
	return err
}

// refuse reports why a pod is not launched, by the pod's condition and, if the reason is new, by an event.
func (s *Scheduler) refuse(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == reason && c.Message == message {
			return nil
		}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(s.clock.Now()),
		}}},
	})
	if err != nil {
		return err
	}
	_, err = s.cfg.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // it was deleted, or another pod has its name
	}
	if err != nil {
		return fmt.Errorf("refusing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	s.event(ctx, pod, corev1.EventTypeWarning, "FailedScheduling", message)
	return nil
}

// event writes an event. A failure to write one is not worth failing for.
func (s *Scheduler) event(ctx context.Context, pod *corev1.Pod, kind, reason, message string) {
	now := metav1.NewTime(s.clock.Now())
	_, err := s.cfg.Client.CoreV1().Events(pod.Namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", pod.Name, now.UnixNano()), Namespace: pod.Namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion},
		Reason:         reason, Message: message, Type: kind,
		Source:         corev1.EventSource{Component: SchedulerName},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		s.log.Debug("fargate: writing an event", "pod", pod.Name, "err", err)
	}
}
