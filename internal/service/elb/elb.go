// Package elb answers the API of Classic Load Balancers, which Kubernetes' own
// service controller makes by default: load balancers, listeners, instances and
// their health, policies.
//
// A load balancer has a network interface in each of its subnets, which a
// reconciler makes in EC2 and removes again after its end. No traffic is balanced.
// The health of an instance is decided when it is asked for: whether the network
// lets a health check through, and whether something answers at the port.
//
// The package knows no cluster. Only the composition root imports it.
package elb

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// EC2 is what load balancers ask of EC2. It is called with an awsapi.Call of the
// caller's account and region whose principal is elasticloadbalancing.amazonaws.com.
type EC2 interface {
	DescribeInstances(context.Context, *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error)
	DescribeInternetGateways(context.Context, *awsec2.DescribeInternetGatewaysInput) (*awsec2.DescribeInternetGatewaysOutput, error)
	DescribeSecurityGroups(context.Context, *awsec2.DescribeSecurityGroupsInput) (*awsec2.DescribeSecurityGroupsOutput, error)
	DescribeSubnets(context.Context, *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error)
}

// Interfaces are the network interfaces that a load balancer wants.
type Interfaces struct {
	Requester, Owner, Description, Type string

	Subnets     []string
	Addresses   map[string]string // private ones, by subnet
	Allocations map[string]string // elastic ones, by subnet
	Groups      []string
	Public      bool
}

// An Interface is one of a load balancer's.
type Interface struct{ ID, Subnet, Zone, Private, Public string }

// A Probe is a health check of one instance.
type Probe struct {
	// Interface is the load balancer's from which the check comes.
	Interface string
	Instance  string
	Protocol  string // TCP, SSL, HTTP, HTTPS
	Port      uint16
	Path      string
}

// A Finding is what a health check finds.
type Finding int

// The findings.
const (
	Unknown  Finding = iota // nobody can say
	Answers                 // as a healthy instance does
	TimedOut                // no packet comes back
	Refused                 // nothing answers at the port, or the wrong thing
	// Unclaimed: packets get there, but nobody knows what runs there: the instance is no
	// cluster's.
	Unclaimed
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	EC2   EC2
	// EnsureInterfaces makes and removes network interfaces until they are as wanted;
	// alive is asked in the same transaction whether the load balancer is there.
	EnsureInterfaces func(ctx context.Context, account, region string, want Interfaces, alive func(store.Reader) bool) ([]Interface, error)
	// Probes returns what checks the health of instances for one request, all in the
	// network as it is then. Nil: nobody can say.
	Probes func(ctx context.Context, account, region string) func(context.Context, Probe) Finding
	// EnsureServiceRole makes the account's AWSServiceRoleForElasticLoadBalancing
	// unless it is there. Nil: it is not wanted.
	EnsureServiceRole func(ctx context.Context, account string) error
	Clock             clock.WithTicker // nil: the real one
	Log               *slog.Logger     // nil: slog.Default
}

// Service is the load balancing service of the first generation.
type Service struct {
	cfg   Config
	store *store.Store
	clock clock.WithTicker
	log   *slog.Logger
}

// New returns the service. Call Run to make load balancers live.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, store: cfg.Store, clock: cfg.Clock, log: cfg.Log}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

// serviceName is who calls EC2.
const serviceName = "elasticloadbalancing.amazonaws.com"

// asService returns a context in which Elastic Load Balancing itself calls.
func (s *Service) asService(ctx context.Context, sc scope) context.Context {
	return awsapi.AsService(ctx, sc.account, sc.region, serviceName, "AWSServiceRoleForElasticLoadBalancing", s.clock.Now())
}

// scope is an account and region.
type scope struct{ account, region string }

func scopeOf(ctx context.Context) scope {
	call := awsapi.CallFrom(ctx)
	return scope{call.Account, call.Region}
}

func (sc scope) key(id string) store.Key {
	return store.Key{Account: sc.account, Region: sc.region, ID: id}
}

func (sc scope) all() store.Scope { return store.Scope{Account: sc.account, Region: sc.region} }

func notFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

func ignoreNotFound(err error) error {
	if notFound(err) {
		return nil
	}
	return err
}

// refused reports whether EC2 refused a request, which is about what it names.
func refused(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorFault() == smithy.FaultClient
}

func text(p *string) string { return aws.ToString(p) }
