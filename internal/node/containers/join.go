package containers

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/clustertoken"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/ami"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// tokenLife is how long the kubelet keeps a token. The cluster accepts it for 15 minutes; client-go reads the file again
// within a minute.
const tokenLife = 10 * time.Minute

// Run implements boxes.Guest.
func (i *instance) Run(ctx context.Context) {
	if i.fargate != nil {
		i.runFargate(ctx)
		return
	}
	data, err := imds.Client{Transport: i.rt.options.Metadata(i.in.ID)}.Get(ctx, "user-data")
	if errors.Is(err, imds.ErrNotFound) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("reading user data from the instance metadata service: %w", err)
	}
	i.step(ctx, machine.EventMetadata, err, fmt.Sprintf("%d bytes of user data", len(data)))
	if err != nil {
		i.phase(node.PhaseRunning, err.Error())
		return
	}
	var running sync.WaitGroup
	defer running.Wait()
	if i.imageErr == nil && i.image != nil {
		if i.imageErr = i.image.start(ctx); i.imageErr == nil {
			running.Go(func() { i.image.writeMessages(ctx) })
			i.imageErr = i.image.cloudInit(ctx, data)
		}
	}
	if ctx.Err() != nil {
		return
	}
	if i.imageErr != nil {
		i.step(ctx, machine.EventUserData, i.imageErr, "")
		i.phase(node.PhaseRunning, i.imageErr.Error())
		return
	}
	for ctx.Err() == nil {
		i.live(ctx, data)
		if i.began && !i.kubeletActive() && ctx.Err() == nil {
			err := errKubeletStopped
			if f := i.rt.options.Broken(i.in, "kubelet"); f != nil {
				err = &node.Refusal{Err: err, Decision: node.FaultDecision(f, "the kubelet is killed whenever it runs")}
			}
			i.step(ctx, node.StepBootstrap, err, "")
			i.phase(node.PhaseRunning, errKubeletStopped.Error())
		}
		if !i.awaitKubelet(ctx) {
			return
		}
	}
}

// errKubeletStopped means that the kubelet was stopped on the machine.
var errKubeletStopped = errors.New("kubelet.service is not running on the instance")

func (i *instance) kubeletActive() bool { return i.image == nil || i.image.ami.Active("kubelet") }

// awaitKubelet waits until something on the machine starts or restarts the kubelet. It returns false if nothing can, or ctx
// ended.
func (i *instance) awaitKubelet(ctx context.Context) bool {
	if i.image == nil {
		<-ctx.Done()
		return false
	}
	for {
		select {
		case <-i.image.ami.KubeletChanged():
			return true
		case <-i.rt.clock.After(time.Second):
			i.image.ami.Refresh("kubelet") // the end of a fault is not signalled
		case <-ctx.Done():
			return false
		}
	}
}

// configuration returns how the kubelet is to join: from the kubelet's files if a script writes them, or from user data if
// nodeadm or Bottlerocket reads it.
func (i *instance) configuration(data []byte) (*userdata.Config, error) {
	switch {
	case i.booted != nil:
		return i.image.ami.Reread(i.booted)
	case i.image == nil || i.in.Image.Family != images.AL2:
		return userdata.Parse(i.in.Image.Family, data)
	}
	cfg, err := i.image.ami.Kubelet()
	if errors.Is(err, ami.ErrNotStarted) {
		return cfg, fmt.Errorf("%w: user data did not run /etc/eks/bootstrap.sh to its end: %w", err, userdata.ErrNoBootstrap)
	}
	return cfg, err
}

// live runs one kubelet, until something on the machine stops or restarts it or ctx ends. It returns early if the kubelet
// cannot start.
func (i *instance) live(ctx context.Context, data []byte) {
	if i.image != nil && i.image.lock(ctx) {
		i.image.pull(watched...)
		i.image.unlock()
	}
	cfg, err := i.configuration(data)
	if i.began && errors.Is(err, ami.ErrNotStarted) {
		return
	}
	if err != nil {
		i.step(ctx, node.StepUserData, err, "")
		i.phase(node.PhaseRunning, err.Error())
		if i.image != nil && i.booted == nil {
			i.image.ami.NodeadmFailed(err, false)
		}
		return
	}
	i.mu.Lock()
	i.info.Cluster = cfg.ClusterName
	i.mu.Unlock()
	i.step(ctx, node.StepUserData, nil, "cluster "+cfg.ClusterName+" at "+cfg.Endpoint)
	if i.image == nil {
		i.join(ctx, cfg)
		return
	}
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	select { // drop the signal that started this kubelet
	case <-i.image.ami.KubeletChanged():
	default:
	}
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		i.join(limited, cfg)
	}()
	changed := i.awaitKubelet(ctx)
	cancel()
	<-joined
	if changed {
		if err := i.machine.EndProgram(ctx, launch.KubeletRun); err != nil && ctx.Err() == nil {
			i.rt.log.Warn("stopping a kubelet", "instance", i.in.ID, "err", err)
		}
		if i.image.ami.Active("kubelet") {
			i.image.ami.Signal() // it was restarted, not stopped
		}
	}
}

