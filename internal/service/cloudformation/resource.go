package cloudformation

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// A handler implements one type of resource. Its calls are made as the stack's caller or role.
type handler struct {
	// find returns the ID of the resource if an interrupted call has created it, or "" if
	// not. It is nil if creating the resource twice does no harm.
	find func(r *request) (string, error)
	// adopts is true if create succeeds for a resource that already exists.
	adopts bool
	// input is the input of the call that creates the resource. Its members are properties.
	// own are the properties that the handler turns into something else.
	input any
	own   string
	// create creates the resource and returns its physical ID.
	create func(r *request) (string, error)
	// settle completes the resource and waits until it can be used. It may run again, and
	// it also runs after updates.
	settle func(r *request) error
	// inPlace are the properties of an existing resource that can be changed, or anyProperty.
	// Any other change fails the resource, unless the schema, or createOnly for a type without
	// one, says that it needs a new resource.
	inPlace, createOnly string
	// update changes an existing resource from the state in r.was to the state in r. It may
	// run again after doing part of its work. It is nil if settle makes all changes.
	update func(r *request) error
	// read returns the attributes for Fn::GetAtt other than the properties.
	read func(r *request) (map[string]any, error)
	// live are the attributes that other resources change. They are read each time they are
	// requested.
	live string
	// remove deletes the resource and waits until it is gone.
	remove func(r *request) error
}

// A request is the work on one resource.
type request struct {
	o       *operation
	ctx     context.Context
	id      string // physical
	logical string
	typ     string
	props   *template.Map
	// stackTags are the stack's tags.
	stackTags []tagRecord
	// was is the resource before the update, or nil if the resource is created or removed.
	was *request
	// updatePolicy says how an update replaces the instances of a group.
	updatePolicy json.RawMessage
	// others are other physical IDs of this logical ID, which a search must not return.
	others []string
	// token makes creations idempotent, and suffix makes names unique.
	token, suffix string
	service       string // the one called last, for the text of an error
	// given are attributes that only the response to the creation has.
	given map[string]any
}

func scopeAt(key store.Key) regional.Scope { return regional.At(key.Account, key.Region) }

// call performs an AWS operation as the stack's caller or role.
func call[Out any](r *request, in any) (*Out, error) {
	r.service = serviceOf(in)
	return awsapi.Do[Out](r.ctx, r.o.s.cfg.API, in)
}

// serviceNames has the services whose name in error texts is not just the SDK package's
// name with a capital letter.
var serviceNames = map[string]string{
	"autoscaling": "AutoScaling", "cloudwatchlogs": "CloudWatchLogs", "elasticloadbalancing": "ElasticLoadBalancing", "elasticloadbalancingv2": "ElasticLoadBalancingV2", "eventbridge": "EventBridge",
}

// serviceOf returns the service of an SDK input, as error texts name it.
func serviceOf(in any) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", in), "*")
	name, _, _ = strings.Cut(name, ".")
	if known := serviceNames[name]; known != "" || name == "" {
		return known
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// name returns the physical name in the template, or generates one: STACK-LOGICAL-RANDOM,
// not longer than most.
func (r *request) name(property string, most int) string {
	if text, ok := template.Text(r.props.Get(property)); ok && text != "" {
		return text
	}
	return r.generated(r.o.rec.Name, most)
}

func (r *request) generated(prefix string, most int) string {
	name := prefix + "-" + r.logical
	if room := most - 1 - len(r.suffix); len(name) > room {
		// AWS shortens both parts.
		half := room / 2
		name = prefix[:min(len(prefix), room-min(len(r.logical), half)-1)] + "-" + r.logical[:min(len(r.logical), half)]
	}
	return name + "-" + r.suffix
}

const suffixes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

func newSuffix() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails
	for i := range b {
		b[i] = suffixes[int(b[i])%len(suffixes)]
	}
	return string(b)
}

// text returns a property as text, or "".
func (r *request) text(property string) string {
	text, _ := template.Text(r.props.Get(property))
	return text
}

// list returns a property as strings. A single string counts as a list.
func (r *request) list(property string) []string {
	list, ok := r.props.Get(property).([]any)
	if text, scalar := template.Text(r.props.Get(property)); scalar && !ok {
		return []string{text}
	}
	var out []string
	for _, e := range list {
		text, _ := template.Text(e)
		out = append(out, text)
	}
	return out
}

