package app

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/fargate"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/why"
)

// newExplainer connects `drydock why` with where its evidence is.
func (d *daemon) newExplainer() *why.Explainer {
	return why.New(why.Config{
		EC2: d.ec2, EKS: d.eks, IAM: d.iam, Machines: allMachines{d}, Journal: d.journal, Authorizer: d.authorizer, Faults: d.faults.Set(),
		Network: d.network.Snapshot, Through: d.network.Through, ClientAddress: d.cfg.ClientAddress,
		PlaneAt: func(host string) (planeID, cluster string, ok bool) {
			p, ok := d.machines.planes.byHost(host)
			if !ok {
				p, ok = d.machines.planes.byEndpoint("https://" + host)
			}
			return p.ID, p.Key.Name, ok
		},
	})
}

// allMachines are those of both kinds.
type allMachines struct{ d *daemon }

func (m allMachines) Instances(account, region string) []ec2.Machine {
	return m.d.machines.list(account, region)
}

func (m allMachines) Instance(id string) (ec2.Machine, error) { return m.d.machines.get(id) }

func (m allMachines) Fargate(id string) (node.Instance, bool) { return m.d.fargates.machine(id) }

func (m allMachines) FargateNode(account, region, name string) (node.Instance, bool) {
	return m.d.fargates.byNode(account, region, name)
}

func (m allMachines) FargatePod(account, region, cluster string, pod types.UID) (id, roleARN string, ok bool) {
	return fargate.Of(m.d.store, account, region, cluster, pod)
}

func (m allMachines) Info(id string) (node.Info, bool) {
	if _, ok := m.d.fargates.machine(id); ok {
		return m.d.fargates.runtime.Info(id)
	}
	return m.d.machines.runtime.Info(id)
}

// podSteps is a runtime that knows what holds pods back.
type podSteps interface {
	PodSteps(instanceID, namespace, name string) []node.Step
}

func (m allMachines) PodSteps(id, namespace, pod string) []node.Step {
	if _, ok := m.d.fargates.machine(id); ok {
		return m.d.fargates.runtime.PodSteps(id, namespace, pod)
	}
	if known, ok := m.d.machines.runtime.(podSteps); ok {
		return known.PodSteps(id, namespace, pod)
	}
	return nil
}
