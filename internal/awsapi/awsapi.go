// Package awsapi holds the vocabulary that the AWS API server shares with the services behind it: the caller
// (Principal), what the pipeline knows about a request (Call), the members that the request carried (Members) and how
// a service declares its operations (Service, Operation).
//
// It does not depend on wire formats or services. Any package may import it.
package awsapi

import (
	"context"
	"net/netip"
	"time"
)

// Partition is the only AWS partition that Drydock emulates.
const Partition = "aws"

// DefaultAccount is the account of the default credentials test/test.
const DefaultAccount = "000000000000"

// A PrincipalType says what kind of identity signed a request, in the words of CloudTrail's userIdentity.type.
type PrincipalType string

// The kinds of principal.
const (
	Root            PrincipalType = "Root"
	IAMUser         PrincipalType = "IAMUser"
	AssumedRole     PrincipalType = "AssumedRole"
	FederatedUser   PrincipalType = "FederatedUser"
	AWSService      PrincipalType = "AWSService"
	AnonymousCaller PrincipalType = "Anonymous" // calls of operations that need no signature
	// InstanceCaller is an instance that authenticates with its identity document. Its Tags are the instance's.
	InstanceCaller PrincipalType = "Unknown"
)

// A Principal is an identity as AWS reports it. The zero Principal is
// anonymous.
type Principal struct {
	Type    PrincipalType
	Account string // 12 digits
	// ARN is what GetCallerIdentity returns: arn:aws:iam::A:user/path/N,
	// arn:aws:sts::A:assumed-role/R/S (without the role's path) or arn:aws:iam::A:root.
	ARN string
	// UserID is GetCallerIdentity's UserId: AIDA…, AROA…:session or, for root, the account.
	UserID      string
	AccessKeyID string
	// Name is the user's name, or the role's name for an assumed role.
	Name string
	// RoleARN is the assumed role's own ARN, including its path. It is empty for other types.
	RoleARN     string
	SessionName string // of an assumed role or a federated user
	// SessionPolicies are policy documents passed to AssumeRole and similar
	// operations; they limit what the session may do. SessionPolicyARNs are
	// managed ones.
	SessionPolicies   []string
	SessionPolicyARNs []string
	SessionTags       map[string]string
	// TransitiveTagKeys are the keys of the session tags that the sessions of
	// roles assumed with this session inherit.
	TransitiveTagKeys []string
	// SourceIdentity identifies the person behind a role session. Roles assumed with the session inherit it.
	SourceIdentity string
	// FederatedProvider is the ARN of the identity provider whose token started a role session:
	// aws:FederatedProvider.
	FederatedProvider string
	// Tags are the tags behind aws:PrincipalTag/KEY: the current tags of the user or role, overridden by the
	// session's tags. The lookup of credentials fills them in.
	Tags map[string]string
	// IssuedAt is when the session started; zero for long-term credentials.
	IssuedAt time.Time
	// MFAAt is when the caller authenticated with MFA, or zero.
	MFAAt time.Time `json:",omitzero"`
	// Instance is the EC2 instance to which the session's credentials were delivered, if any.
	Instance SourceInstance `json:",omitzero"`
}

// A SourceInstance says how an EC2 instance got the credentials of its role. It describes the instance at that time.
type SourceInstance struct {
	ARN       string // ec2:SourceInstanceArn
	VPCID     string // aws:Ec2InstanceSourceVpc
	PrivateIP string // of the primary network interface: aws:Ec2InstanceSourcePrivateIPv4
	Delivery  string // the version of the instance metadata service, 1.0 or 2.0: ec2:RoleDelivery
}

// A Call is what the pipeline knows about a request when the handler runs. Handlers read it; only the pipeline writes
// it.
type Call struct {
	RequestID string
	Service   string // the SDK's package name: eks, ec2, iam, …
	Operation string // CreateCluster, …
	Account   string // the account that the call acts on: the caller's
	Region    string // from the credential scope; us-east-1 for iam and other global services
	Principal Principal
	SourceIP  netip.Addr
	UserAgent string
	Referer   string // the header
	TraceID   string // the header X-Amzn-Trace-Id
	Time      time.Time
	Host      string // the Host header, including the port
	TLS       bool
	Members   Members
	// CalledVia are the service principals, such as eks.amazonaws.com, of the services that the call passed through
	// in forward access sessions, first to last. It is empty if the principal called this service itself.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/access_forward_access_sessions.html
	CalledVia []string
	// InvokedBy is the service principal of a service that calls as a role that was passed to it (AsRole).
	InvokedBy string
	// SourceARN is the resource on whose behalf a service calls as itself (AsServicePrincipal).
	SourceARN string
	// VPCEndpoint is the VPC endpoint through which a guest's call came.
	VPCEndpoint VPCEndpoint
	// Signature is zero for calls that are not requests, and for requests without a signature.
	Signature Signature
}

// A Signature says how a request was signed.
type Signature struct {
	At        time.Time
	Presigned bool   // it is in the query
	Payload   string // the payload's hash as declared by the request, or the marker in its place
}

// A VPCEndpoint identifies the VPC endpoint through which a connection came. It is a property of the connection, not
// of the caller: its policy also applies to keys of other accounts, signatures for other regions and unsigned calls.
// The zero VPCEndpoint means that the connection did not use one.
type VPCEndpoint struct {
	ID, VPCID       string // aws:SourceVpce and aws:SourceVpc
	Account, Region string // of the endpoint's owner, and the endpoint's region
}

type callKey struct{}

// WithCall returns a context that carries call.
func WithCall(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallFrom returns the call that ctx carries, or an empty one, but never nil. Internal callers that act for a user
// (the EKS service launching a node) set one with WithCall.
func CallFrom(ctx context.Context) *Call {
	if c, ok := ctx.Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{}
}
