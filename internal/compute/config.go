// Package compute runs EC2's instances, and the dedicated machines of Fargate's pods, in the node runtimes. It
// provides a machine's surroundings: its network, the instance metadata service, and AWS, which it calls as the
// machine's role. As on AWS, the network, the policies of the role and those of VPC endpoints decide about every
// such call; deliberate faults may make it fail.
//
// Package node implements how a machine boots and joins. Package compute uses the services through the interfaces
// below. Only app and podrun, whose programs are on the same network, import it.
package compute

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"sync"

	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clocks "k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	boxes "github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
	"github.com/drydock-dev/drydock/internal/machine/containers/volumes"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	"github.com/drydock-dev/drydock/internal/machine/serialconsole"
	computers "github.com/drydock-dev/drydock/internal/machine/simulated"
	"github.com/drydock-dev/drydock/internal/node"
	nodeboxes "github.com/drydock-dev/drydock/internal/node/containers"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what Machines need.
type Config struct {
	Store  *store.Store
	Clock  clocks.WithTicker
	Timing clock.Timing
	Disks  Disks
	// Volumes has the data of other volumes, which only machines that run containers use.
	Volumes *volumes.Store
	// Network is the network of the machines.
	Network       Network
	ControlPlanes ControlPlanes
	// ClusterRole returns the session of a cluster's role in which EKS changes the network of an instance that it manages.
	ClusterRole func(ctx context.Context, in machine.Instance, cluster string) (awsapi.Principal, error)
	// API performs what machines' programs and the services behind machines call.
	API awsapi.API
	// The services answer look-ups.
	EC2         EC2
	EKS         EKS
	IAM         IAM
	STS         STS
	AutoScaling AutoScaling
	Authorizer  Authorizer
	// Images are those of ECR.
	Images Images
	// PublicImages are those of ECR Public. It may be nil.
	PublicImages PublicImages
	// StrictImages says that only ECR and AWS's own registries have images.
	StrictImages bool
	// Faults are the faults in force.
	Faults *fault.Set
	// ConnectKeys returns the public keys that EC2 Instance Connect has sent to an instance, by user. Nil means none.
	ConnectKeys func(instanceID string) map[string][]string
	// SerialKeys returns the public keys that may open the serial console of an instance now. Nil means none.
	SerialKeys func(instanceID string) []string
	// Balancers carry the traffic of load balancers. Nil means that nothing is carried.
	Balancers Balancers
	// Origins records the connections of machines to Endpoint.
	Origins *Origins
	// Endpoint is the host:port of the AWS endpoint on this machine, and Trusted the CAs that sign its certificates.
	Endpoint string
	Trusted  *x509.CertPool
	// HostRole returns an instance's session of the role with which Systems Manager manages the instances of an account
	// and region by default. It returns false if there is no such role. Nil means that no account has one.
	HostRole func(ctx context.Context, account, region, instanceID string) (awsapi.Principal, bool)
	// WhyUnauthorized says why a cluster does not accept a machine's token. named is the cluster that the token was
	// made for, if known. Step is passed to the runtimes: see [node.Config].
	WhyUnauthorized func(ctx context.Context, in machine.Instance, named, host, token string) *node.Decision
	Step            func(ctx context.Context, s node.Step)
	// Boxes is the folder of machines that run containers, and CA the authority that they trust for AWS, as PEM.
	Boxes string
	CA    []byte
	// NodeRuntime is the runtime of instances without the tag drydock:runtime: simulated, containers or auto, which is
	// containers if this machine can run them. Empty means simulated.
	NodeRuntime string
	// Internet connects machines that run containers to the real internet. Nil means that they cannot reach it.
	Internet *Internet
	Log      *slog.Logger
}

// Disks stores the root volumes of instances that are off.
type Disks interface {
	computers.Disks
	// Remove removes an instance's disk, if it has one.
	Remove(instanceID string) error
}

// Network is the network of all accounts and regions.
type Network interface {
	// Snapshot returns the current network of an account and region.
	Snapshot(ctx context.Context, account, region string) (*reach.Snapshot, error)
	// Through extends the verdict on a connection that reaches a load balancer.
	Through(ctx context.Context, account, region string, s *reach.Snapshot, v *reach.Verdict) (*reach.Verdict, error)
}

// ControlPlanes are the clusters' control planes.
type ControlPlanes interface {
	// ByHost returns the control plane with the given AWS endpoint name.
	ByHost(host string) (controlplane.Plane, bool)
	// ByEndpoint returns the control plane with the given endpoint, as DescribeCluster shows it.
	ByEndpoint(endpoint string) (controlplane.Plane, bool)
	// Trust returns the certificate authorities of the cluster with an endpoint at host:port if it is a copy whose source has
	// the authorities that are named, and otherwise those.
	Trust(host string, named []byte) []byte
	Dial(ctx context.Context, planeID string) (net.Conn, error)
	WaitReady(ctx context.Context, planeID string) error
	Planes() []controlplane.Plane
	ReleaseOf(ctx context.Context, planeID, owner string) error
	RESTConfig(planeID string) (*rest.Config, error)
}

