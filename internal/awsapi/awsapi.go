// Package awsapi holds the vocabulary that the AWS API server shares with the
// services behind it: who calls (Principal), what the pipeline knows of a
// request (Call), which members the request carried (Members) and how a service
// declares the operations it answers (Service, Operation).
//
// It does not depend on wire formats or services. Any package may import it.
package awsapi

import (
	"context"
	"net/netip"
	"time"
)

// Partition is the only AWS partition Drydock plays.
const Partition = "aws"

// DefaultAccount is the account of the default credentials test/test.
const DefaultAccount = "000000000000"

// A PrincipalType says what kind of identity signed a request, in the words of
// CloudTrail's userIdentity.type.
type PrincipalType string

// The kinds of principal.
const (
	Root            PrincipalType = "Root"
	IAMUser         PrincipalType = "IAMUser"
	AssumedRole     PrincipalType = "AssumedRole"
	FederatedUser   PrincipalType = "FederatedUser"
	AWSService      PrincipalType = "AWSService"
	AnonymousCaller PrincipalType = "Anonymous" // operations that need no signature
)

// A Principal is an identity as AWS reports it. The zero Principal is
// anonymous.
type Principal struct {
	Type    PrincipalType
	Account string // 12 digits
	// ARN is what GetCallerIdentity returns: arn:aws:iam::A:user/path/N,
	// arn:aws:sts::A:assumed-role/R/S (without the role's path) or arn:aws:iam::A:root.
	ARN string
	// UserID is GetCallerIdentity's UserId: AIDA…, AROA…:session, or the account of root.
	UserID      string
	AccessKeyID string
	// Name is the user's name, or the role's name for an assumed role.
	Name string
	// RoleARN is the assumed role's own ARN, path included. Empty for other types.
	RoleARN     string
	SessionName string // of an assumed role or federated user
	// SessionPolicies are policy documents passed to AssumeRole and similar
	// operations; they limit what the session may do. SessionPolicyARNs are
	// managed ones.
	SessionPolicies   []string
	SessionPolicyARNs []string
	SessionTags       map[string]string
	// TransitiveTagKeys are the keys of the session tags that the sessions of
	// roles assumed with this session inherit.
	TransitiveTagKeys []string
	// SourceIdentity names who stands behind a role session; roles assumed with
	// it inherit the name.
	SourceIdentity string
	// FederatedProvider is the ARN of the identity provider whose token began a
	// role session: aws:FederatedProvider.
	FederatedProvider string
	// Tags are those that aws:PrincipalTag/KEY sees: the user's or role's as they
	// are now and, over them, the session's. The lookup of credentials fills them.
	Tags map[string]string
	// IssuedAt is when the session began; zero for long-term credentials.
	IssuedAt time.Time
}

// A Call is what the pipeline knows of one request when the handler runs.
// Handlers read it; only the pipeline writes it.
type Call struct {
	RequestID string
	Service   string // the SDK's package name: eks, ec2, iam, …
	Operation string // CreateCluster, …
	Account   string // the caller's account: the one whose resources are meant
	Region    string // from the credential scope; us-east-1 for iam and other global services
	Principal Principal
	SourceIP  netip.Addr
	UserAgent string
	Time      time.Time
	Host      string // the Host header, port included
	TLS       bool
	Members   Members
	// CalledVia are the services through which the call came in forward access
	// sessions, first to last, by their service principals: eks.amazonaws.com. It is
	// empty if the principal called this service itself.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/access_forward_access_sessions.html
	CalledVia []string
	// InvokedBy is the service principal of the service that calls as a role it was
	// passed (AsRole).
	InvokedBy string
	// SourceARN is the resource for which a service calls as itself (AsServicePrincipal).
	SourceARN string
	// VPCEndpoint is the one that a call of a guest came through.
	VPCEndpoint VPCEndpoint
}

// A VPCEndpoint is one that a connection came through. It belongs to the connection,
// not to who calls: its policy binds the keys of other accounts, signatures for other
// regions and calls without a signature. The zero VPCEndpoint means that there is
// none.
type VPCEndpoint struct {
	ID, VPCID       string // aws:SourceVpce and aws:SourceVpc
	Account, Region string // whose endpoint it is, and where
}

type callKey struct{}

// WithCall returns a context that carries call.
func WithCall(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallFrom returns the call ctx carries, or an empty one: never nil.
// Internal callers that act for a user (the EKS service launching a node) set
// one with WithCall.
func CallFrom(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}
