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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/guest"
	"github.com/drydock-dev/drydock/internal/node/imds"
)

// instance is one that is on: it boots, reads its user data, joins, and is
// then a kubelet until it is halted.
type instance struct {
	rt      *Runtime
	in      machine.Instance
	fargate *node.Fargate // nil: it boots an image
	cancel  context.CancelFunc
	done    chan struct{}
	// console is what the machine prints while it boots.
	console console
	// images belong to the goroutine of run.
	images imageStore

	mu   sync.Mutex
	info node.Info
	// steps are the last of each name, so that what fails again and again is
	// recorded once.
	steps map[string]node.Step
	// podSteps are what holds pods back, by namespace/name.
	podSteps map[string][]node.Step
}

// halt ends the machine and waits until it has.
func (m *instance) halt(ctx context.Context) error {
	m.cancel()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping %s: %w", m.in.ID, ctx.Err())
	}
}

func (m *instance) phase(p node.Phase, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.info.Phase != p {
		m.info.Phase, m.info.Since = p, m.rt.clock.Now()
	}
	m.info.Problem = problem
}

func (m *instance) pods(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.Pods = n
}

// step records a step unless the same was recorded last time.
func (m *instance) step(ctx context.Context, name string, err error, evidence string) {
	s := node.Step{Name: name, OK: err == nil, Evidence: evidence, Decision: node.DecisionOf(err)}
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

// stepError is an error of one step on the way into the cluster.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

func failed(step string, err error) error { return &stepError{step, err} }

// run is the machine's life.
func (m *instance) run(ctx context.Context) {
	// client-go would write to the daemon's standard error what is recorded as a step.
	ctx = klog.NewContext(ctx, logr.Discard())
	if m.fargate != nil {
		m.step(ctx, node.StepBoot, nil, "a machine of Fargate")
		if !m.sleep(ctx, m.rt.options.BootDuration-m.rt.clock.Since(m.in.LaunchTime)) {
			return
		}
		m.serve(ctx, &system{m: m}, fargateConfig(m.fargate))
		return
	}
	m.step(ctx, node.StepBoot, nil, fmt.Sprintf("%s, %s", m.in.Type.Name, m.in.Image.ID))
	userData, err := m.userData(ctx)
	m.step(ctx, node.StepMetadata, err, fmt.Sprintf("%d bytes of user data", len(userData)))
	if err != nil {
		m.phase(node.PhaseRunning, err.Error())
		return
	}
	os, err := m.bootSystem(ctx, userData)
	if err != nil {
		m.step(ctx, node.StepUserData, err, "")
		m.phase(node.PhaseRunning, err.Error())
		return
	}
	for ctx.Err() == nil {
		m.live(ctx, os, userData)
		if !os.awaitKubelet(ctx) {
			return
		}
	}
}

// live is the life of one kubelet: from its configuration until something on the
// machine restarts it, or ctx ends. It returns early when the kubelet cannot start.
func (m *instance) live(ctx context.Context, os *system, userData []byte) {
	cfg, err := os.configuration(m.in.Image.Family, userData)
	if err != nil {
		m.step(ctx, node.StepUserData, err, "")
		m.phase(node.PhaseRunning, err.Error())
		if os.ami != nil {
			os.ami.NodeadmFailed(err, false)
		}
		return
	}
	ctx, stop := os.untilRestart(ctx)
	defer stop()
	m.serve(ctx, os, cfg)
}

// serve is the life of a kubelet that has its configuration.
func (m *instance) serve(ctx context.Context, os *system, cfg *guest.Config) {
	m.mu.Lock()
	m.info.Cluster = cfg.ClusterName
	m.mu.Unlock()
	evidence := "cluster " + cfg.ClusterName + " at " + cfg.Endpoint
	if len(cfg.Ignored) > 0 {
		evidence += "; without effect on a simulated node: " + strings.Join(cfg.Ignored, ", ")
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
	if os.ami != nil {
		os.ami.NodeadmDone()
	}
	k.os = os
	if m.join(ctx, os, k) {
		k.run(ctx)
	}
}

// userData reads the instance's user data where cloud-init does. An instance whose
// metadata service is disabled has none, and nothing on it joins a cluster.
func (m *instance) userData(ctx context.Context) ([]byte, error) {
	if m.rt.cfg.Metadata == nil {
		return m.in.UserData, nil
	}
	data, err := imds.Client{Transport: m.rt.cfg.Metadata(m.in.ID)}.Get(ctx, "user-data")
	if errors.Is(err, imds.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading user data from the instance metadata service: %w", err)
	}
	return data, nil
}

// bootstrap makes a kubelet out of what user data said.
func (m *instance) bootstrap(cfg *guest.Config) (*kubelet, error) {
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
	size, err := measure(m.in, cfg)
	if err != nil {
		return nil, err
	}
	cluster, err := m.rt.clusters.get(endpoint, cfg.CA)
	if err != nil {
		return nil, err
	}
	id := &identity{
		cluster: cfg.ClusterName, region: m.in.Region, clock: m.rt.clock,
		credentials: func(ctx context.Context) (aws.Credentials, error) { return m.rt.cfg.Credentials(ctx, m.in.ID) },
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

// sleep waits, and says whether it waited to the end.
func (m *instance) sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := m.rt.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}
