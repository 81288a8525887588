package app

import (
	"context"

	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/service/elb"
	"github.com/drydock-dev/drydock/internal/service/elbv2"
)

// makeLoadBalancing makes the two load balancing services and connects them to
// EC2, IAM and the clusters.
func (d *daemon) makeLoadBalancing() {
	ensureRole := func(ctx context.Context, account string) error {
		_, err := d.iam.EnsureServiceLinkedRole(ctx, account, elbnet.ServiceName)
		return err
	}
	network := elbnet.Network{EC2: awscall.EC2{API: d.server}, EnsureInterfaces: d.ec2.EnsureManagedInterfaces, Probes: theNetwork{d}.Probes}
	cfg := elbnet.Config{Store: d.store, Network: network, EnsureServiceRole: ensureRole, Timing: d.timing, Log: d.log}
	d.elb, d.elbv2 = elb.New(cfg), elbv2.New(cfg)
}
