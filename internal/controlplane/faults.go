package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/fault"
)

// faults are the faults of a plane that are in force; nil means that there is none.
type faults struct {
	down    *fault.Fault // its process is killed, and does not start
	expired *fault.Fault // its certificates have expired
	// inside are the faults of requests, which its process applies itself.
	inside launch.Faults
}

// followFaults applies the faults that users set, until Close.
func (m *Manager) followFaults() {
	for {
		changed := m.cfg.Faults.Changed()
		for _, p := range m.all() {
			p.applyFaults()
		}
		select {
		case <-m.closing:
			return
		case <-changed:
		}
	}
}

// fault returns the fault of a kind that a plane has, or nil.
func (p *plane) fault(kind fault.Kind) *fault.Fault {
	rec := p.snapshot()
	if rec.Owner == "" || rec.CopyOf != "" {
		return nil
	}
	return p.m.cfg.Faults.Cluster(kind, rec.Key.Account, rec.Key.Region, rec.Key.Name)
}

// applyFaults brings a plane in line with the faults in force. A process whose certificates change is restarted, because
// it would notice the change only after a while.
func (p *plane) applyFaults() {
	if p.storeFaults() {
		p.killRun()
	}
}

// storeFaults records the faults in force, and reports whether the plane's process has to be restarted.
func (p *plane) storeFaults() (restart bool) {
	p.faulting.Lock()
	defer p.faulting.Unlock()
	now := faults{down: p.fault(fault.ControlPlane), expired: p.fault(fault.ExpiredCA)}
	if f := p.fault(fault.SlowAPIServer); f != nil {
		now.inside.Delay = f.Delay
	}
	now.inside.NoSpace = p.fault(fault.EtcdFull) != nil
	p.mu.Lock()
	was := p.faults
	p.mu.Unlock()
	restart = now.down != nil && was.down == nil || (now.expired == nil) != (was.expired == nil)
	if !restart && (now.down == nil) == (was.down == nil) && now.inside == was.inside {
		return false
	}
	p.set(func() { p.faults = now })
	return restart
}

// awaitUp waits until no fault keeps the plane from running.
func (p *plane) awaitUp(ctx context.Context) error {
	for said := false; ; said = true {
		p.mu.Lock()
		down, changed := p.faults.down, p.changed
		p.mu.Unlock()
		switch {
		case down == nil:
			return nil
		case !said:
			p.setStatus(Failed, down.Why())
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// expired returns the fault because of which the plane's certificates have expired, or nil. An authority that was added since
// the fault began has not expired, so a rotation is the cure.
func (p *plane) expired() *fault.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.faults.expired; f != nil && p.secrets.CA.AddedAt.Before(f.Since) {
		return f
	}
	return nil
}

// hindered returns an error if a fault keeps the plane's controllers from running.
func (p *plane) hindered() error {
	p.mu.Lock()
	down := p.faults.down
	p.mu.Unlock()
	if down != nil {
		return p.isDown(down)
	}
	if f := p.expired(); f != nil {
		return fault.Because(fmt.Errorf("the certificates of control plane %s have expired: %s", p.id, f.Why()), f)
	}
	return nil
}

func (p *plane) isDown(f *fault.Fault) error {
	return fault.Because(fmt.Errorf("control plane %s is down: %s", p.id, f.Why()), f)
}

// expire returns keys of the plane as a fault leaves them: the certificates of authorities that are older than the fault have
// expired, and all certificates that these issue.
func (p *plane) expire(sec secrets) (secrets, error) {
	p.mu.Lock()
	f := p.faults.expired
	p.mu.Unlock()
	if f == nil {
		return sec, nil
	}
	sec.Trusted = slices.Clone(sec.Trusted)
	all := []*authority{&sec.CA}
	for i := range sec.Trusted {
		all = append(all, &sec.Trusted[i])
	}
	for _, a := range all {
		if !a.AddedAt.Before(f.Since) {
			continue
		}
		var err error
		if *a, err = a.expiredAt(f.Since); err != nil {
			return sec, err
		}
	}
	return sec, nil
}

// upgradeFault returns the error of an upgrade that a fault lets fail, or nil.
func (p *plane) upgradeFault() error {
	if f := p.fault(fault.Upgrade); f != nil {
		return fault.Because(errors.New("the new API servers did not pass their health checks"), f)
	}
	return nil
}

// awaitLogging waits until what the daemon wants of a process differs from what the process has, but at most
// holdLogging, and returns it.
func (p *plane) awaitLogging(ctx context.Context, have launch.Logging) launch.Logging {
	ctx, cancel := context.WithTimeout(ctx, holdLogging)
	defer cancel()
	for {
		p.mu.Lock()
		wanted, changed := launch.Logging{Components: p.rec.Logging, Faults: p.faults.inside, AutoMode: p.autoMode}, p.changed
		p.mu.Unlock()
		if !wanted.Equal(have) {
			return wanted
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return wanted
		}
	}
}
