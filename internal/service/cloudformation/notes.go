package cloudformation

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// setStack ends a phase of the operation by changing the stack's status.
func (o *operation) setStack(ctx context.Context, status cloudformationtypes.StackStatus, reason string, change func(*stackRecord)) error {
	err := o.s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := stacks.Get(tx, o.key)
		switch {
		case err != nil:
			return err
		case now.Operation.ID != o.rec.Operation.ID:
			return errSuperseded
		}
		if change != nil {
			if err := stacks.Update(tx, o.key, func(rec *stackRecord) error { change(rec); return nil }); err != nil {
				return err
			}
		}
		return o.s.noteStack(tx, o.key, status, reason)
	})
	if err == nil {
		o.rec.Status = status
	}
	return err
}

// noteStack changes the status of a stack and records an event about it.
func (s *Service) noteStack(tx *store.Tx, key store.Key, status cloudformationtypes.StackStatus, reason string) error {
	var e eventRecord
	var n int64
	err := stacks.Update(tx, key, func(rec *stackRecord) error {
		rec.Status, rec.Reason = status, reason
		if reason == requested {
			rec.Reason = ""
			if status == cloudformationtypes.StackStatusReviewInProgress || status == cloudformationtypes.StackStatusCreateInProgress || status == cloudformationtypes.StackStatusDeleteInProgress {
				rec.Reason = requested
			}
		}
		if status == cloudformationtypes.StackStatusDeleteComplete || status == cloudformationtypes.StackStatusRollbackInProgress || status == cloudformationtypes.StackStatusDeleteInProgress {
			rec.Deleted = s.now()
		}
		n = rec.nextEvent()
		e = eventRecord{
			ID: ids.UUID(), LogicalID: rec.Name, PhysicalID: stackARN(key, rec), Type: stackTyp, Time: s.now(), Status: string(status), Reason: reason,
			Token: rec.Operation.Token, Operation: rec.Operation.ID,
		}
		return nil
	})
	if err != nil {
		return err
	}
	return events.Create(tx, eventKey(key, n), e)
}

// nextEvent counts another event of the stack and returns its number.
func (rec *stackRecord) nextEvent() int64 {
	if rec.Events++; len(rec.NotificationARNs) > 0 {
		rec.Unpublished++
	}
	return rec.Events
}

// eventKey returns the key of a stack's nth event.
func eventKey(stack store.Key, n int64) store.Key { return below(stack, fmt.Sprintf("%08d", n)) }

// note changes a resource's record, and also records an event if said is true.
func (o *operation) note(id string, said bool, change func(*resourceRecord)) error {
	return o.write(id, func(rec *resourceRecord) *resourceRecord {
		change(rec)
		if !said {
			return nil
		}
		rec.Changed = o.s.now()
		return rec
	})
}

// write changes a resource's record and records an event about the record that change
// returns, if any.
func (o *operation) write(id string, change func(*resourceRecord) *resourceRecord) error {
	o.writing.Lock()
	defer o.writing.Unlock()
	// Record the result even if the work was cancelled.
	return o.s.store.Update(context.Background(), func(tx *store.Tx) error {
		var r resourceRecord
		key := below(o.key, id)
		if was, err := resources.Get(tx, key); err == nil {
			r = was
		} else if !store.IsNotFound(err) {
			return err
		}
		said := change(&r)
		if err := resources.Put(tx, key, r); err != nil || said == nil {
			return err
		}
		return o.s.noteResource(tx, o.key, o.rec.Operation, said, o.rec.Parameters)
	})
}

// noteResource records an event about a resource.
func (s *Service) noteResource(tx *store.Tx, stack store.Key, op operationRecord, said *resourceRecord, parameters []parameterRecord) error {
	var n int64
	if err := stacks.Update(tx, stack, func(rec *stackRecord) error { n = rec.nextEvent(); return nil }); err != nil {
		return err
	}
	now := s.now()
	e := eventRecord{
		ID:        said.LogicalID + "-" + string(said.Status) + "-" + now.Format("2006-01-02T15:04:05.000Z"),
		LogicalID: said.LogicalID, PhysicalID: said.shown(), Type: said.Type, Time: now, Status: string(said.Status), Reason: said.Reason,
		Properties: string(masked(said.Properties, parameters)), Token: op.Token, Operation: op.ID,
	}
	if failed(said.Status) && said.Failure != nil {
		about := *said.Failure
		about.Suffix = said.Suffix
		e.Failure = &about
	}
	if said.Invalid && said.Status == cloudformationtypes.ResourceStatusCreateFailed {
		e.Detailed = string(cloudformationtypes.DetailedStatusValidationFailed)
	}
	return events.Create(tx, eventKey(stack, n), e)
}

// shown returns the physical ID that clients see. Until a replacement has its own ID, this is the ID of the old
// resource.
func (rec *resourceRecord) shown() string {
	if rec.PhysicalID == "" && rec.Old != nil {
		return rec.Old.shownAs(rec.Type)
	}
	return rec.shownAs(rec.Type)
}

// shownAs returns the physical ID that clients see and that Ref returns. For a security group without a VpcId, it is the
// group's name. https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-resource-ec2-securitygroup.html
func (st *resourceState) shownAs(typ string) string {
	if typ == securityGroup && st.PhysicalID != "" && !st.properties().Has("VpcId") {
		attributes := &resourceState{Properties: st.Attributes}
		if name, ok := template.Text(attributes.properties().Get("GroupName")); ok {
			return name
		}
	}
	return st.PhysicalID
}

// masked hides the values of NoEcho parameters.
func masked(properties json.RawMessage, parameters []parameterRecord) json.RawMessage {
	text := string(properties)
	for _, p := range parameters {
		for _, secret := range []string{p.Value, p.Resolved} {
			if !p.NoEcho || secret == "" {
				continue
			}
			escaped := template.JSON(secret)
			for _, form := range []string{escaped[1 : len(escaped)-1], secret} { // escaped as in JSON, and unescaped
				text = strings.ReplaceAll(text, form, "****")
			}
		}
	}
	return json.RawMessage(text)
}

func (o *operation) logged(err error) {
	if err != nil {
		o.s.log.Error("writing down what became of a resource", "stack", o.arn, "err", err)
	}
}
