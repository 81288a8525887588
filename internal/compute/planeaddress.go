package compute

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/reach"
)

// planeBehind returns the control plane whose network interface is at the end of an instance's connection. Pods connect to
// the addresses of these interfaces: they are the endpoints of the service kubernetes.
func (m *Machines) planeBehind(ctx context.Context, in machine.Instance, v *reach.Verdict) (planeID string, ok bool) {
	if len(v.Forward) == 0 {
		return "", false
	}
	last := v.Forward[len(v.Forward)-1]
	if last.Kind != reach.KindInterface {
		return "", false
	}
	s, err := m.network.since(ctx, in.Account, in.Region, m.network.clock.Now().Add(-recentEnough))
	if err != nil {
		return "", false
	}
	e, ok := s.Get(last.ID).(*reach.Interface)
	if !ok {
		return "", false
	}
	cluster, ok := strings.CutPrefix(e.Description, "Amazon EKS ")
	if !ok || e.Requester == "" {
		return "", false
	}
	for _, p := range m.cfg.ControlPlanes.Planes() {
		if k := p.Key; k.Account == in.Account && k.Region == in.Region && k.Name == cluster {
			return p.ID, true
		}
	}
	return "", false
}
