package app

import (
	"github.com/drydock-dev/drydock/internal/podrun"
)

// newPodRuns connects `drydock run --pod` with what programs of pods find around them.
func (d *daemon) newPodRuns() *podrun.Runs {
	return podrun.New(podrun.Config{
		EC2: d.ec2, EKS: d.eks, EKSAuth: d.eksAuth, Machines: d.machines, ControlPlanes: planes{d.planes}, Why: d.why,
		Services: operations, OIDC: d.planes.OIDCHandler(), Origins: &d.origins, Journal: d.journal, Log: d.log,
		AWS: d.server,
	})
}
