// Package eventstest provides a bus for testing the events that services send on their own.
package eventstest

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/serviceevents"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A Bus keeps the events that are sent to it. The zero value is ready to use.
type Bus struct {
	mu     sync.Mutex
	events []serviceevents.Event
	states map[string]string
}

// EmitOnce implements serviceevents.Bus.
func (b *Bus) EmitOnce(account, region, thing, state string, e *serviceevents.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.states == nil {
		b.states = map[string]string{}
	}
	if b.states[thing] == state {
		return nil
	}
	b.states[thing] = state
	if e != nil {
		e.Account, e.Region = account, region
		b.events = append(b.events, *e)
	}
	return nil
}

// Emit implements serviceevents.Bus.
func (b *Bus) Emit(account, region string, e *serviceevents.Event) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.Account, e.Region = account, region
	b.events = append(b.events, *e)
	return nil
}

// Emitted implements serviceevents.Bus.
func (b *Bus) Emitted(_, _, thing string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[thing]
}

// Forget implements serviceevents.Bus.
func (b *Bus) Forget(_, _, thing string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.states, func(t, _ string) bool { return t == thing || strings.HasPrefix(t, thing+"/") })
	return nil
}

// Known returns the number of things whose state the bus has recorded.
func (b *Bus) Known() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.states)
}

// Next waits for the next event of a type, removes it and returns it.
func (b *Bus) Next(t testing.TB, detailType string) serviceevents.Event {
	t.Helper()
	var out serviceevents.Event
	testkit.Eventually(t, 20*time.Second, func() error {
		b.mu.Lock()
		defer b.mu.Unlock()
		var seen []string
		for i, e := range b.events {
			if e.DetailType == detailType {
				out = e
				b.events = append(b.events[:i], b.events[i+1:]...)
				return nil
			}
			seen = append(seen, e.DetailType)
		}
		return fmt.Errorf("no event %q, but %q", detailType, seen)
	})
	return out
}

// Left returns the types of the events that Next has not returned.
func (b *Bus) Left() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := []string{}
	for _, e := range b.events {
		out = append(out, e.DetailType)
	}
	return out
}
