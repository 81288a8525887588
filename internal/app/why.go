package app

import (
	"github.com/drydock-dev/drydock/internal/why"
)

// newExplainer connects `drydock why` with where its evidence is.
func (d *daemon) newExplainer() *why.Explainer {
	return why.New(why.Config{
		EC2: d.ec2, EKS: d.eks, IAM: d.iam, Machines: d.machines, Journal: d.journal, Authorizer: d.authorizer, Faults: d.faults.Set(),
		Network: d.network.Snapshot, Through: d.network.Through, ClientAddress: d.cfg.ClientAddress,
		PlaneAt: func(host string) (planeID, cluster string, ok bool) {
			p, ok := planes{d.planes}.ByHost(host)
			if !ok {
				p, ok = planes{d.planes}.ByEndpoint("https://" + host)
			}
			return p.ID, p.Key.Name, ok
		},
	})
}
