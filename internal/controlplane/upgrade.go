package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/fault"
)

// retireTime is how long a process that has been replaced may take to complete its requests.
const retireTime = 10 * time.Second

// Upgrade changes the Kubernetes version of a plane, up or down, while it serves:
//
//  1. A second process starts beside the plane's, with the new version and the same state, keys and files. Only its
//     API server runs.
//  2. When that answers, the version is stored and new connections go to it.
//  3. The old process stops its controllers, completes its requests, makes its clients reconnect, and exits.
//  4. The new process starts its controllers.
//
// Until the version is stored, a failure or crash leaves the plane as it was. After that, a crash restarts it with the
// new version. Upgrade may be repeated after an error. For a plane that has the version already, it only waits until
// the plane is ready.
func (m *Manager) Upgrade(ctx context.Context, id, version string) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	key := p.snapshot().Key
	key.Version = version
	if err := key.validate(); err != nil {
		return err
	}
	p.upgrading.Lock()
	defer p.upgrading.Unlock()
	if p.snapshot().Key.Version == version {
		return p.awaitLeading(ctx)
	}
	return p.replaceLeading(ctx, version)
}

// Replace replaces a plane's process while it serves, as Upgrade does, with one of the same version.
func (m *Manager) Replace(ctx context.Context, id string) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	p.upgrading.Lock()
	defer p.upgrading.Unlock()
	return p.replaceLeading(ctx, p.snapshot().Key.Version)
}

// Configure changes settings of a plane's components while it serves: it replaces its process, as Upgrade does, unless the
// process has them. If a fault keeps the controllers of a plane that has the settings from running, Configure does not wait
// for them. After an error of the new process the plane has its old settings. Configure may be repeated.
func (m *Manager) Configure(ctx context.Context, id string, to Settings) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	p.upgrading.Lock()
	defer p.upgrading.Unlock()
	key := p.snapshot().Key
	set := func(ctx context.Context, to Settings) error {
		return p.update(ctx, func(r *record) error { r.Key.Settings = to; return nil })
	}
	switch hindered := p.hindered(); {
	case key.Settings == to && hindered != nil:
		return nil // the process has them, or starts with them when the fault ends
	case hindered != nil:
		return hindered
	case key.Settings != to:
		if err := set(ctx, to); err != nil {
			return err
		}
	}
	if !p.runsWith(to) {
		if err := p.replace(ctx, key.Version); err != nil {
			if p.runsWith(to) {
				return err
			}
			return errors.Join(err, set(context.WithoutCancel(ctx), key.Settings))
		}
	}
	if err := p.awaitLeading(ctx); fault.Of(err) == nil {
		return err
	}
	return nil
}

// runsWith reports whether the plane's process was started with settings.
func (p *plane) runsWith(s Settings) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process != nil && p.process.settings == s
}

// replaceLeading is replace for a plane whose controllers can run, and waits for them.
func (p *plane) replaceLeading(ctx context.Context, version string) error {
	if err := p.hindered(); err != nil {
		return err
	}
	if err := p.replace(ctx, version); err != nil {
		return err
	}
	return p.awaitLeading(ctx)
}

// replace replaces the plane's process with one of a version. The caller holds p.upgrading.
func (p *plane) replace(ctx context.Context, version string) error {
	next, err := p.startSuccessor(ctx, version)
	if err != nil {
		return err
	}
	port, err := p.awaitServing(ctx, next)
	if err == nil && version != p.snapshot().Key.Version {
		err = p.upgradeFault()
	}
	var old *process
	if err == nil {
		old, err = p.succeed(ctx, next, port)
	}
	if err != nil {
		p.endSuccessor(next)
		return fmt.Errorf("starting Kubernetes %s for control plane %s: %w", version, p.id, err)
	}
	p.retire(old, next)
	return nil
}

// A succession is the progress of a process that replaces another one.
type succession struct {
	version string     // what the process emulates until it is the plane's
	serving chan int   // gets its port when it serves
	failed  chan error // gets its first error
}

