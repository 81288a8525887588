// Package elb answers the API of Classic Load Balancers, which Kubernetes' own service controller
// creates by default: load balancers, listeners, instances and their health, and policies.
//
// A load balancer has a network interface in each of its subnets. A reconciler creates them in EC2
// and removes them after the load balancer is deleted. A second reconciler (traffic.go) configures
// package balancer, which carries the traffic and checks instances that run programs. The health of
// other instances is determined on request: it depends on whether the network lets a health check
// through, and whether the cluster says that something would answer on the port.
//
// The package does not know about clusters. No other service imports it.
package elb

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
)

// Service is the first generation of Elastic Load Balancing.
type Service struct{ elbnet.Base }

// New returns the service. Call Run to reconcile load balancers.
func New(cfg elbnet.Config) *Service { return &Service{elbnet.NewBase(cfg)} }

// scope is an account and region.
type scope = regional.Scope

func scopeOf(ctx context.Context) scope { return regional.Of(ctx) }

func text(p *string) string { return aws.ToString(p) }
