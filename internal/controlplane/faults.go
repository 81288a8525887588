package controlplane

import (
	"context"
	"errors"

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
	now := faults{down: p.fault(fault.ControlPlane), expired: p.fault(fault.ExpiredCA)}
	if f := p.fault(fault.SlowAPIServer); f != nil {
		now.inside.Delay = f.Delay
	}
	now.inside.NoSpace = p.fault(fault.EtcdFull) != nil
	p.mu.Lock()
	was := p.faults
	p.mu.Unlock()
	restart := now.down != nil && was.down == nil || (now.expired == nil) != (was.expired == nil)
	if !restart && (now.down == nil) == (was.down == nil) && now.inside == was.inside {
		return
	}
	p.set(func() { p.faults = now })
	if restart {
		p.killRun()
	}
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

// expired returns the fault because of which the plane's certificates have expired, or nil.
func (p *plane) expired() *fault.Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults.expired
}

// currentSecrets returns the plane's keys. If a fault says that its authority has expired, its certificate has, and all
// certificates that it issues.
func (p *plane) currentSecrets() (secrets, error) {
	sec, f := p.keys(), p.expired()
	if f == nil {
		return sec, nil
	}
	var err error
	sec.CA, err = sec.CA.expiredAt(f.Since)
	return sec, err
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
		wanted, changed := launch.Logging{Components: p.rec.Logging, Faults: p.faults.inside}, p.changed
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
