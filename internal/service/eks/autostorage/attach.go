package autostorage

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// attach attaches a volume to a node, or detaches it when its attachment is being deleted. A failure is in the status of the
// attachment, from which Kubernetes makes events of pods.
func (r *run) attach(a *storagev1.VolumeAttachment) error {
	key, step := "attachError", r.attached
	switch {
	case a.DeletionTimestamp != nil && !slices.Contains(a.Finalizers, attachmentFinalizer):
		return nil
	case a.DeletionTimestamp != nil:
		key, step = "detachError", r.detached
	case a.Status.Attached:
		return nil
	}
	err := step(a)
	if err == nil || errors.Is(err, base.ErrSoon) {
		return err
	}
	message := err.Error()
	if len(message) > messageSize {
		message = strings.ToValidUTF8(message[:messageSize], "")
	}
	last := a.Status.AttachError
	if key == "detachError" {
		last = a.Status.DetachError
	}
	if last != nil && plane.Steady(last.Message) == plane.Steady(message) { // a change would start the next pass at once
		return err
	}
	return errors.Join(err, r.patch(r.ctx, a, map[string]any{"status": map[string]any{key: map[string]any{"time": timestamp(r.s.Now()), "message": message}}}, "status"))
}

// messageSize bounds the messages of attachments, as the API server does.
const messageSize = 1024

// attached attaches a volume.
func (r *run) attached(a *storagev1.VolumeAttachment) error {
	v, ok := r.volumes.Get(aws.ToString(a.Spec.Source.PersistentVolumeName))
	if !ok || v.Spec.CSI == nil {
		return fmt.Errorf("could not get PersistentVolume %q", aws.ToString(a.Spec.Source.PersistentVolumeName))
	}
	n := r.nodeNamed(a.Spec.NodeName)
	if n == nil {
		return fmt.Errorf("CSINode %s does not contain driver %s", a.Spec.NodeName, Driver)
	}
	volume, instance := v.Spec.CSI.VolumeHandle, kube.InstanceID(n.Spec.ProviderID)
	if a.Annotations[nodeID] != instance || a.Annotations[volumeID] != volume || !slices.Contains(a.Finalizers, attachmentFinalizer) {
		if err := r.setFinalizer(r.ctx, a, attachmentFinalizer, true, map[string]string{nodeID: instance, volumeID: volume}); err != nil {
			return err
		}
	}
	failed := func(err error) error {
		return status("Internal", "Could not attach volume %q to node %q: %v", volume, instance, err)
	}
	found, err := r.describe(volume)
	if err != nil {
		return failed(err)
	}
	for _, has := range found.Attachments {
		if aws.ToString(has.InstanceId) != instance {
			continue
		}
		if has.State != ec2types.VolumeAttachmentStateAttached {
			return base.ErrSoon
		}
		return r.patch(r.ctx, a, map[string]any{"status": map[string]any{
			"attached": true, "attachError": nil, "attachmentMetadata": map[string]string{"devicePath": aws.ToString(has.Device)},
		}}, "status")
	}
	device, err := r.device(instance)
	if err != nil {
		return failed(err)
	}
	role, err := r.role()
	if err != nil {
		return failed(err)
	}
	if _, err := r.s.Volumes.AttachVolume(role, &awsec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance, Device: &device}); err != nil {
		return failed(err)
	}
	return base.ErrSoon
}

// device returns a device name that an instance does not use.
func (r *run) device(instance string) (string, error) {
	out, err := r.s.Instances.DescribeInstances(r.svc, &awsec2.DescribeInstancesInput{InstanceIds: []string{instance}})
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	for _, res := range out.Reservations {
		for _, i := range res.Instances {
			for _, d := range i.BlockDeviceMappings {
				used[aws.ToString(d.DeviceName)] = true
			}
		}
	}
	for first := 'a'; first <= 'd'; first++ {
		for second := 'a'; second <= 'z'; second++ {
			if name := "/dev/xvd" + string(first) + string(second); !used[name] {
				return name, nil
			}
		}
	}
	return "", errors.New("no device name is free")
}

// detached detaches a volume, and lets its attachment go.
func (r *run) detached(a *storagev1.VolumeAttachment) error {
	instance, volume := a.Annotations[nodeID], a.Annotations[volumeID]
	if v, ok := r.volumes.Get(aws.ToString(a.Spec.Source.PersistentVolumeName)); volume == "" && ok && v.Spec.CSI != nil {
		volume = v.Spec.CSI.VolumeHandle // attached by a Drydock that did not write the annotation
	}
	if volume == "" || instance == "" {
		return r.setFinalizer(r.ctx, a, attachmentFinalizer, false, nil)
	}
	found, err := r.describe(volume)
	if err != nil && awserr.CodeOf(err) != "InvalidVolume.NotFound" {
		return status("Internal", "Could not detach volume %q from node %q: %v", volume, instance, err)
	}
	i := -1
	if err == nil {
		i = slices.IndexFunc(found.Attachments, func(x ec2types.VolumeAttachment) bool {
			return aws.ToString(x.InstanceId) == instance && x.State != ec2types.VolumeAttachmentStateDetached
		})
	}
	switch {
	case i < 0:
		return r.setFinalizer(r.ctx, a, attachmentFinalizer, false, nil)
	case found.Attachments[i].State == ec2types.VolumeAttachmentStateDetaching:
		return base.ErrSoon
	}
	role, err := r.role()
	if err == nil {
		_, err = r.s.Volumes.DetachVolume(role, &awsec2.DetachVolumeInput{VolumeId: &volume, InstanceId: &instance})
	}
	for _, gone := range []string{"IncorrectState", "InvalidAttachment.NotFound", "InvalidVolume.NotFound", "InvalidInstanceID.NotFound"} {
		if awserr.CodeOf(err) == gone {
			err = nil
		}
	}
	if err != nil {
		return status("Internal", "Could not detach volume %q from node %q: %v", volume, instance, err)
	}
	return base.ErrSoon
}

// onSimulatedNode reports whether a volume is attached to an instance that does not run containers, and so has no file system.
func (r *run) onSimulatedNode(v *corev1.PersistentVolume) bool {
	for _, a := range r.attachments.All() {
		if aws.ToString(a.Spec.Source.PersistentVolumeName) != v.Name || !a.Status.Attached {
			continue
		}
		return !r.s.RunsContainers(a.Annotations[nodeID])
	}
	return false
}
