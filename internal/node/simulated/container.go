package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/node/simulated/image"
)

type containerState int8

const (
	waiting containerState = iota
	running
	terminated
)

type containerKind int8

const (
	appContainer containerKind = iota
	initContainer
	sidecar // an init container with restartPolicy Always
)

// The kubelet's messages about containers.
const (
	reasonContainerCreating = "ContainerCreating"
	reasonPodInitializing   = "PodInitializing"
	reasonCrashLoopBackOff  = "CrashLoopBackOff"
	reasonInvalidImageName  = "InvalidImageName"
	reasonCompleted         = "Completed"
	reasonError             = "Error"

	// exitTerminated is the exit code of a process that does not handle SIGTERM.
	exitTerminated = 143
	// exitUnknown is what the kubelet reports for a container that a reboot ended.
	exitUnknown = 255

	// A container that exits is restarted at once, then after 10 s, 20 s, … 5 min; after a run of 10 min the
	// back-off is reset. https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
	backoffReset = 10 * time.Minute
)

// container is one container of a pod: its specification and its state.
type container struct {
	kind      containerKind
	name      string
	image     string // as the pod spells it
	restart   corev1.RestartPolicy
	rules     []corev1.ContainerRestartRule
	resources corev1.ResourceRequirements
	policy    corev1.PullPolicy
	pull      pull
	refs      []ref
	configErr error // why it was not created

	// what the simulation plans
	exits     bool
	exitAfter time.Duration
	exitCode  int32

	// unready says that the readiness probe fails.
	unready bool

	state    containerState
	reason   string // why it is waiting, or how it terminated
	message  string
	id       string // hexadecimal
	started  time.Time
	finished time.Time
	code     int32
	restarts int32
	last     *corev1.ContainerStateTerminated
	backoff  time.Duration // 0 means that the next restart is immediate
	// until is when the state ends by itself; zero means never.
	until time.Time
}

func newContainer(spec *corev1.Container, kind containerKind, podPolicy corev1.RestartPolicy) container {
	c := container{kind: kind, name: spec.Name, image: spec.Image, policy: spec.ImagePullPolicy, restart: podPolicy, resources: spec.Resources, refs: environment(spec)}
	if kind == initContainer && podPolicy == corev1.RestartPolicyAlways {
		// In a pod that always restarts, an init container is retried if it failed, but not repeated if it succeeded.
		c.restart = corev1.RestartPolicyOnFailure
	}
	if spec.RestartPolicy != nil {
		c.restart = corev1.RestartPolicy(*spec.RestartPolicy)
		if kind == initContainer && c.restart == corev1.RestartPolicyAlways {
			c.kind = sidecar
		}
	}
	c.rules = spec.RestartPolicyRules
	if c.kind == initContainer {
		c.exits = true
	}
	return c
}

// adopt takes over the state that an earlier run of this runtime reported.
func (c *container) adopt(st *corev1.ContainerStatus) {
	c.restarts = st.RestartCount
	c.last = st.LastTerminationState.Terminated
	_, c.id, _ = strings.Cut(st.ContainerID, "://")
	switch {
	case st.State.Running != nil:
		c.state, c.started = running, st.State.Running.StartedAt.Time
		if c.exits {
			c.until = c.started.Add(c.exitAfter)
		}
	case st.State.Terminated != nil:
		t := st.State.Terminated
		c.state, c.reason, c.code = terminated, t.Reason, t.ExitCode
		c.started, c.finished = t.StartedAt.Time, t.FinishedAt.Time
	}
	if c.restarts > 0 {
		c.backoff = maxBackoff // the actual size is unknown, but this is never too small
		if c.restarts < 6 {
			c.backoff = min(firstBackoff<<(c.restarts-1), maxBackoff)
		}
	}
}

