// Package compute runs EC2's instances, and the machines that Fargate's pods have to
// themselves, in the node runtimes. To these it is all that is around a machine: its
// network, the instance metadata service, and AWS, which it calls as the machine's role.
// Every such call is decided as AWS would: by the network, the policies of the role and
// those of VPC endpoints, and by what is broken on purpose.
//
// How a machine boots and joins is package node's. The services are read by the
// interfaces below; only app imports it, and package podrun, whose programs are on the
// same network.
package compute

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	computers "github.com/drydock-dev/drydock/internal/machine/simulated"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what Machines need.
type Config struct {
	Store  *store.Store
	Timing clock.Timing
	Disks  Disks
	// Network is what machines connect in.
	Network       Network
	ControlPlanes ControlPlanes
	// The services are those that machines call.
	EC2         EC2
	EKS         EKS
	EKSAuth     EKSAuth
	IAM         IAM
	STS         STS
	AutoScaling AutoScaling
	Authorizer  Authorizer
	// Faults are those in force.
	Faults *fault.Set
	// Origins learns of the connections of machines to Endpoint.
	Origins *Origins
	// Endpoint is the host:port of the AWS endpoint on this machine, and Trusted who signs
	// its certificates.
	Endpoint string
	Trusted  *x509.CertPool
	// WhyUnauthorized says why a cluster does not know a machine's token, which was made for
	// the cluster named, if any. Step is the runtimes': see [node.Config].
	WhyUnauthorized func(ctx context.Context, in machine.Instance, named, host, token string) *node.Decision
	Step            func(ctx context.Context, s node.Step)
	Log             *slog.Logger
}

// Disks keeps the root volumes of instances that are off.
type Disks interface {
	computers.Disks
	// Remove removes an instance's, if it has one.
	Remove(instanceID string) error
}

// Network is the network of all accounts and regions.
type Network interface {
	// Snapshot is the current network of an account and region.
	Snapshot(ctx context.Context, account, region string) (*reach.Snapshot, error)
	// Through goes on with a connection that gets to a load balancer.
	Through(ctx context.Context, account, region string, s *reach.Snapshot, v *reach.Verdict) (*reach.Verdict, error)
}

// ControlPlanes are those of clusters.
type ControlPlanes interface {
	// ByHost is the one behind AWS's name of an endpoint.
	ByHost(host string) (controlplane.Plane, bool)
	// ByEndpoint is the one behind an endpoint as DescribeCluster tells it.
	ByEndpoint(endpoint string) (controlplane.Plane, bool)
	Dial(ctx context.Context, planeID string) (net.Conn, error)
	WaitReady(ctx context.Context, planeID string) error
	Planes() []controlplane.Plane
	Release(ctx context.Context, planeID string) error
	RESTConfig(planeID string) (*rest.Config, error)
}

// EC2 is what is asked of the service of that name.
type EC2 interface {
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
	// InstanceState is empty for an instance whose record cannot be read.
	InstanceState(account, region, id string) (state string, ok bool)
	WatchInstances(scope store.Scope) *store.Watcher
	DescribeKeyPairs(ctx context.Context, in *awsec2.DescribeKeyPairsInput) (*awsec2.DescribeKeyPairsOutput, error)
	DescribeSubnets(ctx context.Context, in *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error)
	DescribeVpcs(ctx context.Context, in *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error)
	EndpointPolicy(ctx context.Context, account, region, id string) (document string, ok bool)
	PodInterfaces
	FargateInterfaces
}

// EKS is what is asked of the service of that name, most of it by Fargate.
type EKS interface {
	Clusters(ctx context.Context) ([]eks.ClusterStatus, error)
	FargateClusters() (map[store.Key]bool, error)
	FargateCluster(ctx context.Context, account, region, name string) (eks.FargateCluster, error)
	FargateLaunch(ctx context.Context, account, region, cluster, profile string, pod *corev1.Pod) (eks.FargateProfileLaunch, error)
}

// EKSAuth is what is asked of the service of that name.
type EKSAuth interface {
	AssumeRoleForPodIdentity(ctx context.Context, in *eksauth.AssumeRoleForPodIdentityInput) (*eksauth.AssumeRoleForPodIdentityOutput, error)
}

// IAM is what is asked of the service of that name.
type IAM interface {
	InstanceProfileRole(ctx context.Context, account, profile string) (iam.InstanceProfile, iam.Role, error)
	TrustsService(role iam.Role, service string) bool
}

