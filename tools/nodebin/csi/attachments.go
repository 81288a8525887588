package main

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
)

// deviceNames are those of attached volumes, in the order of their use.
func deviceNames(yield func(string) bool) {
	for first := 'a'; first <= 'd'; first++ {
		for second := 'a'; second <= 'z'; second++ {
			if !yield("/dev/xvd" + string(first) + string(second)) {
				return
			}
		}
	}
}

// attach attaches a volume to an instance, unless it is, and returns its device name.
func (s *controllerServer) attach(ctx context.Context, volume, instance string) (string, error) {
	s.attaching.Lock()
	defer s.attaching.Unlock()
	out, err := s.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{instance}})
	if err != nil {
		return "", err
	}
	used := map[string]bool{}
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			for _, d := range i.BlockDeviceMappings {
				used[aws.ToString(d.DeviceName)] = true
				if d.Ebs != nil && aws.ToString(d.Ebs.VolumeId) == volume {
					return aws.ToString(d.DeviceName), nil
				}
			}
		}
	}
	for name := range deviceNames {
		if !used[name] {
			_, err := s.ec2.AttachVolume(ctx, &ec2.AttachVolumeInput{VolumeId: &volume, InstanceId: &instance, Device: &name})
			return name, err
		}
	}
	return "", errors.New("no device name is free")
}

// ControllerPublishVolume attaches a volume to an instance.
func (s *controllerServer) ControllerPublishVolume(ctx context.Context, in *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Node ID", in.GetNodeId()); err != nil {
		return nil, err
	}
	if err := check(in.GetVolumeCapability()); err != nil {
		return nil, err
	}
	device, err := s.attach(ctx, in.GetVolumeId(), in.GetNodeId())
	if err != nil {
		return nil, failed(codes.Internal, err, "Could not attach volume %q to node %q", in.GetVolumeId(), in.GetNodeId())
	}
	err = s.await(ctx, in.GetVolumeId(), func(v types.Volume) bool {
		return slices.ContainsFunc(v.Attachments, func(a types.VolumeAttachment) bool {
			return aws.ToString(a.InstanceId) == in.GetNodeId() && a.State == types.VolumeAttachmentStateAttached
		})
	})
	if err != nil {
		return nil, failed(codes.Internal, err, "Could not attach volume %q to node %q", in.GetVolumeId(), in.GetNodeId())
	}
	return &csi.ControllerPublishVolumeResponse{PublishContext: map[string]string{"devicePath": device}}, nil
}

// ControllerUnpublishVolume detaches a volume from an instance.
func (s *controllerServer) ControllerUnpublishVolume(ctx context.Context, in *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Node ID", in.GetNodeId()); err != nil {
		return nil, err
	}
	_, err := s.ec2.DetachVolume(ctx, &ec2.DetachVolumeInput{VolumeId: &in.VolumeId, InstanceId: &in.NodeId})
	if notFound(err) || isCode(err, "IncorrectState") || isCode(err, "InvalidAttachment.NotFound") {
		return &csi.ControllerUnpublishVolumeResponse{}, nil
	}
	if err == nil {
		err = s.await(ctx, in.GetVolumeId(), func(v types.Volume) bool {
			return !slices.ContainsFunc(v.Attachments, func(a types.VolumeAttachment) bool {
				return aws.ToString(a.InstanceId) == in.GetNodeId() && a.State != types.VolumeAttachmentStateDetached
			})
		})
	}
	if err != nil {
		return nil, failed(codes.Internal, err, "Could not detach volume %q from node %q", in.GetVolumeId(), in.GetNodeId())
	}
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}