func (i *instance) join(ctx context.Context, cfg *userdata.Config) {
	i.phase(node.PhaseJoining, "")
	// bootstrap.sh has done it, and nodeadm does it at boot only.
	if i.in.Image.Family != images.AL2 && i.booted == nil && !i.managed() && i.fargate == nil && !i.retry(ctx, node.StepName, func() (string, error) {
		err := i.call(ctx, node.ActionDescribeInstances)
		if err != nil && i.image != nil {
			i.image.ami.NodeadmFailed(err, true)
		}
		return i.in.PrivateDNSName, err
	}) {
		return
	}
	shape, err := simulated.ShapeOf(i.in, cfg)
	if err == nil && i.in.Image.KubeletVersion == "" {
		err = fmt.Errorf("image %s has no kubelet", i.in.Image.ID)
	}
	if err == nil && cfg.IPv6() {
		err = fmt.Errorf("pods of cluster %s have IPv6 addresses, and machines that run containers have none: give its nodes the tag drydock:runtime=simulated", cfg.ClusterName)
	}
	if err == nil && i.image != nil && i.booted == nil && i.in.Image.Family == images.AL2023 {
		err = i.configure(ctx, cfg, shape)
	}
	if err != nil {
		i.step(ctx, node.StepBootstrap, err, "")
		i.phase(node.PhaseRunning, err.Error())
		return
	}
	i.mu.Lock()
	i.info.NodeName = shape.Name
	i.mu.Unlock()
	if !i.retry(ctx, node.StepBootstrap, func() (string, error) {
		err := i.startContainerd(ctx)
		if err == nil && i.fargate != nil {
			err = i.prepareFargate(ctx)
		}
		return "node " + shape.Name + ", kubelet " + shape.Version + " (the code is that of Drydock's Kubernetes)", err
	}) {
		return
	}
	c := &client{i: i, cfg: cfg, node: shape.Name}
	// The kubelet says in its log what keeps it out, unless it has no credentials. A restarted one need not wait for the check.
	started := i.began && i.startKubelet(ctx, cfg, shape, c) == nil
	i.began = true
	if !i.retry(ctx, node.StepIdentity, func() (string, error) {
		err := c.check(ctx)
		if err != nil && !started {
			started = i.startKubelet(ctx, cfg, shape, c) == nil
		}
		return "role " + i.in.RoleARN, err
	}) {
		return
	}
	if !i.retry(ctx, node.StepRegister, func() (string, error) {
		if started {
			return "node " + shape.Name + " registers", i.writeToken(ctx, c)
		}
		return "node " + shape.Name + " registers", i.startKubelet(ctx, cfg, shape, c)
	}) {
		return
	}
	if i.managed() {
		if err := i.startManaged(ctx, cfg, shape.Name); err != nil {
			i.rt.log.Warn("starting the programs of a node of EKS Auto Mode", "instance", i.in.ID, "err", err)
		}
	}
	i.mu.Lock()
	i.client = c
	i.mu.Unlock()
	var running sync.WaitGroup
	defer running.Wait()
	if i.fargate != nil {
		running.Go(func() { i.serveFargate(ctx, c, shape.Name) })
	} else {
		running.Go(func() { i.runNetwork(ctx, c, int(shape.MaxPods)) })
	}
	i.follow(ctx, c)
}

// configure does what nodeadm does at every boot: it writes the kubelet's files and starts the kubelet.
func (i *instance) configure(ctx context.Context, cfg *userdata.Config, shape simulated.Shape) error {
	if !i.image.lock(ctx) {
		return ctx.Err()
	}
	defer i.image.unlock()
	before := i.image.ami.FS.Image()
	if _, err := i.image.ami.Configure(cfg, shape.Name, int(shape.MaxPods), false); err != nil {
		return err
	}
	i.booted = cfg
	return i.image.push(ctx, accounts.User{Name: "root"}, before)
}

