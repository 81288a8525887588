package cloudformation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// A nested stack is a separate stack. Its parent creates, updates and deletes it by calling CloudFormation with the
// permissions of its own caller or role, and waits for the result.
//
// An update of a nested stack is held before its clean-up, so that it can still be rolled back. The parent releases it
// when the parent itself cleans up.

// maxDepth is how many stacks may be nested in one another. It keeps a template that includes itself from nesting
// forever; AWS documents no limit.
const maxDepth = 10

// A nesting is what a parent passes to the operations on its nested stack besides their input.
type nesting struct {
	parent  *foundStack
	logical string
	// set and rootSet are the ARNs of the parent's and the root's change set, for CreateChangeSet.
	set, rootSet string
}

type nestingKey struct{}

func nestingFrom(ctx context.Context) *nesting {
	n, _ := ctx.Value(nestingKey{}).(*nesting)
	return n
}

// apply nests a stack in the parent.
func (n *nesting) apply(rec *stackRecord) error {
	if n.parent.Depth+1 >= maxDepth {
		return invalid("Stacks cannot be nested in more than %d levels", maxDepth) // our own wording
	}
	rec.Parent, rec.Root, rec.Logical, rec.Depth = n.parent.arn(), n.parent.root(), n.logical, n.parent.Depth+1
	n.join(rec)
	return nil
}

// join gives the operation of a nested stack the parent's role and host.
func (n *nesting) join(rec *stackRecord) {
	rec.RoleARN, rec.Operation.Host = n.parent.RoleARN, n.parent.Operation.Host
}

// root returns the ARN of the root stack, or the stack's own if it is not nested.
func (f *foundStack) root() string {
	if f.Root != "" {
		return f.Root
	}
	return f.arn()
}

// nest performs an operation on a nested stack, for its parent.
func nest[Out any](r *request, in any) (*Out, error) {
	ctx := context.WithValue(awsapi.Via(r.ctx, servicePrincipal), nestingKey{}, &nesting{parent: &foundStack{r.o.key, r.o.rec}, logical: r.logical})
	out, err := awsapi.Do[Out](ctx, r.o.s.cfg.API, in)
	var refused smithy.APIError
	if errors.As(err, &refused) { // for this type AWS has older messages, without the service and its codes
		return nil, &nestedError{err, refused.ErrorMessage()}
	}
	return out, err
}

// A nestedError is a refusal with AWS's text for this type of resource.
type nestedError struct {
	cause error
	text  string
}

func (e *nestedError) Error() string { return e.text }

func nestedHandler() handler {
	return handler{
		own:     "NotificationARNs Parameters Tags TemplateURL TimeoutInMinutes",
		inPlace: "NotificationARNs Parameters Tags TemplateURL TimeoutInMinutes",
		find: func(r *request) (string, error) {
			f, err := find(r.o.s.store, scopeAt(r.o.key), r.nestedName())
			if err != nil || f.Parent != r.o.arn || f.Status == cloudformationtypes.StackStatusReviewInProgress {
				return "", store.IgnoreNotFound(err)
			}
			return f.arn(), nil
		},
		create: func(r *request) (string, error) {
			parameters, err := r.nestedParameters()
			if err != nil {
				return "", err
			}
			in := &awscloudformation.CreateStackInput{
				StackName: aws.String(r.nestedName()), TemplateURL: aws.String(r.text("TemplateURL")), Parameters: parameters, Capabilities: r.o.capabilities(), Tags: r.nestedTags(),
				NotificationARNs: r.list("NotificationARNs"), ClientRequestToken: &r.o.rec.Operation.Token,
			}
			if r.props.Has("TimeoutInMinutes") {
				if err := r.fillWith(in, only(r.props, "TimeoutInMinutes", "TimeoutInMinutes"), nil, ""); err != nil {
					return "", err
				}
			}
			out, err := nest[awscloudformation.CreateStackOutput](r, in)
			if err != nil {
				return "", err
			}
			return *out.StackId, nil
		},
		settle: func(r *request) error {
			if r.was != nil {
				return nil // update has already waited
			}
			return r.awaitNested("created", cloudformationtypes.StackStatusCreateComplete)
		},
		update: func(r *request) error {
			parameters, err := r.nestedParameters()
			if err != nil {
				return err
			}
			_, err = nest[awscloudformation.UpdateStackOutput](r, &awscloudformation.UpdateStackInput{
				StackName: &r.id, TemplateURL: aws.String(r.text("TemplateURL")), Parameters: parameters, Capabilities: r.o.capabilities(), Tags: r.nestedTags(),
				NotificationARNs: append([]string{}, r.list("NotificationARNs")...), ClientRequestToken: &r.o.rec.Operation.Token, DisableRollback: &r.o.rec.KeepFailed,
			})
			var refused *nestedError
			if errors.As(err, &refused) && refused.text == nothingToUpdate {
				return nil
			}
			if err != nil {
				return err
			}
			return r.awaitNested("updated", cloudformationtypes.StackStatusUpdateComplete, cloudformationtypes.StackStatusUpdateCompleteCleanupInProgress)
		},
		remove: func(r *request) error {
			if _, err := nest[awscloudformation.DeleteStackOutput](r, &awscloudformation.DeleteStackInput{StackName: &r.id, ClientRequestToken: &r.o.rec.Operation.Token}); err != nil {
				return err
			}
			return r.awaitNested("deleted", cloudformationtypes.StackStatusDeleteComplete)
		},
	}
}

