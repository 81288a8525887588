package cloudformation

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxSignalWait is the longest time that a resource may wait for signals.
const maxSignalWait = 12 * time.Hour

// An expectation is the signals that a resource waits for before it is complete.
type expectation struct {
	count, percent int
	timeout        time.Duration
	condition      bool // for a wait condition, whose texts differ
}

// signalable are the types that can have a CreationPolicy.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-creationpolicy.html
var signalable = []string{"AWS::AutoScaling::AutoScalingGroup", "AWS::EC2::Instance", waitCondition}

const waitCondition = "AWS::CloudFormation::WaitCondition"

// expects returns the signals that a resource waits for, or nil if it waits for none.
func (o *operation) expects(d *template.Resource, props *template.Map, rt template.Runtime) (*expectation, error) {
	e := &expectation{count: 1, percent: 100, timeout: 5 * time.Minute}
	if d.CreationPolicy != nil {
		v, err := o.instance.Value(d.CreationPolicy, rt)
		if err != nil {
			return nil, err
		}
		policy, _ := v.(*template.Map)
		signal, _ := policy.Get("ResourceSignal").(*template.Map)
		groups, _ := policy.Get("AutoScalingCreationPolicy").(*template.Map)
		for _, part := range []struct {
			m    *template.Map
			name string
			into *int
		}{{signal, "Count", &e.count}, {groups, "MinSuccessfulInstancesPercent", &e.percent}} {
			if text, ok := template.Text(part.m.Get(part.name)); ok {
				if *part.into, err = strconv.Atoi(text); err != nil || *part.into < 0 {
					return nil, fmt.Errorf("CreationPolicy: %s must be a number", part.name)
				}
			}
		}
		if text, ok := template.Text(signal.Get("Timeout")); ok {
			if e.timeout, ok = duration(text); !ok {
				return nil, fmt.Errorf("CreationPolicy: Timeout %s must be a duration of at most PT12H", text) // our own wording
			}
		}
		return e, nil
	}
	if d.Type != waitCondition {
		return nil, nil
	}
	e.condition = true
	if text, ok := template.Text(props.Get("Count")); ok {
		e.count, _ = strconv.Atoi(text) // the schema says that it is a number
	}
	text, _ := template.Text(props.Get("Timeout"))
	seconds, err := strconv.Atoi(text)
	if most := int(maxSignalWait.Seconds()); err != nil || seconds < 0 || seconds > most {
		// [seen] https://github.com/aws-cloudformation/cfn-lint/issues/1105
		return nil, fmt.Errorf("Value for Timeout property must be less than %d", most) //nolint:staticcheck // AWS's words
	}
	e.timeout = time.Duration(seconds) * time.Second
	return e, nil
}

var isoDuration = regexp.MustCompile(`^PT(?:(\d{1,5})H)?(?:(\d{1,6})M)?(?:(\d{1,7})S)?$`)

// duration parses a duration such as PT1H30M.
func duration(text string) (time.Duration, bool) {
	m := isoDuration.FindStringSubmatch(text)
	if m == nil || text == "PT" {
		return 0, false
	}
	var out time.Duration
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		n, _ := strconv.Atoi(m[i+1])
		out += time.Duration(n) * unit
	}
	return out, out <= maxSignalWait
}

