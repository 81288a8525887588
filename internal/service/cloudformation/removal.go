package cloudformation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// rollBack deletes the resources that were created.
func (o *operation) rollBack(ctx context.Context) error {
	bad, err := o.removeAll(ctx)
	switch {
	case err != nil:
		return err
	case len(bad) > 0:
		return o.setStack(ctx, cloudformationtypes.StackStatusRollbackFailed, failedToDelete(bad), nil)
	}
	return o.setStack(ctx, cloudformationtypes.StackStatusRollbackComplete, "", nil)
}

// remove deletes the stack.
func (o *operation) remove(ctx context.Context) error {
	bad, err := o.removeAll(ctx)
	switch {
	case err != nil:
		return err
	case len(bad) > 0:
		return o.setStack(ctx, cloudformationtypes.StackStatusDeleteFailed, failedToDelete(bad), nil)
	}
	if err := o.s.dropReviewsBelow(ctx, &foundStack{o.key, o.rec}); err != nil {
		return err
	}
	if left := o.rec.Deleted.Add(o.s.cfg.Deleting).Sub(o.s.now()); left > 0 && o.s.cfg.Deleting > 0 {
		timer := o.s.clock.NewTimer(left)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return o.setStack(ctx, cloudformationtypes.StackStatusDeleteComplete, "", nil)
}

// removeAll deletes all resources, each of them before its dependencies. If a resource cannot be deleted, its
// dependencies stay.
func (o *operation) removeAll(ctx context.Context) (bad []string, err error) {
	waits := map[string][]string{}
	for _, item := range resources.All(o.s.store, within(o.key)) {
		delay(waits, item.Value.LogicalID, item.Value.DependsOn)
	}
	var mu sync.Mutex
	o.walk(waits, func(id string) bool {
		r, ok := o.resource(id)
		if !ok {
			return true
		}
		defer func() {
			if !ok { // even after a panic
				mu.Lock()
				bad = append(bad, id)
				mu.Unlock()
			}
		}()
		ok = false
		ok = o.removeResource(ctx, r)
		return ok
	}, func() bool { return ctx.Err() != nil })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.Sort(bad)
	return bad, nil
}

func failedToDelete(bad []string) string {
	return fmt.Sprintf("The following resource(s) failed to delete: [%s]. ", strings.Join(bad, ", "))
}

// removeResource deletes one resource, including everything that earlier updates left
// behind, and reports whether it is gone.
func (o *operation) removeResource(ctx context.Context, rec resourceRecord) bool {
	ok := o.removeDiscarded(ctx, rec.LogicalID)
	if rec.Status == cloudformationtypes.ResourceStatusDeleteComplete || rec.Status == cloudformationtypes.ResourceStatusDeleteSkipped {
		return ok
	}
	say := func(status cloudformationtypes.ResourceStatus, err error) {
		o.logged(o.note(rec.LogicalID, true, func(r *resourceRecord) { r.Status = status; r.because(err) }))
	}
	keep := rec.DeletionPolicy == "Retain" || rec.DeletionPolicy == "RetainExceptOnCreate" && !o.undoes() || slices.Contains(o.rec.Retain, rec.LogicalID)
	return o.removeState(ctx, &rec, &rec.resourceState, keep, say) && ok
}

// removeDiscarded deletes physical resources that have been replaced, and reports whether
// all of them are gone.
func (o *operation) removeDiscarded(ctx context.Context, id string) bool {
	rec, _ := o.resource(id)
	if rec.Old != nil {
		o.logged(o.note(id, false, (*resourceRecord).forget))
		rec, _ = o.resource(id)
	}
	return o.removeLeftovers(ctx, rec)
}

// removeLeftovers deletes the discarded physical resources in a resource's record.
func (o *operation) removeLeftovers(ctx context.Context, rec resourceRecord) bool {
	id, ok := rec.LogicalID, true
	for _, d := range rec.Discarded {
		about := rec
		about.Status, about.Discarded, about.resourceState = "", nil, d.resourceState
		gone := o.removeState(ctx, &about, &about.resourceState, d.Retain, func(status cloudformationtypes.ResourceStatus, err error) {
			said := about
			said.Status = status
			said.because(err)
			o.logged(o.write(id, func(*resourceRecord) *resourceRecord { return &said }))
		})
		if gone {
			o.logged(o.note(id, false, func(rec *resourceRecord) {
				rec.Discarded = slices.DeleteFunc(slices.Clone(rec.Discarded), func(other discardRecord) bool { return other.Token == d.Token })
			}))
		}
		ok = ok && gone
	}
	return ok
}

// forget drops the state of a resource before the update, so that the update can no longer
// be rolled back.
func (rec *resourceRecord) forget() {
	if rec.Old != nil && rec.Replaced && !rec.OldGone {
		rec.Discarded = append(rec.Discarded, discardRecord{*rec.Old, rec.Old.UpdateReplacePolicy == "Retain"})
	}
	rec.Old, rec.Replaced, rec.OldGone, rec.Restored, rec.Undeclared = nil, false, false, false, false
}

// undoes reports whether the operation rolls back a creation or an update.
func (o *operation) undoes() bool {
	return o.rec.Status == cloudformationtypes.StackStatusRollbackInProgress || o.rec.Status == cloudformationtypes.StackStatusUpdateRollbackCompleteCleanupInProgress
}

// removeState deletes a physical resource, or retains it if keep is true, and reports
// whether the stack no longer has it.
func (o *operation) removeState(ctx context.Context, rec *resourceRecord, st *resourceState, keep bool, say func(cloudformationtypes.ResourceStatus, error)) bool {
	h, _ := handlerOf(rec.Type)
	as, err := o.as(ctx)
	if err != nil {
		say(cloudformationtypes.ResourceStatusDeleteFailed, err)
		return false
	}
	r := o.request(as, rec, st)
	if r.id == "" && st.Begun {
		if r.id, err = r.find(h); err != nil {
			say(cloudformationtypes.ResourceStatusDeleteFailed, r.reason(err))
			return false
		}
		switch {
		case h.find == nil:
			r.id = st.Token // its removal uses the properties instead
		case r.id != "": // so that events name it, especially if it is retained
			st.PhysicalID = r.id
			o.logged(o.note(rec.LogicalID, false, func(now *resourceRecord) {
				if now.Token == st.Token {
					now.PhysicalID = r.id
				}
			}))
		}
	}
	switch {
	case r.id == "":
		if o.undoes() || rec.Status == "" { // a resource that was not created has no further events
			return true
		}
	case keep:
		say(cloudformationtypes.ResourceStatusDeleteSkipped, nil)
		return true
	}
	if rec.Status != cloudformationtypes.ResourceStatusDeleteInProgress {
		say(cloudformationtypes.ResourceStatusDeleteInProgress, nil)
	}
	_ = r.reveal() // a secret that no longer exists does not prevent the deletion
	if r.id != "" && h.snapshot != nil && st.DeletionPolicy == "Snapshot" {
		if err := h.snapshot(r); err != nil {
			if ctx.Err() == nil {
				say(cloudformationtypes.ResourceStatusDeleteFailed, r.reason(err))
			}
			return false
		}
	}
	if r.id != "" && h.remove != nil {
		err = r.retried(h.remove)
		if ctx.Err() != nil {
			return false
		}
		if err != nil && !notFound(err) {
			say(cloudformationtypes.ResourceStatusDeleteFailed, r.reason(err))
			return false
		}
	}
	say(cloudformationtypes.ResourceStatusDeleteComplete, nil)
	return true
}

// Deletions that are blocked by other resources are retried for a while.
const (
	inTheWay      = 2 * time.Minute
	inTheWayPause = 2 * time.Second
)

func (r *request) retried(remove func(*request) error) error {
	until := r.o.s.now().Add(inTheWay)
	for {
		err := remove(r)
		if code := codeOf(err); code != "DependencyViolation" && code != "InvalidIPAddress.InUse" || r.o.s.now().After(until) {
			return err
		}
		timer := r.o.s.clock.NewTimer(inTheWayPause)
		select {
		case <-timer.C():
		case <-r.ctx.Done():
			timer.Stop()
			return context.Cause(r.ctx)
		}
	}
}