// wait calls check whenever the store changes, and at least every second, until it is done.
func (r *request) wait(check func() (bool, error)) error {
	for {
		changed := r.o.s.store.Changed()
		if done, err := check(); done || err != nil {
			return err
		}
		timer := r.o.s.clock.NewTimer(time.Second)
		pause := r.o.s.clock.NewTimer(20 * time.Millisecond)
		select {
		case <-r.ctx.Done():
		case <-timer.C():
		case <-changed:
			select {
			case <-pause.C():
			case <-r.ctx.Done():
			}
		}
		timer.Stop()
		pause.Stop()
		if r.ctx.Err() != nil {
			return context.Cause(r.ctx)
		}
	}
}

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

func (o *operation) fail(id string, err error) {
	var malformed *invalidProperties
	o.logged(o.note(id, true, func(rec *resourceRecord) {
		what := "creation"
		if rec.Status == cloudformationtypes.ResourceStatusCreateInProgress {
			rec.Status = cloudformationtypes.ResourceStatusCreateFailed
		} else {
			what = "update"
			rec.Status = cloudformationtypes.ResourceStatusUpdateFailed
			if rec.Old == nil {
				rec.Old = new(rec.resourceState)
			}
		}
		rec.Step, rec.Reason, rec.Invalid, rec.Failure = o.step, err.Error(), errors.As(err, &malformed), failureOf(err)
		if errors.Is(err, errCancelled) {
			rec.Reason = "Resource " + what + " cancelled"
		}
	}))
}

