// Package image finds the images that instances boot from. They are AWS's, listed in
// catalog/images; users may give one a name, but not make any.
package image

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations of images.
type Service struct {
	*resource.Core
	parameter func(account, region, name string) (string, bool)
}

// New returns the service on top of core. parameter returns the image ID that a
// parameter of SSM holds; nil knows the public ones only.
func New(core *resource.Core, parameter func(account, region, name string) (imageID string, ok bool)) *Service {
	return &Service{Core: core, parameter: parameter}
}
