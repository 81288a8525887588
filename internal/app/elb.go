package app

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/loadbalancing"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/store"
)

// connectLoadBalancing makes the two load balancing services and connects them to
// EC2, IAM and the clusters.
func (d *daemon) connectLoadBalancing() {
	ensureRole := func(ctx context.Context, account string) error {
		_, err := d.iam.EnsureServiceLinkedRole(ctx, account, loadbalancing.ServiceName)
		return err
	}
	network := loadbalancing.Network{EC2: d.ec2, EnsureInterfaces: d.ensureBalancerInterfaces, Probes: theNetwork{d}.Probes}
	d.elb = elb.New(elb.Config{Store: d.store, Network: network, EnsureServiceRole: ensureRole, Log: d.log})
	d.elbv2 = elbv2.New(elbv2.Config{Store: d.store, Network: network, EnsureServiceRole: ensureRole, Timing: d.timing, Log: d.log})
}

func (d *daemon) ensureBalancerInterfaces(ctx context.Context, account, region string, want loadbalancing.Interfaces, alive func(store.Reader) bool) ([]loadbalancing.Interface, error) {
	got, err := d.ec2.EnsureManagedInterfaces(ctx, account, region, ec2.ManagedInterfaces(want), alive)
	out := make([]loadbalancing.Interface, len(got))
	for i, g := range got {
		out[i] = loadbalancing.Interface(g)
	}
	return out, err
}

// loadBalancingAuthz tells package authz of the resources of both services, which
// have one IAM prefix.
type loadBalancingAuthz struct{ classic, v2 authz.Resolver }

// Resource implements authz.Resolver: what is named by an ARN is of the second
// generation.
func (l loadBalancingAuthz) Resource(ctx context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if strings.HasPrefix(id, "arn:") {
		return l.v2.Resource(ctx, account, region, kind, id)
	}
	return l.classic.Resource(ctx, account, region, kind, id)
}

// Targets implements authz.Targeter.
func (l loadBalancingAuthz) Targets(ctx context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	for _, r := range []authz.Resolver{l.classic, l.v2} {
		if t, ok := r.(authz.Targeter); ok {
			if targets, ok := t.Targets(ctx, call, in); ok {
				return targets, true
			}
		}
	}
	return nil, false
}
