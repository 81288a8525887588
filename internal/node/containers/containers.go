// Package containers runs the nodes whose machines run containers (package machine/containers): a real containerd and a
// real kubelet per instance, and per pod of Fargate.
//
// A node joins by the same steps as a simulated one. The daemon performs the steps that would otherwise be hard to find in
// a kubelet's own log: it reads the user data from the instance's metadata service, gets the credentials of the instance's
// role, connects to the endpoint through AWS's network rules, and presents the token there. Only then does the kubelet
// start, with that token and nothing else, so the cluster authorizes it like any other kubelet.
//
// docs/containers.md says what these nodes cannot do. May be imported by internal/compute.
package containers

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/machine"
	boxes "github.com/drydock-dev/drydock/internal/machine/containers"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// Options are what these nodes need besides node.Config. All are required.
type Options struct {
	// Machines configures the machines. Guest and Connect are set by New.
	Machines boxes.Config
	// Metadata connects an instance to its metadata service.
	Metadata func(instanceID string) http.RoundTripper
	// Endpoint returns the AWS name of the cluster with an endpoint, or false if there is no such cluster.
	Endpoint func(url string) (host string, ok bool)
	// Connect makes the network of machines like EC2's.
	Connect func(ctx context.Context) error
	// Internet reports whether packets of machines leave for the internet.
	Internet func() bool
	// TryPull returns the error with which an instance could not pull an image.
	TryPull func(ctx context.Context, instanceID, image string) error
	Programs
}

// Runtime runs machines with kubelets.
type Runtime struct {
	*boxes.Runtime
	cfg     node.Config
	options Options
	clock   clock.WithTicker
	log     *slog.Logger

	fargates sync.Map // the configurations of Fargate's machines, by ID

	pause sync.Mutex
	saved bool // the pause image is in the archives
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
	r := &Runtime{cfg: cfg, options: options, clock: cfg.Clock, log: cfg.Log}
	m := options.Machines
	m.Log = cfg.Log
	m.Connect = func(ctx context.Context, _ machine.Instance) error { return options.Connect(ctx) }
	m.Guest = func(m *boxes.Machine) boxes.Guest {
		i := &instance{rt: r, machine: m, in: m.Instance(), info: node.Info{InstanceID: m.Instance().ID, Phase: node.PhaseBooting, Since: r.clock.Now()}, steps: map[string]node.Step{}}
		if f, ok := r.fargates.Load(i.in.ID); ok {
			i.fargate, _ = f.(*node.Fargate)
			i.flush = make(chan chan struct{})
			return i
		}
		i.image, i.imageErr = newImage(i)
		return i
	}
	r.Runtime = boxes.New(m)
	return r
}

// savePause adds the pause image to the archives.
func (r *Runtime) savePause() error {
	r.pause.Lock()
	defer r.pause.Unlock()
	if r.saved {
		return nil
	}
	b, err := pauseArchive()
	if err != nil {
		return err
	}
	err = r.SaveImage(PauseArchive, b)
	r.saved = err == nil
	return err
}

func (r *Runtime) instance(id string) *instance {
	i, _ := r.Guest(id).(*instance)
	return i
}

