package simulated

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/node/simulated/image"
)

// Annotations by which a pod controls how its containers, which run nothing, behave.
const (
	// AnnotationExitAfter makes the pod's containers exit that long after their start; the value is a duration such
	// as 30s.
	AnnotationExitAfter = "simulated.drydock.dev/exit-after"
	// AnnotationExitCode is the code with which they exit, 0 by default. On its own it makes them exit after a
	// moment.
	AnnotationExitCode = "simulated.drydock.dev/exit-code"
	// Followed by the name of a container (init containers included), both apply to that container only.
	annotationExitAfterOne = AnnotationExitAfter + "."
	annotationExitCodeOne  = AnnotationExitCode + "."
)

// podMachine is the state machine of one pod. It is pure: its inputs include the time and addresses, and its outputs
// say what to do. It does not depend on an API server and is used by one goroutine.
//
//	bound ─► address ─► init containers, in order ─► containers ─► Ready
//	                                                   │  exits: restarted, or
//	                                                   ▼  Succeeded / Failed
//	deletion ─► preStop sleep ─► containers stopped ─► removed
type podMachine struct {
	uid             types.UID
	namespace, name string
	generation      int64
	created         time.Time
	hostNetwork     bool
	restartPolicy   corev1.RestartPolicy
	deadline        time.Duration // 0 means none
	gates           []gate
	finalizers      bool
	ephemeral       []ephemeral
	preStop         time.Duration

	started    time.Time // the kubelet's startTime; zero if not seen yet
	ip         netip.Addr
	hasSandbox bool
	inits      []container
	apps       []container

	volumes   []ref
	mounted   bool
	mountErr  error // of the last attempt
	mountWait time.Duration
	mountDue  time.Time

	phase           corev1.PodPhase
	reason, message string
	conditions      [4]condition

	// deletion
	deleting  bool
	deleteBy  time.Time // when to stop the containers
	stopped   bool      // nothing runs any more; the object may be removed
	dirty     bool      // the status differs from what was last written
	happened  []happening
	sandboxed time.Time // last complaint about a missing address
	noSandbox string    // and its cause as data
}

type gate struct {
	name  corev1.PodConditionType
	ready bool
	value string // the condition's status, or "" if there is none
}

type ephemeral struct{ name, image string }

// condition is a condition that the kubelet owns.
type condition struct {
	status          bool
	known           bool
	reason, message string
	spoke           bool // it has had a reason or message
	since           time.Time
}

const (
	condSandbox = iota
	condInitialized
	condContainersReady
	condReady
)

// happening is an event that the kubelet would emit.
type happening struct {
	kind, reason, message string
	container             string // field path within the pod, if any
	at                    time.Time
}

// env is what a pod machine needs from its node at one moment.
type env struct {
	now    time.Time
	hostIP netip.Addr
	// address gives the pod an address, or returns why there is none and when to ask again at the latest. The zero
	// time leaves that to the kubelet.
	address func() (netip.Addr, time.Time, *sandboxError)
	// refers returns why a reference of a pod in a namespace cannot be resolved; if
	// it is nil, references are not checked.
	refers func(namespace string, r ref) error
	// pull pulls an image. If nil, all images are present.
	pull func(n image.Name) pulled
	// has reports whether an image is present.
	has func(n image.Name) bool
	// jobDuration is how long a Job's pod works.
	jobDuration time.Duration
	// initDuration and startDuration are how long an init container works and how
	// long a container takes to start.
	initDuration, startDuration time.Duration
}

