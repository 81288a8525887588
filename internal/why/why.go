// Package why answers `drydock why`: how far a node, a pod, a cluster or a node group has
// come, whether a connection can be made, why a request was refused, by which chain a
// service account comes to a role. It gathers the evidence that services, machines and
// the journal have, says which rule stopped what was asked about, and which command
// would change that. It changes nothing and decides nothing by itself.
//
// It reads the services by the interfaces below, and only app imports it.
package why

import (
	"context"
	"iter"
	"net/http"
	"net/netip"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
)

// Config is where the evidence is.
type Config struct {
	EC2        EC2
	EKS        EKS
	IAM        IAM
	Machines   Machines
	Journal    Journal
	Authorizer Authorizer
	// Faults are those in force.
	Faults *fault.Set
	// Network is the current network of an account and region.
	Network func(ctx context.Context, account, region string) (*reach.Snapshot, error)
	// Through goes on with a connection that gets to a load balancer.
	Through func(ctx context.Context, account, region string, s *reach.Snapshot, v *reach.Verdict) (*reach.Verdict, error)
	// PlaneAt finds the control plane, and the name of its cluster, by the host of an
	// endpoint.
	PlaneAt func(host string) (planeID, cluster string, ok bool)
	// ClientAddress is that of the laptop; invalid: reach.Client.
	ClientAddress netip.Addr
}

// EC2 is what is asked of the service of that name.
type EC2 interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
	EndpointPolicy(ctx context.Context, account, region, id string) (document string, ok bool)
}

// EKS is what is asked of the service of that name.
type EKS interface {
	Clusters(ctx context.Context) ([]eks.ClusterStatus, error)
	DescribeCluster(ctx context.Context, in *awseks.DescribeClusterInput) (*awseks.DescribeClusterOutput, error)
	DescribeNodegroup(ctx context.Context, in *awseks.DescribeNodegroupInput) (*awseks.DescribeNodegroupOutput, error)
	APIEndpoints(ctx context.Context, account, region string) ([]eks.APIEndpoint, error)
	PodFacts(ctx context.Context, cluster, namespace, name string) (eks.PodFacts, error)
	ServiceAccountIdentity(ctx context.Context, cluster, namespace, account string) (eks.ServiceAccountIdentity, error)
	ExplainFargate(ctx context.Context, account, region, cluster, namespace string, pod *corev1.Pod) (eks.FargateChoice, error)
	FargateLaunch(ctx context.Context, account, region, cluster, profile string, pod *corev1.Pod) (eks.FargateProfileLaunch, error)
	FargateRole(ctx context.Context, account, region, cluster, profile string) (role string, byEntry bool, err error)
	MapRoles(ctx context.Context, planeID, roleARN, typ string) (mapRoles string, exists bool, err error)
	KnownPrincipals(ctx context.Context, planeID string) (eks.KnownPrincipals, error)
}

// IAM is what is asked of the service of that name.
type IAM interface {
	RoleByARN(ctx context.Context, roleARN string) (iam.Role, error)
	// PolicyByARN is the document in force of a policy of the customer's own; full says
	// that it has as many versions as it can.
	PolicyByARN(ctx context.Context, policyARN string) (document string, full, ok bool)
	PoliciesOf(p awsapi.Principal) (out policy.Policies, root bool)
	OIDCProvider(ctx context.Context, account, issuer string) (providerARN string, clientIDs []string, ok bool)
}

// Machines are those that run: EC2's instances, and Fargate's, which are known by their
// network interface.
type Machines interface {
	// Instances are the running instances of an account and region by ID.
	Instances(account, region string) []machine.Instance
	// Instance is a running instance, or an error.
	Instance(id string) (machine.Instance, error)
	// Fargate is a machine of Fargate.
	Fargate(id string) (machine.Instance, bool)
	// FargateNode is the machine behind a node of Fargate.
	FargateNode(account, region, name string) (machine.Instance, bool)
	// FargateOf are the machines of Fargate that are nodes of a cluster.
	FargateOf(account, region, cluster string) []string
	// FargatePod is the machine for a pod, which may not run yet.
	FargatePod(account, region, cluster string, pod types.UID) (id, roleARN string, ok bool)
	// Info says how far a machine of either kind has come.
	Info(id string) (node.Info, bool)
	// PodSteps are what a machine says of what holds a pod back.
	PodSteps(id, namespace, pod string) []node.Step
}

// Journal is what has been decided and done.
type Journal interface {
	Query(f journal.Filter) iter.Seq2[journal.Entry, error]
}

// Authorizer decides again about a request that was refused.
type Authorizer interface {
	Reconsider(ctx context.Context, e authz.Explanation) policy.Decision
}

// An Explainer says why.
type Explainer struct{ cfg Config }

// New returns an Explainer.
func New(cfg Config) *Explainer { return &Explainer{cfg} }

// Handle answers the pages of `drydock why`, and what its arguments can be.
func (x *Explainer) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /_drydock/nodes", x.getNodes)
	mux.HandleFunc("GET /_drydock/why/node", x.getWhyNode)
	mux.HandleFunc("GET /_drydock/why/nodes", x.getWhyNodes)
	mux.HandleFunc("GET /_drydock/why/pod", x.getWhyPod)
	mux.HandleFunc("GET /_drydock/why/reach", x.getWhyReach)
	mux.HandleFunc("GET /_drydock/why/request", x.getWhyRequest)
	mux.HandleFunc("GET /_drydock/why/serviceaccount", x.getWhyServiceAccount)
}

// roleName is a role's name, without its path.
func roleName(roleARN string) string { return roleARN[strings.LastIndexByte(roleARN, '/')+1:] }
