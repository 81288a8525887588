package app

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
	"github.com/drydock-dev/drydock/internal/store"
)

// connectLoadBalancing makes the two load balancing services and connects them to
// EC2, IAM and the clusters.
func (d *daemon) connectLoadBalancing() {
	ensureRole := func(ctx context.Context, account string) error {
		_, err := d.iam.EnsureServiceLinkedRole(ctx, account, "elasticloadbalancing.amazonaws.com")
		return err
	}
	probes := d.newHealthProbes()
	d.elb = elb.New(elb.Config{
		Store: d.store, EC2: d.ec2, EnsureServiceRole: ensureRole, Log: d.log,
		EnsureInterfaces: func(ctx context.Context, account, region string, want elb.Interfaces, alive func(store.Reader) bool) ([]elb.Interface, error) {
			got, err := d.ec2.EnsureManagedInterfaces(ctx, account, region, ec2.ManagedInterfaces(want), alive)
			out := make([]elb.Interface, len(got))
			for i, g := range got {
				out[i] = elb.Interface(g)
			}
			return out, err
		},
		Probes: func(ctx context.Context, account, region string) func(context.Context, elb.Probe) elb.Finding {
			check := probes.checks(ctx, account, region)
			return func(ctx context.Context, p elb.Probe) elb.Finding {
				return elb.Finding(check(ctx, elbv2.Probe{Interface: p.Interface, Instance: p.Instance, Protocol: p.Protocol, Port: p.Port, Path: p.Path}))
			}
		},
	})
	d.elbv2 = elbv2.New(elbv2.Config{
		Store: d.store, EC2: d.ec2, EnsureServiceRole: ensureRole, Timing: d.timing, Log: d.log,
		EnsureInterfaces: func(ctx context.Context, account, region string, want elbv2.Interfaces, alive func(store.Reader) bool) ([]elbv2.Interface, error) {
			got, err := d.ec2.EnsureManagedInterfaces(ctx, account, region, ec2.ManagedInterfaces(want), alive)
			out := make([]elbv2.Interface, len(got))
			for i, g := range got {
				out[i] = elbv2.Interface(g)
			}
			return out, err
		},
		Probes: probes.checks,
	})
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
