package ec2_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A root volume replacement task reboots the instance with a volume like the old one, from the old one's snapshot, a snapshot of a root
// volume or an image. The instance keeps its addresses.
func TestReplaceRootVolume(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	launched := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(30), VolumeType: "gp3", DeleteOnTermination: aws.Bool(false)}}}
	})[0]
	id := *launched.InstanceId
	replace := func(in *awsec2.CreateReplaceRootVolumeTaskInput) (*awsec2.CreateReplaceRootVolumeTaskOutput, error) {
		in.InstanceId = &id
		return w.CreateReplaceRootVolumeTask(ctx, in)
	}
	describe := func(task string) ec2types.ReplaceRootVolumeTask {
		t.Helper()
		return must(w.DescribeReplaceRootVolumeTasks(ctx, &awsec2.DescribeReplaceRootVolumeTasksInput{ReplaceRootVolumeTaskIds: []string{task}}))(t).ReplaceRootVolumeTasks[0]
	}
	complete := func(in *awsec2.CreateReplaceRootVolumeTaskInput) (ec2types.ReplaceRootVolumeTask, ec2types.Instance) {
		t.Helper()
		made := must(replace(in))(t).ReplaceRootVolumeTask
		if made.TaskState != "pending" || made.CompleteTime != nil {
			t.Errorf("made %+v", made)
		}
		var done ec2types.ReplaceRootVolumeTask
		testkit.Eventually(t, 10*time.Second, func() error {
			if done = describe(*made.ReplaceRootVolumeTaskId); done.TaskState != "succeeded" {
				return errors.New(string(done.TaskState))
			}
			return nil
		})
		return done, w.await(t, "running", id)[0]
	}
	volume := func(i ec2types.Instance) string { return *i.BlockDeviceMappings[0].Ebs.VolumeId }
	volumes := func(ids ...string) []ec2types.Volume {
		t.Helper()
		return must(w.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{VolumeIds: ids}))(t).Volumes
	}

	first := w.await(t, "running", id)[0]
	original := volume(first)
	snapshot := must(w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: &original}))(t).SnapshotId
	task, second := complete(&awsec2.CreateReplaceRootVolumeTaskInput{})
	if task.CompleteTime == nil || *task.InstanceId != id || *task.DeleteReplacedRootVolume {
		t.Errorf("task %+v", task)
	}
	if volume(second) == original || *second.PrivateIpAddress != *first.PrivateIpAddress || *second.ImageId != *first.ImageId {
		t.Errorf("instance %+v", second)
	}
	old, replaced := volumes(original)[0], volumes(volume(second))[0]
	if old.State != "available" || replaced.State != "in-use" || *replaced.Size != 30 || replaced.VolumeType != "gp3" || *replaced.SnapshotId != *old.SnapshotId || *replaced.Attachments[0].DeleteOnTermination {
		t.Errorf("volumes %+v and %+v", old, replaced)
	}

	_, third := complete(&awsec2.CreateReplaceRootVolumeTaskInput{SnapshotId: snapshot, DeleteReplacedRootVolume: aws.Bool(true)})
	if v := volumes(volume(third))[0]; *v.SnapshotId != *snapshot {
		t.Errorf("volume %+v", v)
	}
	if left := must(w.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{Filters: filter("volume-id", volume(second))}))(t).Volumes; len(left) != 0 {
		t.Errorf("the replaced volume is left: %+v", left)
	}
	other := must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: third.Placement.AvailabilityZone, Size: aws.Int32(8)}))(t).VolumeId
	foreign := must(w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: other}))(t).SnapshotId
	_, err := replace(&awsec2.CreateReplaceRootVolumeTaskInput{SnapshotId: foreign})
	wantError(t, err, "InvalidParameterValue", "")
	_, err = replace(&awsec2.CreateReplaceRootVolumeTaskInput{ImageId: image(t, "arm64")})
	wantError(t, err, "InvalidParameterValue", "")

	mine := must(w.CreateImage(ctx, &awsec2.CreateImageInput{InstanceId: &id, Name: aws.String("mine")}))(t).ImageId
	_, fourth := complete(&awsec2.CreateReplaceRootVolumeTaskInput{ImageId: mine})
	if *fourth.ImageId != *mine {
		t.Errorf("the instance has the image %s, want %s", *fourth.ImageId, *mine)
	}
	if m, ok := w.machines.get(id); !ok || m.Image.ID != *mine {
		t.Errorf("machine %+v", m)
	}
	if got := must(w.DescribeReplaceRootVolumeTasks(ctx, &awsec2.DescribeReplaceRootVolumeTasksInput{Filters: filter("instance-id", id)}))(t).ReplaceRootVolumeTasks; len(got) != 3 {
		t.Errorf("%d tasks", len(got))
	}
	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	w.await(t, "stopped", id)
	_, err = replace(&awsec2.CreateReplaceRootVolumeTaskInput{})
	wantError(t, err, "IncorrectInstanceState", "The instance '"+id+"' is not in the 'running' state.")
	w.machines.mu.Lock()
	defer w.machines.mu.Unlock()
	if want := []string{"", *snapshot, ""}; !slices.Equal(w.machines.replaced, want) {
		t.Errorf("disks were replaced from %q, want %q", w.machines.replaced, want)
	}
}

// An instance's newest 20 tasks are kept, until the instance is no longer described.
func TestRootTasksAreBounded(t *testing.T) {
	timing := clock.Fast()
	timing.InstanceTerminatedVisible = 0
	w := newTimedWorld(t, timing)
	ctx := t.Context()
	id := *w.launch(t, 1, nil)[0].InstanceId
	w.await(t, "running", id)
	tasks := func() []ec2types.ReplaceRootVolumeTask {
		t.Helper()
		var out []ec2types.ReplaceRootVolumeTask
		for pages := awsec2.NewDescribeReplaceRootVolumeTasksPaginator(w, &awsec2.DescribeReplaceRootVolumeTasksInput{Filters: filter("instance-id", id)}); pages.HasMorePages(); {
			out = append(out, must(pages.NextPage(ctx))(t).ReplaceRootVolumeTasks...)
		}
		return out
	}
	var made []string
	for range 21 {
		task := *must(w.CreateReplaceRootVolumeTask(ctx, &awsec2.CreateReplaceRootVolumeTaskInput{InstanceId: &id, DeleteReplacedRootVolume: aws.Bool(true)}))(t).ReplaceRootVolumeTask.ReplaceRootVolumeTaskId
		made = append(made, task)
		testkit.Eventually(t, 10*time.Second, func() error {
			if got := must(w.DescribeReplaceRootVolumeTasks(ctx, &awsec2.DescribeReplaceRootVolumeTasksInput{ReplaceRootVolumeTaskIds: []string{task}}))(t).ReplaceRootVolumeTasks[0]; got.TaskState != "succeeded" {
				return errors.New(string(got.TaskState))
			}
			return nil
		})
	}
	left := tasks()
	if len(left) != 20 || slices.ContainsFunc(left, func(task ec2types.ReplaceRootVolumeTask) bool { return *task.ReplaceRootVolumeTaskId == made[0] }) {
		t.Errorf("%d tasks are left", len(left))
	}
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if n := len(tasks()); n > 0 {
			return fmt.Errorf("%d tasks are left", n)
		}
		return nil
	})
}
