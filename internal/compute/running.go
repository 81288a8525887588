package compute

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/node/simulated/image"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/eksauth"
)

// Running returns a running machine of either kind.
func (m *Machines) Running(id string) (machine.Instance, bool) {
	if in, ok := m.fargates.machine(id); ok {
		return in, true
	}
	in, err := m.Instance(id)
	return in, err == nil
}

// Fargate returns a Fargate machine by its network interface.
func (m *Machines) Fargate(id string) (machine.Instance, bool) { return m.fargates.machine(id) }

// FargateNode returns the machine behind a Fargate node.
func (m *Machines) FargateNode(account, region, name string) (machine.Instance, bool) {
	return m.fargates.byNode(account, region, name)
}

// FargateOf are the machines of Fargate that are nodes of a cluster, by ID.
func (m *Machines) FargateOf(account, region, cluster string) []string {
	return m.fargates.of(account, region, cluster)
}

// FargatePod returns the machine for a pod, which may not be running yet.
func (m *Machines) FargatePod(account, region, cluster string, pod types.UID) (fargate.PodMachine, bool) {
	return fargate.Of(m.cfg.Store, account, region, cluster, pod)
}

// Info returns the status of a machine of either kind.
func (m *Machines) Info(id string) (node.Info, bool) {
	if info, ok := m.boxes.Info(id); ok {
		return info, true
	}
	if s, ok := m.fargates.failed(id); ok {
		return node.Info{InstanceID: id, Phase: node.PhaseBooting, Problem: s.Evidence, Since: s.Time, Steps: []node.Step{s}}, true
	}
	if _, ok := m.fargates.machine(id); ok {
		return m.fargates.runtime.Info(id)
	}
	return m.kubelets.Info(id)
}

// PodSteps returns what holds a pod back on a machine of either kind.
func (m *Machines) PodSteps(id, namespace, pod string) []node.Step {
	if _, ok := m.boxes.Info(id); ok {
		return m.boxes.PodSteps(id, namespace, pod)
	}
	if _, ok := m.fargates.machine(id); ok {
		return m.fargates.runtime.PodSteps(id, namespace, pod)
	}
	return m.kubelets.PodSteps(id, namespace, pod)
}

// Call decides at once about a call of a machine's program. Its error is that of the AWS SDK for Go, and a
// *node.Refusal if there is a decision behind it.
func (m *Machines) Call(ctx context.Context, in machine.Instance, c node.Call) error {
	return m.calls().call(ctx, in, c)
}

// TryPull returns the error with which a running instance could not pull an image.
func (m *Machines) TryPull(ctx context.Context, id, name string) error {
	in, ok := m.Running(id)
	if !ok {
		return fmt.Errorf("the machine %s is not running", id)
	}
	n, err := image.Parse(name)
	if err != nil {
		return err
	}
	g := m.calls()
	_, err = image.Puller{
		Call:    func(ctx context.Context, c node.Call) error { return g.call(ctx, in, c) },
		Connect: func(ctx context.Context, host string, port int) error { return g.connect(ctx, in, host, port) },
		Exists: func(ctx context.Context, n image.Name) error {
			return g.image(ctx, in, n.Registry, n.Repository, n.Reference)
		},
	}.Pull(ctx, n)
	return err
}

// Permit returns fixes for the calls of a machine that IAM refuses, and the faults that make calls fail. It assumes
// that the network lets the calls through and that the machine has the credentials of who.
func (m *Machines) Permit(ctx context.Context, in machine.Instance, who awsapi.Principal, calls []node.Call) (fixes []advice.Fix, faults []*node.Decision) {
	g := m.calls()
	var all []*refused
	for _, c := range calls {
		v, err := g.network.decide(ctx, in, g.host(in, c), 443)
		if err != nil {
			v = &reach.Verdict{} // an endpoint that does not exist yet allows everything
		}
		if strings.HasPrefix(c.Action, "s3:") {
			if r := g.throughEndpoint(ctx, in, v, c); r != nil {
				all = append(all, r)
			}
			continue
		}
		_, r, err := g.permit(ctx, in, c, v, who)
		switch why := node.DecisionOf(err); {
		case r != nil:
			all = append(all, r)
		case why != nil:
			faults = append(faults, why)
		}
	}
	return permits(all), faults
}

// AssumeForPod changes the token of a pod on a machine into credentials, as the EKS Pod
// Identity Agent there does. Its errors are those of Call, and EKS Auth's own.
func (m *Machines) AssumeForPod(ctx context.Context, in machine.Instance, cluster, token string) (*eksauth.AssumeRoleForPodIdentityOutput, error) {
	return m.calls().assumeForPod(ctx, in, cluster, token)
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

// Connect returns why the network refuses a connection from an instance, or nil. It does not wait if packets are dropped.
func (m *Machines) Connect(ctx context.Context, in machine.Instance, host string, port int) error {
	return m.calls().connect(ctx, in, host, port)
}

// Identity returns the principal whose credentials the programs on an instance have.
func (m *Machines) Identity(ctx context.Context, in machine.Instance) (awsapi.Principal, error) {
	creds, err := m.credentials(ctx, in.ID)
	if err != nil {
		return awsapi.Principal{}, err
	}
	_, who, err := m.cfg.STS.OpenSession(ctx, creds.AccessKeyID, creds.SessionToken)
	return who, err
}

// Metadata returns access to an instance's metadata service for a program that is the given number of hops away: 1 on
// the instance itself.
func (m *Machines) Metadata(instanceID string, hops int) http.RoundTripper {
	return &faultyMetadata{m, instanceID, m.metadata.Transport(instanceID, hops)}
}
