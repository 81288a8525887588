package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// A change set of the type IMPORT adds existing resources to a stack. Unless noted otherwise, the messages are AWS's as
// users reported them, for example in https://github.com/aws-quickstart/quickstart-awx/issues/38.

// An adoptedRecord is an existing resource that a change set imports.
type adoptedRecord struct{ Logical, Type, Physical string }

// adoptions checks and returns the resources that a request imports.
func (s *Service) adoptions(in *awscloudformation.CreateChangeSetInput, f *foundStack, t *template.Template) ([]adoptedRecord, error) {
	if len(in.ResourcesToImport) == 0 {
		return nil, invalid("ResourcesToImport must have at least one resource for a change set of the type IMPORT") // our own wording
	}
	declared := map[string]*template.Resource{}
	for _, d := range t.Declared() {
		declared[d.ID] = d
	}
	var out []adoptedRecord
	var unkept, unread []string
	for _, r := range in.ResourcesToImport {
		id, typ := aws.ToString(r.LogicalResourceId), aws.ToString(r.ResourceType)
		d := declared[id]
		switch {
		case d == nil || d.Type != typ:
			return nil, invalid("Resource %s of type %s to import is not in the template", id, typ) // our own wording
		case d.DeletionPolicy == "":
			unkept = append(unkept, id)
		case actual[typ] == nil:
			unread = append(unread, typ)
		}
		if rec, err := resources.Get(s.store, below(f.key, id)); err == nil && !gone(rec.Status) {
			return nil, invalid("Resource %s to import is already in the stack %s", id, f.Name) // our own wording
		}
		physical, err := physicalID(id, typ, r.ResourceIdentifier)
		if err != nil {
			return nil, err
		}
		out = append(out, adoptedRecord{id, typ, physical})
	}
	switch {
	case len(unkept) > 0:
		return nil, invalid("The following resources to import [%s] must have DeletionPolicy attribute specified in the template.", strings.Join(unkept, ", "))
	case len(unread) > 0:
		return nil, invalid("ResourceTypes [%s] are not supported for Import", strings.Join(unread, ", "))
	}
	return out, nil
}

// physicalID returns the physical ID of the resource that an identifier in a request names.
func physicalID(logical, typ string, identifier map[string]string) (string, error) {
	sch := schemas()[typ]
	if sch == nil {
		return "", nil // adoptions refuses the type
	}
	given := slices.Sorted(maps.Keys(identifier))
	if want := slices.Sorted(slices.Values(sch.PrimaryIdentifier)); !slices.Equal(given, want) {
		return "", invalid("The identifier [%s] of the resource %s to import must consist of [%s]", strings.Join(given, ", "), logical, strings.Join(want, ", ")) // our own wording
	}
	id := identifier[sch.PrimaryIdentifier[0]]
	if _, rule, ok := strings.Cut(id, ":rule/"); ok && typ == "AWS::Events::Rule" {
		id = strings.Replace(rule, "/", "|", 1)
	}
	return id, nil
}

// adoptionPlan checks that an import changes nothing else, and returns its changes.
func (s *Service) adoptionPlan(p *plan, adopted []adoptedRecord, f *foundStack, next *stackRecord, in *awscloudformation.CreateChangeSetInput) ([]plannedChange, error) {
	var other []string
	if len(p.outputs) > 0 && !slices.Equal(p.outputs, f.Outputs) {
		other = append(other, "Outputs")
	}
	if in.RoleARN != nil && *in.RoleARN != f.RoleARN {
		other = append(other, "RoleArn")
	}
	if !slices.Equal(next.Tags, f.Tags) {
		other = append(other, "Tags")
	}
	var out []plannedChange
	for _, c := range p.changed {
		i := slices.IndexFunc(adopted, func(a adoptedRecord) bool { return a.Logical == *c.LogicalResourceId })
		switch {
		case i >= 0:
			c.Action, c.PhysicalResourceId = cloudformationtypes.ChangeActionImport, &adopted[i].Physical
			out = append(out, c)
		case *c.ResourceType != stackTyp || c.Action != cloudformationtypes.ChangeActionModify:
			other = append(other, *c.LogicalResourceId)
		}
	}
	if len(other) > 0 {
		return nil, invalid("As part of the import operation, you cannot modify or add [%s]", strings.Join(other, ", "))
	}
	return out, nil
}

