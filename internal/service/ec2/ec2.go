// Package ec2 answers the EC2 API. It is the top of a stack of packages, each of which imports only
// packages below it:
//
//	ec2         operation tables, what authorization asks, tags of every kind, Run
//	fleet       insights  load (of what another account's EC2 answered)
//	instance
//	keypair  instancetype  launchtemplate            endpoint  transit  vpc  vpn  routing
//	                       image  storage            eni  firewall  ipam  quota
//	record      the stored network and instances
//	resource    scopes, IDs, pages, client tokens; filter, tag, ec2err
//
// Every resource is a record in the store. Handlers check and write records in one transaction; Run
// brings machines into the state of their records. Each package has a Service with its operations,
// which the Service in this package embeds.
//
// None of the packages decides reachability (package reach does) or starts processes: Machines
// boots the instances. No other service imports them.
package ec2

import (
	"context"
	"log/slog"
	"slices"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/reconcile"
	"github.com/drydock-dev/drydock/internal/service/ec2/capacity"
	"github.com/drydock-dev/drydock/internal/service/ec2/endpoint"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/fleet"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/insights"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/keypair"
	"github.com/drydock-dev/drydock/internal/service/ec2/launchtemplate"
	"github.com/drydock-dev/drydock/internal/service/ec2/placement"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/service/ec2/transit"
	"github.com/drydock-dev/drydock/internal/service/ec2/vpc"
	"github.com/drydock-dev/drydock/internal/service/ec2/vpn"
	"github.com/drydock-dev/drydock/internal/store"
)

// The parts of the packages below that the rest of Drydock uses.
type (
	Profiles         = instance.Profiles
	Profile          = instance.Profile
	Machines         = instance.Machines
	PodInterface     = eni.PodInterface
	PodInterfaceSpec = eni.PodInterfaceSpec
	Tags             = tag.Set
	Disks            = storage.Disks
)

// A VCPUUse is how far a bucket of vCPUs is used.
type VCPUUse = instance.VCPUUse

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// Clock returns the time. nil means the real clock.
	Clock clock.WithTicker
	// Timing is how long transitional states last. With the zero value, they end as soon as
	// possible.
	Timing timing.Timing
	// Profiles looks up instance profiles. nil means that there are none.
	Profiles Profiles
	// Launcher is EC2's own API, by which fleets and persistent Spot requests launch.
	// Required if there are such.
	Launcher instance.Launcher
	// EnsureServiceRole makes a service-linked role in the caller's account, for the
	// caller, unless it exists. nil makes none.
	EnsureServiceRole func(ctx context.Context, role awsapi.ServiceRole) error
	// Parameter returns the image ID in an SSM parameter, named as in resolve:ssm:NAME, or false if
	// there is no such parameter with an image ID. nil means that only public parameters are known.
	Parameter func(account, region, name string) (imageID string, ok bool)
	// Bucket reports whether any account has an S3 bucket with a name. nil means that all names exist.
	Bucket func(name string) bool
	// VCPUs is the quota of each bucket of vCPUs of accounts that have requested no increase. 0 means AWS's.
	VCPUs int
	// Disks stores what instances write to their root volumes. If it is nil, snapshots hold no data.
	Disks Disks
	// Faults determine which pools have no capacity. nil means that all have.
	Faults *fault.Set
	// Held reports whether the instances of an account wait, as those of a twin do until its clusters are copied. nil
	// means that none do.
	Held func(account string) bool
	Log  *slog.Logger
}

// The services of the packages below, under different names, so that one struct can embed them all.
type (
	firewallService     = firewall.Service
	eniService          = eni.Service
	routingService      = routing.Service
	transitService      = transit.Service
	vpnService          = vpn.Service
	vpcService          = vpc.Service
	endpointService     = endpoint.Service
	storageService      = storage.Service
	imageService        = image.Service
	templateService     = launchtemplate.Service
	instanceTypeService = instancetype.Service
	keyPairService      = keypair.Service
	placementService    = placement.Service
	capacityService     = capacity.Service
	instanceService     = instance.Service
	fleetService        = fleet.Service
	insightsService     = insights.Service
)

// Service is the EC2 service. Its methods with the SDK's signatures, most of them promoted from the
// packages below, are the operations. Internal callers can call them with a context from
// awsapi.WithCall.
type Service struct {
	*resource.Core
	*firewallService
	*eniService
	*routingService
	*transitService
	*vpnService
	*vpcService
	*endpointService
	*storageService
	*imageService
	*templateService
	*instanceTypeService
	*keyPairService
	*placementService
	*capacityService
	*instanceService
	*fleetService
	*insightsService

	profiles Profiles
	held     func(account string) bool
	vcpus    vcpuQuotas
}

// New returns the service. Call Run to reconcile its resources.
func New(cfg Config) *Service {
	if cfg.Held == nil {
		cfg.Held = func(string) bool { return false }
	}
	vcpus := newVCPUQuotas(cfg.Store, cfg.VCPUs)
	core := &resource.Core{Store: cfg.Store, Clock: cfg.Clock, Timing: cfg.Timing, Log: cfg.Log}
	if core.Clock == nil {
		core.Clock = clock.RealClock{}
	}
	if core.Log == nil {
		core.Log = slog.Default()
	}
	interfaces := eni.New(core)
	volumes := storage.New(core, cfg.Disks)
	images := image.New(core, volumes, cfg.Parameter)
	pools := capacity.New(core, cfg.Faults)
	instances := instance.New(core, instance.Config{
		Images: images, Interfaces: interfaces, Capacity: pools, Profiles: cfg.Profiles,
		VCPUQuota: vcpus.value, Faults: cfg.Faults, Launcher: cfg.Launcher, Ended: fleet.Poke,
	})
	return &Service{
		Core:                core,
		firewallService:     firewall.New(core),
		eniService:          interfaces,
		routingService:      routing.New(core, interfaces),
		transitService:      transit.New(core, interfaces),
		vpnService:          vpn.New(core),
		vpcService:          vpc.New(core, cfg.Bucket),
		endpointService:     endpoint.New(core, interfaces),
		storageService:      volumes,
		imageService:        images,
		templateService:     launchtemplate.New(core, images),
		instanceTypeService: instancetype.New(core),
		keyPairService:      keypair.New(core),
		placementService:    placement.New(core),
		capacityService:     pools,
		instanceService:     instances,
		fleetService:        fleet.New(core, images, instances, cfg.Launcher, cfg.EnsureServiceRole),
		insightsService:     insights.New(core),
		profiles:            cfg.Profiles,
		held:                cfg.Held,
		vcpus:               vcpus,
	}
}

// Run advances the states of resources until ctx ends. Instances are only records: they count as
// running as soon as they are launched.
func (s *Service) Run(ctx context.Context) error { return s.RunOn(ctx, nil) }

// RunOn is Run with machines that boot the instances.
func (s *Service) RunOn(ctx context.Context, machines Machines) error {
	all := slices.Concat(s.Core.Reconcilers(), s.routingService.Reconcilers(), s.transitService.Reconcilers(), s.vpnService.Reconcilers(), s.endpointService.Reconcilers(),
		s.instanceService.Reconcilers(machines, s.held), s.storageService.Reconcilers(), s.fleetService.Reconcilers())
	for i := range all {
		all[i].Log, all[i].Clock = s.Log, s.Clock
	}
	return reconcile.Run(ctx, all...)
}
