package awsapi

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// An API performs operations of AWS services in process. Services call one another through it. Such a call passes the
// same faults, policies, handler and journal as a request from outside, but is not encoded.
//
// A call made inside a store transaction fails and is logged as an error, because a transaction may run several
// times.
//
// ctx determines the caller:
//
//   - the context of a handler is a user's: the call is made in a forward access
//     session, with the user's permissions (Call.Forward, Via);
//   - AsService makes a context in which a service calls under its service-linked role;
//   - AsRole makes one in which it calls as a role that it was passed.
type API interface {
	// Call performs the operation whose SDK input struct in points to. It returns a pointer to the SDK's output
	// struct.
	Call(ctx context.Context, in any) (any, error)
}

// Do performs the operation whose input is in and returns its output.
func Do[Out any](ctx context.Context, api API, in any) (*Out, error) {
	out, err := api.Call(ctx, in)
	if err != nil {
		return nil, err
	}
	typed, ok := out.(*Out)
	if !ok {
		return nil, fmt.Errorf("%T answers with %T, not %T", in, out, typed)
	}
	return typed, nil
}

// A CallError is the error of a call between services, with the request ID under which the journal records the call.
type CallError struct {
	RequestID, Service, Operation string
	Err                           error
}

func (e *CallError) Error() string { return e.Err.Error() }

// Unwrap returns the service's error.
func (e *CallError) Unwrap() error { return e.Err }

// A ServiceRole is the service-linked role under which an AWS service calls others.
type ServiceRole struct {
	Service string // service principal: autoscaling.amazonaws.com
	Name    string // role: AWSServiceRoleForAutoScaling
	Session string // role session, as CloudTrail shows it: AutoScaling
}

// ARN returns the role's ARN in an account.
func (r ServiceRole) ARN(account string) string {
	return "arn:" + Partition + ":iam::" + account + ":role/aws-service-role/" + r.Service + "/" + r.Name
}

// AsService returns a context in which an AWS service calls on its own behalf, whoever ctx's caller is, under
// its service-linked role. The account's policies do not apply to it.
func AsService(ctx context.Context, account, region string, role ServiceRole, at time.Time) context.Context {
	return WithCall(ctx, &Call{
		RequestID: CallFrom(ctx).RequestID, Account: account, Region: region, Time: at,
		Principal: Principal{
			Type: AWSService, Account: account, Name: role.Service, ARN: role.ARN(account), RoleARN: role.ARN(account), SessionName: role.Session,
		},
	})
}

// AsServicePrincipal returns a context in which an AWS service calls as itself, on behalf of a resource of an
// account, as EventBridge does when it sends a rule's events to a queue. The resource that it calls must allow it in
// its own policy.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html#principal-services
func AsServicePrincipal(ctx context.Context, account, region, service, sourceARN string, at time.Time) context.Context {
	return WithCall(ctx, &Call{
		RequestID: CallFrom(ctx).RequestID, Account: account, Region: region, Time: at, SourceARN: sourceARN,
		Principal: Principal{Type: AWSService, Account: account, Name: service, UserID: service},
	})
}

// AsRole returns a context in which an AWS service calls as a role that was passed to it, subject to the role's
// policies. p is the role session, and service is the service principal, for CloudTrail's invokedBy.
func AsRole(ctx context.Context, p Principal, region, service string, at time.Time) context.Context {
	return WithCall(ctx, &Call{RequestID: CallFrom(ctx).RequestID, Account: p.Account, Region: region, Time: at, Principal: p, InvokedBy: service})
}

// Via returns a context in which a handler keeps calling for its user, but under a
// service principal other than its API's: EC2's CreateFleet launches as
// ec2fleet.amazonaws.com.
func Via(ctx context.Context, service string) context.Context {
	call := *CallFrom(ctx)
	if !call.own() {
		call.CalledVia = append(slices.Clone(call.CalledVia), service)
	}
	call.Service = "" // Forward adds no other
	return WithCall(ctx, &call)
}

// own reports whether a service makes the call with permissions of its own: it is no part
// of a forward access session.
func (c *Call) own() bool { return c.Principal.Type == AWSService || c.InvokedBy != "" }

// Forward returns the call that c's handler makes to another operation, as seen by the
// service that answers it. A user's call continues in a forward access session: the same
// principal, marked as calling via c's service. The user's network context is not passed
// on: the request comes from the service. via is the service principal of c's service.
func (c *Call) Forward(via, service, operation, requestID string, at time.Time) Call {
	next := *c
	next.Service, next.Operation, next.RequestID, next.Time = service, operation, requestID, at
	next.Members, next.Host = nil, ""
	if !c.own() && c.Service != "" && c.Service != service {
		next.CalledVia = append(slices.Clone(c.CalledVia), via)
	}
	if next.Internal() {
		next.SourceIP, next.VPCEndpoint, next.Signature, next.Referer, next.TraceID = netip.Addr{}, VPCEndpoint{}, Signature{}, "", ""
		next.UserAgent, next.TLS = next.By(), true
	}
	return next
}

// Internal reports whether an AWS service made the call, on its own behalf or on behalf of its caller.
func (c *Call) Internal() bool { return c.By() != "" }

// By returns the service principal of the AWS service that made the call, which CloudTrail shows as invokedBy, or ""
// for a call from outside.
func (c *Call) By() string {
	switch {
	case c.Principal.Type == AWSService:
		return c.Principal.Name
	case c.InvokedBy != "":
		return c.InvokedBy
	case len(c.CalledVia) > 0:
		return c.CalledVia[len(c.CalledVia)-1]
	}
	return ""
}

// ViaService returns the service of the last forward access session in the form of kms:ViaService, such as
// ec2.us-east-1.amazonaws.com, or "" if the call came through none.
func (c *Call) ViaService() string {
	if len(c.CalledVia) == 0 {
		return ""
	}
	name, _, _ := strings.Cut(c.CalledVia[len(c.CalledVia)-1], ".")
	return name + "." + c.Region + ".amazonaws.com"
}