// EC2 is the part of the EC2 service that is needed here.
type EC2 interface {
	// InstanceIDs returns the instances of all accounts and regions that are not terminated, and those whose records cannot be read.
	InstanceIDs() (map[string]bool, error)
	InstanceByID(account, region, id string) (ec2types.Instance, bool)
	// InstanceState returns an empty state for an instance whose record cannot be read.
	InstanceState(account, region, id string) (state string, ok bool)
	WatchInstances(scope store.Scope) *store.Watcher
	DescribeKeyPairs(ctx context.Context, in *awsec2.DescribeKeyPairsInput) (*awsec2.DescribeKeyPairsOutput, error)
	DescribeSubnets(ctx context.Context, in *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error)
	DescribeNetworkInterfaces(ctx context.Context, in *awsec2.DescribeNetworkInterfacesInput) (*awsec2.DescribeNetworkInterfacesOutput, error)
	DescribeVpcs(ctx context.Context, in *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error)
	EndpointPolicy(ctx context.Context, account, region, id string) (document string, ok bool)
	PodInterfaces
}

// EKS is the part of the EKS service that is needed here, most of it by Fargate.
type EKS interface {
	Clusters(ctx context.Context) ([]eks.ClusterStatus, error)
	FargateClusters() (map[store.Key]bool, error)
	FargateCluster(ctx context.Context, account, region, name string) (eks.FargateCluster, error)
	FargateLaunch(ctx context.Context, account, region, cluster, profile string, pod *corev1.Pod) (eks.FargateProfileLaunch, error)
	FargateProfileARN(account, region, cluster, profile string) (string, error)
}

// IAM is the part of the IAM service that is needed here.
type IAM interface {
	// HasAccount reports whether there is an account with that ID here.
	HasAccount(account string) bool
	InstanceProfileRole(ctx context.Context, account, profile string) (iam.InstanceProfile, iam.Role, error)
}

// Images are the images of ECR.
type Images interface {
	// Exists reports whether a repository, and the image in it with a tag or digest, exist.
	Exists(account, region, repository, reference string) (hasRepository, hasImage bool)
}

// PublicImages are the images of ECR Public.
type PublicImages interface {
	// Exists reports whether a registry with an alias, a repository in it, and the image in that with a tag or digest,
	// exist.
	Exists(alias, repository, reference string) (hasRegistry, hasRepository, hasImage bool)
}

// STS is the part of the STS service that is needed here.
type STS interface {
	OpenSession(ctx context.Context, accessKeyID, token string) (secret string, p awsapi.Principal, err error)
}

// AutoScaling is the part of the Auto Scaling service that is needed here.
type AutoScaling interface {
	DescribeAutoScalingInstances(ctx context.Context, in *awsautoscaling.DescribeAutoScalingInstancesInput) (*awsautoscaling.DescribeAutoScalingInstancesOutput, error)
	DescribeWarmPool(ctx context.Context, in *awsautoscaling.DescribeWarmPoolInput) (*awsautoscaling.DescribeWarmPoolOutput, error)
}

// Authorizer authorizes calls.
type Authorizer interface {
	Authorize(ctx context.Context, call *awsapi.Call, in any) error
}

// usable returns the store if this machine can mount volumes, and otherwise nil.
func usable(s *volumes.Store) *volumes.Store {
	if volumes.Usable() != nil {
		return nil
	}
	return s
}

// Machines are the running machines.
type Machines struct {
	cfg        Config
	runtime    machine.Runtime
	kubelets   *simulated.Runtime // those of simulated machines
	boxes      *nodeboxes.Runtime // machines that run containers, with their kubelets
	boxNetwork *boxNetwork
	metadata   *imds.Service
	network    *guestNetwork
	scripts    *sandbox.Pool
	fargates   *fargates
	console    *serialconsole.Server
	secret     []byte // the installation's secret; the machines' host keys are derived from it

	mu      sync.Mutex
	running map[string]machine.Instance // by instance ID
}

var _ ec2.Machines = (*Machines)(nil)

