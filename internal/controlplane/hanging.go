package controlplane

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// longestSilence is how long a process may fail to answer, unless Config says something else. The kubelet gives
// kubeadm's API servers about as long.
// https://github.com/kubernetes/kubernetes/blob/v1.36.3/cmd/kubeadm/app/util/staticpod/utils.go (LivenessProbe)
const longestSilence = 2 * time.Minute

const (
	// maxUnanswered is how many probes in a row a process may leave unanswered before it is killed.
	maxUnanswered = 4
	// maxStarting is how many probes may find a process still starting: five times as long.
	maxStarting = 5 * 2 * maxUnanswered
)

// A hanging is a process that did not answer a probe, or is not ready.
type hanging struct {
	pid   int
	state State
	times int
}

// endHanging kills processes that no longer answer or never become ready, because they hang or were stopped by a
// signal. Their supervisors restart them.
func (m *Manager) endHanging() {
	pause := m.cfg.Silence / (2 * maxUnanswered) // and as long for an answer
	unanswered := map[string]hanging{}
	for {
		timer := time.NewTimer(pause) // monotonic: time in which the machine slept does not count
		select {
		case <-m.closing:
			timer.Stop()
			return
		case <-timer.C:
		}
		last := unanswered
		unanswered = map[string]hanging{}
		var mu sync.Mutex
		var group sync.WaitGroup
		for _, p := range m.all() {
			status := p.processStatus()
			if status.PID == 0 || p.expired() != nil {
				continue // it has no process, or one that no client can connect to
			}
			group.Go(func() {
				most := maxStarting
				if status.State == Ready {
					most = maxUnanswered
					if p.answers(m.ctx, pause) || m.isClosed() {
						return
					}
				}
				h := hanging{status.PID, status.State, 1}
				if was := last[p.id]; was.pid == h.pid && was.state == h.state {
					h.times += was.times
				}
				if h.times >= most {
					m.cfg.Log.Error("a control plane is not responding, restarting it", "plane", p.id, "pid", h.pid, "state", h.state)
					p.killRun()
				}
				mu.Lock()
				defer mu.Unlock()
				unanswered[p.id] = h
			})
		}
		group.Wait()
	}
}

// answers reports whether the process answers at all.
func (p *plane) answers(ctx context.Context, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cfg := p.clients.config(false)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, cfg.Host+"/livez/ping", nil)
	if err != nil {
		return true
	}
	resp, err := cfg.Transport.RoundTrip(req)
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // so that the connection can be reused
	_ = resp.Body.Close()
	return true
}

// processStatus returns the status of the process, without explanations.
func (p *plane) processStatus() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

func (p *plane) killRun() {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.process != nil {
		p.process.KillRun()
	}
}
