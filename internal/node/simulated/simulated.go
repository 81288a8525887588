// Package simulated runs simulated machines (package machine/simulated) that are EKS nodes: a few goroutines per
// instance do towards the cluster what its kubelet would do.
//
// Each instance is on its own. It reads its user data (package guest), connects to the endpoint named there through
// AWS's network rules, trusts the certificate authority named there, and identifies itself with a token presigned by
// its instance role. The API server authorizes it as the one node it is. There is no privileged client, so a node
// that AWS would not let in stays out here too, with the reason as a recorded step.
//
// Pods get an address of the instance's network interfaces, their containers start and become ready, end when they
// would end, and stop when asked to; nothing is executed. How long a container runs is a rule (see
// [AnnotationExitAfter]): forever, unless an annotation says something else or a Job owns the pod; init containers
// succeed at once. Probes are assumed to succeed.
//
// The package does not decide whether a connection is allowed, nor does it manage credentials and addresses
// ([node.Config] does both). It does not answer logs or exec for a simulated pod; the control plane's egress refuses
// those with the reason.
//
// May be imported by internal/compute.
package simulated

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/kubectl"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	computers "github.com/drydock-dev/drydock/internal/machine/simulated"
	"github.com/drydock-dev/drydock/internal/node"
)

// Options tune what is simulated. Zero values mean the defaults.
type Options struct {
	// Metadata, RunScript, Dial, Disks and HostKeys are the computers' own: see computers.Config.
	Metadata  func(instanceID string) http.RoundTripper
	RunScript func(ctx context.Context, job shell.Job) (shell.Result, error)
	Dial      func(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error)
	Disks     computers.Disks
	HostKeys  []byte
	// Kubectl runs kubectl for a machine: kubectl.Runner.Run. If nil, machines have no kubectl.
	Kubectl func(ctx context.Context, c *shell.Call, m kubectl.Machine) int
	// HTTP is an instance's way to reach AWS and everything else by HTTP. An error says why its network does not
	// allow that. If nil, the instance has no network.
	HTTP func(in machine.Instance) http.RoundTripper
	// Resolve, Ping and Subnet let an instance's programs inspect its network: see ami.Surroundings. They may be nil.
	Resolve func(ctx context.Context, in machine.Instance, name string) ([]netip.Addr, error)
	Ping    func(ctx context.Context, in machine.Instance, host string) (netip.Addr, error)
	Subnet  func(in machine.Instance, id string) netip.Prefix
	// Broken returns the fault that kills a systemd unit of an instance or, for ami.DiskFull, fills its disk. It returns nil
	// if there is no such fault.
	Broken func(in machine.Instance, unit string) *fault.Fault
	// DescribeCluster calls EKS as the instance's role, through its network, for what a node needs to know about a
	// cluster. If nil, EKS cannot be reached.
	DescribeCluster func(ctx context.Context, in machine.Instance, region, name string) (node.ClusterInfo, error)
	// BootDuration is how long an instance takes until cloud-init starts.
	BootDuration time.Duration
	// Patience divides the waits of the guest's programs between their attempts, which take minutes on AWS; 0 means
	// 20.
	Patience int
	// StartDuration is how long a pod's containers take to start. 0 means that they start in the same status update
	// that shows the pod as seen.
	StartDuration time.Duration
	// InitDuration is how long an init container works; 0 means no time.
	InitDuration time.Duration
	// JobDuration is how long a Job's pod works; 0 means one second.
	JobDuration time.Duration
	// EventsPerSecond and EventBurst bound the events that all nodes of one cluster emit together. Events beyond that
	// are dropped, so that they never cost more than the pods they report on. 0 means 10 and 300.
	EventsPerSecond float64
	EventBurst      int
}

// Runtime runs simulated machines with kubelets.
type Runtime struct {
	*computers.Runtime

	cfg      node.Config
	options  Options
	clock    clock.WithTicker
	log      *slog.Logger
	clusters *clusters
	fargates sync.Map // configurations of Fargate machines, by ID
}

var (
	_ machine.Runtime = (*Runtime)(nil)
	_ node.Kubelets   = (*Runtime)(nil)
)

// New returns a runtime without machines. It runs until Shutdown.
func New(cfg node.Config, options Options) *Runtime {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if options.Patience == 0 {
		options.Patience = 20
	}
	if options.JobDuration == 0 {
		options.JobDuration = time.Second
	}
	if options.EventsPerSecond == 0 {
		options.EventsPerSecond = 10
	}
	if options.EventBurst == 0 {
		options.EventBurst = 300
	}
	r := &Runtime{
		cfg: cfg, options: options, clock: cfg.Clock, log: cfg.Log,
		clusters: &clusters{eventRate: rate.Limit(options.EventsPerSecond), eventBurst: options.EventBurst, all: map[string]*cluster{}},
	}
	r.Runtime = computers.New(computers.Config{
		Guest:    func(c *computers.Computer) computers.Guest { return r.guest(c) },
		Metadata: options.Metadata, RunScript: options.RunScript, Dial: options.Dial, Disks: options.Disks, HostKeys: options.HostKeys,
		Boot: options.BootDuration, Patience: options.Patience, Clock: cfg.Clock, Log: cfg.Log,
	})
	return r
}

// StartFargate starts a Fargate machine.
func (r *Runtime) StartFargate(ctx context.Context, f node.Fargate) error {
	r.fargates.Store(f.ID, &f)
	return r.Start(ctx, f.Instance)
}

// guest is what runs on a computer.
func (r *Runtime) guest(c *computers.Computer) *instance {
	m := &instance{rt: r, computer: c, in: c.Instance()}
	if f, ok := r.fargates.LoadAndDelete(m.in.ID); ok {
		m.fargate = f.(*node.Fargate)
	}
	m.images = imageStore{puller: m.puller(), credentials: m.credentials, present: map[string]bool{}, tokens: map[string]registryToken{}}
	m.info = node.Info{InstanceID: m.in.ID, Phase: node.PhaseBooting, Since: r.clock.Now()}
	return m
}

// instance returns what runs on a machine, or nil if the machine is off.
func (r *Runtime) instance(id string) *instance {
	m, _ := r.Guest(id).(*instance)
	return m
}

// Info implements node.Kubelets.
func (r *Runtime) Info(instanceID string) (node.Info, bool) {
	m := r.instance(instanceID)
	if m == nil {
		return node.Info{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	info := m.info
	info.Steps = slices.Collect(maps.Values(m.steps))
	node.SortSteps(info.Steps)
	return info, true
}

// Unit reports whether a systemd unit is running on an instance, and whether it starts when the instance boots.
func (r *Runtime) Unit(instanceID, unit string) (active, boots bool) {
	m := r.instance(instanceID)
	if m == nil || m.ami == nil {
		return false, false
	}
	return m.ami.Active(unit), m.ami.Boots(unit)
}

// AgentVersion returns the version of the Systems Manager agent on an instance, or the empty string if it has none.
func (r *Runtime) AgentVersion(instanceID string) string {
	m := r.instance(instanceID)
	if m == nil || m.ami == nil {
		return ""
	}
	return m.ami.AgentVersion()
}
