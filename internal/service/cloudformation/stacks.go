package cloudformation

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	maxBody      = 51200
	maxStackName = 128
	stackTyp     = "AWS::CloudFormation::Stack"
	// requested is the status reason of operations that a user requested.
	requested = "User Initiated"
)

func inProgress(s cloudformationtypes.StackStatus) bool {
	return strings.HasSuffix(string(s), "_IN_PROGRESS") && s != cloudformationtypes.StackStatusReviewInProgress
}

// A foundStack is a stack with its key.
type foundStack struct {
	key store.Key
	stackRecord
}

func (f *foundStack) arn() string { return stackARN(f.key, &f.stackRecord) }

// all returns the stacks of a scope, newest first.
func all(r store.Reader, sc regional.Scope) []foundStack {
	var out []foundStack
	for _, item := range stacks.All(r, sc.All()) {
		out = append(out, foundStack{item.Key, item.Value})
	}
	slices.SortStableFunc(out, func(a, b foundStack) int { return b.Created.Compare(a.Created) })
	return out
}

// find returns the stack with a name or ARN, or store.ErrNotFound. A deleted stack is found only by its ARN.
func find(r store.Reader, sc regional.Scope, name string) (foundStack, error) {
	if resource, ok := strings.CutPrefix(name, "arn:"); ok {
		id := resource[strings.LastIndexByte(resource, '/')+1:]
		rec, err := stacks.Get(r, sc.Key(id))
		f := foundStack{sc.Key(id), rec}
		if err == nil && f.arn() != name {
			err = store.ErrNotFound
		}
		return f, err
	}
	for _, f := range all(r, sc) {
		if f.Name == name && f.Status != cloudformationtypes.StackStatusDeleteComplete {
			return f, nil
		}
	}
	return foundStack{}, cmp.Or(unreadable(r, sc), store.ErrNotFound)
}

// findLive is find for a stack that is not deleted.
func findLive(r store.Reader, sc regional.Scope, name string) (foundStack, error) {
	f, err := find(r, sc, name)
	if err == nil && f.Status == cloudformationtypes.StackStatusDeleteComplete {
		err = store.ErrNotFound
	}
	return f, err
}

// unreadable returns an error if a stack of a scope cannot be read, because every name may be its name.
func unreadable(r store.Reader, sc regional.Scope) error {
	for _, k := range stacks.Unreadable(r, sc.All()) {
		if _, err := stacks.Get(r, k); err != nil {
			return err
		}
	}
	return nil
}

// parsed parses the template in a request, which has none if body is nil.
func parsed(body *string) (*template.Template, error) {
	if body == nil {
		return nil, noTemplate()
	}
	t, err := template.Parse(*body)
	return t, asInvalid(err)
}

// asInvalid turns a template's error into the error of the call.
func asInvalid(err error) error {
	if fault, ok := errors.AsType[template.Error](err); ok {
		return invalid("%s", string(fault))
	}
	if fault, ok := errors.AsType[template.TransformError](err); ok {
		return invalid("%s", string(fault))
	}
	return err
}

// unknownTransform returns the first transform of a template that needs Lambda, or "".
func unknownTransform(t *template.Template) string {
	for _, name := range t.Transforms {
		if name != template.LanguageExtensions && name != template.Include {
			return name
		}
	}
	return ""
}

