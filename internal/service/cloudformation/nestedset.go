package cloudformation

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// A change set with IncludeNestedStacks comes with a change set for each nested stack that it changes. These only show
// what will happen: executing the root creates or updates the nested stacks as any other update does. Until then, a new
// nested stack is in review.

// nestedSets creates the change sets of the nested stacks that a change set of the stack f may change, and links the
// changes with them. It returns the nested stacks that do not change.
func (s *Service) nestedSets(ctx context.Context, f *foundStack, next *stackRecord, set *changeSetRecord, changes []plannedChange) (same []string, err error) {
	parent := &foundStack{f.key, *next}
	id := setARN(f.key, set.Name, set.ID)
	root := id
	if set.Root != "" {
		root = set.Root
	}
	for i, c := range changes {
		if *c.ResourceType != stackTyp || c.Action == cloudformationtypes.ChangeActionRemove {
			continue
		}
		v, _ := template.ReadJSON(aws.ToString(c.AfterContext)) // the planner wrote it
		after, _ := v.(*template.Map)
		props, _ := after.Get("Properties").(*template.Map)
		o := &operation{s: s, key: f.key, rec: *next, arn: f.arn()}
		r := o.request(ctx, &resourceRecord{LogicalID: *c.LogicalResourceId, Type: stackTyp}, &resourceState{Suffix: newSuffix(), Tags: next.Tags})
		r.props = props
		in := &awscloudformation.CreateChangeSetInput{
			ChangeSetName: aws.String(r.generated(set.Name, maxStackName)), ChangeSetType: cloudformationtypes.ChangeSetTypeUpdate, StackName: c.PhysicalResourceId, TemplateURL: aws.String(r.text("TemplateURL")),
			Capabilities: o.capabilities(), Tags: r.nestedTags(), NotificationARNs: r.list("NotificationARNs"), IncludeNestedStacks: aws.Bool(true),
		}
		if c.Action == cloudformationtypes.ChangeActionAdd {
			in.ChangeSetType, in.StackName = cloudformationtypes.ChangeSetTypeCreate, aws.String(r.nestedName())
		}
		if in.Parameters, err = r.nestedParameters(); err != nil {
			return nil, err
		}
		inner := context.WithValue(awsapi.Via(ctx, servicePrincipal), nestingKey{}, &nesting{parent: parent, logical: r.logical, set: id, rootSet: root})
		out, err := awsapi.Do[awscloudformation.CreateChangeSetOutput](inner, s.cfg.API, in)
		if err != nil {
			return nil, err
		}
		made, err := findSet(s.store, scopeAt(f.key), out.Id, nil)
		if err != nil {
			return nil, err
		}
		automatic := len(c.Details) == 1 && c.Details[0].ChangeSource == cloudformationtypes.ChangeSourceAutomatic
		switch {
		case made.Status == cloudformationtypes.ChangeSetStatusCreateComplete, made.Reason == noChanges && !automatic:
			changes[i].ChangeSetId = out.Id
		case made.Reason == noChanges:
			same = append(same, r.logical)
		default:
			// [seen] users of AWS SAM and the CDK report it
			return nil, invalid("Nested change set %s was not successfully created: Currently in FAILED.", *out.Id)
		}
	}
	return same, nil
}

// link records that a change set of a nested stack belongs to the parent's.
func (n *nesting) link(set *changeSetRecord) { set.Parent, set.Root = n.set, n.rootSet }

// setsBelow returns the change sets of nested stacks that belong to a change set.
func setsBelow(r store.Reader, f *foundSet) (out []foundSet) {
	for _, item := range changeSets.All(r, scopeAt(f.key).All()) {
		if item.Value.Root != f.arn() {
			continue
		}
		stack := scopeAt(f.key).Key(item.Value.Stack)
		if rec, err := stacks.Get(r, stack); err == nil {
			out = append(out, foundSet{item.Key, foundStack{stack, rec}, item.Value})
		}
	}
	return out
}

// dropNestedSets deletes the nested change sets of a change set, and the stacks that exist only for them. It uses
// several transactions, because there may be too many for one.
func (s *Service) dropNestedSets(ctx context.Context, f *foundSet) error {
	for _, set := range setsBelow(s.store, f) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			changeSets.Delete(tx, set.key)
			return dropReview(tx, set.stack.key)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropSet deletes a change set and those nested in it.
func (s *Service) dropSet(ctx context.Context, f *foundSet) error {
	if err := s.dropNestedSets(ctx, f); err != nil {
		return err
	}
	return s.store.Update(ctx, func(tx *store.Tx) error { changeSets.Delete(tx, f.key); return nil })
}

// dropOrphans cleans up after an earlier daemon that was killed. It deletes the change sets that the daemon was deleting,
// and the change sets of nested stacks for which the daemon had not stored the root change set yet.
func (s *Service) dropOrphans(ctx context.Context) error {
	begun := s.now()
	for _, item := range changeSets.All(s.store, store.Scope{}) {
		sc := scopeAt(item.Key)
		if item.Value.Root == "" && item.Value.Status == cloudformationtypes.ChangeSetStatusDeleteInProgress {
			if err := s.dropSet(ctx, &foundSet{item.Key, foundStack{key: sc.Key(item.Value.Stack)}, item.Value}); err != nil {
				return err
			}
			continue
		}
		if item.Value.Root == "" || !item.Value.Created.Before(begun) {
			continue
		}
		if _, err := findSet(s.store, sc, &item.Value.Root, nil); awserr.CodeOf(err) != "ChangeSetNotFound" {
			continue
		}
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			changeSets.Delete(tx, item.Key)
			return dropReview(tx, sc.Key(item.Value.Stack))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropReview deletes a stack in review, unless it still has a change set.
func dropReview(tx *store.Tx, key store.Key) error {
	rec, err := stacks.Get(tx, key)
	if err != nil || rec.Status != cloudformationtypes.StackStatusReviewInProgress || len(setsOf(tx, foundStack{key, rec})) > 0 {
		return store.IgnoreNotFound(err)
	}
	for _, e := range events.All(tx, within(key)) {
		events.Delete(tx, e.Key)
	}
	for _, text := range texts.All(tx, within(key)) {
		texts.Delete(tx, text.Key)
	}
	stacks.Delete(tx, key)
	return nil
}

// dropReviewsBelow deletes the nested stacks of a stack that are in review, and their change sets.
func (s *Service) dropReviewsBelow(ctx context.Context, parent *foundStack) error {
	for _, f := range all(s.store, scopeAt(parent.key)) {
		if f.Parent != parent.arn() || f.Status != cloudformationtypes.StackStatusReviewInProgress {
			continue
		}
		err := errors.Join(s.dropReviewsBelow(ctx, &f), wipe(ctx, s.store, changeSets, within(f.key)),
			s.store.Update(ctx, func(tx *store.Tx) error { return dropReview(tx, f.key) }))
		if err != nil {
			return err
		}
	}
	return nil
}
