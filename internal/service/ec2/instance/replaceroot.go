package instance

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A RootTask replaces the root volume of an instance. The records are changed at once; the machine reboots with the new
// volume, and completes the task.
type RootTask struct {
	ID, InstanceID      string
	SnapshotID, ImageID string `json:",omitempty"` // the source, or both empty for the volume's own snapshot
	OldVolume           string
	DeleteOld           bool      `json:",omitempty"`
	Started             time.Time // to the nanosecond: it is the order of the tasks
	Completed           time.Time `json:",omitzero"`
	Tags                tag.Set   `json:",omitempty"`
}

// RootTasks is the collection. The texts of its errors are from memory.
var RootTasks = resource.NewKind("replace-root-volume-task", resource.IDKind{
	Prefix: "replacevol", Malformed: "InvalidReplaceRootVolumeTaskId.Malformed", NotFoundCode: "InvalidReplaceRootVolumeTaskId.NotFound",
	NotFoundOne: "The replace root volume task ID '%s' does not exist", NotFoundMany: "The replace root volume task IDs '%s' do not exist",
}, func(t *RootTask) (string, *tag.Set) { return t.ID, &t.Tags })

// state returns a task's state. The task of an instance that has ended before its reboot fails.
func (t RootTask) state(r store.Reader, sc resource.Scope) ec2types.ReplaceRootVolumeTaskState {
	if !t.Completed.IsZero() {
		return ec2types.ReplaceRootVolumeTaskStateSucceeded
	}
	if i, err := record.Instances.Get(r, sc.Key(t.InstanceID)); err != nil || i.RootTask != t.ID {
		return ec2types.ReplaceRootVolumeTaskStateFailedDetached
	}
	return ec2types.ReplaceRootVolumeTaskStateInProgress
}

// current returns a task with its state. The task may have completed after t was read and before its instance was.
func (t RootTask) current(r store.Reader, sc resource.Scope) ec2types.ReplaceRootVolumeTask {
	state := t.state(r, sc)
	if now, err := RootTasks.Get(r, sc.Key(t.ID)); state == ec2types.ReplaceRootVolumeTaskStateFailedDetached && err == nil {
		t, state = now, now.state(r, sc)
	}
	return t.sdk(state)
}

func (t RootTask) sdk(state ec2types.ReplaceRootVolumeTaskState) ec2types.ReplaceRootVolumeTask {
	const form = "2006-01-02T15:04:05Z"
	out := ec2types.ReplaceRootVolumeTask{
		ReplaceRootVolumeTaskId: &t.ID, InstanceId: &t.InstanceID, TaskState: state, StartTime: aws.String(t.Started.UTC().Format(form)),
		SnapshotId: resource.Optional(t.SnapshotID), ImageId: resource.Optional(t.ImageID), DeleteReplacedRootVolume: aws.Bool(t.DeleteOld), Tags: t.Tags.SDK(),
	}
	if !t.Completed.IsZero() {
		out.CompleteTime = aws.String(t.Completed.UTC().Format(form))
	}
	return out
}

// CreateReplaceRootVolumeTask replaces the root volume of a running instance, which reboots. The rules are in
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/replace-root.html; the texts of its refusals are from memory.
func (s *Service) CreateReplaceRootVolumeTask(ctx context.Context, in *awsec2.CreateReplaceRootVolumeTaskInput) (*awsec2.CreateReplaceRootVolumeTaskOutput, error) {
	sc := resource.ScopeOf(ctx)
	if aws.ToString(in.InstanceId) == "" {
		return nil, ec2err.Missing("instanceId")
	}
	if in.SnapshotId != nil && in.ImageId != nil {
		return nil, ec2err.Combination("You can specify either a snapshot or an image, but not both.")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeReplaceRootVolumeTask)
	if err != nil {
		return nil, err
	}
	made, err := resource.Create(ctx, s.Core, RootTasks, in.DryRun, in.ClientToken, in, func(tx *store.Tx, t *RootTask) error {
		i, err := resource.Get(tx, record.Instances, sc, *in.InstanceId)
		if err != nil {
			return err
		}
		if err := s.checkRootTask(tx, sc, i, aws.ToString(in.SnapshotId)); err != nil {
			return err
		}
		*t = RootTask{
			ID: ids.Resource("replacevol"), InstanceID: i.ID, SnapshotID: aws.ToString(in.SnapshotId), ImageID: aws.ToString(in.ImageId),
			DeleteOld: aws.ToBool(in.DeleteReplacedRootVolume), Started: s.Clock.Now().UTC(), Tags: tags,
		}
		source, err := s.rootSource(tx, sc, &i, t)
		if err != nil {
			return err
		}
		if t.OldVolume, err = storage.ReplaceRoot(tx, sc, &i, source, t.DeleteOld, s.Now()); err != nil {
			return err
		}
		dropRootTasks(tx, sc, i.ID, maxRootTasks-1)
		i.Boot++
		i.RootTask = t.ID
		return record.Instances.Put(tx, sc.Key(i.ID), i)
	})
	if err != nil {
		return nil, err
	}
	out := made.sdk(ec2types.ReplaceRootVolumeTaskStatePending)
	return &awsec2.CreateReplaceRootVolumeTaskOutput{ReplaceRootVolumeTask: &out}, nil
}

// maxRootTasks is how many tasks of an instance are kept. AWS does not say how long it shows them. Here the newest stay as long as
// the instance, because they know its former root volumes, whose snapshots may replace the current one.
const maxRootTasks = 20