// Info implements node.Kubelets.
func (r *Runtime) Info(instanceID string) (node.Info, bool) {
	i := r.instance(instanceID)
	if i == nil {
		return node.Info{}, false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	info := i.info
	info.Steps = slices.Collect(maps.Values(i.steps))
	node.SortSteps(info.Steps)
	return info, true
}

// Unit reports whether a systemd unit runs on an instance, and whether it starts when the instance boots. It returns false
// if the instance does not run here.
func (r *Runtime) Unit(instanceID, unit string) (active, boots, ok bool) {
	i := r.instance(instanceID)
	if i == nil {
		return false, false, false
	}
	if i.image == nil {
		return false, false, true
	}
	return i.image.ami.Active(unit), i.image.ami.Boots(unit), true
}

// AgentVersion returns the version of the Systems Manager agent on an instance, or the empty string if it has none. ok is
// false if the instance does not run here.
func (r *Runtime) AgentVersion(instanceID string) (version string, ok bool) {
	i := r.instance(instanceID)
	if i == nil || i.image == nil {
		return "", i != nil
	}
	return i.image.ami.AgentVersion(), true
}

// Has reports whether an instance runs here, and has an address.
func (r *Runtime) Has(instanceID string, a netip.Addr) bool {
	i := r.instance(instanceID)
	if i == nil {
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.in.PrivateIP == a || slices.Contains(i.pods, a)
}

// An instance is what runs on one machine during one boot.
type instance struct {
	rt      *Runtime
	machine *boxes.Machine
	in      machine.Instance
	// image is what the image has, or nil if it has no shell.
	image    *image
	imageErr error
	fargate  *node.Fargate // nil if it is an instance
	// flush asks the log router of a Fargate pod to send what is left. It closes what it receives.
	flush chan chan struct{}
	// Only the goroutine of Run uses these. booted is the configuration with which nodeadm started the kubelet in this boot,
	// or nil. began says that a kubelet has run in this boot.
	booted *userdata.Config
	began  bool

	mu    sync.Mutex
	info  node.Info
	steps map[string]node.Step // the last of each name
	pods  []netip.Addr         // addresses for pods
	full  bool                 // pods have all of them
	// client asks the cluster as the node, once the cluster has accepted it.
	client *client
}

func (i *instance) phase(p node.Phase, problem string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.info.Phase != p {
		i.info.Phase, i.info.Since = p, i.rt.clock.Now()
	}
	i.info.Problem, i.info.NextTry = problem, time.Time{}
}

// step records a step unless it equals the last one.
func (i *instance) step(ctx context.Context, name string, err error, evidence string) {
	s := node.Step{Name: name, OK: err == nil, Evidence: evidence, Cause: node.CauseOf(err), Decision: node.DecisionOf(err)}
	if err != nil {
		s.Evidence = err.Error()
	}
	i.record(ctx, s)
}

func (i *instance) record(ctx context.Context, s node.Step) {
	s.Account, s.Region, s.InstanceID, s.Time = i.in.Account, i.in.Region, i.in.ID, i.rt.clock.Now()
	key := s.Name
	if s.Name == node.StepScript { // there are many
		key += "/" + s.Evidence
	}
	i.mu.Lock()
	last, again := i.steps[key]
	again = again && last.OK == s.OK && last.Evidence == s.Evidence
	s.Cluster = i.info.Cluster
	if !again {
		i.steps[key] = s
	}
	i.mu.Unlock()
	if !again && i.rt.cfg.Step != nil {
		i.rt.cfg.Step(ctx, s)
	}
}

// call checks whether the instance's role may call an AWS API.
func (i *instance) call(ctx context.Context, action string) error {
	if i.rt.cfg.Call == nil {
		return nil
	}
	return i.rt.cfg.Call(ctx, i.in, node.Call{Action: action})
}

// Tools implements boxes.Guest.
func (i *instance) Tools() []string {
	if i.image == nil {
		return nil
	}
	return i.image.tools()
}

// Report implements boxes.Guest.
func (i *instance) Report(ctx context.Context, e machine.Event) {
	i.step(ctx, e.Name, e.Err, e.Evidence)
	if e.Err != nil {
		i.phase(node.PhaseBooting, e.Err.Error())
	}
}

// pause waits before another try, and reports whether it waited to the end.
func (i *instance) pause(ctx context.Context, d time.Duration) bool {
	i.mu.Lock()
	i.info.NextTry = i.rt.clock.Now().Add(d)
	i.mu.Unlock()
	return timing.Sleep(ctx, i.rt.clock, d)
}

// retry calls do until it succeeds, with growing pauses, and records each result as a step. It returns false if ctx ended.
func (i *instance) retry(ctx context.Context, name string, do func() (evidence string, err error)) bool {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, 7*time.Second) {
		evidence, err := do()
		if ctx.Err() != nil {
			return false
		}
		if se, ok := err.(*stepError); ok { //nolint:errorlint // made by do itself
			i.step(ctx, se.step, se.err, "")
		} else {
			i.step(ctx, name, err, evidence)
		}
		if err == nil {
			return true
		}
		i.phase(node.PhaseJoining, err.Error())
		if !i.pause(ctx, delay) {
			return false
		}
	}
}

// A stepError is an error in another step than the one that is tried.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }
