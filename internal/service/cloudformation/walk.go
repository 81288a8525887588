package cloudformation

import (
	"context"
	"slices"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// walk calls do for every node of a graph, concurrently for all nodes whose dependencies are done, and returns when
// all calls have returned. It skips nodes that depend on a failed node. The resources of two versions of a stack can
// form a cycle, which is entered at an arbitrary node. No calls start after stop has returned true. A panic in do
// fails only the resource, so that no template can crash the daemon.
func (o *operation) walk(waits map[string][]string, do func(id string) bool, stop func() bool) {
	type end struct {
		id string
		ok bool
	}
	ends := make(chan end)
	done, begun, running := map[string]bool{}, map[string]bool{}, 0
	begin := func(id string) {
		begun[id] = true
		running++
		go func() {
			ok := false
			defer func() {
				if p := recover(); p != nil {
					ok = false
					o.panicked(id, p)
				}
				ends <- end{id, ok}
			}()
			ok = do(id)
		}()
	}
	for {
		for id, on := range waits {
			if !begun[id] && !stop() && !slices.ContainsFunc(on, func(d string) bool { _, known := waits[d]; return known && !done[d] }) {
				begin(id)
			}
		}
		if running == 0 && len(done) == len(begun) && !stop() {
			for id := range waits {
				if !begun[id] {
					begin(id)
					break
				}
			}
		}
		if running == 0 {
			return
		}
		e := <-ends
		running--
		if e.ok {
			done[e.id] = true
		}
	}
}

// inOrder calls do for every resource, concurrently unless one depends on another. If a call fails, inOrder cancels
// the running calls and starts no more.
func (o *operation) inOrder(ctx context.Context, list []*template.Resource, do func(context.Context, *template.Resource) bool) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	waits, declared := map[string][]string{}, map[string]*template.Resource{}
	for _, d := range list {
		waits[d.ID], declared[d.ID] = d.DependsOn, d
	}
	o.walk(waits, func(id string) bool {
		ok := do(ctx, declared[id])
		if !ok {
			cancel(errSibling)
		}
		return ok
	}, func() bool { return ctx.Err() != nil })
}

// delay adds a resource to the graph of deletions, in which its dependencies wait for it.
func delay(waits map[string][]string, id string, on []string) {
	if _, ok := waits[id]; !ok {
		waits[id] = nil
	}
	for _, d := range on {
		waits[d] = append(waits[d], id)
	}
}
