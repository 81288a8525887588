package accountnet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// healthProbes are the health checks of load balancers: whether the network lets them through, and whether something
// would answer. No program runs behind a simulated node's ports, so the cluster's state determines what answers: a
// node that is Ready has a kube-proxy, which serves the node ports of services with ready endpoints; a pod that is
// Ready answers at its own address.
type healthProbes struct {
	// network returns the current network of an account and region.
	network func(ctx context.Context, account, region string) (*reach.Snapshot, error)
	// planes returns the control planes of an account and region's clusters, by VPC.
	planes func(ctx context.Context, account, region string) (map[string][]string, error)
	// look asks a cluster what answers in it.
	look func(ctx context.Context, plane string) (*workloads, error)
	log  *slog.Logger

	mu    sync.Mutex
	known map[string]*knownWorkloads // by plane; outdated entries are removed at the next look-up
}

// knownWorkloads is what a recent or running look-up of a cluster found. It is shared because one request asks for
// the health of many targets.
type knownWorkloads struct {
	until time.Time     // zero during the look-up; guarded by healthProbes.mu
	done  chan struct{} // closed at the end of the look-up
	w     *workloads
	err   error
}

const (
	// workloadsAge is how long a look-up of a cluster is reused.
	workloadsAge = time.Second
	// lookTimeout is how long a cluster may take to answer.
	lookTimeout = 5 * time.Second
)

// workloads is what answers in a cluster.
type workloads struct {
	nodes     map[string]workNode // by instance ID
	addresses map[netip.Addr]workNode
	pods      map[string]bool // whether they are ready, by address, without pods of the host network
	hostPorts map[hostPort]bool
	services  map[int32]nodePort
	health    map[int32]string          // services by health check node port
	ready     map[string]map[string]int // ready endpoints of services by node; "" is all
}

type workNode struct {
	name  string
	ready bool
}

// A hostPort is a port at which a pod answers at its node's address.
type hostPort struct {
	node string
	port int32
}

// A nodePort is a service's node port.
type nodePort struct {
	service string // NAMESPACE/NAME
	local   bool   // it only serves traffic with endpoints on the same node
}

// A surrounding is what the health checks of one request share. Each part is looked up once, when the first check
// needs it.
type surrounding struct {
	network func() (*reach.Snapshot, error)
	planes  func() (map[string][]string, error)
}

// checks returns the health checks of one request.
func (p *healthProbes) checks(ctx context.Context, account, region string) elbnet.Prober {
	around := surrounding{
		network: sync.OnceValues(func() (*reach.Snapshot, error) { return p.network(ctx, account, region) }),
		planes:  sync.OnceValues(func() (map[string][]string, error) { return p.planes(ctx, account, region) }),
	}
	return func(ctx context.Context, probe elbnet.Probe) elbnet.Finding {
		return p.check(ctx, around, probe)
	}
}

// check performs a health check. If something cannot be looked up, the finding is Unknown.
func (p *healthProbes) check(ctx context.Context, around surrounding, probe elbnet.Probe) elbnet.Finding {
	network, err := around.network()
	if err != nil {
		return elbnet.Unknown
	}
	flow := reach.Flow{From: reach.At(probe.Interface), To: reach.At(probe.Instance), Protocol: reach.TCP, Port: probe.Port}
	if probe.Instance == "" {
		flow.To = reach.Addr(probe.Address)
	}
	v := network.Check(flow)
	if !v.Reachable {
		return elbnet.TimedOut
	}
	planes, err := around.planes()
	if err != nil {
		return elbnet.Unknown
	}
	finding := elbnet.Unclaimed // what runs outside of clusters is unknown
	for _, plane := range planes[arrival(v)] {
		w, err := p.workloads(ctx, plane)
		if err != nil {
			p.log.DebugContext(ctx, "looking up the health checks of load balancers", "plane", plane, "err", err)
			finding = elbnet.Unknown // unless the target belongs to another cluster
			continue
		}
		if finding, here := w.answer(probe); here {
			return finding
		}
	}
	return finding
}

// arrival returns the VPC in which a packet reaches its destination. VPCs may have the same addresses, and a target
// may be in another VPC than its load balancer.
func arrival(v *reach.Verdict) string {
	for _, h := range slices.Backward(v.Forward) {
		if h.Kind == reach.KindInterface {
			return h.VPC
		}
	}
	return ""
}

// planesByVPC returns the control planes of clusters, by the VPC that contains all their nodes:
// https://docs.aws.amazon.com/eks/latest/userguide/worker.html
func (n *Network) planesByVPC(_ context.Context, account, region string) (map[string][]string, error) {
	clusters := eks.APIEndpoints(n.cfg.Store, account, region)
	out := map[string][]string{}
	for _, c := range clusters {
		if id, ok := n.cfg.ControlPlanes.AtHost(c.Host); ok {
			out[c.VPCID] = append(out[c.VPCID], id)
		}
	}
	return out, nil
}

