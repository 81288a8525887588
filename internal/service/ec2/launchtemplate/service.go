// Package launchtemplate manages launch templates and their versions. Package instance handles
// launches from a template.
package launchtemplate

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// Service handles the operations on launch templates.
type Service struct {
	*resource.Core
	images *image.Service
}

// New returns the service on top of core. images resolves image IDs that versions
// give as SSM parameters.
func New(core *resource.Core, images *image.Service) *Service {
	return &Service{Core: core, images: images}
}
