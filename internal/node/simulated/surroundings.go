package simulated

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/node/ami"
)

// surroundings returns what the programs that inspect the machine see of it.
func (m *instance) surroundings(interfaceName func(int) string) ami.Surroundings {
	s := ami.Surroundings{
		Interfaces: m.computer.Attached, InterfaceName: interfaceName, Ports: m.computer.Ports, Pods: m.running,
		Connect: func(ctx context.Context, host string, port int) error {
			conn, err := m.dial(ctx, host, port)
			if err != nil {
				return err
			}
			return conn.Close()
		},
	}
	o := &m.rt.options
	if o.Resolve != nil {
		s.Resolve = func(ctx context.Context, name string) ([]netip.Addr, error) { return o.Resolve(ctx, m.in, name) }
	}
	if o.Ping != nil {
		s.Ping = func(ctx context.Context, host string) (netip.Addr, error) { return o.Ping(ctx, m.in, host) }
	}
	if o.Subnet != nil {
		s.Subnet = func(id string) netip.Prefix { return o.Subnet(m.in, id) }
	}
	return s
}

// show makes the pods of a kubelet visible to programs. When the kubelet ends, hide keeps a copy of its pods, because
// containers outlive the kubelet.
func (m *instance) show(k *kubelet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current = k
}

func (m *instance) hide(k *kubelet) {
	close(k.ended)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current, m.sandboxes = nil, k.sandboxes()
}

// running returns the pods that containerd runs.
func (m *instance) running() []ami.Sandbox {
	m.mu.Lock()
	k, left := m.current, m.sandboxes
	m.mu.Unlock()
	if k == nil {
		return left
	}
	answer := make(chan []ami.Sandbox, 1)
	select {
	case k.asks <- func() { answer <- k.sandboxes() }:
		return <-answer
	case <-k.ended:
		return m.running()
	}
}

// sandboxes returns the pods that have a sandbox. Only the goroutine of run may call it.
func (k *kubelet) sandboxes() []ami.Sandbox {
	var out []ami.Sandbox
	for _, p := range k.pods {
		if !p.hasSandbox && !p.hostNetwork || p.removed {
			continue
		}
		sum := sha256.Sum256([]byte(p.uid))
		s := ami.Sandbox{ID: hex.EncodeToString(sum[:]), Name: p.name, Namespace: p.namespace, Ready: !p.stopped && p.phase != corev1.PodSucceeded && p.phase != corev1.PodFailed, Created: p.started}
		for _, list := range [][]container{p.inits, p.apps} {
			for i := range list {
				if c := &list[i]; c.id != "" && c.state != waiting {
					s.Containers = append(s.Containers, ami.Container{ID: c.id, Name: c.name, Image: c.image, Running: c.state == running, Created: c.started, Restarts: int(c.restarts)})
				}
			}
		}
		out = append(out, s)
	}
	return out
}