// awaitSignals waits until a resource has received its signals. The texts were recorded on AWS.
func (r *request) awaitSignals(e *expectation) error {
	if e == nil {
		return nil
	}
	rec, _ := r.o.resource(r.logical)
	if rec.Deadline.IsZero() {
		rec.Deadline = r.o.s.now().Add(e.timeout)
		if err := r.o.note(r.logical, false, func(now *resourceRecord) { now.Deadline = rec.Deadline }); err != nil {
			return err
		}
	}
	enough := func(ok int) bool { return ok*100 >= e.percent*e.count }
	return r.wait(func() (bool, error) {
		all, ok := r.signals(), 0
		var bad *signalRecord
		for _, s := range all {
			if s.Success {
				ok++
			} else if bad == nil {
				bad = &s
			}
		}
		failures := len(all) - ok
		switch late := !r.o.s.now().Before(rec.Deadline); {
		case enough(ok):
			return true, nil
		case bad != nil && e.condition:
			return false, fmt.Errorf("WaitCondition received failed message: '%s' for uniqueId: %s", bad.Reason, bad.ID) //nolint:staticcheck // AWS's words
		case bad != nil && e.percent == 100:
			return false, fmt.Errorf("Received FAILURE signal with UniqueId %s", bad.ID) //nolint:staticcheck // AWS's words
		case !enough(e.count - failures):
			return false, fmt.Errorf("Received %d SUCCESS signal(s) out of %d.  Unable to satisfy %d%% MinSuccessfulInstancesPercent requirement", ok, e.count, e.percent) //nolint:staticcheck // AWS's words
		case late && e.condition:
			return false, fmt.Errorf("WaitCondition timed out. Received %d conditions when expecting %d", ok, e.count) //nolint:staticcheck // AWS's words
		case late:
			return false, fmt.Errorf("Failed to receive %d resource signal(s) within the specified duration", e.count-ok) //nolint:staticcheck // AWS's words
		}
		return false, nil
	})
}

// ofInstance reports whether the caller may name a stack: an instance that calls without
// credentials is limited to its own stack, which its tags name.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cfn-signal.html
func ofInstance(ctx context.Context, stackARN string) bool {
	p := awsapi.CallFrom(ctx).Principal
	return p.Type != awsapi.InstanceCaller || p.Tags["aws:cloudformation:stack-id"] == stackARN
}

// notOfInstance returns AWS's error for an instance that names a stack other than its own.
// [seen] awslabs/amazon-eks-ami, issue 353
func notOfInstance(ctx context.Context, stack string) error {
	call := awsapi.CallFrom(ctx)
	return awserr.Newf("AccessDenied", "Instance %s is not allowed to call %s for %s", call.Principal.Name, call.Operation, stack).WithStatus(http.StatusForbidden)
}

// SignalResource reports to a waiting resource that something on it succeeded or failed.
// Signals with the same unique ID count once.
func (s *Service) SignalResource(ctx context.Context, in *awscloudformation.SignalResourceInput) (*awscloudformation.SignalResourceOutput, error) {
	return &awscloudformation.SignalResourceOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		f, err := find(tx, scopeOf(ctx), *in.StackName)
		switch {
		case err != nil:
			return store.NotFoundAs(err, stackNotFound(*in.StackName))
		case !ofInstance(ctx, f.arn()):
			return notOfInstance(ctx, *in.StackName)
		case f.Status != cloudformationtypes.StackStatusCreateInProgress && f.Status != cloudformationtypes.StackStatusUpdateInProgress:
			return cannotSignal("Stack "+f.arn(), string(f.Status))
		}
		key := below(f.key, *in.LogicalResourceId)
		rec, err := resources.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, resourceNotFound(*in.StackName, *in.LogicalResourceId))
		}
		switch {
		case !slices.Contains(signalable, rec.Type) || !strings.HasSuffix(string(rec.Status), "_IN_PROGRESS"):
			return cannotSignal("Resource "+rec.LogicalID, string(rec.Status))
		case len(rec.Signals) == maxSignals, slices.ContainsFunc(rec.Signals, func(have signalRecord) bool { return have.ID == *in.UniqueId }):
			return nil
		}
		rec.Signals = append(slices.Clone(rec.Signals), signalRecord{ID: aws.ToString(in.UniqueId), Success: in.Status == cloudformationtypes.ResourceSignalStatusSuccess})
		rec.Reason = fmt.Sprintf("Received %s signal with UniqueId %s", in.Status, *in.UniqueId)
		if err := resources.Put(tx, key, rec); err != nil || in.Status != cloudformationtypes.ResourceSignalStatusSuccess {
			return err // a failure becomes the reason why the resource fails
		}
		return s.noteResource(tx, f.key, f.Operation, &rec, f.Parameters)
	})
}