// newPod takes over a pod that is bound to the node, with whatever status an earlier run of the node wrote. rebooted
// says that the machine has been off since.
func newPod(p *corev1.Pod, e env, rebooted bool) *podMachine {
	m := &podMachine{
		uid: p.UID, namespace: p.Namespace, name: p.Name, generation: p.Generation,
		created:     p.CreationTimestamp.Time,
		hostNetwork: p.Spec.HostNetwork, restartPolicy: p.Spec.RestartPolicy,
		phase: corev1.PodPending, dirty: true, volumes: volumes(p),
	}
	if p.Spec.ActiveDeadlineSeconds != nil {
		m.deadline = time.Duration(*p.Spec.ActiveDeadlineSeconds) * time.Second
	}
	for i := range p.Spec.InitContainers {
		m.inits = append(m.inits, newContainer(&p.Spec.InitContainers[i], initContainer, p.Spec.RestartPolicy))
	}
	for i := range p.Spec.Containers {
		m.apps = append(m.apps, newContainer(&p.Spec.Containers[i], appContainer, p.Spec.RestartPolicy))
		if l := p.Spec.Containers[i].Lifecycle; l != nil && l.PreStop != nil && l.PreStop.Sleep != nil {
			m.preStop = max(m.preStop, time.Duration(l.PreStop.Sleep.Seconds)*time.Second)
		}
	}
	m.plan(p, e)
	m.adopt(p, e, rebooted)
	m.observe(p, e)
	return m
}

// plan decides how long containers run. A container runs forever unless an annotation says something else or its pod
// belongs to a Job, which finishes after a moment.
func (m *podMachine) plan(p *corev1.Pod, e env) {
	job := false
	if owner := metav1.GetControllerOf(p); owner != nil && owner.Kind == "Job" {
		job = true
	}
	duration := func(key string) (time.Duration, bool) {
		d, err := time.ParseDuration(p.Annotations[key])
		return d, err == nil && d >= 0
	}
	code := func(key string) (int32, bool) {
		n, err := strconv.ParseUint(p.Annotations[key], 10, 8)
		return int32(n), err == nil
	}
	each := func(c *container) {
		if c.kind == initContainer {
			c.exitAfter = e.initDuration
		} else if c.kind == appContainer {
			if job {
				c.exits, c.exitAfter = true, e.jobDuration
			}
			if n, ok := code(AnnotationExitCode); ok {
				c.exits, c.exitCode, c.exitAfter = true, n, e.jobDuration
			}
			if d, ok := duration(AnnotationExitAfter); ok {
				c.exits, c.exitAfter = true, d
			}
		}
		if n, ok := code(annotationExitCodeOne + c.name); ok {
			if !c.exits {
				c.exitAfter = e.jobDuration
			}
			c.exits, c.exitCode = true, n
		}
		if d, ok := duration(annotationExitAfterOne + c.name); ok {
			c.exits, c.exitAfter = true, d
		}
	}
	for i := range m.inits {
		each(&m.inits[i])
	}
	for i := range m.apps {
		each(&m.apps[i])
	}
}

func (m *podMachine) adopt(p *corev1.Pod, e env, rebooted bool) {
	st := &p.Status
	if st.StartTime == nil { // no kubelet has seen it yet
		return
	}
	m.started = st.StartTime.Time
	m.phase, m.reason, m.message = st.Phase, st.Reason, st.Message
	if ip, err := netip.ParseAddr(st.PodIP); err == nil {
		m.ip, m.hasSandbox = ip, true
	}
	take := func(cs []container, statuses []corev1.ContainerStatus) {
		for i := range cs {
			j := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == cs[i].name })
			if j < 0 {
				continue
			}
			cs[i].adopt(&statuses[j])
			if rebooted && cs[i].state == running && !m.ended() {
				cs[i].exit(exitUnknown, e.now)
			}
		}
	}
	take(m.inits, st.InitContainerStatuses)
	take(m.apps, st.ContainerStatuses)
	for _, c := range st.Conditions {
		for i, t := range conditionTypes {
			if c.Type == t {
				m.conditions[i] = condition{
					status: c.Status == corev1.ConditionTrue, known: true,
					reason: c.Reason, message: c.Message, spoke: c.Reason != "" || c.Message != "", since: c.LastTransitionTime.Time,
				}
			}
		}
	}
	m.dirty = rebooted
}

// observe takes note of what others may change about a pod.
func (m *podMachine) observe(p *corev1.Pod, e env) {
	m.finalizers = len(p.Finalizers) > 0
	m.observeGates(p)
	m.observeReady(p)
	if p.Generation != m.generation || len(p.Spec.EphemeralContainers) != len(m.ephemeral) {
		m.generation = p.Generation
		m.dirty = true
		m.observeSpec(p, e)
	}
	if p.DeletionTimestamp != nil && !m.deleting {
		m.deleting = true
		grace := time.Duration(0)
		if p.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		}
		m.deleteBy = e.now
		if !m.ended() && slices.ContainsFunc(m.apps, func(c container) bool { return c.state == running }) {
			m.deleteBy = e.now.Add(min(m.preStop, grace))
			for _, c := range m.apps {
				m.event(e.now, corev1.EventTypeNormal, "Killing", "Stopping container "+c.name, &c)
			}
		}
	} else if m.deleting && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0 {
		m.deleteBy = e.now // it was deleted with --force after all
	}
}

