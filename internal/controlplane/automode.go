package controlplane

import (
	"context"
	"reflect"

	"github.com/drydock-dev/drydock/internal/automode"
)

// SetAutoMode sets what the controllers of EKS Auto Mode in a plane's process need to know, without a restart: they are
// started, restarted or, with nil, stopped. The setting is not stored: the caller sets it again when the daemon starts.
// SetAutoMode does nothing if there is no such plane.
func (m *Manager) SetAutoMode(id string, to *automode.Setting) {
	p := m.find(id)
	if p == nil {
		return
	}
	p.mu.Lock()
	same := reflect.DeepEqual(p.autoMode, to)
	p.mu.Unlock()
	if !same {
		p.set(func() { p.autoMode = to })
	}
}

// answerAutoMode answers a call of the controllers. Those of a copy, and those that have been disabled, get no answer.
func (p *plane) answerAutoMode(ctx context.Context, call *automode.Call) automode.Answer {
	p.mu.Lock()
	on := p.autoMode != nil
	p.mu.Unlock()
	if p.m.hooks.AutoMode == nil || !on || call == nil {
		return automode.Answer{Failed: automode.Other, Problem: &automode.Problem{Reason: "Disabled", Message: "EKS Auto Mode is disabled"}}
	}
	return p.m.hooks.AutoMode(ctx, p.id, *call)
}
