// Package why answers `drydock why`: how far a node, a pod, a cluster or a node group has come, whether a connection can
// be made, why a request was refused, why a stack failed, why a session cannot be started, and which chain leads from a
// service account to a role. It gathers the evidence from services, machines and the journal, and names the rule that is
// the cause and the command that would change it. It changes nothing and makes no access decisions of its own.
//
// It uses the services through the interfaces below, and only app imports it.
package why

import (
	"context"
	"iter"
	"net/http"
	"net/netip"
	"strings"
	"time"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/twin/account"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// Config holds the sources of evidence.
type Config struct {
	EC2        EC2
	EKS        EKS
	IAM        IAM
	Stacks     Stacks
	Machines   Machines
	Journal    Journal
	Authorizer Authorizer
	// API lists what keeps a stack's resources from being deleted.
	API awsapi.API
	// Caller returns the owner of an access key, and of a session token if there is one.
	Caller func(ctx context.Context, accessKeyID, sessionToken string) (awsapi.Principal, error)
	// Faults are the faults in force.
	Faults *fault.Set
	// Network returns the current network of an account and region.
	Network func(ctx context.Context, account, region string) (*reach.Snapshot, error)
	// Through extends the verdict on a connection that reaches a load balancer.
	Through func(ctx context.Context, account, region string, s *reach.Snapshot, v *reach.Verdict) (*reach.Verdict, error)
	// PlaneAt finds the control plane, and the name of its cluster, by the host of an endpoint.
	PlaneAt func(host string) (planeID, cluster string, ok bool)
	// LastKey returns how long ago EC2 Instance Connect last sent a key for a user of an instance, and how long the key is
	// still valid. ok is false if it has sent none lately.
	LastKey func(instanceID, user string) (age, left time.Duration, ok bool)
	// Gaps returns what could not be read from a twin's source, and IsTwin reports whether an account is one. Nil means that
	// there are no twins.
	Gaps   func(account string) []recording.Gap
	IsTwin func(account string) bool
	// Inventory lists what a diagnosis looks at.
	Inventory Inventory
	// Observed returns what AWS showed of an instance of a twin.
	Observed func(account, instance string) (account.Observation, bool)
	// Changed reports whether something was changed in a twin.
	Changed func(account string) bool
	// ClientAddress is the laptop's address. If it is invalid, reach.Client is used.
	ClientAddress netip.Addr
}

// EC2 is the part of the EC2 service that the package needs.
type EC2 interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
	DescribeInstances(ctx context.Context, in *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error)
	DescribeSubnets(ctx context.Context, in *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error)
	EndpointPolicy(ctx context.Context, account, region, id string) (document string, ok bool)
	// VCPUUse returns how much is used of the quota that an instance type counts towards.
	VCPUUse(ctx context.Context, account, region, instanceType string, isSpot bool) (ec2.VCPUUse, bool)
}

// EKS is the part of the EKS service that the package needs.
type EKS interface {
	Clusters(ctx context.Context) ([]eks.ClusterStatus, error)
	DescribeCluster(ctx context.Context, in *awseks.DescribeClusterInput) (*awseks.DescribeClusterOutput, error)
	DescribeNodegroup(ctx context.Context, in *awseks.DescribeNodegroupInput) (*awseks.DescribeNodegroupOutput, error)
	// NodegroupLaunchIssue returns why the last launch of a node group failed, or nil if it did not fail.
	NodegroupLaunchIssue(ctx context.Context, cluster, nodegroup string) (*ekstypes.Issue, error)
	// UpdateNotes returns why an update of a cluster has not succeeded, and why a change of its version would be refused. If
	// entriesKnown is false, there may be access entries that were not read.
	UpdateNotes(ctx context.Context, cluster string, entriesKnown bool) ([]string, error)
	// NodegroupUpdateNotes returns why an update of a node group has not succeeded.
	NodegroupUpdateNotes(ctx context.Context, cluster, nodegroup string) ([]string, error)
	APIEndpoints(ctx context.Context, account, region string) ([]eks.APIEndpoint, error)
	PodFacts(ctx context.Context, cluster, namespace, name string) (eks.PodFacts, error)
	ServiceAccountIdentity(ctx context.Context, cluster, namespace, account string) (eks.ServiceAccountIdentity, error)
	ExplainFargate(ctx context.Context, account, region, cluster, namespace string, pod *corev1.Pod) (eks.FargateChoice, error)
	FargateLaunch(ctx context.Context, account, region, cluster, profile string, pod *corev1.Pod) (eks.FargateProfileLaunch, error)
	FargateRole(ctx context.Context, account, region, cluster, profile string) (role string, byEntry bool, err error)
	MapRoles(ctx context.Context, planeID, roleARN, typ string) (mapRoles string, exists bool, err error)
	KnownPrincipals(ctx context.Context, planeID string) (eks.KnownPrincipals, error)
	// TryNodeEntry returns why an access entry would not make a role a node role, or whose access it would take away.
	TryNodeEntry(ctx context.Context, planeID, roleARN, typ string, replace bool) error
	// TryNode returns an *eks.Refusal if the cluster would not take a role's sessions on instances for nodes.
	TryNode(ctx context.Context, planeID, roleARN, typ string) error
	// NetworkPolicyDrop returns what the network policies of an account's clusters in a region drop of a connection, or nil.
	NetworkPolicyDrop(ctx context.Context, account, region string, from, to netip.Addr, protocol string, port uint16) (*eks.NetworkPolicyDrop, error)
	// TryAddon returns why an add-on could not be installed.
	TryAddon(ctx context.Context, cluster, name string) error
}

