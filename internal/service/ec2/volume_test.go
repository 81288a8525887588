package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
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
	wantError(t, err, "NotImplemented", "")
	_, err = w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1z"), Size: aws.Int32(1)})
	wantError(t, err, "InvalidZone.NotFound", "The zone 'us-east-1z' does not exist.")
	_, err = w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: zone, Size: aws.Int32(1), KmsKeyId: aws.String("alias/mine")})
	wantError(t, err, "InvalidParameterDependency", "The parameter KmsKeyId requires the parameter Encrypted to be set.")
}
