package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// sizeOf returns the size that a claim asks for in GiB.
func sizeOf(r *csi.CapacityRange) (int32, error) {
	want, limit := r.GetRequiredBytes(), r.GetLimitBytes()
	if want == 0 {
		want = defaultSize
	}
	size := (want + gib - 1) / gib
	if limit > 0 && size*gib > limit {
		return 0, status.Error(codes.InvalidArgument, "After round-up, volume size exceeds the limit specified")
	}
	return int32(min(size, 1<<20)), nil
}

// zoneOf returns the zone of a new volume: the preferred one, or one of those that are possible.
func zoneOf(r *csi.TopologyRequirement) string {
	for _, t := range slices.Concat(r.GetPreferred(), r.GetRequisite()) {
		for _, key := range []string{zoneKey, driverZoneKey} {
			if zone := t.GetSegments()[key]; zone != "" {
				return zone
			}
		}
	}
	return ""
}

// token returns the client token of a volume's name, which makes it the same volume if it is asked for again.
func (s *controllerServer) token(name string) *string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.tokens[name]; n > 0 {
		name += "-" + strconv.Itoa(n)
	}
	sum := sha256.Sum256([]byte(name))
	return aws.String(hex.EncodeToString(sum[:]))
}

// nextToken changes the client token of a volume's name. EC2 remembers the ones before with other parameters, such as a zone in
// which the volume could not be made.
func (s *controllerServer) nextToken(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens == nil {
		s.tokens = map[string]int{}
	}
	s.tokens[name] = max(s.tokens[name], 1) + 1
}

// CreateVolume makes a volume. If EC2 knows its name with other parameters, it fails as upstream's does, and succeeds the next time.
func (s *controllerServer) CreateVolume(ctx context.Context, in *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if err := errors.Join(required("Volume name", in.GetName())); err != nil {
		return nil, err
	}
	if err := check(in.GetVolumeCapabilities()...); err != nil {
		return nil, err
	}
	size, err := sizeOf(in.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	r := &request{size: size, tags: map[string]string{volumeTag: in.GetName(), ownTag: "true"}, in: &ec2.CreateVolumeInput{
		Size: &size, VolumeType: types.VolumeTypeGp3, ClientToken: s.token(in.GetName()),
	}}
	for k, v := range s.tags {
		r.tags[k] = v
	}
	if s.cluster != "" {
		r.tags["Name"], r.tags["kubernetes.io/cluster/"+s.cluster], r.tags["KubernetesCluster"] = s.cluster+"-dynamic-"+in.GetName(), "owned", s.cluster
	}
	for k, v := range in.GetParameters() {
		if err := r.set(k, v); err != nil {
			return nil, err
		}
	}
	for k, v := range in.GetMutableParameters() {
		if err := r.set(k, v); err != nil {
			return nil, err
		}
	}
	if r.per > 0 && r.in.Iops == nil {
		iops := r.per * int64(size)
		if r.grow {
			iops = max(iops, minIOPS[r.in.VolumeType])
		}
		r.in.Iops = aws.Int32(int32(min(iops, maxIOPS))) // EC2 refuses what its type does not have
	}
	if from := in.GetVolumeContentSource(); from != nil {
		if from.GetSnapshot() == nil {
			return nil, status.Error(codes.InvalidArgument, "only snapshots are supported as sources of volumes")
		}
		r.in.SnapshotId = aws.String(from.GetSnapshot().GetSnapshotId())
	}
	zone := zoneOf(in.GetAccessibilityRequirements())
	if zone == "" {
		zones, err := s.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
		if err != nil {
			return nil, failed(codes.Internal, err, "Could not create volume %q", in.GetName())
		}
		if len(zones.AvailabilityZones) == 0 {
			return nil, status.Error(codes.Internal, "no availability zones returned")
		}
		zone = aws.ToString(zones.AvailabilityZones[0].ZoneName)
	}
	r.in.AvailabilityZone = &zone
	r.in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeVolume, Tags: sdkTags(r.tags)}}
	made, err := s.ec2.CreateVolume(ctx, r.in)
	if isCode(err, "IdempotentParameterMismatch") {
		s.nextToken(in.GetName())
	}
	// After Aborted, the provisioner asks again for the volume, which may exist.
	if err != nil {
		return nil, failed(codes.Aborted, err, "Could not create volume %q: could not create volume in EC2", in.GetName())
	}
	if err := s.await(ctx, *made.VolumeId, func(v types.Volume) bool { return v.State != types.VolumeStateCreating }); err != nil {
		return nil, failed(codes.Aborted, err, "failed to get an available volume in EC2")
	}
	return &csi.CreateVolumeResponse{Volume: &csi.Volume{
		VolumeId: *made.VolumeId, CapacityBytes: int64(size) * gib, ContentSource: in.GetVolumeContentSource(),
		AccessibleTopology: []*csi.Topology{{Segments: map[string]string{zoneKey: zone}}},
	}}, nil
}

// await waits until a volume is as it should be.
func (s *controllerServer) await(ctx context.Context, id string, ok func(types.Volume) bool) error {
	return poll(ctx, func() (bool, error) {
		out, err := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{id}})
		if err != nil {
			return false, err
		}
		return len(out.Volumes) == 1 && ok(out.Volumes[0]), nil
	})
}

