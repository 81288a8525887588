package simulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	computers "github.com/drydock-dev/drydock/internal/machine/simulated"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// instance is what runs on one machine during one boot: the programs of an EKS image, most importantly the kubelet.
type instance struct {
	rt       *Runtime
	computer *computers.Computer
	in       machine.Instance
	fargate  *node.Fargate // nil if it boots an image
	ami      *ami.Machine  // nil if it has no shell and no cloud-init
	// Only the goroutine of Run uses images.
	images imageStore

	mu   sync.Mutex
	info node.Info
	// steps are the last step of each name, so that repeated failures are recorded once.
	steps map[string]node.Step
	// podSteps are what holds pods back, by namespace/name.
	podSteps map[string][]node.Step
	// current is the running kubelet, or nil. sandboxes are the pods that the previous kubelet left running.
	current   *kubelet
	sandboxes []ami.Sandbox
}

func (m *instance) phase(p node.Phase, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.info.Phase != p {
		m.info.Phase, m.info.Since = p, m.rt.clock.Now()
	}
	m.info.Problem, m.info.NextTry = problem, time.Time{}
}

// tries says when what the problem is about is tried again.
func (m *instance) tries(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.NextTry = at
}

// pause waits before another try, and says whether it waited to the end.
func (m *instance) pause(ctx context.Context, d time.Duration) bool {
	m.tries(m.rt.clock.Now().Add(d))
	return m.sleep(ctx, d)
}

func (m *instance) pods(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.Pods = n
}

// step records a step unless it equals the last recorded one.
func (m *instance) step(ctx context.Context, name string, err error, evidence string) {
	s := node.Step{Name: name, OK: err == nil, Evidence: evidence, Cause: node.CauseOf(err), Decision: node.DecisionOf(err)}
	if err != nil {
		s.Evidence = err.Error()
	}
	m.record(ctx, s)
}

func (m *instance) record(ctx context.Context, s node.Step) {
	s.Account, s.Region, s.InstanceID, s.Time = m.in.Account, m.in.Region, m.in.ID, m.rt.clock.Now()
	key := s.Name
	if s.Name == node.StepScript { // there are many
		key += "/" + s.Evidence
	}
	m.mu.Lock()
	if m.steps == nil {
		m.steps = map[string]node.Step{}
	}
	last, again := m.steps[key]
	again = again && last.OK == s.OK && last.Evidence == s.Evidence && reflect.DeepEqual(last.Decision, s.Decision)
	s.Cluster = m.info.Cluster
	if !again {
		m.steps[key] = s
	}
	m.mu.Unlock()
	if !again && m.rt.cfg.Step != nil {
		m.rt.cfg.Step(ctx, s)
	}
}

// stepError is an error in one step on the way into the cluster.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func failed(step string, err error) error { return &stepError{step, err} }

// Report implements computers.Guest.
func (m *instance) Report(ctx context.Context, e machine.Event) {
	m.step(ctx, e.Name, e.Err, e.Evidence)
	if e.Err != nil && (e.Name == machine.EventMetadata || e.Name == machine.EventUserData) {
		m.phase(node.PhaseRunning, e.Err.Error()) // nothing else runs on it
	}
}

// Run implements computers.Guest.
func (m *instance) Run(ctx context.Context, userData []byte) {
	// Keep client-go from writing to the daemon's standard error what is already recorded as a step.
	ctx = klog.NewContext(ctx, logr.Discard())
	m.in.BootID = m.computer.BootID()
	os := &system{m: m, ami: m.ami}
	if m.fargate != nil {
		m.serve(ctx, os, fargateConfig(m.fargate))
		return
	}
	if m.rt.options.RunScript == nil {
		// Scripts cannot be run. NodeConfigs still work.
		cfg, _ := userdata.Parse(m.in.Image.Family, userData) // live reports the error
		for _, s := range cfg.Scripts {
			m.step(ctx, node.StepScript, nil, s+": not executed, simulated nodes run no programs")
		}
	}
	for ctx.Err() == nil {
		m.live(ctx, os, userData)
		if os.stopped() && ctx.Err() == nil {
			err := errKubeletStopped
			if f := m.broken("kubelet"); f != nil {
				err = &node.Refusal{Err: err, Decision: node.FaultDecision(f, "the kubelet is killed whenever it runs")}
			}
			m.step(ctx, node.StepBootstrap, err, "")
			m.phase(node.PhaseRunning, errKubeletStopped.Error())
		}
		if !os.awaitKubelet(ctx) {
			return
		}
	}
}

// errNoIPv6 is nodeadm's error on an instance without an IPv6 address.
var errNoIPv6 = errors.New("operation error ec2imds: GetMetadata, http response error StatusCode: 404, request to EC2 IMDS failed") //nolint:staticcheck // the SDK's text

// errKubeletStopped means that the kubelet was stopped on the machine.
var errKubeletStopped = errors.New("kubelet.service is not running on the instance")

// broken returns the fault that kills a unit or, for ami.DiskFull, fills the disk; nil means that nothing does.
func (m *instance) broken(unit string) *fault.Fault {
	if m.rt.options.Broken == nil {
		return nil
	}
	return m.rt.options.Broken(m.in, unit)
}

// diskFull reports whether a fault fills the disk.
func (m *instance) diskFull() bool { return m.broken(ami.DiskFull) != nil }

