package ec2_test

import (
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (w *world) snapshots(t testing.TB, in *awsec2.DescribeSnapshotsInput) (out []string) {
	t.Helper()
	for _, s := range must(w.DescribeSnapshots(t.Context(), in))(t).Snapshots {
		out = append(out, *s.SnapshotId)
	}
	return out
}

func TestSnapshotLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	v := *must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(20), Encrypted: aws.Bool(true)}))(t).VolumeId
	_, err := w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: aws.String("vol-0123456789abcdef0")})
	wantError(t, err, "InvalidVolume.NotFound", "The volume 'vol-0123456789abcdef0' does not exist.")
	_, err = w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: &v, DryRun: aws.Bool(true)})
	wantError(t, err, "DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	if got := w.snapshots(t, &awsec2.DescribeSnapshotsInput{}); len(got) != 0 {
		t.Errorf("a dry run made %v", got)
	}
	made := must(w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{
		VolumeId: &v, Description: aws.String("nightly"), TagSpecifications: []ec2types.TagSpecification{{ResourceType: "snapshot", Tags: []ec2types.Tag{{Key: aws.String("app"), Value: aws.String("shop")}}}},
	}))(t)
	id := *made.SnapshotId
	if made.State != "pending" || *made.VolumeSize != 20 || !*made.Encrypted || *made.OwnerId == "" || len(made.Tags) != 1 {
		t.Errorf("made %+v", made)
	}
	got := must(w.DescribeSnapshots(ctx, &awsec2.DescribeSnapshotsInput{SnapshotIds: []string{id}}))(t).Snapshots[0]
	if got.State != "completed" || *got.Progress != "100%" || *got.VolumeId != v || *got.Description != "nightly" {
		t.Errorf("got %+v", got)
	}
	for _, f := range []struct{ name, value string }{{"volume-id", v}, {"tag:app", "shop"}, {"status", "completed"}, {"volume-size", "20"}, {"encrypted", "true"}, {"owner-id", *made.OwnerId}} {
		if got := w.snapshots(t, &awsec2.DescribeSnapshotsInput{Filters: filter(f.name, f.value)}); !slices.Equal(got, []string{id}) {
			t.Errorf("the filter %s found %v", f.name, got)
		}
	}
	if got := w.snapshots(t, &awsec2.DescribeSnapshotsInput{OwnerIds: []string{"amazon"}}); len(got) != 0 {
		t.Errorf("Amazon owns %v", got)
	}

	// A volume from a snapshot is at least as large, and encrypted if the snapshot is.
	_, err = w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), SnapshotId: &id, Size: aws.Int32(8)})
	wantError(t, err, "InvalidParameterValue", "Volume of size 8GB is smaller than snapshot '"+id+"', expect size >= 20GB")
	restored := must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1b"), SnapshotId: &id}))(t)
	if *restored.Size != 20 || *restored.SnapshotId != id || !*restored.Encrypted {
		t.Errorf("restored %+v", restored)
	}
	brief := must(w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: &v}))(t).SnapshotId
	once := &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1b"), SnapshotId: brief, ClientToken: aws.String("once")}
	first := must(w.CreateVolume(ctx, once))(t)
	must(w.DeleteSnapshot(ctx, &awsec2.DeleteSnapshotInput{SnapshotId: brief}))(t)
	if again := must(w.CreateVolume(ctx, once))(t); *again.VolumeId != *first.VolumeId {
		t.Errorf("the token made %s, and then %s", *first.VolumeId, *again.VolumeId)
	}
	_, err = w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), SnapshotId: aws.String("snap-0123456789abcdef0")})
	wantError(t, err, "InvalidSnapshot.NotFound", "The snapshot 'snap-0123456789abcdef0' does not exist.")

	// Sharing.
	share := func(in *awsec2.ModifySnapshotAttributeInput) error {
		in.SnapshotId = &id
		_, err := w.ModifySnapshotAttribute(ctx, in)
		return err
	}
	if err := share(&awsec2.ModifySnapshotAttributeInput{OperationType: "add", UserIds: []string{"111122223333"}}); err != nil {
		t.Fatal(err)
	}
	wantError(t, share(&awsec2.ModifySnapshotAttributeInput{OperationType: "add", GroupNames: []string{"all"}}), "InvalidParameterValue", "Encrypted snapshots cannot be shared publicly")
	permissions := func() []ec2types.CreateVolumePermission {
		return must(w.DescribeSnapshotAttribute(ctx, &awsec2.DescribeSnapshotAttributeInput{SnapshotId: &id, Attribute: "createVolumePermission"}))(t).CreateVolumePermissions
	}
	if got := permissions(); len(got) != 1 || *got[0].UserId != "111122223333" {
		t.Errorf("shared with %+v", got)
	}
	if got := w.snapshots(t, &awsec2.DescribeSnapshotsInput{RestorableByUserIds: []string{"111122223333"}}); len(got) != 1 {
		t.Errorf("restorable are %v", got)
	}
	must(w.ResetSnapshotAttribute(ctx, &awsec2.ResetSnapshotAttributeInput{SnapshotId: &id, Attribute: "createVolumePermission"}))(t)
	if got := permissions(); len(got) != 0 {
		t.Errorf("still shared with %+v", got)
	}

	wantError(t, share(&awsec2.ModifySnapshotAttributeInput{OperationType: "add", UserIds: []string{"me"}}), "InvalidAMIAttributeItemValue", `Invalid attribute item value "me" for userId item type.`)
	_, err = w.DeleteSnapshot(ctx, &awsec2.DeleteSnapshotInput{SnapshotId: aws.String("nightly")})
	wantError(t, err, "InvalidSnapshotID.Malformed", `Invalid id: "nightly" (expecting "snap-...")`)
	twin := must(w.CopySnapshot(ctx, &awsec2.CopySnapshotInput{SourceRegion: aws.String("us-east-1"), SourceSnapshotId: &id, Description: aws.String("twin")}))(t)
	if got := must(w.DescribeSnapshots(ctx, &awsec2.DescribeSnapshotsInput{SnapshotIds: []string{*twin.SnapshotId}}))(t).Snapshots[0]; *got.VolumeId != "vol-ffffffff" || !*got.Encrypted || *got.VolumeSize != 20 {
		t.Errorf("the copy is %+v", got)
	}
	must(w.DeleteSnapshot(ctx, &awsec2.DeleteSnapshotInput{SnapshotId: &id}))(t)
	_, err = w.DescribeSnapshots(ctx, &awsec2.DescribeSnapshotsInput{SnapshotIds: []string{id}})
	wantError(t, err, "InvalidSnapshot.NotFound", "The snapshot '"+id+"' does not exist.")
}

func TestImageLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	i := w.launch(t, 1, nil)[0]
	create := func(name string) (*awsec2.CreateImageOutput, error) {
		return w.CreateImage(ctx, &awsec2.CreateImageInput{InstanceId: i.InstanceId, Name: &name, Description: aws.String("golden"), TagSpecifications: []ec2types.TagSpecification{
			{ResourceType: "image", Tags: []ec2types.Tag{{Key: aws.String("app"), Value: aws.String("shop")}}},
			{ResourceType: "snapshot", Tags: []ec2types.Tag{{Key: aws.String("of"), Value: aws.String("image")}}},
		}})
	}
	_, err := create("no")
	wantError(t, err, "InvalidAMIName.Malformed", "AMI names must be between 3 and 128 characters long, and may contain letters, numbers, '(', ')', '.', '-', '/' and '_'")
	id := *must(create("shop-1"))(t).ImageId
	_, err = create("shop-1")
	wantError(t, err, "InvalidAMIName.Duplicate", "AMI name shop-1 is already in use by AMI "+id)

	own := must(w.DescribeImages(ctx, &awsec2.DescribeImagesInput{Owners: []string{"self"}}))(t).Images
	if len(own) != 1 || *own[0].ImageId != id || own[0].State != "available" || *own[0].Public || own[0].ImageOwnerAlias != nil || *own[0].SourceInstanceId != *i.InstanceId ||
		*own[0].ImageLocation != *own[0].OwnerId+"/shop-1" || *own[0].RootDeviceName != *i.RootDeviceName || own[0].Architecture != i.Architecture || len(own[0].Tags) != 1 {
		t.Fatalf("own images: %+v", own)
	}
	snap := *own[0].BlockDeviceMappings[0].Ebs.SnapshotId
	if got := w.snapshots(t, &awsec2.DescribeSnapshotsInput{Filters: filter("tag:of", "image")}); !slices.Equal(got, []string{snap}) {
		t.Errorf("the image's snapshots are %v", got)
	}
	_, err = w.DeleteSnapshot(ctx, &awsec2.DeleteSnapshotInput{SnapshotId: &snap})
	wantError(t, err, "InvalidSnapshot.InUse", "The snapshot "+snap+" is currently in use by "+id)

	// It launches, and its volume comes from the snapshot.
	j := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.ImageId = &id })[0]
	if v := w.volume(t, *j.BlockDeviceMappings[0].Ebs.VolumeId); *v.SnapshotId != snap || *j.ImageId != id {
		t.Errorf("launched %+v with %+v", j, v)
	}

	// Copies, and images of snapshots, keep the operating system.
	twin := *must(w.CopyImage(ctx, &awsec2.CopyImageInput{
		Name: aws.String("shop-1-encrypted"), SourceImageId: &id, SourceRegion: aws.String("us-east-1"), Encrypted: aws.Bool(true), CopyImageTags: aws.Bool(true), ClientToken: aws.String("once"),
	}))(t).ImageId
	again := *must(w.CopyImage(ctx, &awsec2.CopyImageInput{
		Name: aws.String("shop-1-encrypted"), SourceImageId: &id, SourceRegion: aws.String("us-east-1"), Encrypted: aws.Bool(true), CopyImageTags: aws.Bool(true), ClientToken: aws.String("once"),
	}))(t).ImageId
	copied := must(w.DescribeImages(ctx, &awsec2.DescribeImagesInput{ImageIds: []string{twin}}))(t).Images[0]
	if twin != again || !*copied.BlockDeviceMappings[0].Ebs.Encrypted || *copied.SourceImageId != id || len(copied.Tags) != 1 {
		t.Errorf("copied %s and %s: %+v", twin, again, copied)
	}
	public := *must(w.CopyImage(ctx, &awsec2.CopyImageInput{Name: aws.String("al2023"), SourceImageId: i.ImageId, SourceRegion: aws.String("us-east-1")}))(t).ImageId
	w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.ImageId = &public })
	mapping := []ec2types.BlockDeviceMapping{{DeviceName: i.RootDeviceName, Ebs: &ec2types.EbsBlockDevice{SnapshotId: &snap}}}
	registered := *must(w.RegisterImage(ctx, &awsec2.RegisterImageInput{Name: aws.String("registered"), RootDeviceName: i.RootDeviceName, Architecture: "x86_64", BlockDeviceMappings: mapping}))(t).ImageId
	w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.ImageId = &registered })

	// Sharing. Another account can launch the image, and copy it if its snapshots are shared too.
	other := w.server.Account(t)
	cfg := w.server.AWSConfig(other)
	cfg.HTTPClient = codeRecorder{cfg.HTTPClient, answered}
	theirs := awsec2.NewFromConfig(cfg)
	for _, c := range []struct{ image, snapshot, code, text string }{
		{"", "", "InvalidAMIID.NotFound", "The image id '[" + id + "]' does not exist"},
		{id, "", "InvalidRequest", "You do not have permission to access the storage of this ami"},
		{id, snap, "", ""},
	} {
		if c.image != "" {
			must(w.ModifyImageAttribute(ctx, &awsec2.ModifyImageAttributeInput{ImageId: &id, OperationType: "add", UserIds: []string{other}}))(t)
		}
		if c.snapshot != "" {
			must(w.ModifySnapshotAttribute(ctx, &awsec2.ModifySnapshotAttributeInput{SnapshotId: &snap, OperationType: "add", UserIds: []string{other}}))(t)
		}
		if _, err := theirs.CopyImage(ctx, &awsec2.CopyImageInput{Name: aws.String("theirs"), SourceImageId: &id, SourceRegion: aws.String("us-east-1")}); c.code != "" {
			wantError(t, err, c.code, c.text)
		} else if err != nil {
			t.Error(err)
		}
	}
	must(theirs.RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: &id, InstanceType: "t3.micro", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}))(t)
	must(w.ResetImageAttribute(ctx, &awsec2.ResetImageAttributeInput{ImageId: &id, Attribute: "launchPermission"}))(t)
	must(w.ModifyImageAttribute(ctx, &awsec2.ModifyImageAttributeInput{ImageId: &id, LaunchPermission: &ec2types.LaunchPermissionModifications{Add: []ec2types.LaunchPermission{{UserId: aws.String("111122223333")}}}}))(t)
	if got := must(w.DescribeImageAttribute(ctx, &awsec2.DescribeImageAttributeInput{ImageId: &id, Attribute: "launchPermission"}))(t).LaunchPermissions; len(got) != 1 {
		t.Errorf("shared with %+v", got)
	}
	if got := must(w.DescribeImages(ctx, &awsec2.DescribeImagesInput{ExecutableUsers: []string{"111122223333"}}))(t).Images; len(got) != 1 {
		t.Errorf("executable are %+v", got)
	}

	// A snapshot that another image uses stays.
	gone := must(w.DeregisterImage(ctx, &awsec2.DeregisterImageInput{ImageId: &id, DeleteAssociatedSnapshots: aws.Bool(true)}))(t)
	if len(gone.DeleteSnapshotResults) != 1 || gone.DeleteSnapshotResults[0].ReturnCode != "skipped" {
		t.Errorf("deregistering says %+v", gone.DeleteSnapshotResults)
	}
	must(w.DeregisterImage(ctx, &awsec2.DeregisterImageInput{ImageId: &registered}))(t)
	must(w.DeleteSnapshot(ctx, &awsec2.DeleteSnapshotInput{SnapshotId: &snap}))(t)
	_, err = w.RunInstances(ctx, &awsec2.RunInstancesInput{ImageId: &id, MinCount: aws.Int32(1), MaxCount: aws.Int32(1)})
	wantError(t, err, "InvalidAMIID.NotFound", "The image id '["+id+"]' does not exist")
	w.await(t, "running", *j.InstanceId)
}
