package eks_test

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// fakeVolumes are EBS volumes and snapshots. A volume is creating, and an attachment attaching, until it is described once.
type fakeVolumes struct {
	faults    *faults
	mu        sync.Mutex
	n         int
	volumes   map[string]*ec2types.Volume
	snapshots map[string]*ec2types.Snapshot
	tokens    map[string]string // IDs by client token
	denied    map[string]error  // by operation
	created   int               // calls of CreateVolume that have succeeded
	slow      int               // descriptions in which no volume becomes available
}

func newVolumes(f *faults) *fakeVolumes {
	return &fakeVolumes{faults: f, volumes: map[string]*ec2types.Volume{}, snapshots: map[string]*ec2types.Snapshot{}, tokens: map[string]string{}, denied: map[string]error{}}
}

func (f *fakeVolumes) deny(operation string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.denied[operation] = err
}

func (f *fakeVolumes) do(operation string, fn func() error) error {
	if err := f.faults.strike(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.denied[operation]; err != nil {
		return err
	}
	if err := fn(); err != nil {
		return err
	}
	return f.faults.strike()
}

// describe describes the volumes and snapshots, without their IDs.
func (f *fakeVolumes) describe() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, v := range f.volumes {
		at := ""
		for _, a := range v.Attachments {
			at += " at " + *a.InstanceId + " " + *a.Device
		}
		out = append(out, fmt.Sprintf("volume %s %d GiB %s%s", *v.AvailabilityZone, *v.Size, v.State, at))
	}
	for _, s := range f.snapshots {
		out = append(out, fmt.Sprintf("snapshot %s", s.State))
	}
	sort.Strings(out)
	return strings.Join(out, "\n")
}

func noVolume(id string) error {
	return awserr.Newf("InvalidVolume.NotFound", "The volume '%s' does not exist.", id)
}

func (f *fakeVolumes) CreateVolume(_ context.Context, in *awsec2.CreateVolumeInput) (*awsec2.CreateVolumeOutput, error) {
	out := &awsec2.CreateVolumeOutput{}
	return out, f.do("CreateVolume", func() error {
		if id := f.tokens[*in.ClientToken]; id != "" {
			if v := f.volumes[id]; v != nil && (*v.AvailabilityZone != *in.AvailabilityZone || *v.Size != *in.Size) {
				return awserr.New("IdempotentParameterMismatch", "The client token was used with other parameters.")
			}
			out.VolumeId = &id
			return nil
		}
		f.n++
		f.created++
		id := fmt.Sprintf("vol-%017x", f.n)
		f.volumes[id] = &ec2types.Volume{VolumeId: &id, Size: in.Size, AvailabilityZone: in.AvailabilityZone, State: ec2types.VolumeStateCreating, Tags: in.TagSpecifications[0].Tags, SnapshotId: in.SnapshotId}
		f.tokens[*in.ClientToken] = id
		out.VolumeId = &id
		return nil
	})
}

func (f *fakeVolumes) DeleteVolume(_ context.Context, in *awsec2.DeleteVolumeInput) (*awsec2.DeleteVolumeOutput, error) {
	return &awsec2.DeleteVolumeOutput{}, f.do("DeleteVolume", func() error {
		v := f.volumes[*in.VolumeId]
		if v == nil {
			return noVolume(*in.VolumeId)
		}
		if len(v.Attachments) > 0 {
			return awserr.New("VolumeInUse", "Volume is currently attached")
		}
		delete(f.volumes, *in.VolumeId)
		return nil
	})
}

func (f *fakeVolumes) DescribeVolumes(_ context.Context, in *awsec2.DescribeVolumesInput) (*awsec2.DescribeVolumesOutput, error) {
	out := &awsec2.DescribeVolumesOutput{}
	return out, f.do("DescribeVolumes", func() error {
		v := f.volumes[in.VolumeIds[0]]
		if v == nil {
			return noVolume(in.VolumeIds[0])
		}
		shown := *v
		shown.Attachments = slices.Clone(v.Attachments)
		out.Volumes = []ec2types.Volume{shown}
		if f.slow > 0 {
			f.slow--
		} else if v.State == ec2types.VolumeStateCreating {
			v.State = ec2types.VolumeStateAvailable
		}
		for i := range v.Attachments {
			v.Attachments[i].State = ec2types.VolumeAttachmentStateAttached
		}
		return nil
	})
}

