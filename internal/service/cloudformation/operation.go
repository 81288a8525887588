package cloudformation

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// keptDeleted is how long a deleted stack can still be described.
const keptDeleted = 90 * 24 * time.Hour

// Reasons why the work on a stack or on one of its resources ends early.
var (
	errSuperseded = errors.New("the stack has another operation")
	errTimeout    = errors.New("the stack took longer than its timeout")
	errSibling    = errors.New("another resource failed")
)

// An operation is the work on one stack.
type operation struct {
	s   *Service
	key store.Key
	rec stackRecord // as it was when the work began
	arn string
	// step identifies the current phase of the operation.
	step string
	t    *template.Template
	// instance is nil while a stack is torn down.
	instance *template.Instance

	// writing lets one resource at a time write its result: every event changes the stack's
	// record, and conflicting transactions are retried.
	writing sync.Mutex
	// mu guards imports, the exports that the stack's values use.
	mu      sync.Mutex
	imports []string
}

// reconcile carries out the operation that a stack's status says is in progress.
func (s *Service) reconcile(ctx context.Context, key store.Key, depth int) (time.Duration, error) {
	rec, err := stacks.Get(s.store, key)
	if err != nil {
		return 0, store.IgnoreNotFound(err)
	}
	if rec.Depth != depth {
		return 0, nil
	}
	if rec.Status == cloudformationtypes.StackStatusDeleteComplete {
		return s.forget(ctx, key, rec)
	}
	if !inProgress(rec.Status) || rec.Held && cleansUp(rec.Status) {
		return 0, nil
	}
	o := &operation{s: s, key: key, rec: rec, arn: stackARN(key, &rec), step: rec.Operation.ID + " " + string(rec.Status)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel(nil)
	watching.Go(func() { o.watch(ctx, cancel) })
	err = o.work(ctx)
	if errors.Is(context.Cause(ctx), errSuperseded) {
		return 0, nil // the changed record triggers the next call
	}
	return 0, err
}

// work performs the operation that the stack's status says is in progress.
func (o *operation) work(ctx context.Context) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		ok, failure := o.giveUp(context.WithoutCancel(ctx))
		if !ok {
			panic(p) // the reconciler tries again
		}
		o.s.log.Error("panic in the work on a stack", "stack", o.arn, "panic", p, "stacktrace", string(debug.Stack()))
		err = failure
	}()
	switch o.rec.Status {
	case cloudformationtypes.StackStatusCreateInProgress:
		err = o.create(ctx)
	case cloudformationtypes.StackStatusRollbackInProgress:
		err = o.rollBack(ctx)
	case cloudformationtypes.StackStatusDeleteInProgress:
		err = o.remove(ctx)
	case cloudformationtypes.StackStatusUpdateInProgress:
		err = o.update(ctx)
	case cloudformationtypes.StackStatusUpdateRollbackInProgress:
		err = o.rollBackUpdate(ctx)
	case cloudformationtypes.StackStatusImportInProgress:
		err = o.adopt(ctx)
	case cloudformationtypes.StackStatusImportRollbackInProgress:
		err = o.rollBackImport(ctx)
	case cloudformationtypes.StackStatusUpdateCompleteCleanupInProgress:
		err = o.cleanUp(ctx, cloudformationtypes.StackStatusUpdateComplete)
	case cloudformationtypes.StackStatusUpdateRollbackCompleteCleanupInProgress:
		err = o.cleanUp(ctx, cloudformationtypes.StackStatusUpdateRollbackComplete)
	}
	return err
}

func cleansUp(s cloudformationtypes.StackStatus) bool {
	return s == cloudformationtypes.StackStatusUpdateCompleteCleanupInProgress || s == cloudformationtypes.StackStatusUpdateRollbackCompleteCleanupInProgress
}

// watch ends the work when the stack gets another operation or exceeds its timeout.
func (o *operation) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	var late <-chan time.Time
	if o.rec.Timeout > 0 && o.rec.Status == cloudformationtypes.StackStatusCreateInProgress {
		timer := o.s.clock.NewTimer(o.rec.Created.Add(o.rec.Timeout).Sub(o.s.now()))
		defer timer.Stop()
		late = timer.C()
	}
	for {
		changed := o.s.store.Changed()
		if now, err := stacks.Get(o.s.store, o.key); err != nil || now.Operation.ID != o.rec.Operation.ID {
			cancel(errSuperseded)
			return
		}
		select {
		case <-changed:
		case <-late:
			cancel(errTimeout)
			return
		case <-ctx.Done():
			return
		}
	}
}

// forget removes the records of a stack that was deleted long ago.
func (s *Service) forget(ctx context.Context, key store.Key, rec stackRecord) (time.Duration, error) {
	if left := rec.Deleted.Add(keptDeleted).Sub(s.now()); left > 0 {
		return left, nil
	}
	err := errors.Join(wipe(ctx, s.store, resources, within(key)), wipe(ctx, s.store, changeSets, within(key)), wipe(ctx, s.store, events, within(key)), wipe(ctx, s.store, drifts, within(key)),
		wipe(ctx, s.store, detections, within(key)), wipe(ctx, s.store, texts, within(key)))
	if err != nil {
		return 0, err
	}
	return 0, s.store.Update(ctx, func(tx *store.Tx) error { stacks.Delete(tx, key); return nil })
}

// wipe deletes a collection's records in a scope, in as many transactions as they need.
func wipe[T any](ctx context.Context, s *store.Store, c store.Collection[T], within store.Scope) error {
	for some := range slices.Chunk(c.All(s, within), store.MaxWrites) {
		err := s.Update(ctx, func(tx *store.Tx) error {
			for _, item := range some {
				c.Delete(tx, item.Key)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// as returns a context in which the operation's calls are made as the stack's role, or as
// the caller who requested the operation.
func (o *operation) as(ctx context.Context) (context.Context, error) {
	if o.rec.RoleARN != "" {
		p, err := o.s.cfg.Assume(ctx, o.rec.RoleARN, o.arn)
		if err != nil {
			return nil, badRole(o.rec.RoleARN).WithCause(err)
		}
		return awsapi.AsRole(ctx, p, o.key.Region, servicePrincipal, o.s.now()), nil
	}
	return awsapi.WithCall(ctx, &awsapi.Call{
		RequestID: o.rec.Operation.ID, Service: "cloudformation", Operation: "CreateStack", Account: o.key.Account, Region: o.key.Region,
		Principal: o.rec.Operation.Caller, CalledVia: o.rec.Operation.CalledVia, Time: o.s.now(),
	}), nil
}

// asItself returns a context for looking up what CloudFormation created before the daemon
// was killed, regardless of the caller's permissions.
func (o *operation) asItself(ctx context.Context) context.Context {
	return awsapi.AsService(ctx, o.key.Account, o.key.Region, awsapi.ServiceRole{
		Service: servicePrincipal, Name: "AWSServiceRoleForCloudFormation", Session: "CloudFormation",
	}, o.s.now())
}

func (o *operation) resource(id string) (resourceRecord, bool) {
	r, err := resources.Get(o.s.store, below(o.key, id))
	return r, err == nil
}

// bound parses the stack's template again and binds it to the stack's parameters.
func (o *operation) bound() (err error) {
	if o.t, err = template.Parse(processed(o.s.store, o.key, &o.rec.versionRecord)); err != nil {
		return err
	}
	o.instance, err = bindTo(o.key, &o.rec, o.t)
	return err
}

// declares reports whether the template has a resource.
func (o *operation) declares(id string) bool {
	return slices.ContainsFunc(o.instance.Resources, func(d *template.Resource) bool { return d.ID == id })
}
