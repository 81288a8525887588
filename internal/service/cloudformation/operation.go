package cloudformation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
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
	switch rec.Status {
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
	if errors.Is(context.Cause(ctx), errSuperseded) {
		return 0, nil // the changed record triggers the next call
	}
	return 0, err
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
			return nil, badRole(o.rec.RoleARN)
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
		rec.Events++
		n = rec.Events
		e = eventRecord{
			ID: ids.UUID(), LogicalID: rec.Name, PhysicalID: stackARN(key, rec), Type: stackTyp, Time: s.now(), Status: string(status), Reason: reason,
			Token: rec.Operation.Token, Operation: rec.Operation.ID,
		}
		return nil
	})
	if err != nil {
		return err
	}
	return events.Create(tx, below(key, fmt.Sprintf("%08d", n)), e)
}

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

// note changes a resource's record. If said is true, it also records an event.
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
	// Results are recorded even if the work ends early.
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
	if err := stacks.Update(tx, stack, func(rec *stackRecord) error { rec.Events++; n = rec.Events; return nil }); err != nil {
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
	return events.Create(tx, below(stack, fmt.Sprintf("%08d", n)), e)
}

// shown returns the physical ID that clients see, which is the old one until a replacement
// has its own.
func (rec *resourceRecord) shown() string {
	if rec.PhysicalID == "" && rec.Old != nil {
		return rec.Old.PhysicalID
	}
	return rec.PhysicalID
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
			for _, form := range []string{escaped[1 : len(escaped)-1], secret} { // as in JSON, and as it is
				text = strings.ReplaceAll(text, form, "****")
			}
		}
	}
	return json.RawMessage(text)
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

