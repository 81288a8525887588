package ec2

import (
	"context"
	"regexp"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/store"
)

// deviceName is what EC2 takes for a device.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/device_naming.html
var deviceName = regexp.MustCompile(`^(/dev/)?(sd[a-z][1-9]?[0-9]?|xvd[a-d]?[a-z]|hd[a-z])$`)

// defaultVolumeLimit is how many volumes an instance takes whose type says
// nothing else: 28 attachments less one for its interface.
const defaultVolumeLimit = 27

func volumeLimit(instanceType string) int {
	info, ok := instancetypes.Info(instanceType)
	if ok && info.EbsInfo != nil && info.EbsInfo.MaximumEbsAttachments != nil {
		return int(*info.EbsInfo.MaximumEbsAttachments)
	}
	return defaultVolumeLimit
}

// AttachVolume attaches a volume to an instance of the same zone.
func (s *Service) AttachVolume(ctx context.Context, in *awsec2.AttachVolumeInput) (*awsec2.AttachVolumeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	device := aws.ToString(in.Device)
	switch {
	case device == "":
		return nil, errMissing("device")
	case !deviceName.MatchString(device):
		return nil, errInvalidValue(device, "device", device+" is not a valid EBS device name.")
	}
	var v volumeRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if v, err = get(tx, volumes, sc, volumeID, aws.ToString(in.VolumeId)); err != nil {
			return err
		}
		i, err := get(tx, instances, sc, instanceID, aws.ToString(in.InstanceId))
		if err != nil {
			return err
		}
		switch {
		case i.State != stateRunning && i.State != stateStopped:
			return errf("IncorrectState", "Instance '%s' is not 'running'.", i.ID)
		case v.Attachment.InstanceID != "":
			return errf("VolumeInUse", "%s is already attached to an instance", v.ID)
		case v.Zone != i.Zone:
			return errf("InvalidVolume.ZoneMismatch", "The volume '%s' is not in the same availability zone as instance '%s'", v.ID, i.ID)
		case slices.ContainsFunc(i.Devices, func(d blockDevice) bool { return d.Name == device }):
			return errInvalidParameter("Invalid value '%s' for unixDevice. Attachment point %s is already in use", device, device)
		case len(i.Devices) >= volumeLimit(i.Type):
			return errf("AttachmentLimitExceeded", "The maximum number of volumes for an instance of type %s is %d.", i.Type, volumeLimit(i.Type))
		}
		now := s.now()
		v.Attachment = volumeAttachment{InstanceID: i.ID, Device: device, Time: now}
		i.Devices = append(slices.Clone(i.Devices), blockDevice{Name: device, VolumeID: v.ID, Attached: now})
		if err := instances.Put(tx, sc.key(i.ID), i); err != nil {
			return err
		}
		return volumes.Put(tx, sc.key(v.ID), v)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.AttachVolumeOutput{
		VolumeId: aws.String(v.ID), InstanceId: in.InstanceId, Device: in.Device, AttachTime: aws.Time(v.Attachment.Time),
		State: ec2types.VolumeAttachmentStateAttaching, DeleteOnTermination: aws.Bool(false),
	}, nil
}

// DetachVolume detaches a volume. The root volume stays while its instance is not
// stopped.
func (s *Service) DetachVolume(ctx context.Context, in *awsec2.DetachVolumeInput) (*awsec2.DetachVolumeOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	var at volumeAttachment
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		v, err := get(tx, volumes, sc, volumeID, aws.ToString(in.VolumeId))
		if err != nil {
			return err
		}
		at = v.Attachment
		switch {
		case at.InstanceID == "":
			return errf("IncorrectState", "Volume '%s' is in the 'available' state.", v.ID)
		case in.InstanceId != nil && *in.InstanceId != at.InstanceID, in.Device != nil && *in.Device != at.Device:
			return errf("InvalidAttachment.NotFound", "Volume '%s' is not attached to instance '%s' as device '%s'.", v.ID, or(aws.ToString(in.InstanceId), at.InstanceID), or(aws.ToString(in.Device), at.Device))
		}
		i, err := get(tx, instances, sc, instanceID, at.InstanceID)
		if err != nil {
			return err
		}
		if i.RootDevice == at.Device && i.State != stateStopped {
			return errf("OperationNotPermitted", "Unable to detach root volume '%s' from instance '%s'", v.ID, i.ID)
		}
		i.Devices = slices.DeleteFunc(slices.Clone(i.Devices), func(d blockDevice) bool { return d.VolumeID == v.ID })
		v.Attachment = volumeAttachment{}
		if err := instances.Put(tx, sc.key(i.ID), i); err != nil {
			return err
		}
		return volumes.Put(tx, sc.key(v.ID), v)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.DetachVolumeOutput{
		VolumeId: in.VolumeId, InstanceId: aws.String(at.InstanceID), Device: aws.String(at.Device), AttachTime: aws.Time(at.Time),
		State: ec2types.VolumeAttachmentStateDetaching, DeleteOnTermination: aws.Bool(at.DeleteOnTermination),
	}, nil
}

// launchVolumes makes the volumes an instance is born with.
func launchVolumes(tx *store.Tx, sc scope, i *instanceRecord, devices []deviceSpec, tags Tags, id func() string) error {
	for _, d := range devices {
		v := volumeRecord{
			ID: id(), volumeSpec: d.volumeSpec, Zone: i.Zone, ZoneID: i.ZoneID, Created: i.LaunchTime, Tags: tags,
			Attachment: volumeAttachment{InstanceID: i.ID, Device: d.name, DeleteOnTermination: d.deleteOnTermination, Time: i.LaunchTime},
		}
		if err := volumes.Create(tx, sc.key(v.ID), v); err != nil {
			return err
		}
		i.Devices = append(i.Devices, blockDevice{Name: d.name, VolumeID: v.ID, DeleteOnTermination: d.deleteOnTermination, Attached: v.Created})
	}
	return nil
}

// releaseVolumes deletes the volumes that go with an instance and detaches the
// others, as many as limit; done says that there are no more.
func releaseVolumes(tx *store.Tx, sc scope, i *instanceRecord, limit int) (done bool, err error) {
	first := max(0, len(i.Devices)-max(limit, 0))
	for _, d := range i.Devices[first:] {
		if d.DeleteOnTermination {
			volumes.Delete(tx, sc.key(d.VolumeID))
			continue
		}
		err := volumes.Update(tx, sc.key(d.VolumeID), func(v *volumeRecord) error {
			v.Attachment = volumeAttachment{}
			return nil
		})
		if err != nil && !notFound(err) {
			return false, err
		}
	}
	i.Devices = i.Devices[:first]
	return first == 0, nil
}