// observeReady restores the Ready condition if others have changed it: the node lifecycle controller marks the pods
// of a node that was silent for a while as not ready, and the kubelet marks them ready again.
func (m *podMachine) observeReady(p *corev1.Pod) {
	own := m.conditions[condReady]
	if !own.known || !own.status {
		return
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue && !c.LastTransitionTime.Time.Before(own.since.Truncate(time.Second)) { // times have whole seconds
			m.dirty = true
		}
	}
}

func (m *podMachine) observeGates(p *corev1.Pod) {
	for i, g := range p.Spec.ReadinessGates {
		if i == len(m.gates) {
			m.gates = append(m.gates, gate{name: g.ConditionType})
		}
		value := ""
		for _, c := range p.Status.Conditions {
			if c.Type == g.ConditionType {
				value = string(c.Status)
			}
		}
		if m.gates[i].value != value {
			m.gates[i].value, m.gates[i].ready = value, value == string(corev1.ConditionTrue)
			m.dirty = true
		}
	}
}

// observeSpec follows the few parts of a spec that may change: images, resources, the deadline, ephemeral containers.
func (m *podMachine) observeSpec(p *corev1.Pod, e env) {
	m.deadline = 0
	if p.Spec.ActiveDeadlineSeconds != nil {
		m.deadline = time.Duration(*p.Spec.ActiveDeadlineSeconds) * time.Second
	}
	m.ephemeral = m.ephemeral[:0]
	for _, c := range p.Spec.EphemeralContainers {
		m.ephemeral = append(m.ephemeral, ephemeral{c.Name, c.Image})
	}
	follow := func(cs []container, specs []corev1.Container) {
		for i := range min(len(cs), len(specs)) {
			c, spec := &cs[i], &specs[i]
			c.resources = spec.Resources
			if c.image == spec.Image {
				continue
			}
			c.image, c.pull = spec.Image, pull{}
			if c.state == running && !m.ended() {
				m.event(e.now, corev1.EventTypeNormal, "Killing", fmt.Sprintf("Container %s definition changed, will be restarted", c.name), c)
				c.exit(exitTerminated, e.now)
				c.backoff = 0
				c.await(m.fullName(), e.now)
			} else if c.state == waiting {
				c.until = e.now
			}
		}
	}
	follow(m.inits, p.Spec.InitContainers)
	follow(m.apps, p.Spec.Containers)
}

// ended reports whether the pod has finished by itself.
func (m *podMachine) ended() bool {
	return m.phase == corev1.PodSucceeded || m.phase == corev1.PodFailed
}

// holdsAddress reports whether the pod's address is in use.
func (m *podMachine) holdsAddress() bool {
	return m.hasSandbox && !m.hostNetwork && !m.ended() && !m.stopped
}

// fullName returns a pod's name as the kubelet's messages show it.
func (m *podMachine) fullName() string {
	return fmt.Sprintf("%s_%s(%s)", m.name, m.namespace, m.uid)
}

func (m *podMachine) event(at time.Time, kind, reason, message string, c *container) {
	h := happening{kind: kind, reason: reason, message: message, at: at}
	if c != nil {
		h.container = fmt.Sprintf("spec.containers{%s}", c.name)
		if c.kind != appContainer {
			h.container = fmt.Sprintf("spec.initContainers{%s}", c.name)
		}
	}
	m.happened = append(m.happened, h)
}

// reject refuses a pod that the node cannot run, as the kubelet's admission does.
func (m *podMachine) reject(now time.Time, reason, message string) {
	m.started = now
	m.phase, m.reason, m.message = corev1.PodFailed, reason, "Pod was rejected: "+message
	m.dirty = true
	m.event(now, corev1.EventTypeWarning, reason, message, nil)
}
