package storage

import (
	"context"
	"regexp"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// deviceName matches the device names that EC2 accepts.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
var deviceName = regexp.MustCompile(`^(/dev/)?(sd[a-z][1-9]?[0-9]?|xvd[a-d]?[a-z]|hd[a-z])$`)

// defaultVolumeLimit is how many volumes an instance can have unless its type sets another limit:
// 28 attachments minus one for its interface.
const defaultVolumeLimit = 27

func volumeLimit(instanceType string) int {
	info, ok := instancetypes.Info(instanceType)
	if ok && info.EbsInfo != nil && info.EbsInfo.MaximumEbsAttachments != nil {
		return int(*info.EbsInfo.MaximumEbsAttachments)
	}
	return defaultVolumeLimit
}

// AttachVolume attaches a volume to an instance in the same zone.
func (s *Service) AttachVolume(ctx context.Context, in *awsec2.AttachVolumeInput) (*awsec2.AttachVolumeOutput, error) {
	sc := resource.ScopeOf(ctx)
	device := aws.ToString(in.Device)
	switch {
	case device == "":
		return nil, ec2err.Missing("device")
	case !deviceName.MatchString(device):
		return nil, ec2err.InvalidValue(device, "device", device+" is not a valid EBS device name.")
	}
	v, err := resource.Change(ctx, s.Core, Volumes, in.DryRun, in.VolumeId, func(tx *store.Tx, v *Volume) error {
		i, err := resource.Get(tx, record.Instances, sc, aws.ToString(in.InstanceId))
		if err != nil {
			return err
		}
		switch {
		case i.State != record.Running && i.State != record.Stopped:
			return ec2err.New("IncorrectState", "Instance '%s' is not 'running'.", i.ID)
		case v.Attachment.InstanceID != "":
			return ec2err.New("VolumeInUse", "%s is already attached to an instance", v.ID)
		case v.Zone != i.Zone:
			return ec2err.New("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", v.ID, i.ID)
		case slices.ContainsFunc(i.Devices, func(d record.BlockDevice) bool { return d.Name == device }):
			return ec2err.InvalidParameterValue("Invalid value '%s' for unixDevice. Attachment point %s is already in use", device, device)
		case len(i.Devices) >= volumeLimit(i.Type):
			return ec2err.New("AttachmentLimitExceeded", "The maximum number of volumes for an instance of type %s is %d.", i.Type, volumeLimit(i.Type))
		}
		now := s.Now()
		v.Attachment = attachment{InstanceID: i.ID, Device: device, Time: now}
		i.Devices = append(slices.Clone(i.Devices), record.BlockDevice{Name: device, VolumeID: v.ID, Attached: now})
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AttachVolumeOutput{
		VolumeId: aws.String(v.ID), InstanceId: in.InstanceId, Device: in.Device, AttachTime: aws.Time(v.Attachment.Time),
		State: ec2types.VolumeAttachmentStateAttaching, DeleteOnTermination: aws.Bool(false),
	}, nil
}

// DetachVolume detaches a volume. A root volume can be detached only while its instance is stopped.
func (s *Service) DetachVolume(ctx context.Context, in *awsec2.DetachVolumeInput) (*awsec2.DetachVolumeOutput, error) {
	sc := resource.ScopeOf(ctx)
	var at attachment
	_, err := resource.Change(ctx, s.Core, Volumes, in.DryRun, in.VolumeId, func(tx *store.Tx, v *Volume) error {
		at = v.Attachment
		switch {
		case at.InstanceID == "":
			return ec2err.New("IncorrectState", "Volume '%s' is in the 'available' state.", v.ID)
		case in.InstanceId != nil && *in.InstanceId != at.InstanceID, in.Device != nil && *in.Device != at.Device:
			return ec2err.New("InvalidAttachment.NotFound", "Volume '%s' is not attached to instance '%s' as device '%s'.", v.ID, resource.Or(aws.ToString(in.InstanceId), at.InstanceID), resource.Or(aws.ToString(in.Device), at.Device))
		}
		i, err := resource.Get(tx, record.Instances, sc, at.InstanceID)
		if err != nil {
			return err
		}
		if i.RootDevice == at.Device && i.State != record.Stopped {
			return ec2err.New("OperationNotPermitted", "Unable to detach root volume '%s' from instance '%s'", v.ID, i.ID)
		}
		i.Devices = slices.DeleteFunc(slices.Clone(i.Devices), func(d record.BlockDevice) bool { return d.VolumeID == v.ID })
		v.Attachment = attachment{}
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DetachVolumeOutput{
		VolumeId: in.VolumeId, InstanceId: aws.String(at.InstanceID), Device: aws.String(at.Device), AttachTime: aws.Time(at.Time),
		State: ec2types.VolumeAttachmentStateDetaching, DeleteOnTermination: aws.Bool(at.DeleteOnTermination),
	}, nil
}

// LaunchVolumes creates the volumes of a new instance.
func LaunchVolumes(tx *store.Tx, sc resource.Scope, i *record.Instance, devices []DeviceSpec, tags tag.Set, id func() string) error {
	defaults, err := encryptionOf(tx, sc)
	if err != nil {
		return err
	}
	for _, d := range devices {
		defaults.apply(&d.Spec)
		v := Volume{
			ID: id(), Spec: d.Spec, Zone: i.Zone, ZoneID: i.ZoneID, Created: i.LaunchTime, Tags: tags,
			Attachment: attachment{InstanceID: i.ID, Device: d.Name, DeleteOnTermination: d.DeleteOnTermination, Time: i.LaunchTime},
		}
		if err := Volumes.Create(tx, sc.Key(v.ID), v); err != nil {
			return err
		}
		i.Devices = append(i.Devices, record.BlockDevice{Name: d.Name, VolumeID: v.ID, DeleteOnTermination: d.DeleteOnTermination, Attached: v.Created})
	}
	return nil
}

// A RootSource is what the volume that replaces a root volume is created from.
type RootSource struct {
	SnapshotID string
	SizeGiB    int32 // at least
	Encrypted  bool
	KMSKeyID   string
}

// ReplaceRoot creates a volume like an instance's root volume, and puts it in its place. It returns the ID of the old volume, which it
// deletes or detaches. The caller stores i.
func ReplaceRoot(tx *store.Tx, sc resource.Scope, i *record.Instance, source RootSource, deleteOld bool, now time.Time) (old string, err error) {
	n := slices.IndexFunc(i.Devices, func(d record.BlockDevice) bool { return d.Name == i.RootDevice })
	if n < 0 {
		return "", ec2err.New("IncorrectInstanceState", "The instance '%s' has no root volume.", i.ID) // from memory
	}
	was, err := resource.Get(tx, Volumes, sc, i.Devices[n].VolumeID)
	if err != nil {
		return "", err
	}
	defaults, err := encryptionOf(tx, sc)
	if err != nil {
		return "", err
	}
	next := Volume{
		ID: ids.Resource("vol"), Spec: was.Spec, Zone: was.Zone, ZoneID: was.ZoneID, Created: now,
		Attachment: attachment{InstanceID: i.ID, Device: i.RootDevice, DeleteOnTermination: i.Devices[n].DeleteOnTermination, Time: now},
	}
	next.SnapshotID, next.SizeGiB = source.SnapshotID, max(was.SizeGiB, source.SizeGiB)
	if !was.Encrypted { // an encrypted volume's key stays
		next.Encrypted, next.KMSKeyID = source.Encrypted, source.KMSKeyID
		defaults.apply(&next.Spec)
	}
	if err := Volumes.Create(tx, sc.Key(next.ID), next); err != nil {
		return "", err
	}
	if deleteOld {
		Volumes.Delete(tx, sc.Key(was.ID))
	} else {
		was.Attachment = attachment{}
		if err := Volumes.Put(tx, sc.Key(was.ID), was); err != nil {
			return "", err
		}
	}
	i.Devices = slices.Clone(i.Devices)
	i.Devices[n].VolumeID, i.Devices[n].Attached = next.ID, now
	return was.ID, nil
}

// ReleaseVolumes deletes the volumes that belong to an instance and detaches the others, at most
// limit in total. done reports whether none remain.
func ReleaseVolumes(tx *store.Tx, sc resource.Scope, i *record.Instance, limit int) (done bool, err error) {
	first := max(0, len(i.Devices)-max(limit, 0))
	for _, d := range i.Devices[first:] {
		if d.DeleteOnTermination {
			Volumes.Delete(tx, sc.Key(d.VolumeID))
			continue
		}
		err := Volumes.Update(tx, sc.Key(d.VolumeID), func(v *Volume) error {
			v.Attachment = attachment{}
			return nil
		})
		if err != nil && !resource.NotFound(err) {
			return false, err
		}
	}
	i.Devices = i.Devices[:first]
	return first == 0, nil
}

// A DeviceSpec describes a volume to be created with an instance.
type DeviceSpec struct {
	Name string
	Spec
	DeleteOnTermination bool
}

// Mapped merges the block device mappings of a request into the devices of an image. root is the image's root device,
// or empty if there is no image.
func Mapped(r store.Reader, sc resource.Scope, devices []DeviceSpec, root string, mappings []ec2types.BlockDeviceMapping) ([]DeviceSpec, error) {
	out := devices
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
		i := slices.IndexFunc(out, func(d DeviceSpec) bool { return d.Name == name })
		switch {
		case m.NoDevice != nil && name == root:
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
			out = append(out, DeviceSpec{Name: name, DeleteOnTermination: true})
		}
		if id := aws.ToString(m.Ebs.SnapshotId); id != "" && id != out[i].SnapshotID {
			if name == root {
				return nil, ec2err.New("InvalidBlockDeviceMapping", "snapshotId cannot be modified on root device")
			}
			from, _, err := FindSnapshot(r, sc, id)
			if err != nil {
				return nil, err
			}
			out[i].SnapshotID, out[i].SizeGiB, out[i].Encrypted, out[i].KMSKeyID = id, from.SizeGiB, from.Encrypted, from.KMSKeyID
		}
		if err := out[i].overlay(m.Ebs); err != nil {
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

// overlay applies a request's settings for the volume.
func (d *DeviceSpec) overlay(ebs *ec2types.EbsBlockDevice) error {
	if ebs.VolumeSize != nil {
		if *ebs.VolumeSize < d.SizeGiB && d.SnapshotID != "" {
			return ec2err.New("InvalidBlockDeviceMapping", "Volume of size %dGB is smaller than snapshot '%s', expect size >= %dGB", *ebs.VolumeSize, d.SnapshotID, d.SizeGiB)
		}
		d.SizeGiB = *ebs.VolumeSize
	}
	if d.SizeGiB == 0 {
		return ec2err.New("MissingParameter", "The request must contain the parameter size or snapshotId")
	}
	if ebs.VolumeType != "" {
		d.Type, d.IOPS, d.Throughput = string(ebs.VolumeType), 0, 0
	}
	if ebs.DeleteOnTermination != nil {
		d.DeleteOnTermination = *ebs.DeleteOnTermination
	}
	if ebs.Iops != nil {
		d.IOPS = *ebs.Iops
	}
	if ebs.Throughput != nil {
		d.Throughput = *ebs.Throughput
	}
	if d.SnapshotID != "" && d.Encrypted && ebs.Encrypted != nil && !*ebs.Encrypted {
		// The code is the one for other errors about this flag,
		// https://github.com/hashicorp/packer/issues/7035. The text is from memory.
		return ec2err.New("InvalidBlockDeviceMapping", "the encrypted flag cannot be set to false since device %s has an encrypted snapshot specified.", d.Name)
	}
	d.Encrypted = d.Encrypted || aws.ToBool(ebs.Encrypted)
	d.KMSKeyID = resource.Or(aws.ToString(ebs.KmsKeyId), d.KMSKeyID)
	return nil
}
