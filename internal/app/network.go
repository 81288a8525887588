package app

import (
	"context"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/accountnet"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/reach"
)

// newNetwork connects the network with the services that make it. Some of them are made
// with theNetwork: they ask when all is there.
func (d *daemon) newNetwork() *accountnet.Network {
	return accountnet.New(accountnet.Config{
		EC2: d.ec2, EKS: d.eks, ELB: d.elb, ELBv2: d.elbv2, Faults: d.faults.Network, ControlPlanes: planes{d.planes}, Log: d.log,
	})
}

// theNetwork is the network for those who are made before it.
type theNetwork struct{ d *daemon }

func (n theNetwork) Snapshot(ctx context.Context, account, region string) (*reach.Snapshot, error) {
	return n.d.network.Snapshot(ctx, account, region)
}

func (n theNetwork) Through(ctx context.Context, account, region string, s *reach.Snapshot, v *reach.Verdict) (*reach.Verdict, error) {
	return n.d.network.Through(ctx, account, region, s, v)
}

func (n theNetwork) Probes(ctx context.Context, account, region string) elbnet.Prober {
	return n.d.network.Probes(ctx, account, region)
}

// AtHost implements accountnet.ControlPlanes.
func (p planes) AtHost(host string) (planeID string, ok bool) {
	pl, ok := p.ByHost(host)
	return pl.ID, ok
}

// Serving implements accountnet.ControlPlanes: clients would wait for a plane that boots.
func (p planes) Serving(planeID string) (*rest.Config, error) {
	st, err := p.m.Status(planeID)
	if err != nil {
		return nil, err
	}
	if st.State != controlplane.Ready {
		return nil, fmt.Errorf("the control plane is %s", st.State)
	}
	return p.m.RESTConfig(planeID)
}
