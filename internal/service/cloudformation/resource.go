package cloudformation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// createResource creates one resource, or continues its creation, and reports whether it exists.
func (o *operation) createResource(ctx context.Context, d *template.Resource) bool {
	rec, ok := o.resource(d.ID)
	switch {
	case ok && rec.Status == cloudformationtypes.ResourceStatusCreateComplete:
		return true
	case ok && rec.Status == cloudformationtypes.ResourceStatusCreateFailed:
		return false
	case !ok:
		if err := o.addResource(d); err != nil {
			return false
		}
	}
	return o.concluded(ctx, d.ID, o.bringUp(ctx, d))
}

// addResource writes the record of a resource that will be created.
func (o *operation) addResource(d *template.Resource) error {
	return o.note(d.ID, true, func(rec *resourceRecord) {
		*rec = resourceRecord{
			Stack: o.rec.ID, LogicalID: d.ID, Type: d.Type, Status: cloudformationtypes.ResourceStatusCreateInProgress, resourceState: o.fresh(d), Step: o.step,
			Discarded: rec.Discarded,
		}
	})
}

// fresh returns the state of a physical resource that has not been created.
func (o *operation) fresh(d *template.Resource) resourceState {
	return resourceState{
		DependsOn: d.DependsOn, DeletionPolicy: d.DeletionPolicy, UpdateReplacePolicy: d.UpdateReplacePolicy, Tags: o.rec.Tags, Token: ids.UUID(), Suffix: newSuffix(),
	}
}

// concluded reports whether the work on a resource succeeded. It records a failure, unless
// another operation or daemon continues the work.
func (o *operation) concluded(ctx context.Context, id string, err error) bool {
	cause := context.Cause(ctx)
	switch {
	case err == nil:
		return true
	case errors.Is(cause, errSibling), errors.Is(cause, errTimeout):
		o.fail(id, o.withInstances(ctx, id, errCancelled))
	case ctx.Err() == nil:
		o.fail(id, o.withInstances(ctx, id, err))
	}
	return false // another operation or another daemon continues
}

// errCancelled means that the work on a resource was abandoned because others failed.
var errCancelled = errors.New("cancelled")

func (o *operation) fail(id string, err error) { o.failIn(o.step, id, err) }

// failIn is fail for the work of a step, which may be one before the current step.
func (o *operation) failIn(step, id string, err error) {
	var malformed *invalidProperties
	o.logged(o.note(id, true, func(rec *resourceRecord) {
		what := "creation"
		switch rec.Status {
		case cloudformationtypes.ResourceStatusCreateInProgress:
			rec.Status = cloudformationtypes.ResourceStatusCreateFailed
		case cloudformationtypes.ResourceStatusImportInProgress:
			rec.Status = cloudformationtypes.ResourceStatusImportFailed
		default:
			what = "update"
			rec.remember() // before the status changes
			rec.Status = cloudformationtypes.ResourceStatusUpdateFailed
		}
		rec.Step, rec.Reason, rec.Invalid, rec.Failure = step, err.Error(), errors.As(err, &malformed), failureOf(err)
		if errors.Is(err, errCancelled) {
			rec.Reason = "Resource " + what + " cancelled"
		}
	}))
}

// bringUp completes the creation of a resource from any state. The error is the reason for
// a failure.
func (o *operation) bringUp(ctx context.Context, d *template.Resource) error {
	rec, _ := o.resource(d.ID)
	h, _ := handlerOf(d.Type)
	rt, err := o.runtime(ctx)
	if err != nil {
		return err
	}
	props, err := o.instance.Properties(d, rt)
	if err != nil {
		return err
	}
	r := o.request(rt.ctx, &rec, &rec.resourceState)
	r.props = props
	if err := r.reveal(); err != nil {
		return err
	}
	r.stackTags = o.rec.Tags
	if err := schemas()[d.Type].check(d.ID, r.props); err != nil {
		o.logged(o.note(d.ID, false, func(rec *resourceRecord) { rec.Properties = json.RawMessage(template.JSON(props)) }))
		return r.censor(err)
	}
	if err := r.checkTags(); err != nil {
		return r.censor(err)
	}
	if r.id == "" {
		metadata, err := o.metadata(d, rt)
		if err != nil {
			return err
		}
		policy, err := o.updatePolicy(d, rt)
		if err != nil {
			return err
		}
		if err := o.makeWay(ctx, rec); err != nil {
			return err
		}
		err = o.begin(r, h, rec, func(rec *resourceRecord) {
			rec.Properties, rec.Metadata, rec.UpdatePolicy = json.RawMessage(template.JSON(props)), metadata, policy
		})
		if err != nil {
			return err
		}
	}
	expected, err := o.expects(d, props, rt)
	if err != nil {
		return err
	}
	attributes, err := r.finish(h)
	if err != nil {
		return err
	}
	if err := r.awaitSignals(expected); err != nil {
		return err
	}
	if d.Type == waitCondition {
		attributes = map[string]any{"Data": r.signalData()}
	}
	return o.note(d.ID, true, func(rec *resourceRecord) { rec.complete(attributes) })
}

