package simulated

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/guest"
	"github.com/drydock-dev/drydock/internal/node/imds"
)

// machine is one instance that is on: it boots, reads its user data, joins, and is
// then a kubelet until it is halted.
type machine struct {
	rt     *Runtime
	in     node.Instance
	cancel context.CancelFunc
	done   chan struct{}
	// console is what the machine prints while it boots.
	console console

	mu   sync.Mutex
	info node.Info
	// told is the last evidence recorded per step, so that what fails again and
	// again is recorded once.
	told map[string]string
}

// halt ends the machine and waits until it has.
func (m *machine) halt(ctx context.Context) error {
	m.cancel()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping %s: %w", m.in.ID, ctx.Err())
	}
}

func (m *machine) phase(p node.Phase, problem string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.info.Phase != p {
		m.info.Phase, m.info.Since = p, m.rt.clock.Now()
	}
	m.info.Problem = problem
}

func (m *machine) pods(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.info.Pods = n
}

// step records a step unless the same was recorded last time.
func (m *machine) step(ctx context.Context, name string, err error, evidence string) {
	if err != nil {
		evidence = err.Error()
	}
	if m.rt.cfg.Step == nil {
		return
	}
	key := fmt.Sprint(err == nil, evidence)
	m.mu.Lock()
	if m.told == nil {
		m.told = map[string]string{}
	}
	again := m.told[name] == key
	m.told[name] = key
	cluster := m.info.Cluster
	m.mu.Unlock()
	if again {
		return
	}
	m.rt.cfg.Step(ctx, node.Step{
		Account: m.in.Account, Region: m.in.Region, InstanceID: m.in.ID, Cluster: cluster,
		Name: name, OK: err == nil, Evidence: evidence, Decision: node.DecisionOf(err), Time: m.rt.clock.Now(),
	})
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
func (m *machine) run(ctx context.Context) {
	// client-go would write to the daemon's standard error what is recorded as a step.
	ctx = klog.NewContext(ctx, logr.Discard())
	m.step(ctx, node.StepBoot, nil, fmt.Sprintf("%s, %s", m.in.InstanceType, m.in.ImageID))
	userData, err := m.userData(ctx)
	if err != nil {
		m.step(ctx, node.StepUserData, err, "")
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
func (m *machine) live(ctx context.Context, os *system, userData []byte) {
	cfg, err := os.configuration(m.in.AMIFamily, userData)
	if err != nil {
		m.step(ctx, node.StepUserData, err, "")
		m.phase(node.PhaseRunning, err.Error())
		return
	}
	m.mu.Lock()
	m.info.Cluster = cfg.ClusterName
	m.mu.Unlock()
	evidence := "cluster " + cfg.ClusterName + " at " + cfg.Endpoint
	if len(cfg.Ignored) > 0 {
		evidence += "; without effect on a simulated node: " + strings.Join(cfg.Ignored, ", ")
	}
	m.step(ctx, node.StepUserData, nil, evidence)

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
	m.step(ctx, node.StepBootstrap, nil, "node "+k.name+", kubelet "+kubeletVersion(m.in.KubeletVersion))
	m.phase(node.PhaseJoining, "")

	ctx, stop := os.untilRestart(ctx)
	defer stop()
	if m.join(ctx, os, k) {
		k.run(ctx)
	}
}

// userData reads the instance's user data where cloud-init does. An instance whose
// metadata service is disabled has none, and nothing on it joins a cluster.
func (m *machine) userData(ctx context.Context) ([]byte, error) {
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
func (m *machine) bootstrap(cfg *guest.Config) (*kubelet, error) {
	if m.in.KubeletVersion == "" {
		return nil, fmt.Errorf("image %s has no kubelet", m.in.ImageID)
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

// join registers the node, trying again as the kubelet does, and says whether it
// did before ctx ended.
func (m *machine) join(ctx context.Context, os *system, k *kubelet) bool {
	delay := 100 * time.Millisecond
	for {
		err := k.register(ctx)
		if ctx.Err() != nil {
			return false
		}
		if err == nil {
			if r := k.client.route.Load(); r != nil {
				m.step(ctx, node.StepDNS, nil, fmt.Sprintf("%s is %s, by %s", r.Name, r.Address, r.By))
			}
			m.step(ctx, node.StepEndpoint, nil, k.endpoint)
			m.step(ctx, node.StepIdentity, nil, "role "+m.in.RoleARN)
			m.step(ctx, node.StepRegister, nil, "node "+k.name)
			m.phase(node.PhaseRegistered, "")
			return true
		}
		err = explain(err, m.in)
		name := node.StepRegister
		if se, ok := errors.AsType[*stepError](err); ok {
			name = se.step
		}
		m.step(ctx, name, err, "")
		m.phase(node.PhaseJoining, err.Error())
		os.logFailure(k, err)
		if !m.sleep(ctx, delay+rand.N(delay)) {
			return false
		}
		// The kubelet stops at 7 s; a node that is kept out by a rule shall not
		// keep a core busy either.
		delay = min(delay*2, 7*time.Second)
	}
}

// explain names the step at which a call of the API failed, and says it in words
// that do not change from one attempt to the next.
func explain(err error, in node.Instance) error {
	if _, ok := errors.AsType[*stepError](err); ok {
		return err
	}
	if ce, ok := errors.AsType[*credentialsError](err); ok {
		return failed(node.StepCredentials, ce)
	}
	if de, ok := errors.AsType[*dialError](err); ok {
		if _, ok := errors.AsType[*net.DNSError](err); ok {
			return failed(node.StepDNS, fmt.Errorf("resolving the API endpoint: %w", de))
		}
		return failed(node.StepEndpoint, fmt.Errorf("connecting to the API endpoint: %w", de))
	}
	if ua, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return failed(node.StepEndpoint, fmt.Errorf("the API endpoint's certificate is not of the authority in user data: %w", ua))
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return failed(node.StepEndpoint, fmt.Errorf("the API endpoint did not answer within %v", callTimeout))
	}
	switch {
	case apierrors.IsUnauthorized(err):
		return failed(node.StepIdentity, fmt.Errorf("Unauthorized: the cluster knows no node with the role %s", in.RoleARN)) //nolint:staticcheck // the kubelet's text
	case apierrors.IsForbidden(err):
		return failed(node.StepRegister, err)
	case apierrors.ReasonForError(err) != "":
		return failed(node.StepRegister, err)
	default:
		return failed(node.StepEndpoint, err)
	}
}

// sleep waits, and says whether it waited to the end.
func (m *machine) sleep(ctx context.Context, d time.Duration) bool {
	t := m.rt.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}