func (o *operation) logged(err error) {
	if err != nil {
		o.s.log.Error("writing down what became of a resource", "stack", o.arn, "err", err)
	}
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
	r.props, r.stackTags = props, o.rec.Tags
	if err := schemas()[d.Type].check(d.ID, props); err != nil {
		o.logged(o.note(d.ID, false, func(rec *resourceRecord) { rec.Properties = json.RawMessage(template.JSON(props)) }))
		return err
	}
	if err := r.checkTags(); err != nil {
		return err
	}
	if r.id == "" {
		if err := o.begin(r, h, rec, d, rt); err != nil {
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

// request returns a request for a physical resource.
func (o *operation) request(ctx context.Context, rec *resourceRecord, st *resourceState) *request {
	r := &request{
		o: o, ctx: ctx, id: st.PhysicalID, logical: rec.LogicalID, typ: rec.Type, token: st.Token, suffix: st.Suffix, props: st.properties(), stackTags: st.Tags,
	}
	if rec.Old != nil && rec.Replaced {
		r.others = append(r.others, rec.Old.PhysicalID)
	}
	for _, d := range rec.Discarded {
		r.others = append(r.others, d.PhysicalID)
	}
	r.others = slices.DeleteFunc(r.others, func(id string) bool { return id == "" || id == r.id })
	return r
}

func (st *resourceState) properties() *template.Map {
	if v, err := template.ReadJSON(string(st.Properties)); err == nil {
		if m, ok := v.(*template.Map); ok {
			return m
		}
	}
	return &template.Map{}
}

// begin makes the call that creates a resource. It records the attempt before the call and
// the ID right after it, so that a daemon that is killed in between can find the resource.
func (o *operation) begin(r *request, h handler, rec resourceRecord, d *template.Resource, rt *runtime) error {
	found, err := r.find(h)
	switch {
	case err != nil:
		return r.reason(err)
	case rec.Begun && found != "":
		r.id = found
	case found != "" && o.takesOver(r, d, found):
		r.id = found
		err := o.note(d.ID, false, func(rec *resourceRecord) {
			// A rollback must not delete a resource that existed before.
			rec.DeletionPolicy, rec.Properties = "Retain", json.RawMessage(template.JSON(r.props))
		})
		if err != nil {
			return err
		}
	case found != "" && h.adopts:
		return fmt.Errorf("Resource handler returned message: \"Resource of type '%s' with identifier '%s' already exists.\" (RequestToken: %s, HandlerErrorCode: AlreadyExists)", d.Type, found, ids.UUID()) //nolint:staticcheck // AWS's words
	default:
		metadata, err := o.metadata(d, rt)
		if err != nil {
			return err
		}
		policy, err := o.updatePolicy(d, rt)
		if err != nil {
			return err
		}
		err = o.note(d.ID, false, func(rec *resourceRecord) {
			rec.UpdatePolicy = policy
			// An existing resource with that name does not belong to the stack.
			rec.Begun, rec.Properties, rec.Metadata = found == "", json.RawMessage(template.JSON(r.props)), metadata
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
			o.logged(o.note(d.ID, false, func(rec *resourceRecord) { rec.Begun = false }))
			return r.reason(err)
		}
	}
	return o.note(d.ID, true, func(rec *resourceRecord) {
		rec.PhysicalID, rec.Reason, rec.Attributes = r.id, "Resource creation Initiated", addTo(nil, r.given)
	})
}

// takesOver reports whether the stack takes over an existing resource: the template names the
// resource and retains it, and the resource belongs to no other stack.
//
// AWS deviation: AWS finds such resources when the change set is created, and the change set lists them.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html
func (o *operation) takesOver(r *request, d *template.Resource, id string) bool {
	if !o.rec.Operation.ImportExisting || d.DeletionPolicy != "Retain" && d.DeletionPolicy != "RetainExceptOnCreate" {
		return false
	}
	schema := schemas()[d.Type]
	if schema == nil { // a custom resource
		return false
	}
	for _, p := range schema.PrimaryIdentifier {
		if !r.props.Has(p) {
			return false
		}
	}
	for _, item := range resources.All(o.s.store, scopeAt(o.key).All()) {
		if item.Value.Type == d.Type && item.Value.PhysicalID == id && !gone(item.Value.Status) {
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

// find looks for a resource that an earlier call may have created, with CloudFormation's
// own permissions.
func (r *request) find(h handler) (string, error) {
	if h.find == nil {
		return "", nil
	}
	ctx := r.ctx
	defer func() { r.ctx = ctx }()
	r.ctx = r.o.asItself(ctx)
	id, err := h.find(r)
	if notFound(err) || slices.Contains(r.others, id) {
		return "", nil
	}
	return id, err
}

func codeOf(err error) string {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	return ""
}

// notFound reports whether err is a service's error for something that does not exist.
func notFound(err error) bool {
	code := codeOf(err)
	return strings.HasSuffix(code, "NotFound") || strings.HasSuffix(code, "NotFoundException") || strings.HasSuffix(code, ".Malformed") ||
		slices.Contains([]string{"NoSuchEntity", "NoSuchEntityException", "NonExistentQueue", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "NoSuchBucket", "NoSuchBucketPolicy"}, code)
}

// reason returns the error of a failed call as AWS's handlers word it.
func (r *request) reason(err error) error {
	var refused smithy.APIError
	if !errors.As(err, &refused) {
		return err
	}
	status := 400
	var coded *awserr.Error
	if errors.As(err, &coded) && coded.Status != 0 {
		status = coded.Status
	}
	code, handlerCode := refused.ErrorCode(), "InvalidRequest"
	switch {
	case strings.Contains(code, "AccessDenied") || code == "UnauthorizedOperation":
		status, handlerCode = 403, "AccessDenied"
	case notFound(err):
		handlerCode = "NotFound"
		if r.service != "Ec2" {
			status = 404
		}
	case strings.Contains(code, "AlreadyExist") || strings.Contains(code, "Duplicate") || code == "ResourceInUseException":
		status, handlerCode = 409, "AlreadyExists"
		if r.service == "Ec2" {
			status = 400
		}
	case strings.Contains(code, "LimitExceeded"):
		handlerCode = "ServiceLimitExceeded"
	case awsapi.IsThrottle(err):
		handlerCode = "Throttling"
	case refused.ErrorFault() == smithy.FaultServer:
		handlerCode = "InternalFailure"
	}
	out := &failure{failureRecord: failureRecord{Calls: callsOf(err), Code: code, Message: refused.ErrorMessage()}}
	requestID := ids.UUID() // in case no call was made
	if n := len(out.Calls); n > 0 {
		requestID = out.Calls[n-1].RequestID
	}
	out.error = fmt.Errorf("Resource handler returned message: \"%s (Service: %s, Status Code: %d, Request ID: %s) (SDK Attempt Count: 1)\" (RequestToken: %s, HandlerErrorCode: %s)", //nolint:staticcheck // AWS's words
		refused.ErrorMessage(), r.service, status, requestID, ids.UUID(), handlerCode)
	return out
}

// A runtime resolves what the values of a running stack refer to.
type runtime struct {
	o   *operation
	ctx context.Context
}

func (o *operation) runtime(ctx context.Context) (*runtime, error) {
	as, err := o.as(ctx)
	return &runtime{o, as}, err
}

// Ref implements template.Runtime.
func (rt *runtime) Ref(id string) (string, error) {
	rec, ok := rt.o.resource(id)
	if !ok || rec.PhysicalID == "" {
		return "", fmt.Errorf("resource %s is not there", id)
	}
	return rec.PhysicalID, nil
}

// GetAtt implements template.Runtime.
func (rt *runtime) GetAtt(id, attribute string) (any, error) {
	rec, ok := rt.o.resource(id)
	if !ok {
		return nil, fmt.Errorf("resource %s is not there", id)
	}
	if rec.Type == stackTyp {
		if v, ok := rt.o.s.output(scopeAt(rt.o.key), rec.PhysicalID, attribute); ok {
			return v, nil
		}
	}
	if h, _ := handlerOf(rec.Type); slices.Contains(strings.Fields(h.live), attribute) {
		now, err := h.read(rt.o.request(rt.ctx, &rec, &rec.resourceState))
		if err != nil {
			return nil, err
		}
		rec.Attributes = addTo(rec.Attributes, now)
	}
	for _, raw := range []json.RawMessage{rec.Attributes, rec.Properties} {
		v, err := template.ReadJSON(string(raw))
		if m, ok := v.(*template.Map); err == nil && ok && m.Has(attribute) {
			return m.Get(attribute), nil
		}
	}
	return nil, template.Error(fmt.Sprintf("Resource type %s does not support attribute {%s}", rec.Type, attribute))
}

// Import implements template.Runtime.
func (rt *runtime) Import(name string) (string, error) {
	for _, f := range all(rt.o.s.store, scopeAt(rt.o.key)) {
		for _, out := range f.Outputs {
			if out.Export != name || f.Status == cloudformationtypes.StackStatusDeleteComplete {
				continue
			}
			rt.o.mu.Lock()
			defer rt.o.mu.Unlock()
			if slices.Contains(rt.o.imports, name) {
				return out.Value, nil
			}
			rt.o.imports = append(rt.o.imports, name)
			return out.Value, stacks.UpdateOne(context.Background(), rt.o.s.store, rt.o.key, func(rec *stackRecord) error {
				if !slices.Contains(rec.Imports, name) {
					rec.Imports = append(rec.Imports, name)
				}
				return nil
			})
		}
	}
	return "", template.Error("No export named " + name + " found.")
}

// Zones implements template.Runtime. It returns the zones with a default subnet, or all
// zones if none has one.
func (rt *runtime) Zones(region string) ([]string, error) {
	if region != rt.o.key.Region {
		return nil, template.Error("Template error: Fn::GetAZs of the region " + region + " is not supported in " + rt.o.key.Region)
	}
	zones, err := awsapi.Do[awsec2.DescribeAvailabilityZonesOutput](rt.ctx, rt.o.s.cfg.API, &awsec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return nil, err
	}
	subnets, err := awsapi.Do[awsec2.DescribeSubnetsOutput](rt.ctx, rt.o.s.cfg.API, &awsec2.DescribeSubnetsInput{})
	if err != nil {
		return nil, err
	}
	var some, every []string
	for _, z := range zones.AvailabilityZones {
		every = append(every, aws.ToString(z.ZoneName))
	}
	for _, sub := range subnets.Subnets {
		if aws.ToBool(sub.DefaultForAz) {
			some = append(some, aws.ToString(sub.AvailabilityZone))
		}
	}
	if len(some) == 0 {
		some = every
	}
	sort.Strings(some)
	return slices.Compact(some), nil
}

// Dynamic implements template.Runtime.
func (rt *runtime) Dynamic(reference string) (string, error) {
	service, name, _ := strings.Cut(reference, ":")
	if service != "ssm" {
		return "", template.Error("Drydock does not implement dynamic references to " + service + "; docs/compatibility.md lists what it implements.")
	}
	return rt.o.s.stored(rt.ctx, name, "String")
}