func (c *container) start(uid string, now time.Time) {
	if c.last != nil {
		c.restarts++
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", uid, c.name, c.restarts))
	c.id = hex.EncodeToString(sum[:])
	c.state, c.reason, c.message, c.code = running, "", "", 0
	c.unready, c.pull, c.configErr = false, pull{}, nil
	c.started, c.finished, c.until = now, time.Time{}, time.Time{}
	if c.exits {
		c.until = now.Add(c.exitAfter)
	}
}

// exit ends a running container.
func (c *container) exit(code int32, now time.Time) {
	c.state, c.code, c.finished, c.until = terminated, code, now, time.Time{}
	switch code {
	case 0:
		c.reason = reasonCompleted
	case exitUnknown:
		c.reason = "Unknown"
	default:
		c.reason = reasonError
	}
}

// stop ends a container that its pod no longer needs: with SIGTERM, which it does not handle.
func (c *container) stop(code int32, now time.Time) {
	switch c.state {
	case running:
		c.exit(code, now)
	case waiting:
		c.message, c.until = "", time.Time{}
		if c.last != nil { // between two attempts, the last one's result counts
			c.state, c.reason, c.code = terminated, c.last.Reason, c.last.ExitCode
			c.started, c.finished = c.last.StartedAt.Time, c.last.FinishedAt.Time
			c.last = nil
		}
	case terminated:
	}
}

// restartable reports whether a terminated container must be restarted.
func (c *container) restartable() bool {
	for _, r := range c.rules {
		if r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, c.code)
		if in == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return r.Action == corev1.ContainerRestartRuleActionRestart
		}
	}
	switch c.restart {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return c.code != 0
	default:
		return true
	}
}

// await makes a terminated container wait for its next start, and reports whether it has to wait at all.
func (c *container) await(pod string, now time.Time) bool {
	if c.finished.Sub(c.started) >= backoffReset {
		c.backoff = 0
	}
	c.last = c.terminatedState()
	c.state = waiting
	wait := c.backoff
	c.backoff = min(max(2*c.backoff, firstBackoff), maxBackoff)
	if wait == 0 {
		c.until = now
		return false
	}
	c.reason = reasonCrashLoopBackOff
	c.message = fmt.Sprintf("back-off %v restarting failed container=%s pod=%s", wait, c.name, pod)
	c.until = now.Add(wait)
	return true
}

func (c *container) terminatedState() *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: c.code, Reason: c.reason,
		StartedAt: metav1.NewTime(c.started), FinishedAt: metav1.NewTime(c.finished),
		ContainerID: "containerd://" + c.id,
	}
}

// status returns the container's status as the kubelet reports it.
func (c *container) status() corev1.ContainerStatus {
	image, digest, _ := resolveImage(c.image)
	st := corev1.ContainerStatus{
		Name: c.name, Image: c.image, RestartCount: c.restarts,
		Ready:   c.state == running && !c.unready && c.kind != initContainer,
		Started: ptr(c.state == running),
	}
	if c.last != nil {
		st.LastTerminationState.Terminated = c.last
	}
	switch c.state {
	case waiting:
		st.State.Waiting = &corev1.ContainerStateWaiting{Reason: c.reason, Message: c.message}
		if c.last != nil {
			st.Image, st.ImageID, st.ContainerID = image, digest, c.last.ContainerID
		}
		return st
	case running:
		st.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(c.started)}
		st.AllocatedResources = c.resources.Requests
		if len(c.resources.Requests)+len(c.resources.Limits) > 0 {
			st.Resources = &corev1.ResourceRequirements{Requests: c.resources.Requests, Limits: c.resources.Limits}
		}
	case terminated:
		st.State.Terminated = c.terminatedState()
		// An init container that has succeeded counts as ready.
		st.Ready = c.kind == initContainer && c.code == 0
	}
	st.Image, st.ImageID, st.ContainerID = image, digest, "containerd://"+c.id
	return st
}

// resolveImage returns an image's full name and an image ID.
func resolveImage(name string) (full, id string, err error) {
	n, err := image.Parse(name)
	if err != nil {
		return name, "", err
	}
	return n.Full, n.ID, nil
}

func ptr[T any](v T) *T { return &v }
