package containers

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
	"github.com/drydock-dev/drydock/internal/node/simulated"
)

// The VPC CNI plugin's files on a machine: see tools/nodebin/nodetool.
const (
	poolFile = "/var/lib/drydock/cni/addresses"
	usedDir  = "/var/lib/drydock/cni/used"
)

// A podNetwork is the VPC CNI plugin's daemon on a machine.
type podNetwork struct {
	i         *instance
	ipam      *simulated.IPAM
	started   bool // with its present configuration
	offered   bool // the plugin may give them to pods
	connected []simulated.PodAddress
}

// managed reports whether the node is one of EKS Auto Mode, on which the network of pods and the driver of volumes are part of
// the system.
func (i *instance) managed() bool { return i.in.Operator != "" }

// managedCNI is the configuration that aws-node writes on other nodes.
const managedCNI = `{"cniVersion": "1.0.0", "name": "aws-cni", "plugins": [{"type": "drydock-cni", "capabilities": {"portMappings": true}}]}`

// runNetwork gets addresses for pods from EC2 as the VPC CNI plugin's daemon, from when the pod of aws-node exists until ctx ends.
func (i *instance) runNetwork(ctx context.Context, c *client, maxPods int) {
	var following sync.WaitGroup
	defer following.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	configured := make(chan *corev1.Pod)
	if !i.managed() {
		following.Go(func() { i.followAWSNode(ctx, c, configured) })
	}
	n := &podNetwork{i: i, ipam: simulated.NewIPAM(i.rt.cfg, i.rt.clock, i.in, maxPods, simulated.Cluster{Name: c.cfg.ClusterName, Node: c.node, API: c, AgentRuns: c.agentRuns})}
	var next <-chan time.Time // nil until aws-node is there
	if i.managed() {
		n.ipam = simulated.NewManagedIPAM(i.rt.cfg, i.rt.clock, i.in, maxPods, c.cfg.ClusterName, c.node)
		next = i.rt.clock.After(0)
	}
	delay := time.Second
	for {
		select {
		case p := <-configured:
			if !n.ipam.Configure(p) {
				continue
			}
			n.started, delay = false, time.Second
		case <-next:
		case <-ctx.Done():
			return
		}
		err := n.pass(ctx)
		if ctx.Err() != nil {
			return
		}
		i.step(ctx, node.StepNetwork, err, n.ipam.Has())
		wait := time.Second
		switch {
		case err == nil:
			delay = time.Second
		case !n.offered:
			if n.connected == nil { // the node is not Ready
				i.phase(node.PhaseRegistered, err.Error())
			}
			wait, delay = delay, min(2*delay, 10*time.Second)
		default:
			wait = 10 * time.Second
		}
		next = i.rt.clock.After(wait)
	}
}

// pass gets the addresses that pods need now, and connects them.
func (n *podNetwork) pass(ctx context.Context) error {
	var err error
	used := n.i.usedAddresses()
	if n.started {
		err = n.ipam.Follow(ctx, used)
	} else {
		n.offered = false
		if err = n.i.withdrawAddresses(); err == nil {
			err = n.ipam.Start(ctx, used)
		}
		n.started = err == nil
	}
	if all := n.ipam.Addresses(); n.started && (!n.offered || !slices.Equal(all, n.connected)) {
		failed := n.i.connectAddresses(ctx, all)
		if failed == nil {
			n.connected = append([]simulated.PodAddress{}, all...) // an empty list differs from nil: the addresses have been connected
			n.offered = true
		}
		err = cmp.Or(err, failed)
	}
	n.i.mu.Lock()
	n.i.full = n.started && len(used) >= len(n.connected)
	n.i.mu.Unlock()
	return err
}

// withdrawAddresses makes the plugin give no address to pods, and a new aws-node wait, until connectAddresses. Pods keep the
// addresses that they have.
func (i *instance) withdrawAddresses() error {
	return errors.Join(i.machine.RemoveAll(launch.ReadyFile), i.machine.RemoveAll(poolFile))
}

// usedAddresses returns the addresses that pods have, as the CNI plugin on the machine records them.
func (i *instance) usedAddresses() map[netip.Addr]bool {
	entries, err := i.machine.ReadDir(usedDir)
	if err != nil {
		return nil // no pod has had an address yet
	}
	used := map[netip.Addr]bool{}
	for _, e := range entries {
		if a, err := netip.ParseAddr(e.Name()); err == nil {
			used[a] = true
		}
	}
	return used
}

// connectAddresses connects the addresses and network interfaces that pods use, and lets the plugin give them to pods.
func (i *instance) connectAddresses(ctx context.Context, all []simulated.PodAddress) error {
	type entry struct{ Address, Device string }
	var list []entry
	var pods []netip.Addr
	for _, a := range all {
		pods = append(pods, a.IP)
		if a.IP.Is4() {
			list = append(list, entry{a.IP.String(), fmt.Sprint("eth", a.Device)})
		}
	}
	for a := range i.usedAddresses() { // those of an earlier configuration, too
		if !slices.Contains(pods, a) {
			pods = append(pods, a)
		}
	}
	i.mu.Lock()
	i.pods = pods
	i.mu.Unlock()
	if err := i.rt.options.Connect(ctx); err != nil {
		return fmt.Errorf("connecting the addresses for pods: %w", err)
	}
	attached := map[string]bool{}
	for _, a := range all {
		if a.Device == 0 || attached[a.Interface] {
			continue
		}
		attached[a.Interface] = true
		if err := i.machine.Attach(ctx, a.Interface, fmt.Sprint("eth", a.Device)); err != nil {
			return fmt.Errorf("attaching %s: %w", a.Interface, err)
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := i.machine.Write(ctx, poolFile, b, 0o600); err != nil {
		return err
	}
	if i.managed() {
		return i.machine.Write(ctx, "/etc/cni/net.d/10-aws.conflist", []byte(managedCNI), 0o644)
	}
	// The container aws-node sees that, and writes the configuration without which the node is not Ready.
	var ready []byte
	if i.rt.options.Internet() {
		ready = []byte(i.in.PrivateIP.String())
	}
	return i.machine.Write(ctx, launch.ReadyFile, ready, 0o644)
}
