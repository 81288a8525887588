package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionTypes are the conditions that the kubelet owns, by index.
var conditionTypes = [...]corev1.PodConditionType{
	condSandbox:         corev1.PodReadyToStartContainers,
	condInitialized:     corev1.PodInitialized,
	condContainersReady: corev1.ContainersReady,
	condReady:           corev1.PodReady,
}

// settle updates the conditions.
func (m *podMachine) settle(now time.Time) {
	var uninitialized, unready []string
	for i := range m.inits {
		c := &m.inits[i]
		done := c.state == terminated && c.code == 0
		if c.kind == sidecar {
			done = c.state == running || m.ended()
			if c.state != running {
				unready = append(unready, c.name)
			}
		}
		if !done {
			uninitialized = append(uninitialized, c.name)
		}
	}
	for i := range m.apps {
		if m.apps[i].state != running || m.apps[i].unready {
			unready = append(unready, m.apps[i].name)
		}
	}

	initialized := condition{status: true}
	containers := condition{status: true}
	switch {
	case m.phase == corev1.PodSucceeded:
		initialized.reason = "PodCompleted"
		containers = condition{reason: "PodCompleted"}
	case m.phase == corev1.PodFailed:
		containers = condition{reason: "PodFailed"}
	case len(unready) > 0:
		containers = condition{reason: "ContainersNotReady", message: fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " "))}
	}
	if len(uninitialized) > 0 && m.phase != corev1.PodSucceeded {
		initialized = condition{reason: "ContainersNotInitialized", message: fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(uninitialized, " "))}
	}
	ready := containers
	if ready.status {
		var missing []string
		for _, g := range m.gates {
			switch {
			case g.ready:
			case g.value == "":
				missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", string(g.name)))
			default:
				missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", string(g.name), g.value))
			}
		}
		if len(missing) > 0 {
			ready = condition{reason: "ReadinessGatesNotReady", message: strings.Join(missing, ", ")}
		}
	}
	m.set(condSandbox, condition{status: m.hasSandbox && !m.ended() && !m.stopped}, now)
	m.set(condInitialized, initialized, now)
	m.set(condContainersReady, containers, now)
	m.set(condReady, ready, now)
}

func (m *podMachine) set(i int, c condition, now time.Time) {
	old := &m.conditions[i]
	c.known, c.since, c.spoke = true, now, old.spoke || c.reason != "" || c.message != ""
	if old.known && old.status == c.status {
		c.since = old.since
		if *old == c {
			return
		}
	}
	*old = c
	m.dirty = true
}

// patch returns the pod's status as a strategic merge patch of its status subresource, as the kubelet sends it. The
// UID protects another pod of the same name.
func (m *podMachine) patch(hostIP netip.Addr) ([]byte, error) {
	type metadata struct {
		UID string `json:"uid"`
	}
	// Conditions are merged one by one, so what a condition no longer has must be set to null.
	type condition struct {
		corev1.PodCondition
		Reason  any `json:"reason,omitempty"`
		Message any `json:"message,omitempty"`
	}
	type status struct {
		corev1.PodStatus
		Conditions []condition `json:"conditions"`
	}
	st := status{PodStatus: m.status(hostIP)}
	said := func(text string, spoke bool) any {
		switch {
		case text != "":
			return text
		case spoke:
			return (*string)(nil)
		default:
			return nil
		}
	}
	for i, c := range st.PodStatus.Conditions {
		spoke := m.conditions[i].spoke
		st.Conditions = append(st.Conditions, condition{c, said(c.Reason, spoke), said(c.Message, spoke)})
	}
	return json.Marshal(struct {
		Metadata metadata `json:"metadata"`
		Status   status   `json:"status"`
	}{metadata{string(m.uid)}, st})
}

func (m *podMachine) status(hostIP netip.Addr) corev1.PodStatus {
	st := corev1.PodStatus{
		ObservedGeneration: m.generation,
		Phase:              m.phase, Reason: m.reason, Message: m.message,
		HostIP:    hostIP.String(),
		HostIPs:   []corev1.HostIP{{IP: hostIP.String()}},
		StartTime: ptr(metav1.NewTime(m.started)),
	}
	if m.ip.IsValid() {
		st.PodIP, st.PodIPs = m.ip.String(), []corev1.PodIP{{IP: m.ip.String()}}
	}
	for i, c := range m.conditions {
		status := corev1.ConditionFalse
		if c.status {
			status = corev1.ConditionTrue
		}
		st.Conditions = append(st.Conditions, corev1.PodCondition{
			Type: conditionTypes[i], ObservedGeneration: m.generation, Status: status,
			Reason: c.reason, Message: c.message, LastTransitionTime: metav1.NewTime(c.since),
		})
	}
	if m.phase == corev1.PodFailed && !m.hasSandbox {
		return st // rejected: no container was ever created
	}
	pending := reasonContainerCreating
	if len(m.inits) > 0 {
		pending = reasonPodInitializing
	}
	for i := range m.inits {
		st.InitContainerStatuses = append(st.InitContainerStatuses, containerStatus(&m.inits[i], reasonPodInitializing))
	}
	for i := range m.apps {
		st.ContainerStatuses = append(st.ContainerStatuses, containerStatus(&m.apps[i], pending))
	}
	for _, c := range m.ephemeral {
		st.EphemeralContainerStatuses = append(st.EphemeralContainerStatuses, corev1.ContainerStatus{
			Name: c.name, Image: c.image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "SimulatedNode", Message: "this node is simulated: it runs no containers, so there is nothing to debug",
			}},
		})
	}
	return st
}

func containerStatus(c *container, pending string) corev1.ContainerStatus {
	st := c.status()
	if w := st.State.Waiting; w != nil && w.Reason == "" {
		w.Reason = pending
	}
	return st
}

// hexName derives a containerd-like ID from names.
func hexName(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "/")))
	return hex.EncodeToString(sum[:])
}
