package cloudformation

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// updatable are the states in which a stack can be updated.
var updatable = []cloudformationtypes.StackStatus{
	cloudformationtypes.StackStatusCreateComplete, cloudformationtypes.StackStatusCreateFailed, cloudformationtypes.StackStatusUpdateComplete, cloudformationtypes.StackStatusUpdateFailed,
	cloudformationtypes.StackStatusUpdateRollbackComplete, cloudformationtypes.StackStatusImportComplete, cloudformationtypes.StackStatusImportRollbackComplete,
}

// UpdateStack begins an update of a stack.
func (s *Service) UpdateStack(ctx context.Context, in *awscloudformation.UpdateStackInput) (*awscloudformation.UpdateStackOutput, error) {
	if err := checkMode(in.DeploymentConfig); err != nil {
		return nil, err
	}
	sc := scopeOf(ctx)
	f, err := findLive(s.store, sc, *in.StackName)
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFound(*in.StackName))
	}
	out := &awscloudformation.UpdateStackOutput{StackId: aws.String(f.arn())}
	op := newOperation(awsapi.CallFrom(ctx), in.ClientRequestToken)
	if op.Fingerprint, err = fingerprint(in); err != nil {
		return nil, err
	}
	if in.ClientRequestToken != nil && f.Operation.Token == op.Token {
		if f.Operation.Fingerprint != op.Fingerprint {
			return nil, tokenExists(op.Token)
		}
		out.OperationId = &f.Operation.ID
		return out, nil
	}
	next := f.stackRecord
	if _, err := s.submit(ctx, f.key, &next, submission{
		body: in.TemplateBody, url: in.TemplateURL, previous: aws.ToBool(in.UsePreviousTemplate), parameters: in.Parameters, tags: in.Tags, capabilities: in.Capabilities,
		notificationARNs: in.NotificationARNs, role: in.RoleARN,
	}); err != nil {
		return nil, err
	}
	if in.StackPolicyBody != nil || in.StackPolicyURL != nil {
		if next.Policy, err = s.policySource(ctx, in.StackPolicyBody, in.StackPolicyURL, "StackPolicy"); err != nil {
			return nil, err
		}
	}
	if next.PolicyOnce, err = s.policySource(ctx, in.StackPolicyDuringUpdateBody, in.StackPolicyDuringUpdateURL, "StackPolicyDuringUpdate"); err != nil {
		return nil, err
	}
	next.KeepFailed, next.Operation, next.ChangeSet, next.Held = aws.ToBool(in.DisableRollback), op, "", false
	if n := nestingFrom(ctx); n != nil {
		n.join(&next)
		next.Held = true
	}
	if !slices.Contains(updatable, f.Status) && !(f.Held && next.Held && f.Status == cloudformationtypes.StackStatusUpdateCompleteCleanupInProgress) {
		return nil, wrongState(f.arn(), f.Status)
	}
	plan, err := s.plan(ctx, f.key, &f.stackRecord, &next)
	if err != nil {
		return nil, err
	}
	if !plan.changes() && next.Fault == "" && f.Status != cloudformationtypes.StackStatusUpdateFailed && f.Status != cloudformationtypes.StackStatusCreateFailed {
		return nil, noUpdates()
	}
	out.OperationId = &op.ID
	return out, s.store.Update(ctx, func(tx *store.Tx) error {
		return s.beginUpdate(tx, &f, next)
	})
}

// beginUpdate begins an update of the stack f to next, which was derived from it.
func (s *Service) beginUpdate(tx *store.Tx, f *foundStack, next stackRecord) error {
	if err := keepTexts(tx, f.key, &next.versionRecord); err != nil {
		return err
	}
	err := stacks.Update(tx, f.key, func(rec *stackRecord) error {
		if rec.Status != f.Status || rec.Operation.ID != f.Operation.ID {
			return wrongState(f.arn(), rec.Status)
		}
		if rec.Previous == nil && rec.Status != cloudformationtypes.StackStatusCreateFailed {
			next.Previous = new(rec.versionRecord)
		}
		next.Events, next.Unpublished, next.Protected, next.Updated = rec.Events, rec.Unpublished, rec.Protected, s.now()
		next.Outputs, next.Imports = rec.Outputs, rec.Imports
		*rec = next
		return nil
	})
	if err != nil {
		return err
	}
	if err := supersede(tx, *f, next.ChangeSet); err != nil {
		return err
	}
	return s.noteStack(tx, f.key, cloudformationtypes.StackStatusUpdateInProgress, requested)
}

// turn begins another operation on a stack. next changes the record and returns the status,
// or an error if the stack's state does not allow the operation.
func (s *Service) turn(ctx context.Context, name string, token, role *string, next func(*store.Tx, *foundStack) (cloudformationtypes.StackStatus, error)) (*foundStack, error) {
	f, err := findLive(s.store, scopeOf(ctx), name)
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFound(name))
	}
	if role != nil {
		if _, err := s.cfg.Assume(ctx, *role, f.arn()); err != nil {
			return nil, badRole(*role)
		}
	}
	op := newOperation(awsapi.CallFrom(ctx), token)
	return &f, s.store.Update(ctx, func(tx *store.Tx) error {
		var status cloudformationtypes.StackStatus
		err := stacks.Update(tx, f.key, func(rec *stackRecord) (err error) {
			f.stackRecord = *rec
			if status, err = next(tx, &f); err != nil {
				return err
			}
			*rec = f.stackRecord
			rec.Operation = op
			if role != nil {
				rec.RoleARN = *role
			}
			return nil
		})
		if err != nil {
			return err
		}
		return s.noteStack(tx, f.key, status, requested)
	})
}

