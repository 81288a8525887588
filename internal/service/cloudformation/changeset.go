package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// A foundSet is a change set with its key and its stack.
type foundSet struct {
	key   store.Key
	stack foundStack
	changeSetRecord
}

func setARN(key store.Key, name, id string) string {
	return arn.New("cloudformation", key.Region, key.Account, "changeSet/"+name+"/"+id)
}

func (f *foundSet) arn() string { return setARN(f.key, f.Name, f.ID) }

// execution returns the execution status of the change set. Once it has been executed, the status follows from the
// status of the stack. The change set of a nested stack is executed together with its root change set.
func (f *foundSet) execution(r store.Reader) cloudformationtypes.ExecutionStatus {
	if f.Root != "" {
		root, err := findSet(r, scopeAt(f.key), &f.Root, nil)
		if err == nil && root.Execution == cloudformationtypes.ExecutionStatusExecuteInProgress {
			return root.execution(r)
		}
	}
	switch {
	case f.Execution != cloudformationtypes.ExecutionStatusExecuteInProgress:
		return f.Execution
	case f.stack.ChangeSet != f.arn():
		return cloudformationtypes.ExecutionStatusExecuteComplete // the stack has moved on
	case inProgress(f.stack.Status):
		return cloudformationtypes.ExecutionStatusExecuteInProgress
	case f.stack.Status == cloudformationtypes.StackStatusCreateComplete, f.stack.Status == cloudformationtypes.StackStatusUpdateComplete, f.stack.Status == cloudformationtypes.StackStatusImportComplete:
		return cloudformationtypes.ExecutionStatusExecuteComplete
	}
	return cloudformationtypes.ExecutionStatusExecuteFailed
}

// findSet returns the change set with a name or an ARN.
func findSet(r store.Reader, sc regional.Scope, name, stack *string) (foundSet, error) {
	set := aws.ToString(name)
	if !strings.HasPrefix(set, "arn:") {
		if stack == nil {
			return foundSet{}, invalid("StackName must be specified if ChangeSetName is not specified as an ARN.")
		}
		f, err := find(r, sc, *stack)
		if err != nil {
			return foundSet{}, store.NotFoundAs(err, stackNotFoundInBrackets(*stack))
		}
		for _, found := range setsOf(r, f) {
			if found.Name == set {
				return found, nil
			}
		}
		return foundSet{}, setNotFound(set)
	}
	for _, item := range changeSets.All(r, sc.All()) {
		if found := (foundSet{item.Key, foundStack{}, item.Value}); found.arn() == set {
			found.stack.key = sc.Key(item.Value.Stack)
			var err error
			found.stack.stackRecord, err = stacks.Get(r, found.stack.key)
			return found, store.NotFoundAs(err, setNotFound(set))
		}
	}
	return foundSet{}, setNotFound(set)
}

func setsOf(r store.Reader, f foundStack) (out []foundSet) {
	for _, item := range changeSets.All(r, within(f.key)) {
		out = append(out, foundSet{item.Key, f, item.Value})
	}
	slices.SortStableFunc(out, func(a, b foundSet) int { return a.Created.Compare(b.Created) })
	return out
}

