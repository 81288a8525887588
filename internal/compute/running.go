package compute

import (
	"context"
	"net/http"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
)

// Running is a running machine of either kind.
func (m *Machines) Running(id string) (machine.Instance, bool) {
	if in, ok := m.fargates.machine(id); ok {
		return in, true
	}
	in, err := m.Instance(id)
	return in, err == nil
}

// Fargate is a machine of Fargate, by its network interface.
func (m *Machines) Fargate(id string) (machine.Instance, bool) { return m.fargates.machine(id) }

// FargateNode is the machine behind a node of Fargate.
func (m *Machines) FargateNode(account, region, name string) (machine.Instance, bool) {
	return m.fargates.byNode(account, region, name)
}

// FargatePod is the machine for a pod, which may not run yet.
func (m *Machines) FargatePod(account, region, cluster string, pod types.UID) (id, roleARN string, ok bool) {
	return fargate.Of(m.cfg.Store, account, region, cluster, pod)
}

// Info says how far a machine of either kind has come.
func (m *Machines) Info(id string) (node.Info, bool) {
	if _, ok := m.fargates.machine(id); ok {
		return m.fargates.runtime.Info(id)
	}
	return m.kubelets.Info(id)
}

// PodSteps are what a machine of either kind says of what holds a pod back.
func (m *Machines) PodSteps(id, namespace, pod string) []node.Step {
	if _, ok := m.fargates.machine(id); ok {
		return m.fargates.runtime.PodSteps(id, namespace, pod)
	}
	return m.kubelets.PodSteps(id, namespace, pod)
}

// Call decides a call of a machine's program, at once. Its error is the AWS SDK's for Go,
// and a *node.Refusal where a decision is behind it.
func (m *Machines) Call(ctx context.Context, in machine.Instance, c node.Call) error {
	return m.calls().call(ctx, in, c)
}

// Reach decides, at once, a connection of a machine to a host name or address: where its
// calls come from then, or a *node.Refusal.
func (m *Machines) Reach(ctx context.Context, in machine.Instance, host string, port int) (Origin, error) {
	v, err := m.network.decide(ctx, in, host, port)
	if err != nil {
		return Origin{}, err
	}
	return (&guestConn{in: in, verdict: v}).origin(), nil
}

// Metadata returns access to an instance's metadata service for a program that many
// hops away: 1 on the instance itself.
func (m *Machines) Metadata(instanceID string, hops int) http.RoundTripper {
	return &faultyMetadata{m, instanceID, m.metadata.Transport(instanceID, hops)}
}
