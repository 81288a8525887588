package ec2

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/images"
)

// A deviceSpec is a volume that an instance is launched with.
type deviceSpec struct {
	name string
	volumeSpec
	deleteOnTermination bool
}

// planDevices lays a request's devices over an image's.
func planDevices(img images.Image, mappings []ec2types.BlockDeviceMapping) ([]deviceSpec, error) {
	var out []deviceSpec
	for n, d := range img.Devices {
		out = append(out, deviceSpec{
			name:       d.Name,
			volumeSpec: volumeSpec{SizeGiB: d.SizeGiB, Type: d.Type, Encrypted: d.Encrypted, SnapshotID: snapshotOf(img.ID, n)}, deleteOnTermination: true,
		})
	}
	seen := map[string]bool{}
	for _, m := range mappings {
		name := aws.ToString(m.DeviceName)
		switch {
		case name == "":
			return nil, errMissing("deviceName")
		case seen[name]:
			return nil, errf("InvalidBlockDeviceMapping", "The device '%s' is used in more than one block-device mapping", name)
		}
		seen[name] = true
		i := slices.IndexFunc(out, func(d deviceSpec) bool { return d.name == name })
		switch {
		case m.NoDevice != nil && name == img.RootDevice:
			return nil, errf("InvalidBlockDeviceMapping", "The root device '%s' cannot be omitted.", name) // from memory
		case m.NoDevice != nil:
			if i >= 0 {
				out = slices.Delete(out, i, i+1)
			}
			continue
		case m.Ebs == nil:
			continue // nothing is said of the volume
		}
		if i < 0 {
			i = len(out)
			out = append(out, deviceSpec{name: name, deleteOnTermination: true})
		}
		if err := out[i].overlay(m.Ebs); err != nil {
			return nil, err
		}
	}
	for i := range out {
		if err := out[i].check("gp2"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// overlay changes what a request says of the volume.
func (d *deviceSpec) overlay(ebs *ec2types.EbsBlockDevice) error {
	if id := aws.ToString(ebs.SnapshotId); id != "" && id != d.SnapshotID {
		return awserr.NotImplemented("volumes of other snapshots than the image's in EC2 RunInstances")
	}
	if ebs.VolumeSize != nil {
		if *ebs.VolumeSize < d.SizeGiB && d.SnapshotID != "" {
			return errf("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", *ebs.VolumeSize, d.SnapshotID, d.SizeGiB)
		}
		d.SizeGiB = *ebs.VolumeSize
	}
	if d.SizeGiB == 0 {
		return errf("MissingParameter", "The request must contain the parameter size or snapshotId")
	}
	if ebs.VolumeType != "" {
		d.Type, d.IOPS, d.Throughput = string(ebs.VolumeType), 0, 0
	}
	if ebs.DeleteOnTermination != nil {
		d.deleteOnTermination = *ebs.DeleteOnTermination
	}
	if ebs.Iops != nil {
		d.IOPS = *ebs.Iops
	}
	if ebs.Throughput != nil {
		d.Throughput = *ebs.Throughput
	}
	if d.SnapshotID != "" && d.Encrypted && ebs.Encrypted != nil && !*ebs.Encrypted {
		// The code is that of the other refusals of the flag, https://github.com/hashicorp/packer/issues/7035;
		// the text is from memory.
		return errf("InvalidBlockDeviceMapping", "the encrypted flag cannot be set to false since device %s has an encrypted snapshot specified.", d.name)
	}
	d.Encrypted = d.Encrypted || aws.ToBool(ebs.Encrypted)
	d.KMSKeyID = aws.ToString(ebs.KmsKeyId)
	return nil
}