// workloads returns what answers in a cluster, at most a second old. Concurrent callers share one look-up, which
// continues if one of them gives up.
func (p *healthProbes) workloads(ctx context.Context, plane string) (*workloads, error) {
	p.mu.Lock()
	now := time.Now()
	maps.DeleteFunc(p.known, func(_ string, k *knownWorkloads) bool { return !k.until.IsZero() && !now.Before(k.until) })
	k, looking := p.known[plane]
	if !looking {
		k = &knownWorkloads{done: make(chan struct{}), err: errNotLooked}
		p.known[plane] = k
	}
	p.mu.Unlock()
	if looking {
		select {
		case <-k.done:
			return k.w, k.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		k.until = now.Add(workloadsAge)
		if k.err != nil { // failing may have taken long
			k.until = time.Now().Add(workloadsAge)
		}
		close(k.done)
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	defer cancel()
	k.w, k.err = p.look(ctx, plane)
	return k.w, k.err
}

// errNotLooked is the error for callers waiting for a look-up that panics.
var errNotLooked = errors.New("health has not been checked yet")

// lookAtWorkloads asks a cluster's API server what answers in it.
func (n *Network) lookAtWorkloads(ctx context.Context, plane string) (*workloads, error) {
	cfg, err := n.cfg.ControlPlanes.Serving(plane)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	cached := metav1.ListOptions{ResourceVersion: "0"} // read from the API server's memory
	nodes, err := client.CoreV1().Nodes().List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	services, err := client.CoreV1().Services("").List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("services: %w", err)
	}
	endpoints, err := client.DiscoveryV1().EndpointSlices("").List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("endpoints: %w", err)
	}
	pods, err := client.CoreV1().Pods("").List(ctx, cached)
	if err != nil {
		return nil, fmt.Errorf("pods: %w", err)
	}
	return newWorkloads(nodes.Items, services.Items, endpoints.Items, pods.Items), nil
}

func newWorkloads(nodes []corev1.Node, services []corev1.Service, endpoints []discoveryv1.EndpointSlice, pods []corev1.Pod) *workloads {
	w := &workloads{
		nodes: map[string]workNode{}, addresses: map[netip.Addr]workNode{}, pods: map[string]bool{}, hostPorts: map[hostPort]bool{},
		services: map[int32]nodePort{}, health: map[int32]string{}, ready: map[string]map[string]int{},
	}
	for i := range nodes {
		n := &nodes[i]
		known := workNode{name: n.Name, ready: kube.NodeReady(n)}
		w.nodes[kube.InstanceID(n.Spec.ProviderID)] = known
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				w.addresses[ip] = known
			}
		}
	}
	for i := range services {
		s := &services[i]
		name := s.Namespace + "/" + s.Name
		for _, port := range s.Spec.Ports {
			if port.NodePort != 0 && port.Protocol != corev1.ProtocolUDP {
				w.services[port.NodePort] = nodePort{service: name, local: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal}
			}
		}
		if n := s.Spec.HealthCheckNodePort; n != 0 {
			w.health[n] = name
		}
	}
	for i := range endpoints {
		s := &endpoints[i]
		name := s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]
		if w.ready[name] == nil {
			w.ready[name] = map[string]int{}
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			w.ready[name][""]++
			if e.NodeName != nil {
				w.ready[name][*e.NodeName]++
			}
		}
	}
	for i := range pods {
		w.addPod(&pods[i])
	}
	return w
}

func (w *workloads) addPod(pod *corev1.Pod) {
	if pod.Status.Phase != corev1.PodRunning {
		return
	}
	ready := kube.PodReady(pod)
	if !pod.Spec.HostNetwork {
		for _, a := range pod.Status.PodIPs {
			w.pods[a.IP] = ready
		}
	}
	if !ready {
		return
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.HostPort != 0 {
				w.hostPorts[hostPort{pod.Spec.NodeName, p.HostPort}] = true
			}
			if pod.Spec.HostNetwork {
				w.hostPorts[hostPort{pod.Spec.NodeName, p.ContainerPort}] = true
			}
		}
	}
}

// answer returns what a check finds, if the target belongs to this cluster.
func (w *workloads) answer(probe elbnet.Probe) (finding elbnet.Finding, here bool) {
	if probe.Instance != "" {
		n, ok := w.nodes[probe.Instance]
		if !ok {
			return 0, false
		}
		return w.atNode(n, int32(probe.Port)), true
	}
	if ready, ok := w.pods[probe.Address.String()]; ok {
		if ready {
			return elbnet.Answers, true
		}
		return elbnet.Refused, true
	}
	if n, ok := w.addresses[probe.Address]; ok {
		return w.atNode(n, int32(probe.Port)), true
	}
	return 0, false
}

// Ports that Kubernetes' own programs use on a node.
const (
	kubeletPort      = 10250
	proxyHealthzPort = 10256
)

// atNode returns what a check of a node's port finds.
func (w *workloads) atNode(n workNode, port int32) elbnet.Finding {
	if !n.ready {
		return elbnet.TimedOut // its kube-proxy may be as dead as its kubelet
	}
	if port == kubeletPort || port == proxyHealthzPort {
		return elbnet.Answers
	}
	if name, ok := w.health[port]; ok { // kube-proxy answers 503 if this node has no endpoint
		if w.ready[name][n.name] > 0 {
			return elbnet.Answers
		}
		return elbnet.Refused
	}
	if s, ok := w.services[port]; ok {
		ready := w.ready[s.service]
		switch {
		case ready[""] == 0:
			return elbnet.Refused // kube-proxy rejects packets for services without endpoints
		case s.local && ready[n.name] == 0:
			return elbnet.TimedOut // and drops packets for endpoints on other nodes
		}
		return elbnet.Answers
	}
	if w.hostPorts[hostPort{n.name, port}] {
		return elbnet.Answers
	}
	return elbnet.Refused
}
