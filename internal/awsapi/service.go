package awsapi

import "context"

// A Service is one AWS service as the AWS API server sees it: the API model's
// name, a handler with one method per operation, and the table of those
// operations.
//
// The handler's methods have the SDK's shape:
//
//	func (s *Service) CreateCluster(ctx context.Context, in *awseks.CreateClusterInput) (*awseks.CreateClusterOutput, error)
//
// The registry finds a method by the operation's name and fails at start-up
// when one is missing or has another shape.
type Service struct {
	// Name is the service's SDK package name, which is also its model's name:
	// eks, ec2, iam, sts, ssm, autoscaling, …
	Name       string
	Handler    any
	Operations []Operation
	// Before, if it is not nil, runs before each handler. Its error is the call's.
	Before func(context.Context) error
	// HandlesDryRun says that the handlers answer EC2's DryRun themselves, after
	// their checks. Otherwise the pipeline answers it before the handler.
	HandlesDryRun bool
	// Refused are operations that clients use and the service does not handle on
	// purpose, for docs/compatibility.md. They are refused as all that are not
	// declared at all.
	Refused []Refusal
}

// A Refusal says why operations are not handled.
type Refusal struct {
	Operations string // separated by spaces
	Why        string
}

// An Operation declares one operation a service answers.
type Operation struct {
	// Name is AWS's name and the handler's method.
	Name string
	// Members lists the request members the handler honours (ParseHonours); a
	// request in which any other says something is refused with 501 NotImplemented, and
	// docs/compatibility.md is generated from this list.
	Members string
	// Except says in words which values of honoured members the handler refuses
	// with 501 NotImplemented, for docs/compatibility.md. Empty: none.
	Except string
	// Unsigned operations need no signature (AssumeRoleWithWebIdentity).
	Unsigned bool
	// WebIdentity tells, for CloudTrail, who makes an unsigned call, from the handler's
	// input and output; out is nil if there is none.
	WebIdentity func(in, out any) WebIdentity
	// Exempt operations are not authorized before their handlers run: sts:AssumeRole
	// asks by itself, once it has read the request.
	Exempt bool
	// ReadOnly operations change nothing; the journal drops them first.
	// The zero value is derived from the name (Describe, Get, List).
	ReadOnly bool
	// DataEvent operations are not in CloudTrail, which records them only for trails that
	// ask for data events. The journal drops them first, too.
	DataEvent bool
	// FromStore says that an answer depends on nothing but the request, the caller's
	// account and region, and the store. It is given again until the store changes.
	FromStore bool
	// Settled tells whether an answer is final for a polling client. It is given
	// the handler's output; errors are always final. When an SDK waiter asks and
	// Settled says no, the pipeline holds the answer and asks the handler again
	// after the next change in the store, for 10 s at most. Use SettledWhen.
	Settled func(out any) bool
}

// A WebIdentity is who calls by the token of an identity provider.
type WebIdentity struct {
	Account                     string // the one that the call is about
	Provider, Audience, Subject string // of the token; empty unless it was accepted
}

// SettledWhen adapts a typed predicate to Operation.Settled.
func SettledWhen[Out any](settled func(out *Out) bool) func(any) bool {
	return func(out any) bool {
		o, ok := out.(*Out)
		return !ok || settled(o)
	}
}
