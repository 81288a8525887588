package containers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated"
)

// The VPC CNI plugin's files on a machine: see tools/nodebin/nodetool.
const (
	poolFile  = "/var/lib/drydock/cni/addresses"
	usedDir   = "/var/lib/drydock/cni/used"
	readyFile = "/var/run/aws-node/ready"
)

// runNetwork gets addresses for pods from EC2 as the VPC CNI plugin's daemon, from when the pod of aws-node runs until ctx ends.
func (i *instance) runNetwork(ctx context.Context, c *client, maxPods int) {
	var env map[string]string
	for env == nil {
		if env = c.awsNode(ctx); env == nil && !timing.Sleep(ctx, i.rt.clock, 200*time.Millisecond) {
			return
		}
	}
	ipam := simulated.NewIPAM(i.rt.cfg, i.rt.clock, i.in, maxPods, env)
	for delay := time.Second; ; delay = min(2*delay, 10*time.Second) {
		err := ipam.Start(ctx)
		if err == nil {
			err = i.connectAddresses(ctx, ipam)
		}
		if ctx.Err() != nil {
			return
		}
		i.step(ctx, node.StepNetwork, err, ipam.Has())
		if err == nil {
			break
		}
		i.phase(node.PhaseRegistered, err.Error())
		if !i.pause(ctx, delay) {
			return
		}
	}
	connected := len(ipam.Addresses())
	for wait := time.Second; timing.Sleep(ctx, i.rt.clock, wait); {
		wait = time.Second
		used, err := i.usedAddresses()
		if err == nil {
			err = ipam.Follow(ctx, used)
		}
		if n := len(ipam.Addresses()); n != connected {
			failed := i.connectAddresses(ctx, ipam)
			if failed == nil {
				connected = n
			}
			err = cmp.Or(err, failed)
		}
		if ctx.Err() != nil {
			return
		}
		i.step(ctx, node.StepNetwork, err, ipam.Has())
		if err != nil {
			wait = 10 * time.Second
		}
	}
}

// awsNode returns the environment of the container aws-node on this node, or nil if none is there yet.
func (c *client) awsNode(ctx context.Context) map[string]string {
	var list corev1.PodList
	q := url.Values{"fieldSelector": {"spec.nodeName=" + c.node}, "labelSelector": {"k8s-app=aws-node"}}
	if err := c.get(ctx, "/api/v1/namespaces/kube-system/pods?"+q.Encode(), &list); err != nil {
		return nil // the node is not there yet
	}
	for _, p := range list.Items {
		for _, k := range p.Spec.Containers {
			if k.Name != "aws-node" || p.DeletionTimestamp != nil {
				continue
			}
			env := map[string]string{}
			for _, e := range k.Env {
				env[e.Name] = e.Value
			}
			return env
		}
	}
	return nil
}

// usedAddresses returns the addresses that pods have, as the CNI plugin on the machine records them.
func (i *instance) usedAddresses() (map[netip.Addr]bool, error) {
	files, err := i.machine.Files()
	if err != nil {
		return nil, err
	}
	entries, err := files.ReadDir(usedDir)
	if err != nil {
		return nil, nil //nolint:nilerr // no pod has had an address yet
	}
	used := map[netip.Addr]bool{}
	for _, e := range entries {
		if a, err := netip.ParseAddr(e.Name()); err == nil {
			used[a] = true
		}
	}
	return used, nil
}

// connectAddresses connects the addresses and network interfaces that pods use, and lets the plugin give them to pods.
func (i *instance) connectAddresses(ctx context.Context, ipam *simulated.IPAM) error {
	i.mu.Lock()
	i.pods = ipam.Addresses()
	i.mu.Unlock()
	if err := i.rt.options.Connect(ctx); err != nil {
		return fmt.Errorf("connecting the addresses for pods: %w", err)
	}
	type entry struct{ Address, Device string }
	var list []entry
	devices := ipam.Devices()
	for eni, addresses := range ipam.Interfaces() {
		device := fmt.Sprint("eth", devices[eni])
		if devices[eni] != 0 {
			if err := i.machine.Attach(ctx, eni, device); err != nil {
				return fmt.Errorf("attaching %s: %w", eni, err)
			}
		}
		for _, a := range addresses {
			if a.Is4() {
				list = append(list, entry{a.String(), device})
			}
		}
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if err := i.machine.Write(ctx, poolFile, b, 0o600); err != nil {
		return err
	}
	// The container aws-node sees that, and writes the configuration without which the node is not Ready.
	return i.machine.Write(ctx, readyFile, nil, 0o644)
}
