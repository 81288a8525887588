package instance

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
)

// planDevices merges a request's devices into an image's.
func planDevices(img images.Image, mappings []ec2types.BlockDeviceMapping) ([]storage.DeviceSpec, error) {
	var out []storage.DeviceSpec
	for n, d := range img.Devices {
		out = append(out, storage.DeviceSpec{
			Name: d.Name,
			Spec: storage.Spec{SizeGiB: d.SizeGiB, Type: d.Type, Encrypted: d.Encrypted, SnapshotID: image.SnapshotOf(img.ID, n)}, DeleteOnTermination: true,
		})
	}
	seen := map[string]bool{}
	for _, m := range mappings {
		name := aws.ToString(m.DeviceName)
		switch {
		case name == "":
			return nil, ec2err.Missing("deviceName")
		case seen[name]:
			return nil, ec2err.New("InvalidBlockDeviceMapping", "The device '%s' is used in more than one block-device mapping", name)
		}
		seen[name] = true
		i := slices.IndexFunc(out, func(d storage.DeviceSpec) bool { return d.Name == name })
		switch {
		case m.NoDevice != nil && name == img.RootDevice:
			return nil, ec2err.New("InvalidBlockDeviceMapping", "The root device '%s' cannot be omitted.", name) // from memory
		case m.NoDevice != nil:
			if i >= 0 {
				out = slices.Delete(out, i, i+1)
			}
			continue
		case m.Ebs == nil:
			continue // the request does not change the volume
		}
		if i < 0 {
			i = len(out)
			out = append(out, storage.DeviceSpec{Name: name, DeleteOnTermination: true})
		}
		if err := out[i].Overlay(m.Ebs); err != nil {
			return nil, err
		}
	}
	for i := range out {
		if err := out[i].Check("gp2"); err != nil {
			return nil, err
		}
	}
	return out, nil
}
