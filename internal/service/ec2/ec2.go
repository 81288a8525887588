// Package ec2 answers the EC2 API: the network of an account and region (VPCs,
// subnets, route tables, gateways, security groups, network interfaces) and its
// machines (instances, launch templates, key pairs, images).
//
// Every resource is a record in the store; handlers check and write records in
// one transaction and Run brings machines to what their records say:
//
//	RunInstances ─► pending ─► running ◄──────────────── pending ◄─┐
//	                   │          │  StopInstances                 │ StartInstances
//	                   │          ├─────────► stopping ─► stopped ─┘
//	                   │          │ TerminateInstances       │
//	                   └──────────┴─► shutting-down ◄────────┘
//	                                      └─► terminated ─► (forgotten)
//
// The package decides no reachability (package reach does) and starts no
// process: what boots an instance is behind Machines. No other service imports it.
package ec2

import (
	"context"
	"log/slog"
	"sync"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/utils/clock"

	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/store"
)

// Profiles looks up IAM instance profiles.
type Profiles interface {
	// InstanceProfile returns the account's instance profile of that name; false
	// if there is none.
	InstanceProfile(ctx context.Context, account, name string) (Profile, bool, error)
}

// A Profile is an instance profile with the role it holds.
type Profile struct {
	ARN string
	ID  string // AIPA…
	// RoleARN is empty for a profile without a role; nothing can be launched with it.
	RoleARN string
}

// Machines boots and stops what stands behind instances.
type Machines interface {
	// Start boots m, or does nothing when m runs already: after a restart of the
	// daemon every running instance is started again. It must not wait for the
	// guest. An error is tried again later.
	Start(ctx context.Context, m machine.Instance) error
	// Stop ends the machine, or does nothing when there is none.
	Stop(ctx context.Context, account, region, instanceID string) error
}

// ConsoleReader is what Machines also implement that can show what the guests
// wrote to their consoles.
type ConsoleReader interface {
	// ConsoleOutput returns what the guest has written since its boot, or the last
	// of it; false if there is nothing to show.
	ConsoleOutput(ctx context.Context, instanceID string) ([]byte, bool)
}

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// Clock is the time; nil means the real one.
	Clock clock.Clock
	// Timing is how long states last; the zero value is as quickly as they are true.
	Timing timing.Timing
	// Profiles knows instance profiles; nil means there are none.
	Profiles Profiles
	// Machines runs instances; nil means instances are records only, which run
	// as soon as they are launched.
	Machines Machines
	// AuthorizeLaunch says whether the caller of a fleet may launch from one of its
	// pools, whose RunInstances request it is given; its error becomes that pool's.
	// nil means every launch is allowed.
	AuthorizeLaunch func(context.Context, *awsec2.RunInstancesInput) error
	// Parameter returns the image ID that a parameter of SSM holds, named as in
	// resolve:ssm:NAME; false if there is no such parameter of an image. nil knows
	// the public ones only.
	Parameter func(account, region, name string) (imageID string, ok bool)
	// VCPUQuota is how many vCPUs an account may run of the bucket with a Service
	// Quotas code (VCPUQuotaCode); nil means DefaultVCPUQuota of each.
	VCPUQuota func(ctx context.Context, account, region, code string) int
	// Faults say which pools have no capacity; nil: all have.
	Faults *fault.Set
	Log    *slog.Logger
}

// Service is the EC2 service. Its methods with the SDK's shape are the
// operations; internal callers may call them with a context of awsapi.WithCall.
type Service struct {
	store    *store.Store
	clock    clock.Clock
	timing   timing.Timing
	profiles Profiles
	machines Machines
	log      *slog.Logger
	booted   *bootedSet
	reached  reachCache
	vcpus    *vcpuLedger
	faults   *fault.Set
	underWay fleetsUnderWay
	// launches is held for reading by every launch, and for writing to take back
	// one that nobody works on any more.
	launches sync.RWMutex

	// prepare makes what an account finds in a region that it is new to.
	prepare func(context.Context, scope) error
	// ended is called in the transaction in which an instance becomes terminated.
	ended func(*store.Tx, scope, *instanceRecord) error

	authorizeLaunch func(context.Context, *awsec2.RunInstancesInput) error
	parameter       func(account, region, name string) (string, bool)
	vcpuQuota       func(ctx context.Context, account, region, code string) int
}

// New returns the service. Call Run to make instances live.
func New(cfg Config) *Service {
	s := &Service{
		store: cfg.Store, clock: cfg.Clock, timing: cfg.Timing,
		profiles: cfg.Profiles, machines: cfg.Machines, log: cfg.Log,
		booted: newBootedSet(), vcpus: newVCPULedger(), authorizeLaunch: cfg.AuthorizeLaunch, vcpuQuota: cfg.VCPUQuota, parameter: cfg.Parameter, faults: cfg.Faults,
	}
	s.prepare, s.ended = s.ensureDefaults, pokeFleet
	if s.authorizeLaunch == nil {
		s.authorizeLaunch = func(context.Context, *awsec2.RunInstancesInput) error { return nil }
	}
	if s.vcpuQuota == nil {
		s.vcpuQuota = func(context.Context, string, string, string) int { return DefaultVCPUQuota }
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}