// CreateStack begins the creation of a stack.
func (s *Service) CreateStack(ctx context.Context, in *awscloudformation.CreateStackInput) (*awscloudformation.CreateStackOutput, error) {
	if err := checkMode(in.DeploymentConfig); err != nil {
		return nil, err
	}
	sc, call := scopeOf(ctx), awsapi.CallFrom(ctx)
	if in.OnFailure != "" && in.DisableRollback != nil {
		return nil, invalid("You can specify either DisableRollback or OnFailure, but not both.") // the API reference says so
	}
	rec := stackRecord{
		ID: ids.UUID(), Name: *in.StackName, Status: cloudformationtypes.StackStatusCreateInProgress, Created: s.now(), OnFailure: "ROLLBACK",
		Protected: aws.ToBool(in.EnableTerminationProtection), Timeout: time.Duration(aws.ToInt32(in.TimeoutInMinutes)) * time.Minute,
		Operation: newOperation(call, in.ClientRequestToken), CreateToken: aws.ToString(in.ClientRequestToken),
	}
	var err error
	if rec.CreateFingerprint, err = fingerprint(in); err != nil {
		return nil, err
	}
	switch {
	case aws.ToBool(in.DisableRollback):
		rec.OnFailure = "DO_NOTHING"
	case in.OnFailure != "":
		rec.OnFailure = string(in.OnFailure)
	}
	if n := nestingFrom(ctx); n != nil {
		if err := n.apply(&rec); err != nil {
			return nil, err
		}
		rec.OnFailure = "DO_NOTHING" // the parent decides
	}
	key := sc.Key(rec.ID)
	if _, err := s.submit(ctx, key, &rec, submission{
		body: in.TemplateBody, url: in.TemplateURL, parameters: in.Parameters, tags: in.Tags, capabilities: in.Capabilities, notificationARNs: in.NotificationARNs, role: in.RoleARN,
	}); err != nil {
		return nil, err
	}
	if rec.Policy, err = s.policySource(ctx, in.StackPolicyBody, in.StackPolicyURL, "StackPolicy"); err != nil {
		return nil, err
	}
	arn := stackARN(key, &rec)
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		for _, other := range all(tx, sc) {
			if rec.CreateToken != "" && other.CreateToken == rec.CreateToken && other.Name == rec.Name {
				if other.CreateFingerprint != rec.CreateFingerprint {
					return tokenExists(rec.CreateToken)
				}
				arn = other.arn()
				return nil
			}
			switch {
			case other.Name != rec.Name || other.Status == cloudformationtypes.StackStatusDeleteComplete:
			case other.Status == cloudformationtypes.StackStatusReviewInProgress:
				key, arn, rec.ID, rec.Created, rec.Events = other.key, other.arn(), other.ID, other.Created, other.Events
				if err := supersede(tx, other, ""); err != nil {
					return err
				}
			default:
				return stackExists(rec.Name)
			}
		}
		if err := unreadable(tx, sc); err != nil {
			return err
		}
		if err := keepTexts(tx, key, &rec.versionRecord); err != nil {
			return err
		}
		if err := stacks.Put(tx, key, rec); err != nil {
			return err
		}
		return s.noteStack(tx, key, cloudformationtypes.StackStatusCreateInProgress, requested)
	})
	return &awscloudformation.CreateStackOutput{StackId: &arn, OperationId: &rec.Operation.ID}, err
}

// A submission is the part of a request from which a stack is created or updated.
type submission struct {
	body, url        *string
	previous         bool // use the stack's current template
	parameters       []cloudformationtypes.Parameter
	tags             []cloudformationtypes.Tag // nil keeps those that the stack has
	capabilities     []cloudformationtypes.Capability
	notificationARNs []string // nil keeps those that the stack has
	role             *string
}

// submit checks a submission and makes it the stack's version, in rec. AWS makes these checks before the call returns,
// but runs transforms and checks their result afterwards. If a transform or the check of its result fails, submit sets
// rec.Fault instead of returning an error.
//
// [seen] change sets of AWS SAM, whose StatusReason is "Template format error: Unresolved resource dependencies […] in
// the Resources block of the template" (https://github.com/singledigit/sessions-with-sam/issues/1) or "Requires
// capabilities : [CAPABILITY_NAMED_IAM]" (https://github.com/aws-samples/serverless-patterns/issues/622).
func (s *Service) submit(ctx context.Context, key store.Key, rec *stackRecord, in submission) (*template.Template, error) {
	body, err := s.source(ctx, in.body, in.url)
	if err != nil {
		return nil, err
	}
	if in.previous {
		if body != nil {
			return nil, invalid("You cannot specify both usePreviousTemplate and Template Body/Template URL.")
		}
		body = aws.String(original(s.store, key, &rec.versionRecord))
	}
	t, err := parsed(body)
	if err != nil {
		return nil, err
	}
	rec.Fault = ""
	transformed := t.Transformed()
	if !transformed {
		if err := checkTypes(t); err != nil {
			return nil, err
		}
	}
	if in.role != nil {
		rec.RoleARN = *in.role
	}
	if in.notificationARNs != nil {
		rec.NotificationARNs = in.notificationARNs
	}
	if in.tags != nil {
		if rec.Tags, err = stackTags(in.tags); err != nil {
			return nil, err
		}
	}
	rec.Capabilities = nil
	for _, c := range in.capabilities {
		rec.Capabilities = append(rec.Capabilities, string(c))
	}
	if rec.Parameters, err = s.parameters(ctx, t, in.parameters, rec.Parameters); err != nil {
		return nil, err
	}
	rec.setTemplate(*body, "")
	rec.Description = t.Description
	if in.role != nil {
		if _, err := s.cfg.Assume(ctx, rec.RoleARN, stackARN(key, rec)); err != nil {
			return nil, badRole(rec.RoleARN)
		}
	}
	if macro := unknownTransform(t); macro != "" {
		if !slices.Contains(rec.Capabilities, string(cloudformationtypes.CapabilityCapabilityAutoExpand)) {
			return nil, insufficientCapabilities(string(cloudformationtypes.CapabilityCapabilityAutoExpand))
		}
		rec.Fault = fmt.Sprintf("Drydock does not implement the transform %s: AWS::Serverless and macros run in Lambda; docs/compatibility.md lists what it implements", macro)
		return t, nil
	}
	out, err := s.process(ctx, key, rec, t)
	if fault := smithyText(err); transformed && fault != "" {
		rec.Fault = fault
		return t, nil
	}
	return out, err
}