// nestedName returns the name of a nested stack. A change set of the parent may have created the stack already.
func (r *request) nestedName() string {
	for _, f := range all(r.o.s.store, scopeAt(r.o.key)) {
		if f.Parent == r.o.arn && f.Logical == r.logical && f.Status == cloudformationtypes.StackStatusReviewInProgress {
			return f.Name
		}
	}
	r.suffix = strings.ToUpper(r.suffix)
	return r.generated(r.o.rec.Name, maxStackName)
}

func (r *request) nestedTags() []cloudformationtypes.Tag {
	out := []cloudformationtypes.Tag{}
	for _, t := range r.tags() {
		out = append(out, cloudformationtypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// nestedParameters returns the parameters of a nested stack. Lists are refused: a template must join them.
func (r *request) nestedParameters() ([]cloudformationtypes.Parameter, error) {
	m, _ := r.props.Get("Parameters").(*template.Map)
	var out []cloudformationtypes.Parameter
	for _, name := range m.Keys() {
		text, scalar := template.Text(m.Get(name))
		if !scalar {
			return nil, &invalidProperties{"Value of property Parameters must be an object with String (or simple type) properties"} // from memory
		}
		out = append(out, cloudformationtypes.Parameter{ParameterKey: &name, ParameterValue: &text})
	}
	return out, nil
}

// capabilities returns the capabilities that the stack's creator acknowledged, which its nested stacks inherit.
func (o *operation) capabilities() (out []cloudformationtypes.Capability) {
	for _, c := range o.rec.Capabilities {
		out = append(out, cloudformationtypes.Capability(c))
	}
	return out
}

// awaitNested waits until a nested stack reaches one of the good states, and fails if it reaches another final state.
func (r *request) awaitNested(done string, good ...cloudformationtypes.StackStatus) error {
	return r.wait(func() (bool, error) {
		out, err := nest[awscloudformation.DescribeStacksOutput](r, &awscloudformation.DescribeStacksInput{StackName: &r.id})
		if err != nil {
			return false, err
		}
		st := out.Stacks[0]
		switch {
		case slices.Contains(good, st.StackStatus):
			return true, nil
		case st.StackStatus == cloudformationtypes.StackStatusCreateInProgress, st.StackStatus == cloudformationtypes.StackStatusUpdateInProgress, st.StackStatus == cloudformationtypes.StackStatusDeleteInProgress && done == "deleted":
			return false, nil
		case done == "updated":
			return false, notUpdated(&st)
		}
		return false, fmt.Errorf("Embedded stack %s was not successfully %s: %s", r.id, done, aws.ToString(st.StackStatusReason)) //nolint:staticcheck // AWS's words
	})
}

// notUpdated returns AWS's error for a nested stack whose update failed.
// [seen] the documentation of rubyonjets.com shows several of these messages.
func notUpdated(st *cloudformationtypes.Stack) error {
	return fmt.Errorf("Embedded stack %s was not successfully updated. Currently in %s with reason: %s", *st.StackId, st.StackStatus, aws.ToString(st.StackStatusReason)) //nolint:staticcheck // AWS's words
}

// nested returns the nested stack with a physical ID, or store.ErrNotFound.
func (s *Service) nested(r store.Reader, sc regional.Scope, id string) (foundStack, error) {
	f, err := find(r, sc, id)
	if err == nil && f.Parent == "" {
		err = store.ErrNotFound
	}
	return f, err
}

// output returns the value of an attribute Outputs.NAME, or store.ErrNotFound.
func (s *Service) output(sc regional.Scope, id, attribute string) (string, error) {
	f, err := s.nested(s.store, sc, id)
	for _, o := range f.Outputs {
		if err == nil && attribute == "Outputs."+o.Key {
			return o.Value, nil
		}
	}
	return "", cmp.Or(err, store.ErrNotFound)
}

// rollBackNested returns a nested stack to its state before the parent's update, and waits for it.
func (o *operation) rollBackNested(ctx context.Context, id string) error {
	var f foundStack
	err := o.s.store.Update(ctx, func(tx *store.Tx) error {
		var err error
		if f, err = o.s.nested(tx, scopeAt(o.key), id); err != nil || !f.Held || f.Previous == nil {
			return store.IgnoreNotFound(err) // the update did not change it
		}
		switch f.Status {
		case cloudformationtypes.StackStatusUpdateInProgress, cloudformationtypes.StackStatusUpdateFailed, cloudformationtypes.StackStatusUpdateRollbackFailed,
			cloudformationtypes.StackStatusUpdateCompleteCleanupInProgress:
		default:
			return nil
		}
		err = stacks.Update(tx, f.key, func(rec *stackRecord) error {
			rec.Operation.ID, rec.Operation.Token, rec.Skip = ids.UUID(), o.rec.Operation.Token, nil
			for _, skip := range o.rec.Skip {
				if logical, ok := strings.CutPrefix(skip, f.Name+"."); ok {
					rec.Skip = append(rec.Skip, logical)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		return o.s.noteStack(tx, f.key, cloudformationtypes.StackStatusUpdateRollbackInProgress, "")
	})
	if err != nil {
		return err
	}
	r := &request{o: o, ctx: ctx}
	return r.wait(func() (bool, error) {
		f, err := o.s.nested(o.s.store, scopeAt(o.key), id)
		switch {
		case err != nil:
			return true, store.IgnoreNotFound(err)
		case !inProgress(f.Status) && f.Status != cloudformationtypes.StackStatusUpdateRollbackFailed, f.Status == cloudformationtypes.StackStatusUpdateRollbackCompleteCleanupInProgress:
			return true, nil
		case f.Status == cloudformationtypes.StackStatusUpdateRollbackFailed:
			st := f.describe()
			return false, notUpdated(&st)
		}
		return false, nil
	})
}

// finishNested lets a nested stack clean up during its parent's clean-up, and waits for it. The events are those
// of AWS: [seen] the documentation of rubyonjets.com, on slow deletions of functions.
func (o *operation) finishNested(ctx context.Context, rec resourceRecord) {
	id, held := rec.PhysicalID, false
	say := func(status cloudformationtypes.ResourceStatus) {
		o.logged(o.note(rec.LogicalID, true, func(rec *resourceRecord) { rec.Status, rec.Reason = status, "" }))
	}
	err := o.s.store.Update(ctx, func(tx *store.Tx) error {
		f, err := o.s.nested(tx, scopeAt(o.key), id)
		if held = err == nil && f.Held; !held {
			return store.IgnoreNotFound(err)
		}
		return stacks.Update(tx, f.key, func(rec *stackRecord) error {
			rec.Held = false
			return nil
		})
	})
	switch {
	case err != nil:
		o.logged(err)
		return
	case held:
		say(cloudformationtypes.ResourceStatusUpdateInProgress)
	case rec.Status != cloudformationtypes.ResourceStatusUpdateInProgress:
		return // it was not held, nor released by a daemon that was killed
	}
	r := &request{o: o, ctx: ctx}
	err = r.wait(func() (bool, error) {
		f, err := o.s.nested(o.s.store, scopeAt(o.key), id)
		return err != nil || !inProgress(f.Status), store.IgnoreNotFound(err)
	})
	if err == nil {
		say(cloudformationtypes.ResourceStatusUpdateComplete)
	}
}