// IAM is the part of the IAM service that the package needs.
type IAM interface {
	RoleByARN(ctx context.Context, roleARN string) (iam.Role, error)
	// PolicyByARN returns the document in force of a customer managed policy. full reports whether it has the maximum
	// number of versions.
	PolicyByARN(ctx context.Context, policyARN string) (document string, full, ok bool)
	PoliciesOf(p awsapi.Principal) (out policy.Policies, root bool)
	OIDCProvider(ctx context.Context, account, issuer string) (providerARN string, clientIDs []string, ok bool)
}

// Machines are the running machines: EC2's instances, and Fargate's, which are identified by their network interface.
type Machines interface {
	// Instances returns the running instances of an account and region by ID.
	Instances(account, region string) []machine.Instance
	// Instance returns a running instance, or an error.
	Instance(id string) (machine.Instance, error)
	// Fargate returns a Fargate machine.
	Fargate(id string) (machine.Instance, bool)
	// FargateNode returns the machine behind a Fargate node.
	FargateNode(account, region, name string) (machine.Instance, bool)
	// FargateOf returns the Fargate machines that are nodes of a cluster.
	FargateOf(account, region, cluster string) []string
	// FargatePod returns the machine for a pod. It may not be running yet.
	FargatePod(account, region, cluster string, pod types.UID) (fargate.PodMachine, bool)
	// Info returns the status of a machine of either kind.
	Info(id string) (node.Info, bool)
	// PodSteps returns what holds a pod back on a machine.
	PodSteps(id, namespace, pod string) []node.Step
	// TryPull returns why an instance could not pull an image.
	TryPull(ctx context.Context, id, image string) error
	// Machine returns the machine of an instance that is running.
	Machine(id string) (machine.Machine, bool)
	// Unit reports whether a systemd unit runs on an instance, and whether it starts when the instance boots.
	Unit(instanceID, unit string) (active, boots bool)
	// Identity returns the principal whose credentials the programs on an instance have.
	Identity(ctx context.Context, in machine.Instance) (awsapi.Principal, error)
	// Connect returns why the network refuses a connection from an instance, or nil.
	Connect(ctx context.Context, in machine.Instance, host string, port int) error
	// Call returns why a call by a program on an instance would fail, or nil.
	Call(ctx context.Context, in machine.Instance, c node.Call) error
	// Agent returns why an instance's SSM Agent is not connected, or nil.
	Agent(ctx context.Context, instanceID string, job ssm.Job) error
	// AgentVersion returns the version of that agent, or the empty string if the instance has none.
	AgentVersion(instanceID string) string
	// Permit returns fixes for the calls of an instance that IAM refuses, and the faults that make calls fail.
	Permit(ctx context.Context, in machine.Instance, who awsapi.Principal, calls []node.Call) (fixes []advice.Fix, faults []*node.Decision)
}

// Journal holds what was decided and done.
type Journal interface {
	Query(f journal.Filter) iter.Seq2[journal.Entry, error]
}

// Authorizer evaluates requests that have not been made, and refused requests again.
type Authorizer interface {
	Authorize(ctx context.Context, call *awsapi.Call, in any) error
	Reconsider(ctx context.Context, e authz.Explanation, changes ...policy.Change) policy.Decision
	Suggest(ctx context.Context, e authz.Explanation, changes ...policy.Change) []policy.Suggestion
	// Stored returns what is currently stored about the resource of a refused request.
	Stored(ctx context.Context, e authz.Explanation) authz.Resource
}

// An Explainer answers `drydock why`.
type Explainer struct{ cfg Config }

// New returns an Explainer.
func New(cfg Config) *Explainer { return &Explainer{cfg} }

// Handle serves the pages of `drydock why`, and the completions of its arguments.
func (x *Explainer) Handle(mux *http.ServeMux) {
	mux.HandleFunc("GET /_drydock/nodes", x.getNodes)
	mux.HandleFunc("GET /_drydock/why/node", x.getWhyNode)
	mux.HandleFunc("GET /_drydock/why/nodes", x.getWhyNodes)
	mux.HandleFunc("GET /_drydock/why/pod", x.getWhyPod)
	mux.HandleFunc("GET /_drydock/why/reach", x.getWhyReach)
	mux.HandleFunc("GET /_drydock/why/request", x.getWhyRequest)
	mux.HandleFunc("GET /_drydock/why/serviceaccount", x.getWhyServiceAccount)
	mux.HandleFunc("GET /_drydock/why/session", x.getWhySession)
	mux.HandleFunc("GET /_drydock/why/try", x.getTry)
	mux.HandleFunc("GET /_drydock/doctor", x.getDoctor)
	mux.HandleFunc("GET /_drydock/stacks", x.getStacks)
	mux.HandleFunc("GET /_drydock/why/stack", x.getWhyStack)
}

// roleName returns a role's name without its path.
func roleName(roleARN string) string { return roleARN[strings.LastIndexByte(roleARN, '/')+1:] }
