package autostorage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// Snapshots need the add-on snapshot-controller, which installs their types and makes contents for them.
var (
	snapshotGroup    = schema.GroupVersion{Group: "snapshot.storage.k8s.io", Version: "v1"}
	snapshotContents = snapshotGroup.WithResource("volumesnapshotcontents")
)

const (
	snapshotFinalizer = "snapshot.storage.kubernetes.io/volumesnapshotcontent-bound-protection"
	snapshotDeleted   = "snapshot.storage.kubernetes.io/volumesnapshot-being-deleted"
	// snapshotPoll is how often snapshots are looked for.
	snapshotPoll = 3 * time.Second
)

// pollSnapshots starts a pass when there are snapshots to be made or deleted, until ctx ends.
func (c *cluster) pollSnapshots(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.s.Clock.After(snapshotPoll):
		}
		all, _ := c.ses.Objects.List(ctx, snapshotContents) // the next pass says why this fails
		if slices.ContainsFunc(all, pending) {
			c.notify()
		}
	}
}

// pending reports whether a snapshot of this driver is to be made or deleted.
func pending(o unstructured.Unstructured) bool {
	ready, _, _ := unstructured.NestedBool(o.Object, "status", "readyToUse")
	return text(&o, "spec", "driver") == Driver && (!ready || leaves(&o))
}

// leaves reports whether a content is being deleted with its snapshot, or was made for a snapshot that exists in EC2 and is not
// bound to one of the cluster.
func leaves(o *unstructured.Unstructured) bool {
	unbound := text(o, "spec", "source", "snapshotHandle") != "" && text(o, "spec", "volumeSnapshotRef", "uid") == ""
	return o.GetDeletionTimestamp() != nil && (unbound || o.GetAnnotations()[snapshotDeleted] != "") && slices.Contains(o.GetFinalizers(), snapshotFinalizer)
}

func text(o *unstructured.Unstructured, fields ...string) string {
	s, _, _ := unstructured.NestedString(o.Object, fields...) // of another form is as if missing
	return s
}

// snapshots takes the next step of each snapshot.
func (r *run) snapshots() (errs []error) {
	all, err := r.ses.Objects.List(r.ctx, snapshotContents)
	if err != nil {
		errs = append(errs, fmt.Errorf("listing snapshots: %w", err))
	}
	for i := range all {
		o := &all[i]
		switch {
		case !pending(*o):
		case leaves(o):
			errs = append(errs, r.deleteSnapshot(o))
		case o.GetDeletionTimestamp() == nil:
			errs = append(errs, r.makeSnapshot(o))
		}
	}
	return errs
}

// makeSnapshot makes the snapshot of a content, and shows in its status how far it is.
func (r *run) makeSnapshot(o *unstructured.Unstructured) error {
	s, err := r.snapshot(o)
	var st map[string]any
	if err != nil {
		message := "Failed to check and update snapshot content: failed to take snapshot of the volume " + text(o, "spec", "source", "volumeHandle") + ": " + err.Error()
		r.events.Record(r.ctx, corev1.ObjectReference{Kind: "VolumeSnapshotContent", APIVersion: snapshotGroup.String(), Name: o.GetName(), UID: o.GetUID()},
			corev1.EventTypeWarning, "SnapshotCreationFailed", "Failed to create snapshot: "+err.Error())
		if plane.Steady(text(o, "status", "error", "message")) == plane.Steady(message) {
			return err
		}
		st = map[string]any{"readyToUse": false, "error": map[string]any{"time": timestamp(r.s.Now()), "message": message}}
	} else {
		st = map[string]any{
			"snapshotHandle": aws.ToString(s.SnapshotId), "creationTime": aws.ToTime(s.StartTime).UnixNano(), "restoreSize": int64(aws.ToInt32(s.VolumeSize)) * gib,
			"readyToUse": s.State == ec2types.SnapshotStateCompleted, "error": nil,
		}
	}
	if cerr := r.ses.Objects.PatchStatus(r.ctx, snapshotContents, o.GetName(), map[string]any{"status": st}); cerr != nil && !apierrors.IsNotFound(cerr) {
		return errors.Join(err, cerr)
	}
	if err == nil && s.State != ec2types.SnapshotStateCompleted {
		return base.ErrSoon
	}
	return err
}

