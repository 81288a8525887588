package awsapi

import "context"

// A Service is one AWS service as the AWS API server sees it: the API model's name, a handler with one method per
// operation, and the table of those operations.
//
// The handler's methods have the SDK's shape:
//
//	func (s *Service) CreateCluster(ctx context.Context, in *awseks.CreateClusterInput) (*awseks.CreateClusterOutput, error)
//
// The registry finds a method by the operation's name and fails at start-up if one is missing or has another shape.
type Service struct {
	// Name is the service's SDK package name, which is also its model's name:
	// eks, ec2, iam, sts, ssm, autoscaling, …
	Name       string
	Handler    any
	Operations []Operation
	// Authorization corrects the service authorization reference for the operations.
	Authorization Authorization
	// Constraints correct and complete the API model's constraints on values in requests.
	Constraints []Constraint
	// Before, if it is not nil, runs before each handler. If it returns an error, the call fails with it.
	Before func(context.Context) error
	// HandlesDryRun says that the handlers answer EC2's DryRun themselves, after their checks. Otherwise the pipeline
	// answers it before calling the handler.
	HandlesDryRun bool
	// Instance returns the running instance that an identity document belongs to, and its region, or an error if the
	// signature is wrong. Nil means that no instance calls the service with its document instead of credentials.
	Instance func(ctx context.Context, document, signature []byte) (p Principal, region string, err error)
	// Anonymous returns the account and the region of a bucket, or false if there is no such bucket. It is S3's: the operations of its buckets may be
	// called without a signature, and are authorized like others. Nil means that every operation that is not Unsigned needs one.
	Anonymous func(bucket string) (account, region string, ok bool)
	// Refused are operations that clients use and that the service deliberately does not handle, for
	// docs/compatibility.md. Their requests fail like those of undeclared operations.
	Refused []Refusal
}

// A Refusal says why operations are not handled.
type Refusal struct {
	Operations string // separated by spaces
	Why        string
}

// An Operation declares one operation of a service.
type Operation struct {
	// Name is AWS's name for the operation and the name of the handler's method.
	Name string
	// Members lists the request members that the handler honours (ParseHonours). A request in which any other member
	// is not empty gets 501 NotImplemented, and docs/compatibility.md is generated from this list.
	Members string
	// Except describes, for docs/compatibility.md, the values of honoured members that the handler refuses with 501
	// NotImplemented. Empty means none.
	Except string
	// Unsigned operations need no signature (AssumeRoleWithWebIdentity).
	Unsigned bool
	// WebIdentity returns, for CloudTrail, who makes an unsigned call. Its arguments are the handler's input and
	// output; out is nil if there is none.
	WebIdentity func(in, out any) WebIdentity
	// Exempt operations are not authorized before their handlers run. sts:AssumeRole, for example, authorizes by
	// itself once it has read the request.
	Exempt bool
	// ReadOnly operations change nothing; the journal drops them first. The zero value is derived from the name
	// (Describe, Get, List).
	ReadOnly bool
	// DataEvent operations are not in CloudTrail, which records them only for trails that include data events. The
	// journal drops them first, too.
	DataEvent bool
	// FromStore says that an answer depends only on the request, the caller's account and region, and the store. The
	// answer is reused until the store changes.
	FromStore bool
	// Settled reports whether an answer is final for a polling client. Its argument is the handler's output; errors
	// are always final. If an SDK waiter asks and Settled returns false, the pipeline holds the answer and calls the
	// handler again after the next change in the store, for at most 10 s. Use SettledWhen.
	Settled func(out any) bool
}

// A WebIdentity is a caller with a token of an identity provider.
type WebIdentity struct {
	Account                     string // the account that the call concerns
	Provider, Audience, Subject string // from the token; empty unless it was accepted
	SAML                        bool   // the token is a SAML assertion, and Provider is the qualifier of its subject
}

// SettledWhen adapts a typed predicate to Operation.Settled.
func SettledWhen[Out any](settled func(out *Out) bool) func(any) bool {
	return func(out any) bool {
		o, ok := out.(*Out)
		return !ok || settled(o)
	}
}
