// Package instance manages instances: their launch, attributes, states and Spot requests. Its
// reconcilers bring machines into the recorded state:
//
//	RunInstances ─► pending ─► running ◄──────────────── pending ◄─┐
//	                   │          │  StopInstances                 │ StartInstances
//	                   │          ├─────────► stopping ─► stopped ─┘
//	                   │          │ TerminateInstances       │
//	                   └──────────┴─► shutting-down ◄────────┘
//	                                      └─► terminated ─► (deleted)
//
// It starts no processes: reconcilers boot instances through Machines. It does not know about
// fleets; Config.Ended informs them when an instance ends.
package instance

import (
	"context"
	"sync"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/service/ec2/capacity"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs in addition to its core.
type Config struct {
	Images     *image.Service
	Interfaces *eni.Service
	Capacity   *capacity.Service
	Profiles   Profiles // nil means that there are no instance profiles
	// VCPUQuota returns how many vCPUs of the bucket with a Service Quotas code (VCPUQuotaCode) an account may run.
	VCPUQuota func(ctx context.Context, account, region, code string) int
	Faults    *fault.Set
	// Launcher is EC2's own API, for launches that no user asks for. Required if there are
	// persistent Spot requests.
	Launcher Launcher
	// Ended is called in the transaction that makes an instance terminated.
	Ended func(*store.Tx, resource.Scope, *record.Instance) error
}

// A Launcher calls RunInstances as whoever the context says (awsapi.API).
type Launcher interface {
	RunInstances(ctx context.Context, in *awsec2.RunInstancesInput) (*awsec2.RunInstancesOutput, error)
}

// Service handles the operations on instances and runs the instances.
type Service struct {
	*resource.Core
	images     *image.Service
	interfaces *eni.Service
	capacity   *capacity.Service
	profiles   Profiles
	vcpuQuota  func(ctx context.Context, account, region, code string) int
	faults     *fault.Set
	launcher   Launcher
	ended      func(*store.Tx, resource.Scope, *record.Instance) error

	booted *bootedSet
	vcpus  *vcpuLedger
	// launches is read-locked by every launch, and write-locked to undo an abandoned one.
	launches sync.RWMutex
	// launching are the reservations of launches that are not complete. Their machines do not start: they may be taken
	// back, and a thousand machines that start slow the launch down.
	launching sync.Map
}

// New returns the service on top of core.
func New(core *resource.Core, cfg Config) *Service {
	return &Service{
		Core: core, images: cfg.Images, interfaces: cfg.Interfaces, capacity: cfg.Capacity, profiles: cfg.Profiles,
		vcpuQuota: cfg.VCPUQuota, faults: cfg.Faults, launcher: cfg.Launcher, ended: cfg.Ended, booted: newBootedSet(), vcpus: newVCPULedger(),
	}
}