// CancelUpdateStack cancels an update and begins to roll it back.
func (s *Service) CancelUpdateStack(ctx context.Context, in *awscloudformation.CancelUpdateStackInput) (*awscloudformation.CancelUpdateStackOutput, error) {
	_, err := s.turn(ctx, *in.StackName, in.ClientRequestToken, nil, func(_ *store.Tx, f *foundStack) (cloudformationtypes.StackStatus, error) {
		if f.Status != cloudformationtypes.StackStatusUpdateInProgress || f.Previous == nil {
			return "", invalid("CancelUpdateStack cannot be called from current stack status")
		}
		return cloudformationtypes.StackStatusUpdateRollbackInProgress, nil
	})
	return &awscloudformation.CancelUpdateStackOutput{}, err
}

// ContinueUpdateRollback retries the rollback of an update.
func (s *Service) ContinueUpdateRollback(ctx context.Context, in *awscloudformation.ContinueUpdateRollbackInput) (*awscloudformation.ContinueUpdateRollbackOutput, error) {
	_, err := s.turn(ctx, *in.StackName, in.ClientRequestToken, in.RoleARN, func(tx *store.Tx, f *foundStack) (cloudformationtypes.StackStatus, error) {
		if f.Status != cloudformationtypes.StackStatusUpdateRollbackFailed {
			return "", invalid("Stack:%s is in %s state and can not continue rollback.", f.arn(), f.Status) // from memory
		}
		for _, id := range in.ResourcesToSkip {
			of, logical := f.key, id
			if stack, inner, ok := strings.Cut(id, "."); ok {
				nested, err := find(tx, scopeAt(f.key), stack)
				if store.IgnoreNotFound(err) != nil {
					return "", err
				}
				if nested.Root != f.root() {
					return "", cannotSkip(id)
				}
				of, logical = nested.key, inner
			}
			r, err := resources.Get(tx, below(of, logical))
			if err != nil {
				return "", store.NotFoundAs(err, cannotSkip(id))
			}
			if r.Status != cloudformationtypes.ResourceStatusUpdateFailed {
				return "", cannotSkip(id)
			}
		}
		f.Skip = in.ResourcesToSkip
		return cloudformationtypes.StackStatusUpdateRollbackInProgress, nil
	})
	return &awscloudformation.ContinueUpdateRollbackOutput{}, err
}

// RollbackStack begins to roll back a stack whose failed operation was not rolled back.
func (s *Service) RollbackStack(ctx context.Context, in *awscloudformation.RollbackStackInput) (*awscloudformation.RollbackStackOutput, error) {
	if err := checkMode(in.DeploymentConfig); err != nil {
		return nil, err
	}
	out := &awscloudformation.RollbackStackOutput{}
	_, err := s.turn(ctx, *in.StackName, in.ClientRequestToken, in.RoleARN, func(_ *store.Tx, f *foundStack) (cloudformationtypes.StackStatus, error) {
		out.StackId = aws.String(f.arn())
		switch {
		case f.Status != cloudformationtypes.StackStatusUpdateFailed && f.Status != cloudformationtypes.StackStatusCreateFailed:
			return "", invalid("Stack:%s is in %s state and can not be rolled back.", f.arn(), f.Status) // from memory
		case f.Previous == nil:
			return cloudformationtypes.StackStatusRollbackInProgress, nil
		}
		return cloudformationtypes.StackStatusUpdateRollbackInProgress, nil
	})
	return out, err
}

// SetStackPolicy sets which updates of a stack's resources are allowed.
func (s *Service) SetStackPolicy(ctx context.Context, in *awscloudformation.SetStackPolicyInput) (*awscloudformation.SetStackPolicyOutput, error) {
	text, err := s.policySource(ctx, in.StackPolicyBody, in.StackPolicyURL, "StackPolicy")
	if err != nil {
		return nil, err
	}
	return &awscloudformation.SetStackPolicyOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		f, err := findLive(tx, scopeOf(ctx), *in.StackName)
		if err != nil {
			return store.NotFoundAs(err, stackNotFound(*in.StackName))
		}
		return stacks.Update(tx, f.key, func(rec *stackRecord) error { rec.Policy = text; return nil })
	})
}

// GetStackPolicy returns the policy of a stack, if it has one.
func (s *Service) GetStackPolicy(ctx context.Context, in *awscloudformation.GetStackPolicyInput) (*awscloudformation.GetStackPolicyOutput, error) {
	f, err := find(s.store, scopeOf(ctx), *in.StackName)
	if err != nil {
		return nil, store.NotFoundAs(err, stackNotFound(*in.StackName))
	}
	return &awscloudformation.GetStackPolicyOutput{StackPolicyBody: nonEmpty(f.Policy)}, nil
}
