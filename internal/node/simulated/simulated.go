// Package simulated runs EC2 instances as EKS nodes without running anything: a
// few goroutines per instance do towards the cluster what its kubelet would do.
//
// Each instance is on its own. It reads its user data (package guest), goes to the
// endpoint named there through AWS's network rules, trusts the certificate
// authority named there, and identifies itself with a token presigned by its
// instance role. The API server authorizes it as the one node it is. There is no
// privileged client, so that a node which AWS would not let in stays out here,
// with the reason as a recorded step.
//
// Pods get an address of the instance's network interfaces, their containers
// start and become ready, end when they would end, and stop when told to; nothing
// is executed. How long a container runs is a rule (see [AnnotationExitAfter]):
// for ever, unless an annotation says otherwise or a Job owns the pod; init
// containers succeed at once. Probes are taken to succeed.
//
// What is not here: deciding whether a connection is allowed, credentials and
// addresses (given by [node.Config]), and answering logs or exec for a simulated
// pod (the control plane's egress refuses these with the reason).
//
// May be imported by internal/machines.
package simulated

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// Options tune what is simulated. Zero values are defaults.
type Options struct {
	// BootDuration is how long an instance takes until cloud-init begins.
	BootDuration time.Duration
	// Patience divides what the guest's programs wait between their attempts, which
	// on AWS take minutes; 0 means 20.
	Patience int
	// StartDuration is how long a pod's containers take to start; 0 means that they
	// start in the very status update that shows the pod as seen.
	StartDuration time.Duration
	// InitDuration is how long an init container works; 0 means no time.
	InitDuration time.Duration
	// JobDuration is how long a Job's pod works; 0 means one second.
	JobDuration time.Duration
	// EventsPerSecond and EventBurst bound the events that all nodes of one cluster
	// emit together; what goes beyond is dropped, so that events never cost more
	// than the pods they tell of. 0 means 10 and 300.
	EventsPerSecond float64
	EventBurst      int
}

// Runtime is a node.Runtime of simulated instances.
type Runtime struct {
	cfg      node.Config
	options  Options
	clock    clock.WithTicker
	log      *slog.Logger
	clusters *clusters

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc

	mu       sync.Mutex
	machines map[string]*instance
	closed   bool
}

var _ node.Runtime = (*Runtime)(nil)

// New returns a runtime without instances. It lives until Shutdown.
func New(cfg node.Config) *Runtime { return NewWith(cfg, Options{}) }

// NewWith is New with options.
func NewWith(cfg node.Config, options Options) *Runtime {
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
	ctx, cancel := context.WithCancel(context.Background())
	return &Runtime{
		cfg: cfg, options: options, clock: cfg.Clock, log: cfg.Log,
		clusters: &clusters{eventRate: rate.Limit(options.EventsPerSecond), eventBurst: options.EventBurst, all: map[string]*cluster{}},
		ctx:      ctx, cancel: cancel,
		machines: map[string]*instance{},
	}
}

// Name is "simulated".
func (r *Runtime) Name() string { return "simulated" }

// Start boots an instance. See node.Runtime.
func (r *Runtime) Start(_ context.Context, in machine.Instance) error { return r.start(in, nil) }

// StartFargate starts a machine of Fargate, which Stop ends like any other.
func (r *Runtime) StartFargate(_ context.Context, f node.Fargate) error {
	return r.start(f.Instance, &f)
}

func (r *Runtime) start(in machine.Instance, f *node.Fargate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return node.ErrShutdown
	}
	if r.machines[in.ID] == nil {
		r.machines[in.ID] = r.boot(in, f)
	}
	return nil
}

// boot starts a machine's goroutine. r.mu is held.
func (r *Runtime) boot(in machine.Instance, f *node.Fargate) *instance {
	ctx, cancel := context.WithCancel(r.ctx)
	m := &instance{rt: r, in: in, fargate: f, cancel: cancel, done: make(chan struct{})}
	m.images = imageStore{puller: m.puller(), present: map[string]bool{}, tokens: map[string]time.Time{}}
	m.info = node.Info{InstanceID: in.ID, Phase: node.PhaseBooting, Since: r.clock.Now()}
	go func() {
		defer close(m.done)
		defer cancel()
		defer func() {
			if p := recover(); p != nil { // user data is hostile: no guest ends the daemon
				r.log.Error("a simulated machine failed", "instance", in.ID, "panic", p, "stack", string(debug.Stack()))
				m.phase(node.PhaseRunning, "internal error: see the daemon's log")
			}
		}()
		m.run(ctx)
	}()
	return m
}

// Stop powers an instance off. See node.Runtime.
func (r *Runtime) Stop(ctx context.Context, instanceID string) error {
	r.mu.Lock()
	m := r.machines[instanceID]
	r.mu.Unlock()
	if m == nil {
		return nil
	}
	if err := m.halt(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	if r.machines[instanceID] == m {
		delete(r.machines, instanceID)
	}
	r.mu.Unlock()
	m.step(ctx, node.StepStop, nil, "powered off")
	return nil
}

// Reboot stops and boots an instance. See node.Runtime.
func (r *Runtime) Reboot(ctx context.Context, instanceID string) error {
	r.mu.Lock()
	m := r.machines[instanceID]
	r.mu.Unlock()
	if m == nil {
		return node.ErrNotRunning
	}
	if err := m.halt(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return node.ErrShutdown
	}
	if r.machines[instanceID] != m {
		return nil // stopped or rebooted by somebody else meanwhile
	}
	in := m.in
	in.BootID = fmt.Sprintf("%s/%d", in.BootID, r.clock.Now().UnixNano())
	r.machines[instanceID] = r.boot(in, m.fargate)
	return nil
}

// Info says how far an instance has come.
func (r *Runtime) Info(instanceID string) (node.Info, bool) {
	r.mu.Lock()
	m := r.machines[instanceID]
	r.mu.Unlock()
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

// Shutdown ends all instances and leaves their clusters as they are.
func (r *Runtime) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	machines := r.machines
	r.machines = map[string]*instance{}
	r.mu.Unlock()
	r.cancel()
	for _, m := range machines {
		if err := m.halt(ctx); err != nil {
			return err
		}
	}
	return nil
}