// process applies the transforms of a stack's template and checks the result.
func (s *Service) process(ctx context.Context, key store.Key, rec *stackRecord, t *template.Template) (*template.Template, error) {
	if t.Includes() {
		processed, err := s.include(ctx, key, rec, t)
		if err != nil {
			return nil, asInvalid(err)
		}
		if t, err = parsed(&processed); err != nil {
			return nil, err
		}
		rec.setTemplate(rec.Template, processed)
		rec.Description = t.Description
	}
	instance, err := bindTo(key, rec, t)
	if err != nil {
		return nil, asInvalid(err)
	}
	if err := checkTypes(t, instance.Resources...); err != nil { // loops may have added resources
		return nil, err
	}
	if err := instance.CheckRules(s.attributes(ctx)); err != nil {
		return nil, asInvalid(err)
	}
	if err := checkReferences(instance); err != nil {
		return nil, asInvalid(err)
	}
	if err := checkPolicies(instance); err != nil {
		return nil, err
	}
	if _, needed, _ := capabilities(t, instance.Resources); !granted(rec.Capabilities, needed) {
		return nil, insufficientCapabilities(needed)
	}
	return t, nil
}

func newOperation(call *awsapi.Call, token *string) operationRecord {
	op := operationRecord{ID: ids.UUID(), Token: aws.ToString(token), Caller: call.Principal, CalledVia: call.CalledVia, Host: call.Host}
	if n := len(op.CalledVia); n > 0 && op.CalledVia[n-1] == servicePrincipal { // for a nested stack, whose own calls add it again
		op.CalledVia = op.CalledVia[:n-1]
	}
	if op.Token == "" {
		op.Token = op.ID
	}
	return op
}

// fingerprint identifies the arguments of a request.
func fingerprint(in any) (string, error) {
	raw, err := json.Marshal(in)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:]), err
}

// stackTags converts the tags of a stack. If a key occurs twice, the last value counts,
// which eksctl relies on.
func stackTags(in []cloudformationtypes.Tag) ([]tagRecord, error) {
	var out []tagRecord
	for _, t := range in {
		key, value := aws.ToString(t.Key), aws.ToString(t.Value)
		if tagging.IsReserved(key) {
			return nil, violated(key, "tags", "the prefix aws: is reserved") // our own wording
		}
		if i := slices.IndexFunc(out, func(o tagRecord) bool { return o.Key == key }); i >= 0 {
			out[i].Value = value
			continue
		}
		out = append(out, tagRecord{key, value})
	}
	return out, nil
}

// checkMode refuses deployment modes other than the default one.
func checkMode(c *cloudformationtypes.DeploymentConfig) error {
	if c != nil && c.Mode == cloudformationtypes.DeploymentConfigModeExpress {
		return notYet("the deployment mode EXPRESS")
	}
	return nil
}

// environment returns the values of a stack's pseudo parameters.
func environment(key store.Key, rec *stackRecord) template.Environment {
	return template.Environment{AccountID: key.Account, Region: key.Region, StackID: stackARN(key, rec), StackName: rec.Name, NotificationARNs: rec.NotificationARNs}
}

// values returns the values of the parameters as the template sees them.
func (v *versionRecord) values() map[string]string {
	out := map[string]string{}
	for _, p := range v.Parameters {
		out[p.Name] = p.Value
		if p.Resolved != "" {
			out[p.Name] = p.Resolved
		}
	}
	return out
}

