// Package elbv2 answers the API of Application and Network Load Balancers: load balancers, target
// groups, targets and their health, listeners and rules.
//
// A load balancer is provisioning until it has its network interfaces, one per subnet. A reconciler
// creates them in EC2 and removes them after the load balancer is deleted. As on AWS, they use
// security groups, addresses and subnets. A second reconciler (traffic.go) configures package
// balancer, which carries the traffic and checks the health of targets that run programs. The
// health of other targets is determined on request: it depends on whether the network lets a health
// check through, and whether the cluster says that something would answer on the port.
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

// Service is version 2 of Elastic Load Balancing.
type Service struct{ elbnet.Base }

// New returns the service. Call Run to reconcile load balancers.
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

// or returns the value of p, or def if p is nil.
func or[T any](p *T, def T) T {
	if p == nil {
		return def
	}
	return *p
}

func text(p *string) string { return aws.ToString(p) }
