package containers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/awscli"
	"github.com/drydock-dev/drydock/internal/machine/imds"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
	"github.com/drydock-dev/drydock/internal/node/simulated"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// tokenLife is how long the kubelet keeps a token. The cluster accepts it for 15 minutes; client-go reads the file again
// within a minute.
const tokenLife = 10 * time.Minute

// Run implements boxes.Guest.
func (i *instance) Run(ctx context.Context) {
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
	cfg, err := userdata.Parse(i.in.Image.Family, data)
	for _, s := range cfg.Scripts {
		i.step(ctx, machine.EventScript, nil, s+": not executed, machines that run containers do not run scripts of user data yet")
	}
	if err != nil {
		i.step(ctx, machine.EventUserData, err, "")
		i.phase(node.PhaseRunning, err.Error())
		return
	}
	i.mu.Lock()
	i.info.Cluster = cfg.ClusterName
	i.mu.Unlock()
	i.step(ctx, machine.EventUserData, nil, "cluster "+cfg.ClusterName+" at "+cfg.Endpoint)
	i.join(ctx, cfg)
}

func (i *instance) join(ctx context.Context, cfg *userdata.Config) {
	i.phase(node.PhaseJoining, "")
	if !i.retry(ctx, node.StepName, func() (string, error) {
		if i.rt.cfg.Call == nil {
			return i.in.PrivateDNSName, nil
		}
		return i.in.PrivateDNSName, i.rt.cfg.Call(ctx, i.in, node.Call{Action: node.ActionDescribeInstances})
	}) {
		return
	}
	shape, err := simulated.ShapeOf(i.in, cfg)
	if err == nil && i.in.Image.KubeletVersion == "" {
		err = fmt.Errorf("image %s has no kubelet", i.in.Image.ID)
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
		return "node " + shape.Name + ", kubelet " + shape.Version + " (the code is that of Drydock's Kubernetes)", i.startContainerd(ctx)
	}) {
		return
	}
	c := &client{i: i, cfg: cfg, node: shape.Name}
	if !i.retry(ctx, node.StepIdentity, func() (string, error) {
		if err := c.check(ctx); err != nil {
			return "", err
		}
		return "role " + i.in.RoleARN, nil
	}) {
		return
	}
	if !i.retry(ctx, node.StepNetwork, func() (string, error) { return i.network(ctx) }) {
		return
	}
	if !i.retry(ctx, node.StepRegister, func() (string, error) {
		return "node " + shape.Name + " registers", i.startKubelet(ctx, cfg, shape, c)
	}) {
		return
	}
	i.follow(ctx, c)
}

// network gets addresses for pods from EC2, as ipamd does for its warm pool: all that the primary interface may have.
func (i *instance) network(ctx context.Context) (string, error) {
	for _, action := range []string{node.ActionDescribeInterfaces, node.ActionAssignAddresses} {
		if i.rt.cfg.Call == nil {
			break
		}
		if err := i.rt.cfg.Call(ctx, i.in, node.Call{Action: action}); err != nil {
			return "", err
		}
	}
	all, err := i.rt.cfg.PodNetwork.Interfaces(ctx, i.in)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(all, func(p node.PodInterface) bool { return p.Device == 0 })
	if at < 0 {
		return "", errors.New("the instance has no primary network interface")
	}
	primary := all[at]
	secondary := func() []netip.Addr {
		return slices.DeleteFunc(slices.Clone(primary.Addresses), func(a netip.Addr) bool { return a == i.in.PrivateIP || !a.Is4() })
	}
	if more := i.in.Type.IPv4PerENI - 1 - len(secondary()); more > 0 {
		if primary, err = i.rt.cfg.PodNetwork.Assign(ctx, i.in, primary.ID, more, 0, nil); err != nil {
			return "", err
		}
	}
	pods := secondary()
	if err := i.rt.options.Connect(ctx); err != nil {
		return "", fmt.Errorf("connecting the addresses for pods: %w", err)
	}
	list, err := json.Marshal(pods)
	if err != nil {
		return "", err
	}
	i.mu.Lock()
	i.pods = pods
	i.mu.Unlock()
	if err := i.machine.Write(ctx, "/var/lib/drydock/cni/addresses", list, 0o600); err != nil {
		return "", err
	}
	const conf = `{"cniVersion": "1.0.0", "name": "drydock", "plugins": [{"type": "drydock-cni"}]}`
	return fmt.Sprintf("%d addresses for pods", len(pods)), i.machine.Write(ctx, "/etc/cni/net.d/10-drydock.conflist", []byte(conf), 0o644)
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
			continue // the kubelet tries again
		}
		i.step(ctx, node.StepRegister, nil, "node "+c.node)
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
	return awscli.ClusterToken(ctx, creds, c.i.in.Region, c.cfg.ClusterName, c.i.rt.clock.Now())
}

// connect returns the client for the endpoint in user data, which is dialled as the instance.
func (c *client) connect() *http.Client {
	if c.http == nil {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(c.cfg.CA)
		c.http = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
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
	token, err := c.token(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.cfg.Endpoint+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := c.connect().Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 4<<20))
	switch {
	case err != nil:
		return err
	case res.StatusCode == http.StatusUnauthorized:
		return errUnauthorized
	case res.StatusCode != http.StatusOK:
		return nil // a node that does not exist yet may be forbidden
	}
	return json.Unmarshal(b, into)
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
	if err := i.machine.Write(ctx, "/etc/containerd/config.toml", []byte(containerdConfig), 0o644); err != nil {
		return err
	}
	return i.machine.StartProgram(ctx, launch.Containerd, nil)
}