// create creates all resources, in parallel unless one depends on another.
func (o *operation) create(ctx context.Context) error {
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
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	waits := map[string][]string{}
	for _, r := range o.instance.Resources {
		waits[r.ID] = r.DependsOn
	}
	walk(waits, func(id string) bool {
		i := slices.IndexFunc(o.instance.Resources, func(r *template.Resource) bool { return r.ID == id })
		ok := o.createResource(work, o.instance.Resources[i])
		if !ok {
			cancel(errSibling)
		}
		return ok
	}, func() bool { return work.Err() != nil })
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

// cancelRest marks as cancelled the resources that a killed daemon was working on and that this one did not continue,
// because another resource failed.
func (o *operation) cancelRest() {
	for _, item := range resources.All(o.s.store, within(o.key)) {
		if rec := item.Value; ongoing(rec.Status) && !strings.HasPrefix(string(rec.Status), "DELETE") {
			o.fail(rec.LogicalID, errCancelled)
		}
	}
}

// publish sets the outputs and the status of the stack. If it cannot, refusal is the reason.
func (o *operation) publish(ctx context.Context, status cloudformationtypes.StackStatus) (refusal string, err error) {
	outputs, err := o.outputs(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return err.Error(), nil
	}
	err = o.s.store.Update(ctx, func(tx *store.Tx) error {
		now, err := stacks.Get(tx, o.key)
		if err != nil || now.Operation.ID != o.rec.Operation.ID {
			return errors.Join(err, errSuperseded)
		}
		if refusal = o.exportsClash(tx, outputs); refusal != "" {
			return nil
		}
		err = stacks.Update(tx, o.key, func(rec *stackRecord) error {
			rec.Outputs, rec.Imports, rec.PolicyOnce = outputs, o.imports, ""
			if !rec.Held {
				rec.Previous = nil
			}
			return nil
		})
		if err != nil {
			return err
		}
		return o.s.noteStack(tx, o.key, status, "")
	})
	return refusal, err
}

// exportsClash returns the reason why the stack cannot export its outputs: another stack
// exports the same name, or uses a value that would change. It returns "" if the stack can
// export them.
func (o *operation) exportsClash(tx *store.Tx, outputs []outputRecord) string {
	for _, other := range all(tx, scopeAt(o.key)) {
		if other.ID == o.rec.ID || other.Status == cloudformationtypes.StackStatusDeleteComplete {
			continue
		}
		for _, theirs := range other.Outputs {
			if theirs.Export != "" && slices.ContainsFunc(outputs, func(mine outputRecord) bool { return mine.Export == theirs.Export }) {
				return fmt.Sprintf("Export with name %s is already exported by stack %s", theirs.Export, other.Name)
			}
		}
		for _, was := range o.rec.Outputs {
			if was.Export == "" || !slices.Contains(other.Imports, was.Export) {
				continue
			}
			switch i := slices.IndexFunc(outputs, func(mine outputRecord) bool { return mine.Export == was.Export }); {
			case i < 0:
				return fmt.Sprintf("Export %s cannot be deleted as it is in use by %s", was.Export, other.Name)
			case outputs[i].Value != was.Value:
				return fmt.Sprintf("Export %s cannot be updated as it is in use by %s", was.Export, other.Name)
			}
		}
	}
	return ""
}

// failed ends a failed creation in the way that the stack's creator requested.
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

func failedToDelete(bad []string) string {
	return fmt.Sprintf("The following resource(s) failed to delete: [%s]. ", strings.Join(bad, ", "))
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

// removeAll deletes all resources, each before those that it depends on. If a resource
// cannot be deleted, those that depend on it are already gone, and those that it depends on stay.
func (o *operation) removeAll(ctx context.Context) (bad []string, err error) {
	waits := map[string][]string{}
	for _, item := range resources.All(o.s.store, within(o.key)) {
		delay(waits, item.Value.LogicalID, item.Value.DependsOn)
	}
	var mu sync.Mutex
	walk(waits, func(id string) bool {
		r, ok := o.resource(id)
		if !ok {
			return true
		}
		if !o.removeResource(ctx, r) {
			mu.Lock()
			bad = append(bad, id)
			mu.Unlock()
			return false
		}
		return true
	}, func() bool { return ctx.Err() != nil })
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	slices.Sort(bad)
	return bad, nil
}

// delay adds a resource to the graph of deletions: the resources that it depends on wait
// for it.
func delay(waits map[string][]string, id string, on []string) {
	if _, ok := waits[id]; !ok {
		waits[id] = nil
	}
	for _, d := range on {
		waits[d] = append(waits[d], id)
	}
}

// walk calls do for every node of a graph, concurrently for all nodes whose dependencies
// are done, and returns when all calls have returned. It skips nodes that wait for a failed
// node. A cycle, which two versions of a stack can form together, is entered at an
// arbitrary node. No calls start after stop has returned true.
func walk(waits map[string][]string, do func(id string) bool, stop func() bool) {
	type end struct {
		id string
		ok bool
	}
	ends := make(chan end)
	done, begun, running := map[string]bool{}, map[string]bool{}, 0
	begin := func(id string) {
		begun[id] = true
		running++
		go func() { ends <- end{id, do(id)} }()
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

// outputs resolves the stack's outputs.
func (o *operation) outputs(ctx context.Context) ([]outputRecord, error) {
	rt, err := o.runtime(ctx)
	if err != nil {
		return nil, err
	}
	// A stack's imports are those of all its values, including those of resources that
	// another daemon created or that an update left alone.
	for _, d := range o.instance.Resources {
		if len(o.rec.Imports) > 0 && template.Imports(d.Properties) {
			if _, err := o.instance.Properties(d, rt); err != nil {
				return nil, err
			}
		}
	}
	return o.outputsOf(rt)
}

func (o *operation) outputsOf(rt template.Runtime) ([]outputRecord, error) {
	var out []outputRecord
	for _, declared := range o.instance.Outputs {
		v, err := o.instance.Value(declared.Value, rt)
		if err != nil {
			return nil, fmt.Errorf("[Error] /Outputs/%s/Value: %w", declared.ID, err)
		}
		text, ok := template.Text(v)
		if !ok {
			return nil, fmt.Errorf("Template format error: Output %s is malformed. (Path: /Outputs/%s/Value) The Value field of every Outputs member must evaluate to a String", declared.ID, declared.ID) //nolint:staticcheck // AWS's words
		}
		rec := outputRecord{Key: declared.ID, Value: text, Description: declared.Description}
		if declared.Export != nil {
			name, err := o.instance.Value(declared.Export, rt)
			if err != nil {
				return nil, err
			}
			rec.Export, _ = template.Text(name)
		}
		out = append(out, rec)
	}
	return out, nil
}
