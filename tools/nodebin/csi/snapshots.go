package main

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func snapshotOf(v types.Snapshot) *csi.Snapshot {
	return &csi.Snapshot{
		SnapshotId: aws.ToString(v.SnapshotId), SourceVolumeId: aws.ToString(v.VolumeId), SizeBytes: int64(aws.ToInt32(v.VolumeSize)) * gib,
		CreationTime: timestamppb.New(aws.ToTime(v.StartTime)), ReadyToUse: v.State == types.SnapshotStateCompleted,
	}
}

// CreateSnapshot makes a snapshot, or returns the one of that name.
func (s *controllerServer) CreateSnapshot(ctx context.Context, in *csi.CreateSnapshotRequest) (*csi.CreateSnapshotResponse, error) {
	if err := required("Snapshot name", in.GetName(), "Snapshot volume source ID", in.GetSourceVolumeId()); err != nil {
		return nil, err
	}
	found, err := s.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{Filters: []types.Filter{{Name: aws.String("tag:" + snapshotTag), Values: []string{in.GetName()}}}})
	if err != nil {
		return nil, failed(codes.Internal, err, "Could not create snapshot %q", in.GetName())
	}
	if len(found.Snapshots) > 0 {
		if v := found.Snapshots[0]; aws.ToString(v.VolumeId) != in.GetSourceVolumeId() {
			return nil, status.Errorf(codes.AlreadyExists, "Snapshot %s already exists for different volume (%s)", in.GetName(), aws.ToString(v.VolumeId))
		}
		return &csi.CreateSnapshotResponse{Snapshot: snapshotOf(found.Snapshots[0])}, nil
	}
	tags := map[string]string{snapshotTag: in.GetName(), ownTag: "true"}
	for k, v := range s.tags {
		tags[k] = v
	}
	if s.cluster != "" {
		tags["Name"], tags["kubernetes.io/cluster/"+s.cluster] = s.cluster+"-dynamic-"+in.GetName(), "owned"
	}
	for k, v := range in.GetParameters() {
		if !strings.HasPrefix(k, parameterName) {
			r := &request{in: &ec2.CreateVolumeInput{}, tags: tags}
			if !strings.HasPrefix(strings.ToLower(k), "tagspecification") {
				return nil, status.Errorf(codes.InvalidArgument, "Invalid parameter key %s for CreateSnapshot", k)
			}
			if err := r.set(k, v); err != nil {
				return nil, err
			}
		}
	}
	made, err := s.ec2.CreateSnapshot(ctx, &ec2.CreateSnapshotInput{
		VolumeId: &in.SourceVolumeId, Description: aws.String("Created by AWS EBS CSI driver for volume " + in.GetSourceVolumeId()),
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeSnapshot, Tags: sdkTags(tags)}},
	})
	if err != nil {
		return nil, failed(codes.Internal, err, "Could not create snapshot %q: error creating snapshot of volume %s", in.GetName(), in.GetSourceVolumeId())
	}
	return &csi.CreateSnapshotResponse{Snapshot: snapshotOf(types.Snapshot{SnapshotId: made.SnapshotId, VolumeId: made.VolumeId, VolumeSize: made.VolumeSize, StartTime: made.StartTime, State: made.State})}, nil
}

// DeleteSnapshot deletes a snapshot if it exists.
func (s *controllerServer) DeleteSnapshot(ctx context.Context, in *csi.DeleteSnapshotRequest) (*csi.DeleteSnapshotResponse, error) {
	if err := required("Snapshot ID", in.GetSnapshotId()); err != nil {
		return nil, err
	}
	_, err := s.ec2.DeleteSnapshot(ctx, &ec2.DeleteSnapshotInput{SnapshotId: &in.SnapshotId})
	if isCode(err, notAllowed) {
		if _, missing := s.ec2.DescribeSnapshots(ctx, &ec2.DescribeSnapshotsInput{SnapshotIds: []string{in.GetSnapshotId()}}); notFound(missing) {
			err = missing
		}
	}
	if err != nil && !notFound(err) {
		return nil, failed(codes.Internal, err, "Could not delete snapshot ID %q", in.GetSnapshotId())
	}
	return &csi.DeleteSnapshotResponse{}, nil
}

// minResults is the least size of EC2's pages of snapshots. Upstream's driver passes it on, too.
const minResults = 5

// ListSnapshots returns a snapshot, those of a volume, or all.
func (s *controllerServer) ListSnapshots(ctx context.Context, in *csi.ListSnapshotsRequest) (*csi.ListSnapshotsResponse, error) {
	q := &ec2.DescribeSnapshotsInput{OwnerIds: []string{"self"}}
	if id := in.GetSnapshotId(); id != "" {
		q.SnapshotIds = []string{id}
	} else if n := in.GetMaxEntries(); n > 0 {
		if n < minResults {
			return nil, status.Errorf(codes.InvalidArgument, "Error mapping MaxEntries to AWS MaxResults: it must be at least %d", minResults)
		}
		q.MaxResults = &n
	}
	if id := in.GetSourceVolumeId(); id != "" {
		q.Filters = []types.Filter{{Name: aws.String("volume-id"), Values: []string{id}}}
	}
	if t := in.GetStartingToken(); t != "" {
		q.NextToken = &t
	}
	found, err := s.ec2.DescribeSnapshots(ctx, q)
	if notFound(err) {
		return &csi.ListSnapshotsResponse{}, nil
	}
	if err != nil {
		return nil, failed(codes.Internal, err, "Could not list snapshots")
	}
	out := &csi.ListSnapshotsResponse{NextToken: aws.ToString(found.NextToken)}
	for _, v := range found.Snapshots {
		out.Entries = append(out.Entries, &csi.ListSnapshotsResponse_Entry{Snapshot: snapshotOf(v)})
	}
	return out, nil
}
