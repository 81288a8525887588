package cloudformation

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
)

// A failure is the error of the work on a resource, with the evidence for `drydock why`.
type failure struct {
	error
	failureRecord
}

func (f *failure) Unwrap() error { return f.error }

// failureOf returns what is known about an error besides its text, or nil.
func failureOf(err error) *failureRecord {
	if f, ok := errors.AsType[*failure](err); ok {
		return &f.failureRecord
	}
	return nil
}

// because records the error with which the work on a resource ended, or nil if it succeeded.
func (rec *resourceRecord) because(err error) {
	rec.Reason, rec.Failure = "", failureOf(err)
	if err != nil {
		rec.Reason = err.Error()
	}
}

// callsOf returns the refused calls in an error, the innermost first.
func callsOf(err error) (out []callRecord) {
	for {
		refused, ok := errors.AsType[*awsapi.CallError](err)
		if !ok {
			return out
		}
		out = append([]callRecord{{refused.RequestID, refused.Service, refused.Operation}}, out...)
		err = refused.Err
	}
}

// withInstances adds a resource's instances to the error of the work on it.
func (o *operation) withInstances(ctx context.Context, id string, err error) error {
	rec, _ := o.resource(id)
	if rec.PhysicalID == "" {
		return err
	}
	r := o.request(o.asItself(context.WithoutCancel(ctx)), &rec, &rec.resourceState)
	instances := r.instances()
	if len(instances) == 0 {
		return err
	}
	out := &failure{error: err}
	if known := failureOf(err); known != nil {
		out.failureRecord = *known
	}
	out.Instances = instances
	return out
}

// instances returns the IDs of the instances that an instance, an Auto Scaling group or a node group has, as far as they
// are known.
func (r *request) instances() (out []string) {
	var groups []string
	switch r.typ {
	case "AWS::EC2::Instance":
		return []string{r.id}
	case scalingGroup:
		groups = append(groups, r.id)
	case "AWS::EKS::Nodegroup":
		n, err := r.nodegroup(r.parts("/"))
		if err != nil || n.Resources == nil {
			return nil
		}
		for _, g := range n.Resources.AutoScalingGroups {
			groups = append(groups, aws.ToString(g.Name))
		}
	}
	for _, name := range groups {
		g, err := r.group(name)
		if err != nil || g == nil {
			continue
		}
		for _, i := range g.Instances {
			out = append(out, aws.ToString(i.InstanceId))
		}
	}
	return out
}

// reason returns the error of a failed call with the text that AWS's handlers use.
func (r *request) reason(err error) error {
	var refused smithy.APIError
	if !errors.As(err, &refused) {
		return r.censor(err)
	}
	message := r.hidden(refused.ErrorMessage())
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
	out := &failure{failureRecord: failureRecord{Calls: callsOf(err), Code: code, Message: message}}
	requestID := ids.UUID() // used if no call was made
	if n := len(out.Calls); n > 0 {
		requestID = out.Calls[n-1].RequestID
	}
	out.error = fmt.Errorf("Resource handler returned message: \"%s (Service: %s, Status Code: %d, Request ID: %s) (SDK Attempt Count: 1)\" (RequestToken: %s, HandlerErrorCode: %s)", //nolint:staticcheck // AWS's words
		message, r.service, status, requestID, ids.UUID(), handlerCode)
	return out
}

func codeOf(err error) string {
	var refused smithy.APIError
	if errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	return ""
}

// notFound reports whether err is a service's error for a resource that does not exist.
func notFound(err error) bool {
	code := codeOf(err)
	return strings.HasSuffix(code, "NotFound") || strings.HasSuffix(code, "NotFoundException") || strings.HasSuffix(code, ".Malformed") ||
		slices.Contains([]string{"NoSuchEntity", "NoSuchEntityException", "NonExistentQueue", "AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist", "NoSuchBucket", "NoSuchBucketPolicy", "NoSuchHostedZone", "InvalidPlacementGroup.Unknown"}, code)
}

// errInternal has AWS's text for failures that are not the user's fault.
var errInternal = errors.New("Internal Failure") //nolint:staticcheck // AWS's words

// panicked records a panic during the work on a resource.
func (o *operation) panicked(id string, p any) {
	o.s.log.Error("panic in the work on a resource", "stack", o.arn, "resource", id, "panic", p, "stacktrace", string(debug.Stack()))
	switch _, ok := o.resource(id); {
	case !ok, cleansUp(o.rec.Status): // a failed clean-up does not fail the stack
	case o.rec.Status == cloudformationtypes.StackStatusDeleteInProgress, o.rec.Status == cloudformationtypes.StackStatusRollbackInProgress:
		o.logged(o.note(id, true, func(rec *resourceRecord) {
			rec.Status = cloudformationtypes.ResourceStatusDeleteFailed
			rec.because(errInternal)
		}))
	default:
		o.fail(id, errInternal)
	}
}

// giveUp ends an operation after a panic outside the work on a resource. It returns false if no failed status exists
// for the operation.
func (o *operation) giveUp(ctx context.Context) (bool, error) {
	next, ok := map[cloudformationtypes.StackStatus]cloudformationtypes.StackStatus{
		cloudformationtypes.StackStatusCreateInProgress:         cloudformationtypes.StackStatusCreateFailed,
		cloudformationtypes.StackStatusRollbackInProgress:       cloudformationtypes.StackStatusRollbackFailed,
		cloudformationtypes.StackStatusDeleteInProgress:         cloudformationtypes.StackStatusDeleteFailed,
		cloudformationtypes.StackStatusUpdateInProgress:         cloudformationtypes.StackStatusUpdateFailed,
		cloudformationtypes.StackStatusUpdateRollbackInProgress: cloudformationtypes.StackStatusUpdateRollbackFailed,
		cloudformationtypes.StackStatusImportInProgress:         cloudformationtypes.StackStatusImportRollbackInProgress,
		cloudformationtypes.StackStatusImportRollbackInProgress: cloudformationtypes.StackStatusImportRollbackFailed,
	}[o.rec.Status]
	if !ok {
		return false, nil
	}
	return true, o.setStack(ctx, next, errInternal.Error(), nil)
}
