// Package image manages the images that instances boot from: AWS's images, which are listed in catalog/images and
// can have aliases, and images that users make from instances, snapshots and other images.
package image

import (
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
)

// Service handles the operations on images.
type Service struct {
	*resource.Core
	storage   *storage.Service
	parameter func(account, region, name string) (string, bool)
}

// New returns the service on top of core. parameter returns the image ID in an SSM parameter; nil
// means that only public parameters are known.
func New(core *resource.Core, storage *storage.Service, parameter func(account, region, name string) (imageID string, ok bool)) *Service {
	return &Service{Core: core, storage: storage, parameter: parameter}
}