// follow watches the node until ctx ends, and renews the kubelet's token.
func (i *instance) follow(ctx context.Context, c *client) {
	wait := 100 * time.Millisecond
	renew := i.rt.clock.Now().Add(tokenLife)
	for i.pause(ctx, wait) {
		if i.rt.clock.Now().After(renew) {
			if err := i.writeToken(ctx, c); err != nil {
				i.rt.log.Warn("renewing a kubelet's token", "instance", i.in.ID, "err", err)
			} else {
				renew = i.rt.clock.Now().Add(tokenLife)
			}
		}
		var n corev1.Node
		err := c.get(ctx, "/api/v1/nodes/"+c.node, &n)
		if err != nil || n.UID == "" {
			if err == nil {
				if err := c.tryRegister(ctx); err != nil { // the kubelet tries again, and says so only in its log
					i.step(ctx, node.StepRegister, err, "")
					i.phase(node.PhaseJoining, err.Error())
					wait = time.Second
				}
			}
			continue
		}
		i.step(ctx, node.StepRegister, nil, "node "+c.node)
		if i.rt.cfg.ControlPlaneVersion != nil {
			host, _ := i.rt.options.Endpoint(c.cfg.Endpoint)
			if s, ok := simulated.CompareVersions(i.in, i.rt.cfg.ControlPlaneVersion(host)); ok {
				i.record(ctx, s)
			}
		}
		at := slices.IndexFunc(n.Status.Conditions, func(x corev1.NodeCondition) bool { return x.Type == corev1.NodeReady })
		if at < 0 {
			continue
		}
		if ready := n.Status.Conditions[at]; ready.Status == corev1.ConditionTrue {
			i.step(ctx, node.StepReady, nil, ready.Message)
			i.phase(node.PhaseReady, "")
			wait = 2 * time.Second
		} else {
			i.phase(node.PhaseRegistered, ready.Message)
			wait = 200 * time.Millisecond
		}
	}
}

// A client asks the cluster as the node.
type client struct {
	i    *instance
	cfg  *userdata.Config
	node string

	http *http.Client
}

func (c *client) token(ctx context.Context) (string, error) {
	creds, err := c.i.rt.cfg.Credentials(ctx, c.i.in.ID)
	if err != nil {
		return "", &stepError{node.StepCredentials, fmt.Errorf("getting instance role credentials: %w", err)}
	}
	return clustertoken.New(ctx, creds, c.i.in.Region, c.cfg.ClusterName, c.i.rt.clock.Now())
}

// ca returns the certificate authorities that the node trusts for the endpoint.
func (c *client) ca() []byte {
	u, err := url.Parse(c.cfg.Endpoint)
	if err != nil || c.i.rt.cfg.Authority == nil {
		return c.cfg.CA
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), "443")
	}
	return c.i.rt.cfg.Authority(u.Host, c.cfg.CA)
}

// connect returns the client for the endpoint in user data, which is dialled as the instance.
func (c *client) connect() *http.Client {
	if c.http == nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(c.ca())
		c.http = &http.Client{Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
			DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
				host, p, err := net.SplitHostPort(addr)
				if err != nil {
					return nil, err
				}
				port, err := strconv.Atoi(p)
				if err != nil {
					return nil, err
				}
				return c.i.rt.cfg.DialEndpoint(ctx, c.i.in, host, port)
			},
		}}
	}
	return c.http
}

// errUnauthorized is the cluster's answer to a token that it does not accept.
var errUnauthorized = errors.New("Unauthorized") //nolint:staticcheck // the API server's word

func (c *client) get(ctx context.Context, path string, into any) error {
	status, b, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil || status != http.StatusOK { // a node that does not exist yet may be forbidden
		return err
	}
	return json.Unmarshal(b, into)
}

// callPatience bounds a call of the cluster.
const callPatience = 10 * time.Second

// send sends a request as the node.
func (c *client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	token, err := c.token(ctx)
	if err != nil {
		return nil, err
	}
	return c.sendAs(ctx, token, method, path, body)
}

// sendAs sends a request as the holder of a token.
func (c *client) sendAs(ctx context.Context, token, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.cfg.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Content-Type", "application/json")
	return c.connect().Do(req)
}

func (c *client) do(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	token, err := c.token(ctx)
	if err != nil {
		return 0, nil, err
	}
	return c.doAs(ctx, token, method, path, body)
}