// snapshot returns the snapshot of a content, which it makes if necessary.
func (r *run) snapshot(o *unstructured.Unstructured) (*ec2types.Snapshot, error) {
	id, name := text(o, "status", "snapshotHandle"), "snapshot-"+text(o, "spec", "volumeSnapshotRef", "uid")
	if id == "" {
		id = text(o, "spec", "source", "snapshotHandle")
	}
	in := &awsec2.DescribeSnapshotsInput{Filters: []ec2types.Filter{base.EC2Filter("tag:CSIVolumeSnapshotName", name)}}
	if id != "" {
		in = &awsec2.DescribeSnapshotsInput{SnapshotIds: []string{id}}
	}
	found, err := r.s.Volumes.DescribeSnapshots(r.svc, in)
	switch {
	case err != nil:
		return nil, status("Internal", "Could not create snapshot %q: %v", name, err)
	case len(found.Snapshots) > 0:
		return &found.Snapshots[0], nil
	case id != "":
		return nil, status("NotFound", "Snapshot id %s not found", id)
	}
	role, err := r.role()
	if err != nil {
		return nil, err
	}
	volume := text(o, "spec", "source", "volumeHandle")
	made, err := r.s.Volumes.CreateSnapshot(role, &awsec2.CreateSnapshotInput{
		VolumeId: &volume, Description: new("Created by AWS EBS CSI driver for volume " + volume),
		TagSpecifications: base.EC2Tags(ec2types.ResourceTypeSnapshot, r.ownTags("CSIVolumeSnapshotName", name)),
	})
	if err != nil {
		return nil, status("Internal", "Could not create snapshot %q: error creating snapshot of volume %s: %v", name, volume, err)
	}
	return &ec2types.Snapshot{SnapshotId: made.SnapshotId, VolumeId: made.VolumeId, VolumeSize: made.VolumeSize, StartTime: made.StartTime, State: made.State}, nil
}

// deleteSnapshot deletes the snapshot of a content if its policy says so, and lets the content go.
func (r *run) deleteSnapshot(o *unstructured.Unstructured) error {
	if id := text(o, "status", "snapshotHandle"); id != "" && text(o, "spec", "deletionPolicy") == "Delete" {
		_, err := r.s.Volumes.DeleteSnapshot(r.svc, &awsec2.DeleteSnapshotInput{SnapshotId: &id})
		if err != nil && awserr.CodeOf(err) != "InvalidSnapshot.NotFound" {
			return fmt.Errorf("deleting the snapshot %s: %w", id, err)
		}
	}
	next := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == snapshotFinalizer })
	err := r.ses.Objects.Patch(r.ctx, snapshotContents, o.GetName(), map[string]any{"metadata": map[string]any{"finalizers": next, "resourceVersion": o.GetResourceVersion()}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// snapshotOf returns the snapshot that a claim is to be made of, or nil.
func (r *run) snapshotOf(claim *corev1.PersistentVolumeClaim) (*string, error) {
	from := claim.Spec.DataSource
	switch {
	case from == nil:
		return nil, nil
	case from.Kind != "VolumeSnapshot" || aws.ToString(from.APIGroup) != snapshotGroup.Group:
		return nil, status("InvalidArgument", "only snapshots are supported as sources of volumes")
	}
	get := func(kind, namespace, name string) (*unstructured.Unstructured, error) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(snapshotGroup.WithKind(kind))
		o.SetNamespace(namespace)
		o.SetName(name)
		return r.ses.Objects.Get(r.ctx, o)
	}
	s, err := get("VolumeSnapshot", claim.Namespace, from.Name)
	if err != nil {
		return nil, fmt.Errorf("error getting handle for DataSource Type VolumeSnapshot by Name %s: %w", from.Name, err)
	}
	ready, _, _ := unstructured.NestedBool(s.Object, "status", "readyToUse")
	bound := text(s, "status", "boundVolumeSnapshotContentName")
	if !ready || bound == "" {
		return nil, fmt.Errorf("error getting handle for DataSource Type VolumeSnapshot by Name %s: snapshot %s is not Ready", from.Name, from.Name)
	}
	content, err := get("VolumeSnapshotContent", "", bound)
	if err != nil {
		return nil, fmt.Errorf("error getting handle for DataSource Type VolumeSnapshot by Name %s: %w", from.Name, err)
	}
	id := text(content, "status", "snapshotHandle")
	if id == "" {
		return nil, fmt.Errorf("error getting handle for DataSource Type VolumeSnapshot by Name %s: snapshot %s has no handle", from.Name, from.Name)
	}
	return &id, nil
}
