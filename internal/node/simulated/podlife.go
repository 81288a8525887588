package simulated

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// advance brings the pod to its state at e.now, and returns when it next changes by itself. The zero time means
// never.
func (m *podMachine) advance(e env) time.Time {
	if m.started.IsZero() {
		m.started, m.dirty = e.now, true
	}
	var next time.Time
	switch {
	case m.deleting:
		next = m.advanceDeletion(e)
	case m.ended():
	default:
		next = m.advanceLife(e)
	}
	m.settle(e.now)
	return next
}

func (m *podMachine) advanceDeletion(e env) time.Time {
	if m.stopped {
		return time.Time{}
	}
	if e.now.Before(m.deleteBy) {
		return m.deleteBy
	}
	m.stop(e.now)
	m.stopped = true
	return time.Time{}
}

// stop stops all containers and sets the final phase.
func (m *podMachine) stop(now time.Time) {
	for i := range m.inits {
		m.inits[i].stop(0, now)
	}
	for i := range m.apps {
		m.apps[i].stop(exitTerminated, now)
	}
	if !m.ended() && m.hasSandbox {
		m.phase = corev1.PodSucceeded
		for i := range m.apps {
			if c := &m.apps[i]; c.state != terminated || c.code != 0 {
				m.phase = corev1.PodFailed
			}
		}
	}
	m.dirty = true
}

func (m *podMachine) advanceLife(e env) time.Time {
	var next time.Time
	at := func(t time.Time) {
		if !t.IsZero() && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	if m.deadline > 0 {
		end := m.started.Add(m.deadline)
		if !e.now.Before(end) {
			m.stop(e.now)
			m.phase, m.reason, m.message = corev1.PodFailed, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
			m.event(e.now, corev1.EventTypeNormal, "DeadlineExceeded", m.message, nil)
			return time.Time{}
		}
		at(end)
	}
	if !m.hasSandbox {
		if retry, ok := m.mount(e); !ok {
			at(retry)
			return next
		}
		if t := m.started.Add(e.startDuration); e.now.Before(t) {
			at(t)
			return next
		}
		if retry, ok := m.takeAddress(e); !ok {
			at(retry)
			return next
		}
	}
	if !m.runInits(e, at) {
		return next
	}
	m.runApps(e, at)
	return next
}

// addressRetry is how often the kubelet retries making a sandbox.
const addressRetry = 15 * time.Second

// takeAddress makes the pod's sandbox, or returns when to retry.
func (m *podMachine) takeAddress(e env) (retry time.Time, ok bool) {
	if m.hostNetwork {
		m.ip = e.hostIP
	} else {
		ip, sooner, failed := e.address()
		if failed != nil {
			m.noSandbox = failed.cause
			if e.now.Sub(m.sandboxed) >= addressRetry {
				m.sandboxed = e.now
				id := strconv.Quote(hexName(string(m.uid), "sandbox"))
				m.event(e.now, corev1.EventTypeWarning, failed.reason, strings.ReplaceAll(failed.message, "{sandbox}", id), nil)
			}
			retry = e.now.Add(addressRetry)
			if !sooner.IsZero() && sooner.Before(retry) {
				retry = sooner
			}
			return retry, false
		}
		m.ip = ip
	}
	m.hasSandbox, m.dirty = true, true
	return time.Time{}, true
}

// runInits runs init containers in order and reports whether all have finished.
func (m *podMachine) runInits(e env, at func(time.Time)) bool {
	for i := range m.inits {
		c := &m.inits[i]
		m.run(c, e, at)
		switch {
		case c.kind == sidecar && c.state == running: // a sidecar only has to start
		case c.kind == initContainer && c.state == terminated && c.code == 0:
		case c.kind == initContainer && c.state == terminated: // failed for good
			m.phase, m.dirty = corev1.PodFailed, true
			for j := range i {
				m.inits[j].stop(0, e.now)
			}
			return false
		default:
			return false
		}
	}
	return true
}

func (m *podMachine) runApps(e env, at func(time.Time)) {
	over, failed := true, false
	started := true
	for i := range m.apps {
		c := &m.apps[i]
		m.run(c, e, at)
		if c.state != terminated {
			over = false
		} else if c.code != 0 {
			failed = true
		}
		if c.state == waiting && c.last == nil {
			started = false
		}
	}
	phase := corev1.PodRunning
	switch {
	case over && failed:
		phase = corev1.PodFailed
	case over:
		phase = corev1.PodSucceeded
	case !started:
		phase = corev1.PodPending
	}
	if over {
		for i := range m.inits {
			m.inits[i].stop(0, e.now)
		}
	}
	if phase != m.phase {
		m.phase, m.dirty = phase, true
	}
}

// run brings one container to its state at e.now.
func (m *podMachine) run(c *container, e env, at func(time.Time)) {
	for {
		switch c.state {
		case waiting:
			if e.now.Before(c.until) {
				at(c.until)
				return
			}
			if _, _, err := resolveImage(c.image); err != nil {
				if c.reason != reasonInvalidImageName {
					c.reason, c.message, m.dirty = reasonInvalidImageName, err.Error(), true
					m.event(e.now, corev1.EventTypeWarning, "InspectFailed", err.Error(), c)
				}
				return
			}
			if !m.pullImage(c, e, at) || !m.configure(c, e, at) {
				return
			}
			c.start(string(m.uid), e.now)
			m.dirty = true
			m.event(e.now, corev1.EventTypeNormal, "Created", "Container created", c)
			m.event(e.now, corev1.EventTypeNormal, "Started", "Container started", c)
		case running:
			if !c.exits {
				return
			}
			if e.now.Before(c.until) {
				at(c.until)
				return
			}
			c.exit(c.exitCode, c.until)
			m.dirty = true
		case terminated:
			if c.kind == initContainer && c.code == 0 || !c.restartable() {
				return
			}
			m.dirty = true
			if c.await(m.fullName(), e.now) {
				m.event(e.now, corev1.EventTypeWarning, "BackOff", fmt.Sprintf("Back-off restarting failed container %s in pod %s", c.name, m.fullName()), c)
			}
		}
	}
}