func (c *client) doAs(ctx context.Context, token, method, path string, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	res, err := c.sendAs(ctx, token, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, 4<<20))
	if err == nil && res.StatusCode == http.StatusUnauthorized {
		err = errUnauthorized
	}
	return res.StatusCode, answer, err
}

// Call implements simulated.API.
func (c *client) Call(ctx context.Context, verb, path string, body, into runtime.Object) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	token, err := c.token(ctx)
	if err != nil {
		return err
	}
	return c.call(ctx, token, verb, path, b, into)
}

// GetAs implements simulated.API.
func (c *client) GetAs(ctx context.Context, token, path string, into any) error {
	return c.call(ctx, token, http.MethodGet, path, nil, into)
}

// call makes a call as the holder of a token. The error is the API server's.
func (c *client) call(ctx context.Context, token, verb, path string, body []byte, into any) error {
	status, answer, err := c.doAs(ctx, token, verb, path, body)
	switch {
	case err != nil:
		return err
	case status >= http.StatusBadRequest:
		return refused(answer)
	case into == nil:
		return nil
	}
	return json.Unmarshal(answer, into)
}

// refused returns the error in an answer of the API server.
func refused(answer []byte) error {
	var s metav1.Status
	if err := json.Unmarshal(answer, &s); err != nil {
		return err
	}
	return errors.New(s.Message)
}

// agentRuns reports whether the EKS Pod Identity agent runs on the node.
func (c *client) agentRuns(ctx context.Context) bool {
	var list corev1.PodList
	if err := c.get(ctx, "/api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName%3D"+url.QueryEscape(c.node), &list); err != nil {
		return false
	}
	return slices.ContainsFunc(list.Items, func(p corev1.Pod) bool {
		return strings.HasPrefix(p.Name, simulated.PodIdentityAgent) && p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil
	})
}

// tryRegister returns the API server's refusal of a node with this name, without creating one.
func (c *client) tryRegister(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": c.node}})
	if err != nil {
		return err
	}
	status, answer, err := c.do(ctx, http.MethodPost, "/api/v1/nodes?dryRun=All", body)
	if err != nil || status != http.StatusForbidden {
		return err
	}
	return refused(answer)
}

// check takes the steps up to the cluster's acceptance of the node's role.
func (c *client) check(ctx context.Context) error {
	i := c.i
	var n corev1.Node
	err := c.get(ctx, "/api/v1/nodes/"+c.node, &n)
	if se, ok := errors.AsType[*stepError](err); ok {
		return se
	}
	i.step(ctx, node.StepCredentials, nil, "of the role "+i.in.RoleARN)
	switch {
	case err == nil:
		i.step(ctx, node.StepEndpoint, nil, c.cfg.Endpoint)
		return nil
	case errors.Is(err, errUnauthorized):
		i.step(ctx, node.StepEndpoint, nil, c.cfg.Endpoint)
		err = fmt.Errorf("Unauthorized: the cluster does not map the role %s", i.in.RoleARN) //nolint:staticcheck // the kubelet's text
		if i.rt.cfg.WhyUnauthorized == nil {
			return err
		}
		token, terr := c.token(ctx)
		if terr != nil {
			return err
		}
		host, _ := i.rt.options.Endpoint(c.cfg.Endpoint)
		if why := i.rt.cfg.WhyUnauthorized(ctx, i.in, host, token); why != nil {
			return &node.Refusal{Err: err, Decision: *why}
		}
		return err
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return &stepError{node.StepDNS, fmt.Errorf("resolving the API endpoint: %w", err)}
	}
	return &stepError{node.StepEndpoint, fmt.Errorf("connecting to the API endpoint: %w", err)}
}

func (i *instance) writeToken(ctx context.Context, c *client) error {
	token, err := c.token(ctx)
	if err != nil {
		return err
	}
	return i.machine.Write(ctx, "/var/lib/kubelet/token", []byte(token), 0o600)
}

// startContainerd starts containerd, and with it the import of images.
func (i *instance) startContainerd(ctx context.Context) error {
	if err := i.rt.savePause(); err != nil {
		return err
	}
	if err := i.machine.Write(ctx, "/etc/containerd/config.toml", fmt.Appendf(nil, containerdConfig, i.machine.DiskBounded()), 0o644); err != nil {
		return err
	}
	return i.machine.StartProgram(ctx, launch.Containerd, nil)
}