// supersede makes the change sets of a stack obsolete, because the stack has changed. It
// leaves out the change set whose ARN is but.
func supersede(tx *store.Tx, f foundStack, but string) error {
	for _, set := range setsOf(tx, f) {
		if set.arn() == but || set.Execution != cloudformationtypes.ExecutionStatusAvailable {
			continue
		}
		err := changeSets.Update(tx, set.key, func(rec *changeSetRecord) error {
			rec.Execution = cloudformationtypes.ExecutionStatusObsolete
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// CreateChangeSet determines what a new version of a stack, or a new stack, would change.
// AWS does this after the call; here the result is available at once.
func (s *Service) CreateChangeSet(ctx context.Context, in *awscloudformation.CreateChangeSetInput) (_ *awscloudformation.CreateChangeSetOutput, err error) {
	if err := checkMode(in.DeploymentConfig); err != nil {
		return nil, err
	}
	sc, call := scopeOf(ctx), awsapi.CallFrom(ctx)
	f, err := findLive(s.store, sc, *in.StackName)
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	ok := err == nil
	set := changeSetRecord{
		ID: ids.UUID(), Name: *in.ChangeSetName, Type: in.ChangeSetType, Status: cloudformationtypes.ChangeSetStatusCreateComplete, Execution: cloudformationtypes.ExecutionStatusAvailable,
		Created: s.now(), Description: aws.ToString(in.Description), OnFailure: string(in.OnStackFailure), ImportExisting: aws.ToBool(in.ImportExistingResources), IncludeNested: aws.ToBool(in.IncludeNestedStacks), Token: aws.ToString(in.ClientToken),
	}
	if set.Fingerprint, err = fingerprint(in); err != nil {
		return nil, err
	}
	if set.Type == "" {
		set.Type = cloudformationtypes.ChangeSetTypeUpdate
	}
	if ok && set.Token != "" {
		for _, other := range setsOf(s.store, f) {
			if other.Token != set.Token || other.Name != set.Name {
				continue
			}
			if other.Fingerprint != set.Fingerprint {
				return nil, tokenExists(set.Token)
			}
			return &awscloudformation.CreateChangeSetOutput{Id: aws.String(other.arn()), StackId: aws.String(f.arn())}, nil
		}
	}
	review := ok && f.Status == cloudformationtypes.StackStatusReviewInProgress
	switch {
	case set.Type != cloudformationtypes.ChangeSetTypeImport && len(in.ResourcesToImport) > 0:
		return nil, invalid("ResourcesToImport is only for change sets of the type IMPORT") // our own wording
	case set.Type == cloudformationtypes.ChangeSetTypeImport && ok && !review && !slices.Contains(updatable, f.Status):
		return nil, wrongState(f.arn(), f.Status)
	case set.Type == cloudformationtypes.ChangeSetTypeCreate && ok && !review:
		return nil, setsStackExists(f.Name, set.Name)
	case !ok && (set.Type == cloudformationtypes.ChangeSetTypeUpdate || strings.HasPrefix(*in.StackName, "arn:")):
		return nil, stackNotFoundInBrackets(*in.StackName)
	case set.Type == cloudformationtypes.ChangeSetTypeUpdate && !slices.Contains(updatable, f.Status):
		return nil, wrongState(f.arn(), f.Status)
	case !ok:
		if len(*in.StackName) > maxStackName { // not in the constraints, because ARNs may be longer
			return nil, violated(*in.StackName, "stackName", fmt.Sprintf("Member must have length less than or equal to %d", maxStackName))
		}
		id := ids.UUID()
		f = foundStack{sc.Key(id), stackRecord{
			ID: id, Name: *in.StackName, Created: s.now(), OnFailure: "ROLLBACK", Operation: newOperation(call, in.ClientToken), Status: cloudformationtypes.StackStatusReviewInProgress,
		}}
	}
	if slices.ContainsFunc(setsOf(s.store, f), func(other foundSet) bool { return other.Name == set.Name }) {
		return nil, setExists(set.Name)
	}
	n := nestingFrom(ctx)
	if n != nil {
		n.link(&set)
		if !ok {
			if err := n.apply(&f.stackRecord); err != nil {
				return nil, err
			}
		}
	}
	next := f.stackRecord
	t, err := s.submit(ctx, f.key, &next, submission{
		body: in.TemplateBody, url: in.TemplateURL, previous: aws.ToBool(in.UsePreviousTemplate), parameters: in.Parameters, tags: in.Tags, capabilities: in.Capabilities,
		notificationARNs: in.NotificationARNs, role: in.RoleARN,
	})
	if err != nil {
		return nil, err
	}
	set.Stack, set.versionRecord, set.RoleARN = f.ID, next.versionRecord, next.RoleARN
	next.Operation = newOperation(call, in.ClientToken)
	plan, err := s.plan(ctx, f.key, &f.stackRecord, &next)
	if err != nil {
		return nil, err
	}
	failure := next.Fault
	if set.IncludeNested && set.Type != cloudformationtypes.ChangeSetTypeImport {
		defer func() {
			if err != nil { // remove the change sets of nested stacks
				err = errors.Join(err, s.dropNestedSets(context.WithoutCancel(ctx), &foundSet{f.key, f, set}))
			}
		}()
		same, err := s.nestedSets(ctx, &f, &next, &set, plan.changed)
		switch {
		case err != nil && smithyText(err) != "":
			failure = smithyText(err)
		case err != nil:
			return nil, err
		case len(same) > 0:
			links := map[string]*string{}
			for _, c := range plan.changed {
				links[*c.LogicalResourceId] = c.ChangeSetId
			}
			if plan, err = s.plan(ctx, f.key, &f.stackRecord, &next, same...); err != nil {
				return nil, err
			}
			for i, c := range plan.changed {
				plan.changed[i].ChangeSetId = links[*c.LogicalResourceId]
			}
		}
	}
	set.Changes = plan.changed
	if set.Type == cloudformationtypes.ChangeSetTypeImport && failure == "" {
		if set.Adopted, err = s.adoptions(in, &f, t); err != nil {
			return nil, err
		}
		if set.Changes, err = s.adoptionPlan(plan, set.Adopted, &f, &next, in); err != nil {
			return nil, err
		}
	}
	if set.Type == cloudformationtypes.ChangeSetTypeUpdate && !plan.changes() {
		set.Status, set.Execution = cloudformationtypes.ChangeSetStatusFailed, cloudformationtypes.ExecutionStatusUnavailable
		// [seen] the same snapshots, test_changesets; `aws cloudformation deploy` and CDK look
		// for either text.
		set.Reason = noChanges
		if len(t.Transforms) > 0 {
			set.Reason = nothingToUpdate
		}
	}
	if failure != "" {
		set.Status, set.Execution, set.Reason = cloudformationtypes.ChangeSetStatusFailed, cloudformationtypes.ExecutionStatusUnavailable, failure
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if !ok {
			if _, err := find(tx, sc, f.Name); err == nil {
				return setsStackExists(f.Name, set.Name)
			} else if store.IgnoreNotFound(err) != nil {
				return err
			}
			if err := stacks.Create(tx, f.key, f.stackRecord); err != nil {
				return err
			}
			if err := s.noteStack(tx, f.key, cloudformationtypes.StackStatusReviewInProgress, requested); err != nil {
				return err
			}
		}
		for _, other := range setsOf(tx, f) {
			if other.Name == set.Name {
				return setExists(set.Name)
			}
		}
		if err := keepTexts(tx, f.key, &set.versionRecord); err != nil {
			return err
		}
		return changeSets.Create(tx, below(f.key, set.ID), set)
	})
	if err == nil && n == nil {
		s.awaitNextSecond(ctx)
	}
	return &awscloudformation.CreateChangeSetOutput{Id: aws.String(setARN(f.key, set.Name, set.ID)), StackId: aws.String(f.arn())}, err
}

// noChanges is the reason why a change set that changes nothing fails.
const noChanges = "The submitted information didn't contain changes. Submit different information to create a change set."

// smithyText returns the message of an API error, or "" for other errors.
func smithyText(err error) string {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return refused.ErrorMessage()
	}
	return ""
}

// awaitNextSecond returns when another second has begun. The AWS CLI and eksctl name change sets after the second in
// which they ask for them; on AWS, making one takes longer than that.
func (s *Service) awaitNextSecond(ctx context.Context) {
	now := s.clock.Now()
	timer := s.clock.NewTimer(now.Truncate(time.Second).Add(time.Second).Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}

// DescribeChangeSet describes a change set.
func (s *Service) DescribeChangeSet(ctx context.Context, in *awscloudformation.DescribeChangeSetInput) (*awscloudformation.DescribeChangeSetOutput, error) {
	f, err := findSet(s.store, scopeOf(ctx), in.ChangeSetName, in.StackName)
	if err != nil {
		return nil, err
	}
	like := foundStack{f.stack.key, stackRecord{versionRecord: f.versionRecord}}
	shown := like.describe()
	out := &awscloudformation.DescribeChangeSetOutput{
		ChangeSetId: aws.String(f.arn()), ChangeSetName: &f.Name, StackId: aws.String(f.stack.arn()), StackName: &f.stack.Name, Status: f.Status, StatusReason: nonEmpty(f.Reason),
		ExecutionStatus: f.execution(s.store), CreationTime: &f.Created, Description: nonEmpty(f.Description), Parameters: shown.Parameters, Tags: shown.Tags, Capabilities: shown.Capabilities,
		NotificationARNs: shown.NotificationARNs, RollbackConfiguration: &cloudformationtypes.RollbackConfiguration{}, IncludeNestedStacks: &f.IncludeNested, ParentChangeSetId: nonEmpty(f.Parent), RootChangeSetId: nonEmpty(f.Root),
		OnStackFailure: cloudformationtypes.OnStackFailure(f.OnFailure), ImportExistingResources: aws.Bool(f.ImportExisting), Changes: []cloudformationtypes.Change{},
	}
	page, next, err := paging.CutInOrder(paged("changes of "+f.ID), f.Changes, func(c plannedChange) string { return *c.LogicalResourceId }, nil, in.NextToken)
	for _, c := range page {
		change := c.ResourceChange
		if !aws.ToBool(in.IncludePropertyValues) {
			change.BeforeContext, change.AfterContext = nil, nil
			change.Details = slices.Clone(change.Details)
			for i, d := range change.Details {
				change.Details[i].Target = &cloudformationtypes.ResourceTargetDefinition{Attribute: d.Target.Attribute, Name: d.Target.Name, RequiresRecreation: d.Target.RequiresRecreation}
			}
		}
		out.Changes = append(out.Changes, cloudformationtypes.Change{Type: cloudformationtypes.ChangeTypeResource, ResourceChange: &change})
	}
	out.NextToken = next
	return out, err
}

// ListChangeSets lists the change sets of a stack.
func (s *Service) ListChangeSets(ctx context.Context, in *awscloudformation.ListChangeSetsInput) (*awscloudformation.ListChangeSetsOutput, error) {
	f, err := find(s.store, scopeOf(ctx), *in.StackName)
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFoundInBrackets(*in.StackName))
	}
	page, next, err := paging.CutInOrder(paged("change sets of "+f.ID), setsOf(s.store, f), func(set foundSet) string { return set.ID }, nil, in.NextToken)
	out := &awscloudformation.ListChangeSetsOutput{NextToken: next, Summaries: []cloudformationtypes.ChangeSetSummary{}}
	for _, set := range page {
		out.Summaries = append(out.Summaries, cloudformationtypes.ChangeSetSummary{
			ChangeSetId: aws.String(set.arn()), ChangeSetName: &set.Name, StackId: aws.String(f.arn()), StackName: &f.Name, Status: set.Status, StatusReason: nonEmpty(set.Reason),
			ExecutionStatus: set.execution(s.store), CreationTime: &set.Created, Description: nonEmpty(set.Description), IncludeNestedStacks: &set.IncludeNested, ParentChangeSetId: nonEmpty(set.Parent), RootChangeSetId: nonEmpty(set.Root),
		})
	}
	return out, err
}

// DeleteChangeSet deletes a change set. It succeeds if the change set does not exist, which
// CDK relies on. A stack that only this change set would have created stays in review.
func (s *Service) DeleteChangeSet(ctx context.Context, in *awscloudformation.DeleteChangeSetInput) (*awscloudformation.DeleteChangeSetOutput, error) {
	out := &awscloudformation.DeleteChangeSetOutput{}
	var f foundSet
	err := s.store.Update(ctx, func(tx *store.Tx) (err error) {
		if f, err = findSet(tx, scopeOf(ctx), in.ChangeSetName, in.StackName); err != nil {
			return err
		}
		if f.execution(tx) == cloudformationtypes.ExecutionStatusExecuteInProgress {
			return setStatus("ChangeSet [%s] cannot be deleted while it is executed", f.arn()) // our own wording
		}
		// From here on, the change set cannot be executed. If the daemon is killed, the next one completes the deletion.
		return changeSets.Update(tx, f.key, func(rec *changeSetRecord) error {
			rec.Status, rec.Execution = cloudformationtypes.ChangeSetStatusDeleteInProgress, cloudformationtypes.ExecutionStatusUnavailable
			return nil
		})
	})
	switch {
	case awserr.CodeOf(err) == "ChangeSetNotFound":
		return out, nil
	case err != nil:
		return nil, err
	}
	return out, s.dropSet(context.WithoutCancel(ctx), &f) // even if the client disconnects
}

// ExecuteChangeSet applies a change set.
func (s *Service) ExecuteChangeSet(ctx context.Context, in *awscloudformation.ExecuteChangeSetInput) (*awscloudformation.ExecuteChangeSetOutput, error) {
	op := newOperation(awsapi.CallFrom(ctx), in.ClientRequestToken)
	return &awscloudformation.ExecuteChangeSetOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		f, err := findSet(tx, scopeOf(ctx), in.ChangeSetName, in.StackName)
		switch {
		case err != nil:
			return err
		case f.Root != "":
			return invalid("ChangeSet [%s] belongs to a nested stack: execute its root change set [%s]", f.arn(), f.Root) // our own wording
		case in.ClientRequestToken != nil && f.stack.ChangeSet == f.arn() && f.stack.Operation.Token == op.Token:
			return nil // an earlier request with the same token has started it
		case f.Execution != cloudformationtypes.ExecutionStatusAvailable:
			status := string(f.Status)
			if f.Status == cloudformationtypes.ChangeSetStatusCreateComplete {
				status = string(f.execution(tx))
			}
			return setStatus("ChangeSet [%s] cannot be executed in its current status of [%s]", f.arn(), status)
		}
		if err := changeSets.Update(tx, f.key, func(rec *changeSetRecord) error {
			rec.Execution = cloudformationtypes.ExecutionStatusExecuteInProgress
			return nil
		}); err != nil {
			return err
		}
		op.ImportExisting = f.ImportExisting
		next := f.stack.stackRecord
		outputs, imports := next.Outputs, next.Imports
		next.versionRecord, next.RoleARN, next.ChangeSet, next.Operation, next.Fault = f.versionRecord, f.RoleARN, f.arn(), op, ""
		next.Outputs, next.Imports = outputs, imports
		if f.Type == cloudformationtypes.ChangeSetTypeImport {
			return s.beginImport(tx, &f.stack, next)
		}
		if f.Type != cloudformationtypes.ChangeSetTypeCreate {
			next.KeepFailed = aws.ToBool(in.DisableRollback) || f.OnFailure == "DO_NOTHING"
			return s.beginUpdate(tx, &f.stack, next)
		}
		next.Updated = s.now()
		switch {
		case aws.ToBool(in.DisableRollback):
			next.OnFailure = "DO_NOTHING"
		case f.OnFailure != "":
			next.OnFailure = f.OnFailure
		}
		if err := stacks.Put(tx, f.stack.key, next); err != nil {
			return err
		}
		if err := supersede(tx, f.stack, f.arn()); err != nil {
			return err
		}
		return s.noteStack(tx, f.stack.key, cloudformationtypes.StackStatusCreateInProgress, requested)
	})
}
