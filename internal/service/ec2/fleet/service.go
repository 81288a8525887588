// Package fleet manages EC2 Fleets: it chooses pools of capacity, launches instances from
// them and keeps a fleet at its target capacity. Each launch is a call to RunInstances.
package fleet

import (
	"context"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// Service handles the operations on fleets.
type Service struct {
	*resource.Core
	images    *image.Service
	instances *instance.Service
	launcher  instance.Launcher
	underWay  fleetsUnderWay

	ensureServiceRole func(ctx context.Context, role awsapi.ServiceRole) error
}

// New returns the service on top of core. Fleets launch by launcher, EC2's own API.
// ensureServiceRole makes a service-linked role for a caller unless it exists; nil makes
// none.
func New(core *resource.Core, images *image.Service, instances *instance.Service, launcher instance.Launcher, ensureServiceRole func(context.Context, awsapi.ServiceRole) error) *Service {
	return &Service{Core: core, images: images, instances: instances, launcher: launcher, ensureServiceRole: ensureServiceRole}
}