// New creates the runtimes; nothing runs yet.
func New(ctx context.Context, cfg Config) (*Machines, error) {
	m := &Machines{cfg: cfg, running: map[string]machine.Instance{}, network: newGuestNetwork(cfg.Network.Snapshot, cfg.Timing.GuestDial, cfg.Clock)}
	m.network.through = cfg.Network.Through
	if err := m.connectMetadata(ctx); err != nil {
		return nil, err
	}
	m.scripts = sandbox.NewPool(sandbox.Config{})
	g := &guests{machines: m, endpoint: cfg.Endpoint, trusted: cfg.Trusted, origins: cfg.Origins}
	calls := m.calls()
	config := node.Config{
		Credentials:         m.credentials,
		DialEndpoint:        m.DialEndpoint,
		Authority:           cfg.ControlPlanes.Trust,
		Call:                calls.call,
		Patience:            cfg.Timing.GuestDial,
		Connect:             calls.connect,
		Image:               calls.image,
		WhyUnauthorized:     m.whyUnauthorized,
		ControlPlaneVersion: m.controlPlaneVersion,
		PodCredentials:      calls.podCredentials,
		ManagedCall:         m.managedCall,
		PodNetwork:          podNetwork{m},
		Step:                cfg.Step,
		Clock:               cfg.Clock,
		Log:                 cfg.Log,
	}
	m.kubelets = simulated.New(config, simulated.Options{
		Metadata: m.metadataOf, RunScript: m.scripts.Run, HTTP: g.http, Dial: g.dial, DescribeCluster: g.describeCluster, Disks: cfg.Disks, HostKeys: m.secret, Kubectl: kubectl.New(kubectl.Config{}).Run,
		Broken: m.broken, Resolve: g.resolve, Ping: g.ping, Subnet: g.subnet, BootDuration: cfg.Timing.InstanceBoot, Patience: cfg.Timing.GuestPatience, StartDuration: cfg.Timing.PodStart})
	m.boxNetwork = &boxNetwork{machines: m, guests: g, log: cfg.Log, boxes: map[string]*boxLinks{}}
	m.boxes = nodeboxes.New(config, nodeboxes.Options{
		Machines: boxes.Config{Dir: cfg.Boxes, CA: cfg.CA, Volumes: usable(cfg.Volumes)}, Metadata: m.metadataOf, Endpoint: m.endpoint, Connect: m.boxNetwork.connect, TryPull: m.TryPull, Internet: m.boxNetwork.leaves.Load,
		Programs: nodeboxes.Programs{
			Kubectl: kubectl.New(kubectl.Config{}).Run, HTTP: g.http, DescribeCluster: g.describeCluster, Resolve: g.resolve, Ping: g.ping, Subnet: g.subnet, Broken: m.broken, HostKeys: m.secret,
			Patience: max(cfg.Timing.GuestPatience, 1),
		},
	})
	m.boxNetwork.rt = m.boxes.Runtime
	m.runtime = machine.NewManager(m.chooseRuntime, m.kubelets, m.boxes)
	m.fargates = newFargates(m)
	m.console = serialconsole.New(serialconsole.Config{Secret: m.secret, Keys: cfg.SerialKeys, Machine: m.runtime.Machine, Log: cfg.Log})
	return m, nil
}

// RuntimeTag is the tag of an instance that chooses its runtime.
const RuntimeTag = "drydock:runtime"

// chooseRuntime returns the name of the runtime for an instance.
func (m *Machines) chooseRuntime(in machine.Instance) string {
	name := cmp.Or(in.Tags[RuntimeTag], m.cfg.NodeRuntime, m.kubelets.Name())
	if name == "auto" {
		name = m.kubelets.Name()
		if probe.Run().Available {
			name = m.boxes.Name()
		}
	}
	if len(in.Interfaces) > 0 && !in.PrivateIP.IsValid() && name == m.boxes.Name() { // machines that run containers have no IPv6 addresses
		return m.kubelets.Name()
	}
	return name
}

func (m *Machines) whyUnauthorized(ctx context.Context, in machine.Instance, host, token string) *node.Decision {
	info, _ := m.Info(in.ID)
	return m.cfg.WhyUnauthorized(ctx, in, info.Cluster, host, token)
}

// RunFargate runs Fargate's scheduler for the clusters that have profiles, until ctx ends.
func (m *Machines) RunFargate(ctx context.Context) error { return m.fargates.run(ctx) }

// RunNetwork changes the network of machines that run containers as EC2's changes, and cuts the connections of other
// machines that it no longer allows, until ctx ends.
func (m *Machines) RunNetwork(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { m.boxNetwork.run(ctx, m.cfg.Store.Changed) })
	return m.network.run(ctx, m.cfg.Store.Changed)
}

// Close ends all machines because the daemon ends. They are expected to be started again.
func (m *Machines) Close(ctx context.Context) error {
	err := errors.Join(m.fargates.runtime.Shutdown(ctx), m.runtime.Shutdown(ctx))
	m.scripts.Close()
	return err
}

// calls returns what decides about the calls of machines' programs.
func (m *Machines) calls() *guestCalls {
	c := &m.cfg
	return &guestCalls{network: m.network, credentials: m.credentials, sts: c.STS, ec2: c.EC2, iam: c.IAM, images: c.Images, public: c.PublicImages, strict: c.StrictImages, api: c.API, authorizer: c.Authorizer, faults: c.Faults}
}
