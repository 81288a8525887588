package cloudformation

import (
	"context"
	"errors"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/ids"
)

// An update usually creates the replacement of a resource first and deletes the old resource during clean-up. If only
// one resource of a type can exist at a time, such as the attachment of a gateway, the order is reversed: the old
// resource is deleted just before its replacement is created, and a rollback recreates it. AWS documents the order
// but not the events, so these deletions have no events.

// makeWay deletes the old resource if it must not exist when its replacement is created. It may run more than once.
func (o *operation) makeWay(ctx context.Context, rec resourceRecord) error {
	if !schemas()[rec.Type].deletesFirst() || rec.Old == nil || !rec.Replaced {
		return nil
	}
	if !o.removeLeftovers(ctx, rec) {
		return errors.New("a previous replacement of the resource cannot be deleted")
	}
	if rec.OldGone || rec.Old.UpdateReplacePolicy == "Retain" {
		return nil
	}
	if err := o.removeSilently(ctx, rec, rec.Old); err != nil {
		return err
	}
	return o.note(rec.LogicalID, false, func(rec *resourceRecord) { rec.OldGone = true })
}

// removeSilently deletes a physical resource without recording events.
func (o *operation) removeSilently(ctx context.Context, rec resourceRecord, st *resourceState) (err error) {
	rec.Status, rec.Discarded, rec.Old, rec.resourceState = "", nil, nil, *st
	gone := o.removeState(ctx, &rec, &rec.resourceState, false, func(_ cloudformationtypes.ResourceStatus, failure error) { err = failure })
	switch {
	case err == nil && !gone && ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && !gone:
		return errors.New("the resource cannot be deleted")
	}
	return err
}

// restoreDeleted recreates a resource that an update deleted to make way for its replacement. It may run more than
// once.
func (o *operation) restoreDeleted(ctx context.Context, rec resourceRecord) error {
	id := rec.LogicalID
	if rec.Step != o.step {
		err := o.note(id, true, func(rec *resourceRecord) {
			rec.Status, rec.Reason, rec.Step = cloudformationtypes.ResourceStatusUpdateInProgress, "", o.step
		})
		if err != nil {
			return err
		}
	}
	if !rec.Restored {
		if rec.PhysicalID != "" || rec.Begun {
			if err := o.removeSilently(ctx, rec, &rec.resourceState); err != nil {
				return err
			}
		}
		err := o.note(id, false, func(rec *resourceRecord) {
			rec.resourceState, rec.Restored = *rec.Old, true
			rec.PhysicalID, rec.Begun, rec.Attributes, rec.Token, rec.Suffix = "", false, nil, ids.UUID(), newSuffix()
		})
		if err != nil {
			return err
		}
		rec, _ = o.resource(id)
	}
	as, err := o.as(ctx)
	if err != nil {
		return err
	}
	h, _ := handlerOf(rec.Type)
	r := o.request(as, &rec, &rec.resourceState)
	if err := r.reveal(); err != nil {
		return err
	}
	if r.id == "" {
		if err := o.begin(r, h, rec, func(*resourceRecord) {}); err != nil {
			return err
		}
	}
	attributes, err := r.finish(h)
	if err != nil {
		return err
	}
	return o.note(id, true, func(rec *resourceRecord) {
		rec.forget()
		rec.complete(attributes)
	})
}
