// Package elb answers the API of Classic Load Balancers, which Kubernetes' own
// service controller makes by default: load balancers, listeners, instances and
// their health, policies.
//
// A load balancer has a network interface in each of its subnets, which a
// reconciler makes in EC2 and removes again after its end. No traffic is balanced.
// The health of an instance is decided when it is asked for: whether the network
// lets a health check through, and whether something answers at the port.
//
// The package does not know about clusters. No other service imports it.
package elb

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
)

// Service is the load balancing service of the first generation.
type Service struct{ elbnet.Base }

// New returns the service. Call Run to make load balancers live.
func New(cfg elbnet.Config) *Service { return &Service{elbnet.NewBase(cfg)} }

// scope is an account and region.
type scope = regional.Scope

func scopeOf(ctx context.Context) scope { return regional.Of(ctx) }

func text(p *string) string { return aws.ToString(p) }
