package instance

import (
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
)

// planDevices merges a request's devices into an image's.
func (s *Service) planDevices(sc resource.Scope, img images.Image, mappings []ec2types.BlockDeviceMapping) ([]storage.DeviceSpec, error) {
	var out []storage.DeviceSpec
	for n, d := range img.Devices {
		out = append(out, storage.DeviceSpec{
			Name: d.Name, DeleteOnTermination: !d.Keep,
			Spec: storage.Spec{
				SizeGiB: d.SizeGiB, Type: d.Type, IOPS: d.IOPS, Throughput: d.Throughput, Encrypted: d.Encrypted, KMSKeyID: d.KMSKeyID, SnapshotID: image.SnapshotOf(img, n),
			},
		})
	}
	return storage.Mapped(s.Store, sc, out, img.RootDevice, mappings)
}