// dropRootTasks deletes an instance's oldest tasks, except the newest keep, as far as one transaction can. It reports whether that
// was all: earlier versions kept every task.
func dropRootTasks(tx *store.Tx, sc resource.Scope, instance string, keep int) (all bool) {
	tasks := resource.List(tx, RootTasks, sc, func(t RootTask) bool { return t.InstanceID == instance })
	slices.SortFunc(tasks, func(a, b RootTask) int { return a.Started.Compare(b.Started) })
	old := max(0, len(tasks)-keep)
	n := min(old, 2*maxRootTasks)
	for _, t := range tasks[:n] {
		RootTasks.Delete(tx, sc.Key(t.ID))
	}
	return n == old
}

func (s *Service) checkRootTask(tx *store.Tx, sc resource.Scope, i record.Instance, snapshot string) error {
	if i.State != record.Running {
		return ec2err.New("IncorrectInstanceState", "The instance '%s' is not in the 'running' state.", i.ID)
	}
	if i.RootTask != "" {
		return ec2err.New("IncorrectState", "A root volume replacement task is already in progress for instance '%s'.", i.ID)
	}
	if typ, ok := instancetypes.Lookup(i.Type); ok && typ.BareMetal {
		return ec2err.UnsupportedOperation("Root volume replacement is not supported for the bare metal instance type %s.", i.Type)
	}
	if snapshot == "" {
		return nil
	}
	from, err := resource.Get(tx, storage.Snapshots, sc, snapshot)
	if err != nil {
		return err
	}
	roots := []string{i.RootVolume()}
	for _, t := range resource.List(tx, RootTasks, sc, func(t RootTask) bool { return t.InstanceID == i.ID }) {
		roots = append(roots, t.OldVolume)
	}
	if !slices.Contains(roots, from.VolumeID) {
		return ec2err.InvalidParameterValue("The snapshot '%s' was not created from a root volume of instance '%s'.", snapshot, i.ID)
	}
	return nil
}

// rootSource returns what a task's new volume is created from. An image becomes the instance's own.
func (s *Service) rootSource(tx *store.Tx, sc resource.Scope, i *record.Instance, t *RootTask) (storage.RootSource, error) {
	switch {
	case t.SnapshotID != "":
		from, err := resource.Get(tx, storage.Snapshots, sc, t.SnapshotID)
		return storage.RootSource{SnapshotID: from.ID, Encrypted: from.Encrypted, KMSKeyID: from.KMSKeyID}, err
	case t.ImageID != "":
		img, ok := s.images.ResolveImage(sc, t.ImageID)
		if !ok {
			return storage.RootSource{}, resource.ImageID.NotFound(t.ImageID)
		}
		if img.Architecture != i.Architecture {
			return storage.RootSource{}, ec2err.InvalidParameterValue("The architecture '%s' of the specified image does not match the architecture '%s' of instance '%s'.", img.Architecture, i.Architecture, i.ID)
		}
		i.ImageID, i.BaseImage = img.ID, img.BaseName()
		for n, d := range img.Devices {
			if d.Name == img.RootDevice {
				return storage.RootSource{SnapshotID: image.SnapshotOf(img, n), SizeGiB: d.SizeGiB, Encrypted: d.Encrypted, KMSKeyID: d.KMSKeyID}, nil
			}
		}
		return storage.RootSource{}, nil
	}
	return storage.RootSource{SnapshotID: s.volume(sc, *i, i.RootDevice).SnapshotID}, nil
}

// replaceDisk gives a machine that is off its new root volume.
func (s runner) replaceDisk(k store.Key, i record.Instance) error {
	t, err := RootTasks.Get(s.Store, resource.KeyScope(k).Key(i.RootTask))
	if err != nil {
		return err
	}
	return s.machines.ReplaceDisk(i.ID, t.SnapshotID)
}

// completeRootTask completes the task, if there is one, of a machine that has started with its new root volume. Only then is it
// successful: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ReplaceRootVolumeTask.html
func (s runner) completeRootTask(ctx context.Context, k store.Key, i record.Instance) error {
	if i.RootTask == "" {
		return nil
	}
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		if err := RootTasks.Update(tx, resource.KeyScope(k).Key(i.RootTask), func(t *RootTask) error { t.Completed = s.Now(); return nil }); err != nil {
			return err
		}
		return record.Instances.Update(tx, k, func(i *record.Instance) error { i.RootTask = ""; return nil })
	})
	if err != nil {
		return fmt.Errorf("completing the replacement of the root volume of %s: %w", k.ID, err)
	}
	return nil
}

// DescribeReplaceRootVolumeTasks lists tasks.
func (s *Service) DescribeReplaceRootVolumeTasks(ctx context.Context, in *awsec2.DescribeReplaceRootVolumeTasksInput) (*awsec2.DescribeReplaceRootVolumeTasksOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, RootTasks, resource.Query{
		IDs: in.ReplaceRootVolumeTaskIds, Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 1, Max: 50},
	}, filter.Fields[RootTask]{"instance-id": filter.One(func(t RootTask) string { return t.InstanceID })})
	if err != nil {
		return nil, err
	}
	return &awsec2.DescribeReplaceRootVolumeTasksOutput{NextToken: next, ReplaceRootVolumeTasks: resource.Map(found, func(t RootTask) ec2types.ReplaceRootVolumeTask {
		return t.current(s.Store, sc)
	})}, nil
}
