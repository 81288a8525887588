package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"strings"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// create creates all resources, in parallel unless one depends on another.
func (o *operation) create(ctx context.Context) error {
	if o.rec.Fault != "" {
		// [seen] the events of a user whose part was not YAML
		if err := o.setStack(ctx, cloudformationtypes.StackStatusCreateInProgress, o.rec.Fault, nil); err != nil {
			return err
		}
		return o.failed(ctx, o.rec.Fault)
	}
	if err := o.bound(); err != nil {
		return o.failed(ctx, err.Error()) // an older version of Drydock accepted the template
	}
	if len(resources.All(o.s.store, within(o.key))) == 0 {
		as, err := o.as(ctx)
		if err != nil {
			return o.failed(ctx, err.Error())
		}
		if missing := o.s.missing(as, o.t, &o.rec); missing != "" {
			return o.failed(ctx, missing)
		}
	}
	o.inOrder(ctx, o.instance.Resources, o.createResource)
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errTimeout):
		return o.failed(context.WithoutCancel(ctx), "Stack creation time exceeded the specified timeout")
	case ctx.Err() != nil:
		return cause
	}
	o.cancelRest()
	var bad, malformed []string
	for _, r := range o.instance.Resources {
		rec, _ := o.resource(r.ID)
		switch {
		case rec.Status == cloudformationtypes.ResourceStatusCreateFailed && rec.Invalid:
			malformed = append(malformed, r.ID)
		case rec.Status == cloudformationtypes.ResourceStatusCreateFailed:
			bad = append(bad, r.ID)
		}
	}
	switch {
	case len(malformed) > 0:
		return o.failed(ctx, fmt.Sprintf("Validation failed for following resources: [%s]", strings.Join(malformed, ", ")))
	case len(bad) > 0:
		return o.failed(ctx, fmt.Sprintf("The following resource(s) failed to create: [%s]", strings.Join(bad, ", ")))
	}
	refusal, err := o.publish(ctx, cloudformationtypes.StackStatusCreateComplete)
	if refusal != "" {
		return o.failed(ctx, refusal)
	}
	return err
}

// cancelRest marks resources as cancelled that a killed daemon was working on. This daemon did not continue them,
// because another resource failed.
func (o *operation) cancelRest() {
	for _, item := range resources.All(o.s.store, within(o.key)) {
		if rec := item.Value; ongoing(rec.Status) && !strings.HasPrefix(string(rec.Status), "DELETE") {
			o.fail(rec.LogicalID, errCancelled)
		}
	}
}

// failed ends a failed creation as the stack's creator requested in OnFailure.
func (o *operation) failed(ctx context.Context, cause string) error {
	cause = strings.TrimSuffix(cause, ".")
	switch o.rec.OnFailure {
	case "DO_NOTHING":
		return o.setStack(ctx, cloudformationtypes.StackStatusCreateFailed, cause+". ", nil)
	case "DELETE":
		if err := o.setStack(ctx, cloudformationtypes.StackStatusDeleteInProgress, cause+". Delete requested by user.", nil); err != nil {
			return err
		}
		return o.remove(ctx)
	}
	if err := o.setStack(ctx, cloudformationtypes.StackStatusRollbackInProgress, cause+". Rollback requested by user.", nil); err != nil {
		return err
	}
	return o.rollBack(ctx)
}
