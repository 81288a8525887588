package ec2_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func (w *world) volume(t testing.TB, id string) ec2types.Volume {
	t.Helper()
	return must(w.DescribeVolumes(t.Context(), &awsec2.DescribeVolumesInput{VolumeIds: []string{id}}))(t).Volumes[0]
}

func TestVolumeLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "volume", Tags: []ec2types.Tag{{Key: aws.String("root"), Value: aws.String("yes")}}}}
	})[0]
	zone, id := i.Placement.AvailabilityZone, *i.InstanceId
	root := must(w.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{Filters: append(filter("attachment.instance-id", id), filter("tag:root", "y*")...)}))(t).Volumes
	if len(root) != 1 || root[0].State != "in-use" || !*root[0].Attachments[0].DeleteOnTermination || *root[0].VolumeId != *i.BlockDeviceMappings[0].Ebs.VolumeId {
		t.Fatalf("the root volume is %+v", root)
	}
	made := must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: zone, Size: aws.Int32(100), VolumeType: "gp3", Encrypted: aws.Bool(true), ClientToken: aws.String("pvc")}))(t)
	again := must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: zone, Size: aws.Int32(100), VolumeType: "gp3", Encrypted: aws.Bool(true), ClientToken: aws.String("pvc")}))(t)
	v := *made.VolumeId
	if made.State != "creating" || *again.VolumeId != v || *made.Iops != 3000 || *made.Throughput != 125 {
		t.Errorf("created %+v and %+v", made, again)
	}
	if got := w.volume(t, v); got.State != "available" || len(got.Attachments) != 0 {
		t.Errorf("got %+v", got)
	}
	elsewhere := must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1d"), Size: aws.Int32(1)}))(t).VolumeId
	attach := func(volume, device string) error {
		_, err := w.AttachVolume(ctx, &awsec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &id, Device: &device})
		return err
	}
	wantError(t, attach(*elsewhere, "/dev/sdf"), "InvalidVolume.ZoneMismatch", "The volume '"+*elsewhere+"' is not in the same availability zone as instance '"+id+"'")
	wantError(t, attach(v, *i.RootDeviceName), "InvalidParameterValue", "Invalid value '"+*i.RootDeviceName+"' for unixDevice. Attachment point "+*i.RootDeviceName+" is already in use")
	wantError(t, attach(v, "disk"), "InvalidParameterValue", "Value (disk) for parameter device is invalid. disk is not a valid EBS device name.")
	wantError(t, attach("vol-0123456789abcdef0", "/dev/sdf"), "InvalidVolume.NotFound", "The volume 'vol-0123456789abcdef0' does not exist.")
	if err := attach(v, "/dev/sdf"); err != nil {
		t.Fatal(err)
	}
	wantError(t, attach(v, "/dev/sdg"), "VolumeInUse", v+" is already attached to an instance")
	if got := w.volume(t, v); got.State != "in-use" || *got.Attachments[0].Device != "/dev/sdf" || got.Attachments[0].State != "attached" {
		t.Errorf("got %+v", got)
	}
	_, err := w.DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: &v})
	wantError(t, err, "VolumeInUse", "Volume "+v+" is currently attached to "+id)
	_, err = w.DetachVolume(ctx, &awsec2.DetachVolumeInput{VolumeId: root[0].VolumeId})
	wantError(t, err, "OperationNotPermitted", "Unable to detach root volume '"+*root[0].VolumeId+"' from instance '"+id+"'")

	_, err = w.ModifyVolume(ctx, &awsec2.ModifyVolumeInput{VolumeId: &v, Size: aws.Int32(10)})
	wantError(t, err, "InvalidParameterValue", "New size cannot be smaller than existing size")
	must(w.ModifyVolume(ctx, &awsec2.ModifyVolumeInput{VolumeId: &v, Size: aws.Int32(200), Iops: aws.Int32(6000)}))(t)
	m := must(w.DescribeVolumesModifications(ctx, &awsec2.DescribeVolumesModificationsInput{VolumeIds: []string{v}}))(t).VolumesModifications[0]
	if m.ModificationState != "completed" || *m.OriginalSize != 100 || *m.TargetSize != 200 || *m.TargetIops != 6000 || *m.OriginalIops != 3000 {
		t.Errorf("got %+v", m)
	}
	_, err = w.DescribeVolumesModifications(ctx, &awsec2.DescribeVolumesModificationsInput{VolumeIds: []string{*elsewhere}})
	wantError(t, err, "InvalidVolumeModification.NotFound", "Modification for volume '"+*elsewhere+"' does not exist.")

	must(w.DetachVolume(ctx, &awsec2.DetachVolumeInput{VolumeId: &v}))(t)
	_, err = w.DetachVolume(ctx, &awsec2.DetachVolumeInput{VolumeId: &v})
	wantError(t, err, "IncorrectState", "Volume '"+v+"' is in the 'available' state.")
	if err := attach(v, "/dev/sdg"); err != nil {
		t.Fatal(err)
	}
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	w.await(t, "terminated", id)
	if got := w.volume(t, v); got.State != "available" {
		t.Errorf("the volume that stays is %s", got.State)
	}
	_, err = w.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{VolumeIds: []string{*root[0].VolumeId}})
	wantError(t, err, "InvalidVolume.NotFound", "The volume '"+*root[0].VolumeId+"' does not exist.")
	must(w.DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: &v}))(t)
	_, err = w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: zone, SnapshotId: aws.String("snap-0123456789abcdef0")})
	wantError(t, err, "InvalidSnapshot.NotFound", "The snapshot 'snap-0123456789abcdef0' does not exist.")
	_, err = w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1z"), Size: aws.Int32(1)})
	wantError(t, err, "InvalidZone.NotFound", "The zone 'us-east-1z' does not exist.")
	_, err = w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: zone, Size: aws.Int32(1), KmsKeyId: aws.String("alias/mine")})
	wantError(t, err, "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
}