// STS is what is asked of the service of that name.
type STS interface {
	OpenSession(ctx context.Context, accessKeyID, token string) (secret string, p awsapi.Principal, err error)
	AssumeRoleWithWebIdentity(ctx context.Context, in *awssts.AssumeRoleWithWebIdentityInput) (*awssts.AssumeRoleWithWebIdentityOutput, error)
	RoleSessions
}

// RoleSessions gives machines the credentials of their role.
type RoleSessions interface {
	IssueRoleSession(ctx context.Context, roleARN, name string, duration time.Duration, opts sts.SessionOptions) (sts.Credentials, error)
}

// AutoScaling is what is asked of the service of that name.
type AutoScaling interface {
	DescribeAutoScalingInstances(ctx context.Context, in *awsautoscaling.DescribeAutoScalingInstancesInput) (*awsautoscaling.DescribeAutoScalingInstancesOutput, error)
}

// Authorizer decides about calls.
type Authorizer interface {
	Authorize(ctx context.Context, call *awsapi.Call, in any) error
}

// Machines are those that run.
type Machines struct {
	cfg      Config
	runtime  machine.Runtime
	kubelets *simulated.Runtime // the same machines
	metadata *imds.Service
	network  *guestNetwork
	scripts  *sandbox.Pool
	fargates *fargates

	mu      sync.Mutex
	running map[string]machine.Instance // by instance ID
}

var _ ec2.Machines = (*Machines)(nil)

// New makes the runtimes; nothing runs yet.
func New(ctx context.Context, cfg Config) (*Machines, error) {
	m := &Machines{cfg: cfg, running: map[string]machine.Instance{}, network: newGuestNetwork(cfg.Network.Snapshot, cfg.Timing.GuestDial)}
	m.network.through = cfg.Network.Through
	if err := m.connectMetadata(ctx); err != nil {
		return nil, err
	}
	m.scripts = sandbox.NewPool(sandbox.Config{})
	g := &guests{machines: m, endpoint: cfg.Endpoint, trusted: cfg.Trusted, origins: cfg.Origins}
	calls := m.calls()
	m.kubelets = simulated.New(node.Config{
		Credentials:         m.credentials,
		DialEndpoint:        m.DialEndpoint,
		Call:                calls.call,
		Patience:            cfg.Timing.GuestDial,
		Connect:             calls.connect,
		WhyUnauthorized:     m.whyUnauthorized,
		ControlPlaneVersion: m.controlPlaneVersion,
		PodCredentials:      calls.podCredentials,
		PodNetwork:          podNetwork{m},
		Step:                cfg.Step,
		Log:                 cfg.Log,
	}, simulated.Options{
		Metadata: m.metadataOf, RunScript: m.scripts.Run, HTTP: g.http, Dial: g.dial, DescribeCluster: g.describeCluster, Disks: cfg.Disks,
		BootDuration: cfg.Timing.InstanceBoot, Patience: cfg.Timing.GuestPatience, StartDuration: cfg.Timing.PodStart})
	m.runtime = machine.NewManager(nil, m.kubelets)
	m.fargates = newFargates(m)
	return m, nil
}

func (m *Machines) whyUnauthorized(ctx context.Context, in machine.Instance, host, token string) *node.Decision {
	info, _ := m.Info(in.ID)
	return m.cfg.WhyUnauthorized(ctx, in, info.Cluster, host, token)
}

// RunFargate runs Fargate's scheduler for the clusters that have profiles, until ctx ends.
func (m *Machines) RunFargate(ctx context.Context) error { return m.fargates.run(ctx) }

// RunNetwork cuts the connections that a changed network does not let live on, until ctx
// ends.
func (m *Machines) RunNetwork(ctx context.Context) error {
	return m.network.run(ctx, m.cfg.Store.Changed)
}

// Close ends all machines as when the daemon ends: they are expected to be started again.
func (m *Machines) Close(ctx context.Context) error {
	err := errors.Join(m.fargates.runtime.Shutdown(ctx), m.runtime.Shutdown(ctx))
	m.scripts.Close()
	return err
}

// calls decides what a machine's programs call.
func (m *Machines) calls() *guestCalls {
	c := &m.cfg
	return &guestCalls{network: m.network, credentials: m.credentials, sts: c.STS, ec2: c.EC2, eksAuth: c.EKSAuth, authorizer: c.Authorizer, faults: c.Faults}
}
