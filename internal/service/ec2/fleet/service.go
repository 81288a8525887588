// Package fleet holds EC2 Fleets: it chooses pools of capacity, launches instances
// from them and keeps a fleet at its target. A launch itself is the instance
// package's.
package fleet

import (
	"context"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// Service handles the operations of fleets.
type Service struct {
	*resource.Core
	images          *image.Service
	instances       *instance.Service
	underWay        fleetsUnderWay
	authorizeLaunch func(context.Context, *awsec2.RunInstancesInput) error
}

// New returns the service on top of core, which launches with instances.
// authorizeLaunch says whether a fleet's caller may launch from one of its pools.
func New(core *resource.Core, images *image.Service, instances *instance.Service, authorizeLaunch func(context.Context, *awsec2.RunInstancesInput) error) *Service {
	return &Service{Core: core, images: images, instances: instances, authorizeLaunch: authorizeLaunch}
}