// TestEncryptionByDefault: the region's settings apply to volumes of requests and of instances.
func TestEncryptionByDefault(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	volume := func(encrypted *bool, key *string) ec2types.Volume {
		t.Helper()
		return w.volume(t, *must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(8), Encrypted: encrypted, KmsKeyId: key}))(t).VolumeId)
	}
	if *must(w.GetEbsEncryptionByDefault(ctx, nil))(t).EbsEncryptionByDefault || *volume(nil, nil).Encrypted {
		t.Error("volumes are encrypted unasked")
	}
	if key := *must(w.GetEbsDefaultKmsKeyId(ctx, nil))(t).KmsKeyId; key != "alias/aws/ebs" {
		t.Errorf("the key is %s", key)
	}
	disks := "arn:aws:kms:us-east-1:" + w.account + ":alias/disks"
	if key := *must(w.ModifyEbsDefaultKmsKeyId(ctx, &awsec2.ModifyEbsDefaultKmsKeyIdInput{KmsKeyId: aws.String("alias/disks")}))(t).KmsKeyId; key != disks {
		t.Errorf("the key is %s", key)
	}
	if v := volume(nil, nil); *v.Encrypted || v.KmsKeyId != nil {
		t.Errorf("%+v", v)
	}
	if v := volume(aws.Bool(true), nil); aws.ToString(v.KmsKeyId) != disks {
		t.Errorf("%+v", v)
	}
	must(w.EnableEbsEncryptionByDefault(ctx, nil))(t)
	if v := volume(nil, nil); !*v.Encrypted || *v.KmsKeyId != disks {
		t.Errorf("%+v", v)
	}
	if v := volume(aws.Bool(false), nil); !*v.Encrypted { // the default cannot be opted out of
		t.Errorf("%+v", v)
	}
	own := "arn:aws:kms:us-east-1:" + w.account + ":key/5d7e1d3f-6a0c-4f5e-9a50-0c3c8a1f2b77"
	if v := volume(aws.Bool(true), &own); *v.KmsKeyId != own {
		t.Errorf("%+v", v)
	}
	root := w.launch(t, 1, nil)[0].BlockDeviceMappings[0].Ebs.VolumeId
	if v := w.volume(t, *root); !*v.Encrypted || *v.KmsKeyId != disks {
		t.Errorf("the root volume: %+v", v)
	}
	must(w.ResetEbsDefaultKmsKeyId(ctx, nil))(t)
	must(w.DisableEbsEncryptionByDefault(ctx, nil))(t)
	if v := volume(nil, nil); *v.Encrypted {
		t.Errorf("%+v", v)
	}
}

// TestLaunchTemplateData: what describes an instance launches another like it.
func TestLaunchTemplateData(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.UserData = aws.String("IyEvYmluL3NoCg==")
		in.DisableApiTermination = aws.Bool(true)
		in.MetadataOptions = &ec2types.InstanceMetadataOptionsRequest{HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(2)}
		in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("web")}}}}
	})[0]
	d := must(w.GetLaunchTemplateData(ctx, &awsec2.GetLaunchTemplateDataInput{InstanceId: i.InstanceId}))(t).LaunchTemplateData
	if *d.ImageId != *i.ImageId || d.InstanceType != i.InstanceType || *d.UserData != "IyEvYmluL3NoCg==" || !*d.DisableApiTermination || d.MetadataOptions.HttpTokens != "required" ||
		*d.MetadataOptions.HttpPutResponseHopLimit != 2 || *d.TagSpecifications[0].Tags[0].Value != "web" || *d.Placement.AvailabilityZone != *i.Placement.AvailabilityZone {
		t.Errorf("%+v", d)
	}
	root := w.volume(t, *i.BlockDeviceMappings[0].Ebs.VolumeId)
	if b := d.BlockDeviceMappings; len(b) != 1 || *b[0].DeviceName != *i.RootDeviceName || *b[0].Ebs.VolumeSize != *root.Size || b[0].Ebs.VolumeType != root.VolumeType || !*b[0].Ebs.DeleteOnTermination {
		t.Errorf("%+v", b)
	}
	if n := d.NetworkInterfaces; len(n) != 1 || *n[0].SubnetId != *i.SubnetId || n[0].Groups[0] != *i.SecurityGroups[0].GroupId || *n[0].DeviceIndex != 0 {
		t.Errorf("%+v", n)
	}
	_, err := w.GetLaunchTemplateData(ctx, &awsec2.GetLaunchTemplateDataInput{InstanceId: aws.String("i-0123456789abcdef0")})
	wantError(t, err, "InvalidInstanceID.NotFound", "The instance ID 'i-0123456789abcdef0' does not exist")
}