// bindTo binds a stack's template to the stack's parameters.
func bindTo(key store.Key, rec *stackRecord, t *template.Template) (*template.Instance, error) {
	return t.Bind(environment(key, rec), rec.values())
}

// checkPolicies refuses policies of resources that Drydock would not honour.
func checkPolicies(i *template.Instance) error {
	for _, r := range i.Resources {
		if r.CreationPolicy != nil && !slices.Contains(signalable, r.Type) {
			return invalid("CreationPolicy is not supported for resource type %s (resource %s)", r.Type, r.ID) // from memory
		}
	}
	return nil
}

// DeleteStack begins the deletion of a stack. It succeeds if the stack does not exist.
func (s *Service) DeleteStack(ctx context.Context, in *awscloudformation.DeleteStackInput) (*awscloudformation.DeleteStackOutput, error) {
	if err := checkMode(in.DeploymentConfig); err != nil {
		return nil, err
	}
	sc, call, out := scopeOf(ctx), awsapi.CallFrom(ctx), &awscloudformation.DeleteStackOutput{}
	if in.RoleARN != nil {
		f, err := find(s.store, sc, *in.StackName)
		if store.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil {
			if _, err := s.cfg.Assume(ctx, *in.RoleARN, f.arn()); err != nil {
				return nil, badRole(*in.RoleARN)
			}
		}
	}
	return out, s.store.Update(ctx, func(tx *store.Tx) error {
		f, err := findLive(tx, sc, *in.StackName)
		if err != nil {
			return store.IgnoreNotFound(err)
		}
		switch {
		case f.Status == cloudformationtypes.StackStatusDeleteInProgress:
			return nil
		case f.Protected:
			return protected(f.Name)
		case (strings.HasPrefix(string(f.Status), "UPDATE_") || strings.HasPrefix(string(f.Status), "IMPORT_")) && inProgress(f.Status) && !(f.Held && nestingFrom(ctx) != nil):
			return invalid("Stack [%s] cannot be deleted while in status %s", f.Name, f.Status)
		case len(in.RetainResources) > 0 && f.Status != cloudformationtypes.StackStatusDeleteFailed:
			return cannotRetain(f.arn())
		}
		for _, id := range in.RetainResources {
			r, err := resources.Get(tx, below(f.key, id))
			if err == nil && r.Status == cloudformationtypes.ResourceStatusDeleteComplete {
				err = store.ErrNotFound
			}
			if err != nil {
				return store.NotFoundAs(err, resourceNotFound(f.Name, id))
			}
		}
		for _, o := range f.Outputs {
			for _, other := range all(tx, sc) {
				if o.Export != "" && slices.Contains(other.Imports, o.Export) && other.ID != f.ID && other.Status != cloudformationtypes.StackStatusDeleteComplete {
					return exportInUse(o.Export, other.Name)
				}
			}
		}
		err = stacks.Update(tx, f.key, func(rec *stackRecord) error {
			rec.Operation, rec.Retain, rec.ChangeSet, rec.Held = newOperation(call, in.ClientRequestToken), in.RetainResources, "", false
			if n := nestingFrom(ctx); n != nil {
				n.join(rec)
			}
			if in.RoleARN != nil {
				rec.RoleARN = *in.RoleARN
			}
			return nil
		})
		if err != nil {
			return err
		}
		return s.noteStack(tx, f.key, cloudformationtypes.StackStatusDeleteInProgress, requested)
	})
}

// UpdateTerminationProtection sets whether a stack is protected from deletion.
func (s *Service) UpdateTerminationProtection(ctx context.Context, in *awscloudformation.UpdateTerminationProtectionInput) (*awscloudformation.UpdateTerminationProtectionOutput, error) {
	out := &awscloudformation.UpdateTerminationProtectionOutput{}
	return out, s.store.Update(ctx, func(tx *store.Tx) error {
		f, err := findLive(tx, scopeOf(ctx), *in.StackName)
		if err != nil {
			return store.NotFoundAs(err, stackNotFound(*in.StackName))
		}
		if f.Parent != "" {
			return invalid("Termination protection cannot be changed for the nested stack [%s]: it is that of its root stack", f.Name) // our own wording
		}
		out.StackId = aws.String(f.arn())
		return stacks.Update(tx, f.key, func(rec *stackRecord) error {
			rec.Protected = *in.EnableTerminationProtection
			return nil
		})
	})
}
