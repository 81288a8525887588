// Package elbv2 answers the API of Application and Network Load Balancers: load
// balancers, target groups, targets and their health, listeners and rules.
//
// A load balancer is provisioning until its network interfaces are there, one per
// subnet, which a reconciler makes in EC2 and removes again after its end; they
// hold security groups, addresses and subnets as on AWS. No traffic is balanced.
// The health of a target is decided when it is asked for: whether the network lets
// a health check through, and whether something answers at the port.
//
//	CreateLoadBalancer ─► provisioning ─► active ─► DeleteLoadBalancer ─► (interfaces are removed) ─► gone
//
// The package does not know about clusters. No other service imports it.
package elbv2

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
)

// Service is the load balancing service, version 2.
type Service struct{ elbnet.Base }

// New returns the service. Call Run to make load balancers live.
func New(cfg elbnet.Config) *Service { return &Service{elbnet.NewBase(cfg)} }

// scope is an account and region.
type scope = regional.Scope

func scopeOf(ctx context.Context) scope { return regional.Of(ctx) }

func deref(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

// or is the value of p, or def if there is none.
func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

func text(p *string) string { return aws.ToString(p) }