// memoryDisks is an ec2.Disks in memory.
type memoryDisks struct {
	mu   sync.Mutex
	data map[string]string
}

func (d *memoryDisks) put(id, text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.data == nil {
		d.data = map[string]string{}
	}
	d.data[id] = text
}

func (d *memoryDisks) get(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.data[id]
}

func (d *memoryDisks) Copy(from, to string) error {
	if from == "" || to == "" {
		return fmt.Errorf("%q cannot be copied to %q", from, to)
	}
	if text := d.get(from); text != "" && d.get(to) == "" {
		d.put(to, text)
	}
	return nil
}

func (d *memoryDisks) Remove(id string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.data, id)
	return nil
}

func TestDataOfVolumes(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	zone := aws.String("us-east-1a")
	first := *must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: zone, Size: aws.Int32(1)}))(t).VolumeId
	w.disks.put(first, "early")
	snapshot := func(volume string) string {
		return *must(w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: &volume}))(t).SnapshotId
	}
	early := snapshot(first)
	w.disks.put(first, "late")
	restore := func(from string) string {
		return *must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: zone, SnapshotId: &from}))(t).VolumeId
	}
	second := restore(early)
	token := &awsec2.CreateVolumeInput{AvailabilityZone: zone, SnapshotId: &early, ClientToken: aws.String("t")}
	once := *must(w.CreateVolume(ctx, token))(t).VolumeId
	w.disks.put(once, "used")
	if again := *must(w.CreateVolume(ctx, token))(t).VolumeId; again != once || w.disks.get(once) != "used" {
		t.Errorf("a request that is repeated changes the data of %s to %q", again, w.disks.get(once))
	}
	must(w.DeleteSnapshot(ctx, &awsec2.DeleteSnapshotInput{SnapshotId: &early}))(t)
	if got := w.disks.get(second); got != "early" {
		t.Errorf("a volume of a snapshot that is gone has %q", got)
	}
	w.disks.put(second, "changed")
	copied := *must(w.CopySnapshot(ctx, &awsec2.CopySnapshotInput{SourceRegion: aws.String("us-east-1"), SourceSnapshotId: aws.String(snapshot(second))}))(t).SnapshotId
	if got := w.disks.get(restore(copied)); got != "changed" {
		t.Errorf("a copy of a snapshot of a changed volume has %q", got)
	}
	for _, id := range []string{first, second} {
		must(w.DeleteVolume(ctx, &awsec2.DeleteVolumeInput{VolumeId: &id}))(t)
	}
	w.forgotten(t, first, second, early)
}

// forgotten waits until nothing has data under these IDs.
func (w *world) forgotten(t *testing.T, ids ...string) {
	t.Helper()
	testkit.Eventually(t, 10*time.Second, func() error {
		for _, id := range ids {
			if got := w.disks.get(id); got != "" {
				return fmt.Errorf("%s, which is deleted, has %q", id, got)
			}
		}
		return nil
	})
}

// Data ends with its volume, whatever ends that.
func TestDataOfVolumesThatEnd(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	attached := func(keep bool, device string) ec2types.BlockDeviceMapping {
		return ec2types.BlockDeviceMapping{DeviceName: &device, Ebs: &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(1), DeleteOnTermination: aws.Bool(!keep)}}
	}
	i := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{attached(false, "/dev/sdf"), attached(true, "/dev/sdg")}
	})[0]
	volumes := map[string]string{}
	for _, d := range i.BlockDeviceMappings {
		volumes[*d.DeviceName] = *d.Ebs.VolumeId
		w.disks.put(*d.Ebs.VolumeId, "data")
	}
	ends, stays := volumes["/dev/sdf"], volumes["/dev/sdg"]
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*i.InstanceId}}))(t)
	w.forgotten(t, ends)
	if got := w.disks.get(stays); got != "data" {
		t.Errorf("a volume that outlives its instance has %q", got)
	}
	snapshot := *must(w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: &stays}))(t).SnapshotId
	if got := w.disks.get(snapshot); got != "data" {
		t.Errorf("its snapshot has %q", got)
	}
	if err := w.server.Store.Reset(ctx, ""); err != nil {
		t.Fatal(err)
	}
	w.forgotten(t, stays, snapshot)
}