// heard records a report of the process. s is nil for a process that replaces no other.
func (s *succession) heard(r launch.Report) {
	switch {
	case s == nil:
	case r.Event == launch.Serving:
		offer(s.serving, r.Port)
	case r.Event == launch.Fatal:
		s.over(errors.New(r.Reason))
	}
}

// over records that the process has ended.
func (s *succession) over(err error) {
	if s != nil {
		offer(s.failed, err)
	}
}

// offer sends a value, unless the channel is full.
func offer[T any](ch chan T, v T) {
	select {
	case ch <- v:
	default:
	}
}

// awaitServing waits until a successor serves, and returns its port.
func (p *plane) awaitServing(ctx context.Context, next *process) (port int, err error) {
	for {
		p.mu.Lock()
		down, changed := p.faults.down, p.changed
		p.mu.Unlock()
		if down != nil {
			return 0, p.isDown(down)
		}
		select {
		case port := <-next.serving:
			return port, nil
		case err := <-next.failed:
			return 0, err
		case <-changed:
		case <-p.m.closing:
			return 0, errClosed
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// awaitLeading waits until the controllers of the plane's process run, unless a fault prevents that.
func (p *plane) awaitLeading(ctx context.Context) error {
	for {
		p.mu.Lock()
		leads, changed := p.process != nil && p.process.leads, p.changed
		p.mu.Unlock()
		switch {
		case leads:
			return nil
		case p.isReleased():
			return ErrNotFound
		}
		if err := p.hindered(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-p.m.closing:
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("waiting for the controllers of control plane %s: %w", p.id, ctx.Err())
		}
	}
}

// startSuccessor starts the process that will replace the plane's.
func (p *plane) startSuccessor(ctx context.Context, version string) (*process, error) {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.snapshot().Releasing {
		return nil, ErrNotFound
	}
	if p.process == nil {
		return nil, fmt.Errorf("control plane %s has not been started", p.id)
	}
	next := &process{succession: &succession{
		version: version, serving: make(chan int, 1), failed: make(chan error, 1),
	}}
	p.start(ctx, next)
	return next, nil
}

// endSuccessor ends a successor that will not replace the plane's process.
func (p *plane) endSuccessor(next *process) {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.successor == next { // otherwise halt has ended it, or it serves
		next.end((*childproc.Supervisor).Kill)
		p.successor = nil
	}
}

// succeed replaces the plane's process with its successor, which serves on port, and returns the old one.
func (p *plane) succeed(ctx context.Context, next *process, port int) (old *process, err error) {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.successor != next {
		return nil, errors.New("the control plane was stopped")
	}
	select {
	case err := <-next.failed: // since it served
		return nil, err
	default:
	}
	if err := p.update(ctx, func(r *record) error {
		if r.Releasing {
			return ErrNotFound
		}
		r.Key.Version = next.version
		return nil
	}); err != nil {
		return nil, err
	}
	old = p.process
	p.successor, p.retiring = nil, old
	reason := ""
	if f := p.expired(); f != nil {
		reason = f.Why()
	}
	p.set(func() {
		p.process = next
		p.status = Status{State: Ready, Reason: reason, PID: next.pid, Restarts: p.status.Restarts, Since: p.m.cfg.Clock.Now()}
		p.backend = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	})
	p.clients.closeIdle()
	old.unboot()
	return old, nil
}

// retire ends the process that next has replaced, and lets next start the controllers. It does not hold p.lifecycle
// while it waits, so that the plane can be released.
func (p *plane) retire(old, next *process) {
	old.Retire([]byte(launch.Retire), retireTime)
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.retiring = nil; p.process != next || p.expired() != nil {
		return // stopped, or its controllers would end at once
	}
	if err := next.Send([]byte(launch.Lead)); err != nil {
		// It has ended. Its supervisor restarts it as the plane's process, with the controllers.
		p.m.cfg.Log.Warn("the new process of a control plane ended early", "plane", p.id, "err", err)
	}
}