// live runs one kubelet: from its configuration until something on the machine restarts it, or ctx ends. It returns
// early if the kubelet cannot start.
func (m *instance) live(ctx context.Context, os *system, userData []byte) {
	cfg, err := os.configuration(m.in.Image.Family, userData)
	if os.began && errors.Is(err, ami.ErrNotStarted) {
		return
	}
	if err != nil {
		m.step(ctx, node.StepUserData, err, "")
		m.phase(node.PhaseRunning, err.Error())
		if os.ami != nil && os.booted == nil {
			os.ami.NodeadmFailed(err, false)
		}
		return
	}
	ctx, stop := os.untilRestart(ctx)
	defer stop()
	m.serve(ctx, os, cfg)
}

// serve runs a kubelet that has its configuration.
func (m *instance) serve(ctx context.Context, os *system, cfg *userdata.Config) {
	m.mu.Lock()
	m.info.Cluster = cfg.ClusterName
	m.mu.Unlock()
	evidence := "cluster " + cfg.ClusterName + " at " + cfg.Endpoint
	if len(cfg.Ignored) > 0 {
		evidence += "; no effect on a simulated node: " + strings.Join(cfg.Ignored, ", ")
	}
	m.step(ctx, node.StepUserData, nil, evidence)
	if !m.learnName(ctx, os) {
		return
	}
	k, err := m.bootstrap(cfg)
	if err != nil {
		m.step(ctx, node.StepBootstrap, err, "")
		m.phase(node.PhaseRunning, err.Error())
		return
	}
	defer k.close()
	m.mu.Lock()
	m.info.NodeName = k.name
	m.mu.Unlock()
	m.step(ctx, node.StepBootstrap, nil, "node "+k.name+", kubelet "+kubeletVersion(m.in.Image.KubeletVersion))
	m.phase(node.PhaseJoining, "")
	os.began = true
	if os.ami != nil && os.booted == nil && m.in.Image.Family == images.AL2023 {
		kept, err := os.ami.Configure(cfg, k.name, k.maxPods, m.computer.Resumed())
		if err == nil {
			os.booted = cfg
		}
		if err == nil && kept { // someone may have changed the files
			cfg, err = os.ami.Reread(cfg)
		}
		if err != nil {
			m.step(ctx, node.StepBootstrap, err, "")
			m.phase(node.PhaseRunning, err.Error())
			return
		}
		if kept {
			m.serve(ctx, os, cfg)
			return
		}
	}
	k.os = os
	if os.ami != nil && m.in.Image.Family == images.Bottlerocket {
		os.ami.StartKubelet()
	}
	os.klog('I', "server.go:526", "Kubelet version", "kubeletVersion", kubeletVersion(m.in.Image.KubeletVersion))
	defer m.computer.Listen(healthPort, computers.Listener{Local: true, Serve: serveHealth})()
	if m.fargate == nil { // nothing but the control plane reaches the kubelets of Fargate
		defer m.computer.Listen(kubeletPort, computers.Listener{Serve: k.serveAPI(ctx)})()
	}
	if m.join(ctx, os, k) {
		k.run(ctx)
	}
}

// bootstrap creates a kubelet from what user data says.
func (m *instance) bootstrap(cfg *userdata.Config) (*kubelet, error) {
	if m.in.Image.KubeletVersion == "" {
		return nil, fmt.Errorf("image %s has no kubelet", m.in.Image.ID)
	}
	endpoint, err := url.Parse(cfg.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("the API endpoint in user data: %w", err)
	}
	if endpoint.Scheme != "https" || endpoint.Host == "" {
		return nil, fmt.Errorf("the API endpoint in user data is not an https URL: %q", cfg.Endpoint)
	}
	if endpoint.Port() == "" {
		endpoint.Host = net.JoinHostPort(endpoint.Hostname(), "443")
	}
	if !hostIP(m.in, cfg).IsValid() {
		return nil, &node.Refusal{Err: errNoIPv6, Decision: node.Decision{
			By: "EC2", Code: "NoIPv6Address", Component: m.in.SubnetID,
			Text: "the cluster is an IPv6 cluster and the instance has no IPv6 address: its subnet " + m.in.SubnetID + " does not assign any (AssignIpv6AddressOnCreation), and neither did the launch",
			Fixes: []advice.Fix{advice.Sketch("give the primary interface of "+m.in.ID+" an IPv6 address, which the instance sees when it boots",
				"aws ec2 assign-ipv6-addresses --network-interface-id ENI --ipv6-address-count 1 --region "+m.in.Region,
				"aws ec2 reboot-instances --instance-ids "+m.in.ID+" --region "+m.in.Region)},
		}}
	}
	size, err := measure(m.in, cfg)
	if err != nil {
		return nil, err
	}
	ca := cfg.CA
	if m.rt.cfg.Authority != nil {
		ca = m.rt.cfg.Authority(endpoint.Host, ca)
	}
	cluster, err := m.rt.clusters.get(endpoint, ca)
	if err != nil {
		return nil, err
	}
	id := &identity{
		cluster: cfg.ClusterName, region: m.in.Region, clock: m.rt.clock,
		credentials: m.credentials,
	}
	client, err := newClient(cluster, id, endpoint, userAgent(m.in), func(ctx context.Context, host string, port int) (net.Conn, error) {
		return m.rt.cfg.DialEndpoint(ctx, m.in, host, port)
	})
	if err != nil {
		m.rt.clusters.put(cluster)
		return nil, err
	}
	return newKubelet(m, client, cfg, size), nil
}

// sleep waits, and returns false if ctx ended first.
func (m *instance) sleep(ctx context.Context, d time.Duration) bool {
	return timing.Sleep(ctx, m.rt.clock, d)
}