// beginImport begins an import into the stack f, which becomes next.
func (s *Service) beginImport(tx *store.Tx, f *foundStack, next stackRecord) error {
	if f.Status != cloudformationtypes.StackStatusReviewInProgress {
		next.Previous = &f.versionRecord
	}
	next.Updated = s.now()
	if err := stacks.Put(tx, f.key, next); err != nil {
		return err
	}
	if err := supersede(tx, *f, next.ChangeSet); err != nil {
		return err
	}
	return s.noteStack(tx, f.key, cloudformationtypes.StackStatusImportInProgress, requested)
}

// adopt imports the resources of the change set that is executed.
func (o *operation) adopt(ctx context.Context) error {
	fail := func(reason string) error {
		return o.setStack(ctx, cloudformationtypes.StackStatusImportRollbackInProgress, reason, nil)
	}
	set, err := findSet(o.s.store, scopeAt(o.key), &o.rec.ChangeSet, nil)
	if err == nil {
		err = o.bound()
	}
	if err != nil {
		return fail(err.Error())
	}
	adopted := map[string]adoptedRecord{}
	for _, a := range set.Adopted {
		adopted[a.Logical] = a
	}
	imported := slices.DeleteFunc(slices.Clone(o.instance.Resources), func(d *template.Resource) bool { return adopted[d.ID].Logical == "" })
	o.inOrder(ctx, imported, func(ctx context.Context, d *template.Resource) bool { return o.adoptResource(ctx, d, adopted[d.ID]) })
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var bad []string
	for _, d := range imported {
		if rec, _ := o.resource(d.ID); failed(rec.Status) {
			bad = append(bad, d.ID)
		}
	}
	if len(bad) > 0 {
		slices.Sort(bad)
		return fail(fmt.Sprintf("The following resource(s) failed to import: [%s]. ", strings.Join(bad, ", ")))
	}
	refusal, err := o.publish(ctx, cloudformationtypes.StackStatusImportComplete)
	if refusal != "" {
		return fail(refusal)
	}
	return err
}

// adoptResource imports one resource and reports whether that succeeded. It may run again after doing part of its work.
func (o *operation) adoptResource(ctx context.Context, d *template.Resource, a adoptedRecord) bool {
	say := func(status cloudformationtypes.ResourceStatus, reason string, change func(*resourceRecord)) {
		o.logged(o.note(d.ID, true, func(rec *resourceRecord) {
			if change != nil {
				change(rec)
			}
			rec.Status, rec.Reason, rec.Step = status, reason, o.step
		}))
	}
	rec, ok := o.resource(d.ID)
	if !ok || rec.Step != o.step {
		say(cloudformationtypes.ResourceStatusImportInProgress, "Resource import started.", func(rec *resourceRecord) {
			*rec = resourceRecord{Stack: o.rec.ID, LogicalID: d.ID, Type: d.Type, resourceState: o.fresh(d)}
			rec.PhysicalID = a.Physical
		})
		rec, _ = o.resource(d.ID)
	}
	if rec.Status == cloudformationtypes.ResourceStatusUpdateComplete {
		return true
	}
	r, attributes, metadata, err := o.existing(ctx, d, &rec)
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errSibling) {
		return false // another operation or daemon continues
	}
	if err == nil && rec.Status == cloudformationtypes.ResourceStatusImportInProgress {
		say(cloudformationtypes.ResourceStatusImportComplete, "Resource import completed.", func(rec *resourceRecord) {
			rec.Properties, rec.Attributes, rec.Metadata, rec.UpdatePolicy = []byte(template.JSON(r.props)), addTo(nil, attributes), metadata, r.updatePolicy
		})
	}
	if err == nil {
		say(cloudformationtypes.ResourceStatusUpdateInProgress, "Apply stack-level tags to imported resource if applicable.", nil)
		was := *r
		was.stackTags, r.was = nil, &was
		_, err = r.updateInPlace()
	}
	switch {
	case errors.Is(context.Cause(ctx), errSibling):
		err = errors.New("Resource import cancelled") //nolint:staticcheck // in AWS's style
	case ctx.Err() != nil:
		return false // another operation or daemon continues
	}
	if err != nil {
		say(cloudformationtypes.ResourceStatusImportFailed, err.Error(), nil)
		return false
	}
	say(cloudformationtypes.ResourceStatusUpdateComplete, "", nil)
	return true
}