// finish waits until a resource can be used and returns its attributes.
func (r *request) finish(h handler) (map[string]any, error) {
	if h.settle != nil {
		if err := h.settle(r); err != nil {
			return nil, r.reason(err)
		}
	}
	if h.read == nil {
		return nil, nil
	}
	attributes, err := h.read(r)
	if err != nil {
		return nil, r.reason(err)
	}
	return attributes, nil
}

// complete records the successful end of a creation or an update.
func (rec *resourceRecord) complete(attributes map[string]any) {
	if rec.Status == cloudformationtypes.ResourceStatusCreateInProgress {
		rec.Status = cloudformationtypes.ResourceStatusCreateComplete
	} else {
		rec.Status = cloudformationtypes.ResourceStatusUpdateComplete
	}
	rec.Reason, rec.Attributes, rec.Invalid = "", addTo(rec.Attributes, attributes), false
}

// begin makes the call that creates a resource. It records the attempt before the call and
// the ID right after it, so that a daemon that is killed in between can find the resource. describe records what the
// resource is created from.
func (o *operation) begin(r *request, h handler, rec resourceRecord, describe func(*resourceRecord)) error {
	found, err := r.find(h)
	switch {
	case err != nil:
		return r.reason(err)
	case rec.Begun && found != "":
		r.id = found
	case found != "" && o.takesOver(r, &rec, found):
		r.id = found
		err := o.note(r.logical, false, func(rec *resourceRecord) {
			describe(rec)
			rec.DeletionPolicy = "Retain" // a rollback must not delete a resource that existed before
		})
		if err != nil {
			return err
		}
	case found != "" && h.adopts:
		return fmt.Errorf("Resource handler returned message: \"Resource of type '%s' with identifier '%s' already exists.\" (RequestToken: %s, HandlerErrorCode: AlreadyExists)", r.typ, found, ids.UUID()) //nolint:staticcheck // AWS's words
	default:
		err := o.note(r.logical, false, func(rec *resourceRecord) {
			describe(rec)
			rec.Begun = found == "" // an existing resource with that name does not belong to the stack
		})
		if err != nil {
			return err
		}
		// The call is never cancelled, because its result has to be recorded.
		ctx := r.ctx
		r.ctx = context.WithoutCancel(ctx)
		r.id, err = h.create(r)
		r.ctx = ctx
		if err != nil {
			o.logged(o.note(r.logical, false, func(rec *resourceRecord) { rec.Begun = false }))
			return r.reason(err)
		}
	}
	return o.note(r.logical, true, func(rec *resourceRecord) {
		rec.PhysicalID, rec.Reason, rec.Attributes = r.id, "Resource creation Initiated", addTo(nil, r.given)
	})
}

// takesOver reports whether the stack takes over an existing resource: the template names the
// resource and retains it, and the resource belongs to no other stack.
//
// AWS deviation: AWS finds such resources when the change set is created, and the change set lists them.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html
func (o *operation) takesOver(r *request, rec *resourceRecord, id string) bool {
	if !o.rec.Operation.ImportExisting || rec.Restored || rec.DeletionPolicy != "Retain" && rec.DeletionPolicy != "RetainExceptOnCreate" {
		return false
	}
	schema := schemas()[r.typ]
	if schema == nil { // a custom resource
		return false
	}
	for _, p := range schema.PrimaryIdentifier {
		if !r.props.Has(p) {
			return false
		}
	}
	for _, item := range resources.All(o.s.store, scopeAt(o.key).All()) {
		if item.Value.Type == r.typ && item.Value.PhysicalID == id && !gone(item.Value.Status) {
			return false
		}
	}
	return true
}

// addTo adds attributes to those already recorded, without those that are nil.
func addTo(recorded json.RawMessage, attributes map[string]any) json.RawMessage {
	all := map[string]json.RawMessage{}
	if len(recorded) > 0 {
		_ = json.Unmarshal(recorded, &all) // written by this function
	}
	for k, v := range attributes {
		if raw, err := json.Marshal(v); err == nil && string(raw) != "null" { // strings, numbers, and lists of them
			all[k] = raw
		}
	}
	raw, _ := json.Marshal(all)
	return raw
}

// metadata returns the resolved metadata of a resource as JSON.
func (o *operation) metadata(d *template.Resource, rt template.Runtime) (string, error) {
	if d.Metadata == nil {
		return "", nil
	}
	v, err := o.instance.Value(d.Metadata, rt)
	if err != nil {
		return "", err
	}
	return template.JSON(v), nil
}
