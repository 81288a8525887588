// Package image has the images that instances boot from. They are AWS's, listed in catalog/images.
// Users can give them aliases but cannot create images.
package image

import "github.com/drydock-dev/drydock/internal/service/ec2/resource"

// Service handles the operations on images.
type Service struct {
	*resource.Core
	parameter func(account, region, name string) (string, bool)
}

// New returns the service on top of core. parameter returns the image ID in an SSM parameter; nil
// means that only public parameters are known.
func New(core *resource.Core, parameter func(account, region, name string) (imageID string, ok bool)) *Service {
	return &Service{Core: core, parameter: parameter}
}