// existing checks that a resource to import exists and belongs to no other stack. It returns a request for the resource,
// its attributes, and its metadata in the template.
func (o *operation) existing(ctx context.Context, d *template.Resource, rec *resourceRecord) (r *request, attributes map[string]any, metadata string, err error) {
	for _, item := range resources.All(o.s.store, scopeAt(o.key).All()) {
		other := item.Value
		if other.Type != d.Type || other.PhysicalID != rec.PhysicalID || gone(other.Status) || other.Stack == o.rec.ID && other.LogicalID == d.ID {
			continue
		}
		if theirs, err := stacks.Get(o.s.store, scopeAt(o.key).Key(other.Stack)); err == nil && theirs.Status != cloudformationtypes.StackStatusDeleteComplete {
			return nil, nil, "", fmt.Errorf("%s already exists in stack %s", rec.PhysicalID, stackARN(scopeAt(o.key).Key(other.Stack), &theirs))
		}
	}
	rt, err := o.runtime(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	r = o.request(rt.ctx, rec, &rec.resourceState)
	if r.props, err = o.instance.Properties(d, rt); err != nil {
		return nil, nil, "", err
	}
	r.stackTags = o.rec.Tags
	if metadata, err = o.metadata(d, rt); err != nil {
		return nil, nil, "", err
	}
	if r.updatePolicy, err = o.updatePolicy(d, rt); err != nil {
		return nil, nil, "", err
	}
	if err := schemas()[d.Type].check(d.ID, r.props); err != nil {
		return nil, nil, "", err
	}
	_, err = actual[d.Type](r)
	if errors.Is(err, errNone) || notFound(err) {
		return nil, nil, "", fmt.Errorf("Resource handler returned message: \"Resource of type '%s' with identifier '%s' was not found.\" (RequestToken: %s, HandlerErrorCode: NotFound)", d.Type, rec.PhysicalID, ids.UUID()) //nolint:staticcheck // AWS's words
	}
	if err != nil {
		return nil, nil, "", r.reason(err)
	}
	h, _ := handlerOf(d.Type)
	if h.read == nil {
		return r, nil, metadata, nil
	}
	if attributes, err = h.read(r); err != nil {
		err = r.reason(err)
	}
	return r, attributes, metadata, err
}

// rollBackImport removes the imported resources from the stack and leaves them as they are.
func (o *operation) rollBackImport(ctx context.Context) error {
	for _, rec := range o.s.resourcesOf(foundStack{o.key, o.rec}) {
		if !strings.HasPrefix(rec.Step, o.rec.Operation.ID) {
			continue
		}
		for _, status := range []cloudformationtypes.ResourceStatus{cloudformationtypes.ResourceStatusImportRollbackInProgress, cloudformationtypes.ResourceStatusImportRollbackComplete} {
			if err := o.note(rec.LogicalID, true, func(rec *resourceRecord) { rec.Status, rec.Reason = status, "" }); err != nil {
				return err
			}
		}
		if err := o.s.store.Update(ctx, func(tx *store.Tx) error { resources.Delete(tx, below(o.key, rec.LogicalID)); return nil }); err != nil {
			return err
		}
	}
	return o.setStack(ctx, cloudformationtypes.StackStatusImportRollbackComplete, "", func(rec *stackRecord) {
		if rec.Previous != nil {
			rec.versionRecord = *rec.Previous
		}
		rec.Previous = nil
	})
}