func (f *fakeVolumes) AttachVolume(_ context.Context, in *awsec2.AttachVolumeInput) (*awsec2.AttachVolumeOutput, error) {
	return &awsec2.AttachVolumeOutput{}, f.do("AttachVolume", func() error {
		v := f.volumes[*in.VolumeId]
		if v == nil {
			return noVolume(*in.VolumeId)
		}
		if len(v.Attachments) > 0 {
			return awserr.New("VolumeInUse", *in.VolumeId+" is already attached to an instance")
		}
		v.State = ec2types.VolumeStateInUse
		v.Attachments = []ec2types.VolumeAttachment{{InstanceId: in.InstanceId, Device: in.Device, State: ec2types.VolumeAttachmentStateAttaching}}
		return nil
	})
}

func (f *fakeVolumes) DetachVolume(_ context.Context, in *awsec2.DetachVolumeInput) (*awsec2.DetachVolumeOutput, error) {
	return &awsec2.DetachVolumeOutput{}, f.do("DetachVolume", func() error {
		v := f.volumes[*in.VolumeId]
		if v == nil || len(v.Attachments) == 0 {
			return awserr.New("IncorrectState", "Volume is in the 'available' state.")
		}
		v.State, v.Attachments = ec2types.VolumeStateAvailable, nil
		return nil
	})
}

func (f *fakeVolumes) ModifyVolume(_ context.Context, in *awsec2.ModifyVolumeInput) (*awsec2.ModifyVolumeOutput, error) {
	return &awsec2.ModifyVolumeOutput{}, f.do("ModifyVolume", func() error {
		v := f.volumes[*in.VolumeId]
		if aws.ToInt32(v.Size) >= *in.Size {
			return awserr.New("InvalidParameterValue", "New size cannot be smaller than existing size")
		}
		v.Size = in.Size
		return nil
	})
}

func (f *fakeVolumes) DescribeVolumesModifications(context.Context, *awsec2.DescribeVolumesModificationsInput) (*awsec2.DescribeVolumesModificationsOutput, error) {
	return &awsec2.DescribeVolumesModificationsOutput{}, nil
}

func (f *fakeVolumes) CreateSnapshot(_ context.Context, in *awsec2.CreateSnapshotInput) (*awsec2.CreateSnapshotOutput, error) {
	out := &awsec2.CreateSnapshotOutput{}
	return out, f.do("CreateSnapshot", func() error {
		f.n++
		id := fmt.Sprintf("snap-%017x", f.n)
		s := &ec2types.Snapshot{SnapshotId: &id, VolumeId: in.VolumeId, VolumeSize: aws.Int32(8), State: ec2types.SnapshotStatePending, StartTime: aws.Time(epoch), Tags: in.TagSpecifications[0].Tags}
		f.snapshots[id] = s
		out.SnapshotId, out.VolumeId, out.VolumeSize, out.State, out.StartTime = s.SnapshotId, s.VolumeId, s.VolumeSize, s.State, s.StartTime
		return nil
	})
}

func (f *fakeVolumes) DeleteSnapshot(_ context.Context, in *awsec2.DeleteSnapshotInput) (*awsec2.DeleteSnapshotOutput, error) {
	return &awsec2.DeleteSnapshotOutput{}, f.do("DeleteSnapshot", func() error { delete(f.snapshots, *in.SnapshotId); return nil })
}

func (f *fakeVolumes) DescribeSnapshots(_ context.Context, in *awsec2.DescribeSnapshotsInput) (*awsec2.DescribeSnapshotsOutput, error) {
	out := &awsec2.DescribeSnapshotsOutput{}
	return out, f.do("DescribeSnapshots", func() error {
		for id, s := range f.snapshots {
			if len(in.SnapshotIds) > 0 && !slices.Contains(in.SnapshotIds, id) || len(in.Filters) > 0 && !matches(in.Filters, nil, s.Tags) {
				continue
			}
			out.Snapshots = append(out.Snapshots, *s)
			s.State = ec2types.SnapshotStateCompleted
		}
		return nil
	})
}
