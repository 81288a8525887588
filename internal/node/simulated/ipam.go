package simulated

import (
	"context"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// An IPAM is the VPC CNI plugin's daemon on a node that runs containers. It requests addresses from EC2 as it does on a simulated
// node, with the same identity, targets and errors. It never releases addresses.
type IPAM struct {
	d       *ipamd
	cluster Cluster
	pod     *cniPod // nil before Configure, and always on nodes of EKS Auto Mode
}

// NewIPAM returns the daemon of an instance. Call Configure next.
func NewIPAM(cfg node.Config, now clock.WithTicker, in machine.Instance, maxPods int, cluster Cluster) *IPAM {
	p := &IPAM{cluster: cluster}
	p.d = &ipamd{
		m: &instance{rt: &Runtime{cfg: cfg, clock: now}, in: in}, maxPods: maxPods, pool: newPool(), cfg: parseCNI(nil),
		log: func(string, ...any) {}, pod: func() *cniPod { return p.pod }, denied: func(ctx context.Context, action string) { p.pod.report(ctx, action) },
	}
	return p
}

// NewManagedIPAM returns the IPAM of a node of EKS Auto Mode, which has no aws-node.
func NewManagedIPAM(cfg node.Config, now clock.WithTicker, in machine.Instance, maxPods int, cluster, name string) *IPAM {
	p := NewIPAM(cfg, now, in, maxPods, Cluster{Name: cluster, Node: name})
	p.d.manage(cluster, name, false)
	return p
}

// manage configures the daemon as EKS Auto Mode does: it requests prefixes, and EKS calls EC2 as the cluster role.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html
func (d *ipamd) manage(cluster, name string, six bool) {
	env := map[string]string{"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": "1", "CLUSTER_NAME": cluster}
	if six {
		env["ENABLE_IPv6"], env["ENABLE_IPv4"] = "true", "false"
	}
	d.cfg = parseCNI(env)
	d.cfg.node = name
	d.byEKS = func(ctx context.Context, c node.Call) error {
		if d.m.rt.cfg.ManagedCall == nil {
			return nil
		}
		return d.m.rt.cfg.ManagedCall(ctx, d.m.in, cluster, c)
	}
}

// Configure restarts the daemon for an aws-node pod, whose environment is its configuration. It returns false for other
// pods. Call Start afterwards.
func (p *IPAM) Configure(pod *corev1.Pod) bool {
	a := newAWSNode(pod)
	if a == nil {
		return false
	}
	p.pod = &cniPod{Cluster: p.cluster, m: p.d.m, namespace: pod.Namespace, name: pod.Name, uid: pod.UID, aws: a}
	p.d.cfg, p.d.credentials = parseCNI(a.env), nil
	return true
}

// Start requests the first addresses, and keeps those in use. It may succeed before it has an address.
func (p *IPAM) Start(ctx context.Context, used map[netip.Addr]bool) error {
	p.use(used)
	return p.d.start(ctx)
}

// Follow requests more addresses if fewer than the targets are free.
func (p *IPAM) Follow(ctx context.Context, used map[netip.Addr]bool) error {
	p.use(used)
	if !p.d.tooLow() {
		return nil
	}
	if err := p.d.increase(ctx); err != nil {
		return err
	}
	return p.d.problem
}

// use records which addresses are in use.
func (p *IPAM) use(used map[netip.Addr]bool) {
	for ip, a := range p.d.pool.byIP {
		if a.uid != "" && !used[ip] {
			p.d.pool.release(ip, a.uid, p.d.m.rt.clock.Now())
		}
	}
	for ip := range used {
		p.d.pool.claim(ip, inUse)
	}
}

// inUse stands for the pod of every address in use. Only the node knows which pod that is.
const inUse = types.UID("in use")

// A PodAddress is an address for pods.
type PodAddress struct {
	IP        netip.Addr
	Interface string // ID of its network interface
	Device    int    // device number of the interface
}

// Addresses returns all addresses for pods, in the order in which pods get them.
func (p *IPAM) Addresses() []PodAddress {
	devices := map[string]int{}
	for _, e := range p.d.enis {
		devices[e.ID] = e.Device
	}
	var out []PodAddress
	for _, a := range p.d.pool.order {
		out = append(out, PodAddress{a.ip, a.eni, devices[a.eni]})
	}
	return out
}

// Has describes the addresses that the daemon has for pods.
func (p *IPAM) Has() string { return p.d.has() }