// DeleteVolume deletes a volume if it exists.
func (s *controllerServer) DeleteVolume(ctx context.Context, in *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId()); err != nil {
		return nil, err
	}
	_, err := s.ec2.DeleteVolume(ctx, &ec2.DeleteVolumeInput{VolumeId: &in.VolumeId})
	if isCode(err, notAllowed) {
		if _, missing := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{in.GetVolumeId()}}); notFound(missing) {
			err = missing
		}
	}
	if err != nil && !notFound(err) {
		return nil, failed(codes.Internal, err, "Could not delete volume ID %q: DeleteDisk could not delete volume", in.GetVolumeId())
	}
	return &csi.DeleteVolumeResponse{}, nil
}

// ValidateVolumeCapabilities says whether an existing volume can be used so.
func (s *controllerServer) ValidateVolumeCapabilities(ctx context.Context, in *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if err := required("Volume ID", in.GetVolumeId()); err != nil {
		return nil, err
	}
	if len(in.GetVolumeCapabilities()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "Volume capabilities not provided")
	}
	if _, err := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{in.GetVolumeId()}}); err != nil {
		return nil, failed(codes.Internal, err, "Could not get volume with ID %q", in.GetVolumeId())
	}
	out := &csi.ValidateVolumeCapabilitiesResponse{}
	if check(in.GetVolumeCapabilities()...) == nil {
		out.Confirmed = &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: in.GetVolumeCapabilities()}
	}
	return out, nil
}

// modify changes a volume and waits until EC2 has begun, as upstream does.
func (s *controllerServer) modify(ctx context.Context, in *ec2.ModifyVolumeInput) error {
	if _, err := s.ec2.ModifyVolume(ctx, in); err != nil {
		return failed(codes.Internal, err, "Could not modify volume %q", *in.VolumeId)
	}
	err := poll(ctx, func() (bool, error) {
		out, err := s.ec2.DescribeVolumesModifications(ctx, &ec2.DescribeVolumesModificationsInput{VolumeIds: []string{*in.VolumeId}})
		if err != nil || len(out.VolumesModifications) == 0 {
			return false, err
		}
		state := out.VolumesModifications[0].ModificationState
		return state == types.VolumeModificationStateOptimizing || state == types.VolumeModificationStateCompleted, nil
	})
	if err != nil {
		return failed(codes.Internal, err, "Could not modify volume %q", *in.VolumeId)
	}
	return nil
}

// ControllerExpandVolume enlarges a volume.
func (s *controllerServer) ControllerExpandVolume(ctx context.Context, in *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId()); err != nil {
		return nil, err
	}
	if in.GetCapacityRange() == nil {
		return nil, status.Error(codes.InvalidArgument, "Capacity range not provided")
	}
	size, err := sizeOf(in.GetCapacityRange())
	if err != nil {
		return nil, err
	}
	out, err := s.ec2.DescribeVolumes(ctx, &ec2.DescribeVolumesInput{VolumeIds: []string{in.GetVolumeId()}})
	if err != nil {
		return nil, failed(codes.Internal, err, "Could not resize volume %q", in.GetVolumeId())
	}
	if has := aws.ToInt32(out.Volumes[0].Size); has >= size {
		size = has
	} else if err := s.modify(ctx, &ec2.ModifyVolumeInput{VolumeId: &in.VolumeId, Size: &size}); err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: int64(size) * gib, NodeExpansionRequired: true}, nil
}

// ControllerModifyVolume applies a VolumeAttributesClass.
func (s *controllerServer) ControllerModifyVolume(ctx context.Context, in *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId()); err != nil {
		return nil, err
	}
	r := &request{in: &ec2.CreateVolumeInput{}, tags: map[string]string{}}
	for k, v := range in.GetMutableParameters() {
		if low := strings.ToLower(k); low != "type" && low != "iops" && low != "throughput" && !strings.HasPrefix(low, "tagspecification") && !strings.HasPrefix(low, parameterName) {
			return nil, status.Errorf(codes.InvalidArgument, "Invalid mutable parameter key: %s", k)
		}
		if err := r.set(k, v); err != nil {
			return nil, err
		}
	}
	if r.in.VolumeType != "" || r.in.Iops != nil || r.in.Throughput != nil {
		if err := s.modify(ctx, &ec2.ModifyVolumeInput{VolumeId: &in.VolumeId, VolumeType: r.in.VolumeType, Iops: r.in.Iops, Throughput: r.in.Throughput}); err != nil {
			return nil, err
		}
	}
	for _, known := range []string{claimName, claimSpace, volumeName} { // of the request, not of the class
		delete(r.tags, known)
	}
	if len(r.tags) > 0 {
		if _, err := s.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{in.GetVolumeId()}, Tags: sdkTags(r.tags)}); err != nil {
			return nil, failed(codes.Internal, err, "Could not modify tags of volume %q", in.GetVolumeId())
		}
	}
	return &csi.ControllerModifyVolumeResponse{}, nil
}
