package controlplane

import (
	"errors"
	"time"

	"github.com/drydock-dev/drydock/internal/store"
)

// spareDelay is how long no plane must have been claimed, with all claimed planes ready, before spares are started.
// Users who create a cluster keep working with it, and should get the CPU first.
const spareDelay = 4 * time.Second

// wakeSpares makes keepSpares check again.
func (m *Manager) wakeSpares() {
	select {
	case m.spares <- struct{}{}:
	default:
	}
}

// keepSpares keeps Config.WarmSpares planes running that fit the key that was claimed last, and no others.
func (m *Manager) keepSpares() {
	m.wakeSpares()
	for {
		select {
		case <-m.closing:
			return
		case <-m.spares:
		}
		if !m.quiet() {
			continue // closing, or when a plane becomes ready, which wakes this again
		}
		if err := m.tendSpares(); err != nil && !m.isClosed() {
			m.cfg.Log.Warn("preparing spare control planes", "err", err)
		}
	}
}

// quiet waits until nothing has happened for spareDelay. It returns false if claimed planes are starting.
func (m *Manager) quiet() bool {
	for {
		for _, p := range m.all() {
			if p.snapshot().Owner != "" && p.currentStatus().State == Starting {
				return false
			}
		}
		if m.cfg.WarmSpares == 0 {
			return true // nothing to start
		}
		timer := m.cfg.Clock.NewTimer(spareDelay)
		select {
		case <-m.closing:
			timer.Stop()
			return false
		case <-m.spares:
			timer.Stop()
		case <-timer.C():
			return true
		}
	}
}

// tendSpares removes spares that do not fit and creates missing ones.
func (m *Manager) tendSpares() error {
	want, err := lastKeys.Get(m.cfg.Store, recordKey("last"))
	lacking := m.cfg.WarmSpares
	switch {
	case errors.Is(err, store.ErrNotFound):
		lacking = 0
	case err != nil:
		return err
	}
	m.birth.Lock()
	defer m.birth.Unlock()
	for _, p := range m.all() {
		rec := p.snapshot()
		if rec.Owner != "" || rec.Releasing {
			continue
		}
		// A reset of the store removes the records.
		_, err := records.Get(m.cfg.Store, recordKey(p.id))
		if lacking == 0 || rec.Key.kind() != want || errors.Is(err, store.ErrNotFound) {
			if err := m.Release(m.ctx, p.id); err != nil {
				return err
			}
			continue
		}
		lacking--
		if err := m.startSpare(p); err != nil {
			return err
		}
	}
	for ; lacking > 0; lacking-- {
		p, err := m.bear(m.ctx, "", want, "", "")
		if err != nil {
			return err
		}
		if err := m.startSpare(p); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) startSpare(p *plane) error {
	if p.running() {
		return nil
	}
	if err := p.listen(m.ctx); err != nil {
		return err
	}
	return p.boot(m.ctx)
}
