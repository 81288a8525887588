package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// update takes the stack to its new version, in parallel unless one resource depends on
// another. Resources that the new version no longer has are deleted afterwards, in cleanUp.
func (o *operation) update(ctx context.Context) error {
	if o.rec.Fault != "" {
		return o.updateFailed(ctx, o.rec.Fault)
	}
	if err := o.bound(); err != nil {
		return o.updateFailed(ctx, err.Error()) // an older version of Drydock accepted the template
	}
	as, err := o.as(ctx)
	if err != nil {
		return o.updateFailed(ctx, err.Error())
	}
	if missing := o.s.missing(as, o.t, &o.rec); missing != "" {
		return o.updateFailed(ctx, missing)
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, item := range resources.All(o.s.store, within(o.key)) {
		rec := item.Value
		if !o.declares(rec.LogicalID) && !gone(rec.Status) {
			if err := o.permits(actionDelete, rec.LogicalID, rec.Type); err != nil {
				o.fail(rec.LogicalID, err)
				cancel(errSibling)
			}
		}
	}
	o.inOrder(work, o.instance.Resources, o.updateResource)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	o.cancelRest()
	if cause := o.badInStep(); cause != "" {
		return o.updateFailed(ctx, cause)
	}
	refusal, err := o.publish(ctx, cloudformationtypes.StackStatusUpdateCompleteCleanupInProgress)
	if refusal != "" {
		return o.updateFailed(ctx, refusal)
	}
	return err
}

// badInStep returns a text that lists the resources that failed in this step, or "" if none did.
func (o *operation) badInStep() string {
	var created, updated []string
	for _, item := range resources.All(o.s.store, within(o.key)) {
		switch rec := item.Value; {
		case rec.Step != o.step:
		case rec.Status == cloudformationtypes.ResourceStatusCreateFailed:
			created = append(created, rec.LogicalID)
		case rec.Status == cloudformationtypes.ResourceStatusUpdateFailed:
			updated = append(updated, rec.LogicalID)
		}
	}
	cause := ""
	if len(created) > 0 {
		cause = fmt.Sprintf("The following resource(s) failed to create: [%s]. ", strings.Join(created, ", "))
	}
	if len(updated) > 0 {
		cause += failedToUpdate(updated)
	}
	return cause
}

func failedToUpdate(bad []string) string {
	return fmt.Sprintf("The following resource(s) failed to update: [%s]. ", strings.Join(bad, ", "))
}

// updateFailed ends a failed update. A stack whose creation failed has no previous version,
// so its rollback deletes everything.
func (o *operation) updateFailed(ctx context.Context, cause string) error {
	switch {
	case o.rec.KeepFailed:
		return o.setStack(ctx, cloudformationtypes.StackStatusUpdateFailed, cause, nil)
	case o.rec.Previous == nil:
		return o.setStack(ctx, cloudformationtypes.StackStatusRollbackInProgress, cause, nil)
	}
	return o.setStack(ctx, cloudformationtypes.StackStatusUpdateRollbackInProgress, cause, nil)
}

func failed(s cloudformationtypes.ResourceStatus) bool {
	return strings.HasSuffix(string(s), "_FAILED")
}

func ongoing(s cloudformationtypes.ResourceStatus) bool {
	return strings.HasSuffix(string(s), "_IN_PROGRESS")
}

func gone(s cloudformationtypes.ResourceStatus) bool {
	return s == cloudformationtypes.ResourceStatusDeleteComplete || s == cloudformationtypes.ResourceStatusDeleteSkipped
}

// updateResource takes one resource to the new version and reports whether it succeeded.
func (o *operation) updateResource(ctx context.Context, d *template.Resource) bool {
	rec, ok := o.resource(d.ID)
	mine := ok && rec.Step == o.step
	switch {
	case mine && !ongoing(rec.Status):
		return !failed(rec.Status)
	case mine && rec.Status == cloudformationtypes.ResourceStatusCreateInProgress, mine && rec.Replaced:
		return o.concluded(ctx, d.ID, o.bringUp(ctx, d))
	case !ok, gone(rec.Status):
		if err := o.addResource(d); err != nil {
			return false
		}
		return o.concluded(ctx, d.ID, o.bringUp(ctx, d))
	case rec.Status == cloudformationtypes.ResourceStatusCreateFailed:
		// An update or creation failed and was not rolled back.
		if !o.removeState(ctx, &rec, &rec.resourceState, false, func(cloudformationtypes.ResourceStatus, error) {}) {
			return o.concluded(ctx, d.ID, fmt.Errorf("resource %s failed and cannot be deleted", d.ID))
		}
		if err := o.addResource(d); err != nil {
			return false
		}
		return o.concluded(ctx, d.ID, o.bringUp(ctx, d))
	}
	return o.concluded(ctx, d.ID, o.change(ctx, d, rec, mine))
}

// change updates an existing resource, replaces it, or leaves it alone. again is true if a
// daemon that was killed had already begun the change.
func (o *operation) change(ctx context.Context, d *template.Resource, rec resourceRecord, again bool) error {
	rt, err := o.runtime(ctx)
	if err != nil {
		return err
	}
	r := o.request(rt.ctx, &rec, &rec.resourceState)
	if r.props, err = o.instance.Properties(d, rt); err != nil {
		return err
	}
	r.stackTags = o.rec.Tags
	metadata, err := o.metadata(d, rt)
	if err != nil {
		return err
	}
	if r.updatePolicy, err = o.updatePolicy(d, rt); err != nil {
		return err
	}
	befores := []resourceState{rec.resourceState}
	if rec.Old != nil && !rec.Replaced {
		// It is not known how far an interrupted or failed update got.
		befores = []resourceState{*rec.Old, rec.resourceState}
	}
	before := befores[0]
	r.was = o.request(rt.ctx, &rec, &before)
	changed := r.differences()
	unfinished := again || rec.Status == cloudformationtypes.ResourceStatusUpdateFailed || rec.Status == cloudformationtypes.ResourceStatusDeleteFailed
	set := func(rec *resourceRecord) {
		rec.DependsOn, rec.DeletionPolicy, rec.UpdateReplacePolicy, rec.Metadata, rec.Tags = d.DependsOn, d.DeletionPolicy, d.UpdateReplacePolicy, metadata, o.rec.Tags
		rec.UpdatePolicy = r.updatePolicy
	}
	// The template of a nested stack may have changed.
	if len(changed) == 0 && metadata == before.Metadata && !unfinished && d.Type != stackTyp {
		next := rec
		if set(&next); slices.Equal(next.DependsOn, rec.DependsOn) && next.DeletionPolicy == rec.DeletionPolicy && next.UpdateReplacePolicy == rec.UpdateReplacePolicy && slices.Equal(next.Tags, rec.Tags) && slices.Equal(next.UpdatePolicy, rec.UpdatePolicy) {
			return nil
		}
		return o.note(d.ID, false, func(rec *resourceRecord) { rec.remember(); set(rec) })
	}
	if d.Type == waitCondition && len(changed) > 0 {
		return errors.New("Update to resource type AWS::CloudFormation::WaitCondition is not supported.") //nolint:staticcheck // AWS's words
	}
	revealed := *r
	if err := revealed.reveal(); err != nil {
		return err
	}
	if err := schemas()[d.Type].check(d.ID, revealed.props); err != nil {
		return revealed.censor(err)
	}
	if err := revealed.checkTags(); err != nil {
		return revealed.censor(err)
	}
	another := d.Type == scalingGroup && willReplace(r.updatePolicy) && r.changed(launching...)
	if rec.Replaced && unfinished || another || replaces(d.Type, changed) {
		if err := o.permits(actionReplace, d.ID, d.Type); err != nil {
			return err
		}
		return o.replace(ctx, d, r)
	}
	if err := o.permits(actionModify, d.ID, d.Type); err != nil && (len(changed) > 0 || d.Type != stackTyp) {
		return err
	}
	if !again {
		// This comes before the resource is recorded as changed, so that a rollback has nothing to undo.
		if err := r.changeable(changed); err != nil {
			return err
		}
		err := o.note(d.ID, true, func(rec *resourceRecord) {
			rec.remember()
			set(rec)
			rec.Status, rec.Reason, rec.Step, rec.Properties = cloudformationtypes.ResourceStatusUpdateInProgress, "", o.step, []byte(template.JSON(r.props))
		})
		if err != nil {
			return err
		}
	}
	var attributes map[string]any
	for _, b := range befores {
		r.was = o.request(rt.ctx, &rec, &b)
		if attributes, err = r.updateInPlace(); err != nil {
			return err
		}
	}
	return o.note(d.ID, true, func(rec *resourceRecord) {
		rec.PhysicalID = r.id
		rec.complete(attributes)
	})
}

// remember saves the current state of a resource for a rollback.
func (rec *resourceRecord) remember() {
	if rec.Old == nil {
		rec.Old = new(rec.resourceState)
		rec.Undeclared = rec.Status == cloudformationtypes.ResourceStatusDeleteFailed
	}
}

// before returns the state of the resource before the update.
func (rec *resourceRecord) before() *resourceState {
	if rec.Old != nil {
		return rec.Old
	}
	return &rec.resourceState
}

// differences returns the properties that an update changes. They include Tags if only the
// stack's tags change.
func (r *request) differences() (out []string) {
	for _, k := range append(slices.Clone(r.props.Keys()), r.was.props.Keys()...) {
		if r.changed(k) && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	tags := tagsProperty(r.typ)
	if s := schemas()[r.typ]; s != nil && s.Properties[tags] != nil && !slices.Contains(out, tags) {
		if set, gone := r.tagChanges(); len(set)+len(gone) > 0 {
			out = append(out, tags)
		}
	}
	return out
}

// replaces reports whether changing the properties requires a new physical resource.
func replaces(typ string, changed []string) bool {
	h, _ := handlerOf(typ)
	createOnly := strings.Fields(h.createOnly)
	if s := schemas()[typ]; s != nil {
		createOnly = s.CreateOnly
	}
	return slices.ContainsFunc(changed, func(p string) bool { return slices.Contains(createOnly, p) })
}

// changeable returns an error if any of the properties cannot be changed on an existing resource.
func (r *request) changeable(changed []string) error {
	h, _ := handlerOf(r.typ)
	for _, p := range changed {
		if h.inPlace != anyProperty && !slices.Contains(strings.Fields(h.inPlace), p) {
			return r.reason(awserr.NotImplemented("changes of the property " + p + " of an existing " + r.typ))
		}
	}
	return nil
}

// updateInPlace changes a resource from the state in r.was to the state in r, and returns its attributes. Properties that
// refer to secrets count as changed only if the references differ. Otherwise an update of another property could restart
// an instance or generate another password.
func (r *request) updateInPlace() (map[string]any, error) {
	h, _ := handlerOf(r.typ)
	changed, plain := r.differences(), r.props
	if err := r.changeable(changed); err != nil {
		return nil, err
	}
	if err := r.reveal(); err != nil {
		return nil, err
	}
	defer func() { r.props, r.plain = plain, nil }()
	_ = r.was.reveal() // a secret that only the old properties refer to may no longer exist
	if h.update != nil && (len(changed) > 0 || r.typ == stackTyp) {
		if err := h.update(r); err != nil {
			return nil, r.reason(err)
		}
	}
	if r.typ == scalingGroup && r.changed(launching...) {
		u, err := rolling(r.updatePolicy)
		if err == nil && u != nil {
			err = r.roll(u)
		}
		if err != nil {
			return nil, r.reason(err)
		}
	}
	return r.finish(h)
}

// replace creates a new physical resource that takes the place of the old one.
func (o *operation) replace(ctx context.Context, d *template.Resource, r *request) error {
	if name, ok := schemas()[d.Type].named(r); ok {
		return fmt.Errorf("CloudFormation cannot update a stack when a custom-named resource requires replacing. Rename %s and update the stack again.", name) //nolint:staticcheck // AWS's words
	}
	err := o.note(d.ID, true, func(rec *resourceRecord) {
		if rec.Replaced { // by an update that was not rolled back
			rec.Discarded = append(rec.Discarded, discardRecord{resourceState: rec.resourceState})
		}
		rec.remember()
		rec.resourceState = o.fresh(d)
		rec.Replaced, rec.Step, rec.Status = true, o.step, cloudformationtypes.ResourceStatusUpdateInProgress
		rec.Reason = "Requested update requires the creation of a new physical resource; hence creating one."
	})
	if err != nil {
		return err
	}
	return o.bringUp(ctx, d)
}

// named returns the name that the template gives to a resource, if its replacement would
// have the same name.
func (s *schema) named(r *request) (string, bool) {
	if s == nil {
		return "", false
	}
	name := ""
	for _, p := range s.PrimaryIdentifier {
		if slices.Contains(s.ReadOnly, p) || !r.props.Has(p) || r.changed(p) {
			return "", false
		}
		name = r.text(p)
	}
	return name, name != ""
}

// rollBackUpdate restores the resources to their state before the update.
func (o *operation) rollBackUpdate(ctx context.Context) error {
	waits := map[string][]string{}
	for _, item := range resources.All(o.s.store, within(o.key)) {
		rec := item.Value
		if ongoing(rec.Status) && rec.Step != o.step && !strings.HasPrefix(string(rec.Status), "DELETE") {
			o.failIn(rec.Step, rec.LogicalID, errCancelled) // the update failed, and the rollback has not begun
			rec, _ = o.resource(rec.LogicalID)
		}
		waits[rec.LogicalID] = rec.before().DependsOn
	}
	o.walk(waits, func(id string) bool { return o.restore(ctx, id) }, func() bool { return ctx.Err() != nil })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var bad []string
	for id := range waits {
		if rec, _ := o.resource(id); rec.Old != nil {
			bad = append(bad, id)
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return o.setStack(ctx, cloudformationtypes.StackStatusUpdateRollbackFailed, failedToUpdate(bad), nil)
	}
	return o.setStack(ctx, cloudformationtypes.StackStatusUpdateRollbackCompleteCleanupInProgress, "", func(rec *stackRecord) {
		if rec.Previous != nil {
			rec.versionRecord = *rec.Previous
		}
		rec.Previous, rec.PolicyOnce, rec.Skip = nil, "", nil
	})
}

// restore takes one resource back to its old state and reports whether it succeeded.
func (o *operation) restore(ctx context.Context, id string) bool {
	rec, ok := o.resource(id)
	if !ok || rec.Old == nil {
		return true
	}
	if rec.Step == o.step && failed(rec.Status) {
		return false
	}
	r := o.request(ctx, &rec, rec.Old)
	r.was = o.request(ctx, &rec, &rec.resourceState)
	back := func(rec *resourceRecord) {
		old := *rec.Old
		if rec.Replaced && (rec.PhysicalID != "" || rec.Begun) {
			rec.Discarded = append(rec.Discarded, discardRecord{resourceState: rec.resourceState})
		}
		rec.resourceState, rec.Old, rec.Replaced, rec.Step = old, nil, false, o.step
	}
	if rec.Undeclared {
		return o.note(id, false, func(rec *resourceRecord) {
			back(rec)
			rec.Status, rec.OldGone, rec.Restored, rec.Undeclared = cloudformationtypes.ResourceStatusDeleteFailed, false, false, false
		}) == nil
	}
	if rec.OldGone && !slices.Contains(o.rec.Skip, id) {
		return o.concluded(ctx, id, o.restoreDeleted(ctx, rec))
	}
	isNested := rec.Type == stackTyp && rec.Old.PhysicalID == rec.PhysicalID
	switch untouched := len(r.differences()) == 0 && rec.Old.Metadata == rec.Metadata && !isNested; {
	case slices.Contains(o.rec.Skip, id) && (!rec.Replaced || rec.OldGone):
		return o.note(id, true, func(rec *resourceRecord) {
			rec.forget()
			rec.Status, rec.Reason, rec.Step = cloudformationtypes.ResourceStatusUpdateComplete, "", o.step
		}) == nil
	case untouched && !failed(rec.Status) && !rec.Replaced:
		return o.note(id, false, back) == nil
	case rec.Replaced || untouched:
		return o.note(id, true, func(rec *resourceRecord) {
			back(rec)
			rec.Status, rec.Reason = cloudformationtypes.ResourceStatusUpdateComplete, ""
		}) == nil
	}
	if rec.Step != o.step {
		err := o.note(id, true, func(rec *resourceRecord) {
			rec.Status, rec.Reason, rec.Step = cloudformationtypes.ResourceStatusUpdateInProgress, "", o.step
			if rec.Rolling != nil { // the obsolete instances are different ones now
				rec.Rolling = &rollingRecord{Min: rec.Rolling.Min, Desired: rec.Rolling.Desired}
			}
		})
		if err != nil {
			return false
		}
	}
	as, err := o.as(ctx)
	var attributes map[string]any
	switch {
	case err == nil && isNested:
		r.id = rec.PhysicalID
		err = o.rollBackNested(ctx, r.id)
	case err == nil:
		r.ctx, r.id, r.updatePolicy = as, rec.PhysicalID, rec.Old.UpdatePolicy
		attributes, err = r.updateInPlace()
	}
	if err != nil {
		return o.concluded(ctx, id, err)
	}
	return o.note(id, true, func(rec *resourceRecord) {
		back(rec)
		rec.PhysicalID = r.id
		rec.complete(attributes)
	}) == nil
}

// cleanUp deletes the resources that are not in the stack's version, and physical resources
// that have been replaced. The stack does not fail if a deletion fails.
func (o *operation) cleanUp(ctx context.Context, end cloudformationtypes.StackStatus) error {
	if err := o.bound(); err != nil {
		return err
	}
	waits := map[string][]string{}
	for _, item := range resources.All(o.s.store, within(o.key)) {
		rec := item.Value
		delay(waits, rec.LogicalID, rec.before().DependsOn)
		for _, d := range rec.Discarded {
			delay(waits, rec.LogicalID, d.DependsOn)
		}
		if rec.Old != nil {
			o.logged(o.note(rec.LogicalID, false, (*resourceRecord).forget))
		}
	}
	var mu sync.Mutex
	var done []string // the resources that the stack no longer has
	o.walk(waits, func(id string) bool {
		rec, ok := o.resource(id)
		switch {
		case !ok:
			return true
		case o.declares(id):
			if rec.Type == stackTyp {
				o.finishNested(ctx, rec)
			}
			return o.removeDiscarded(ctx, id)
		case !o.removeResource(ctx, rec):
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		done = append(done, id)
		return true
	}, func() bool { return ctx.Err() != nil })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for some := range slices.Chunk(done, store.MaxWrites) {
		err := o.s.store.Update(ctx, func(tx *store.Tx) error {
			for _, id := range some {
				resources.Delete(tx, below(o.key, id))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return o.s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := stacks.Get(tx, o.key)
		if err != nil || now.Operation.ID != o.rec.Operation.ID {
			return errSuperseded
		}
		if err := stacks.Update(tx, o.key, func(rec *stackRecord) error { rec.Previous = nil; return nil }); err != nil {
			return err
		}
		return o.s.noteStack(tx, o.key, end, "")
	})
}
