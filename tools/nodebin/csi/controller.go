package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	gib         = 1 << 30
	defaultSize = 100 * gib // of claims without a size
)

// Tags of the driver's volumes and snapshots, by which the policy AmazonEBSCSIDriverPolicy decides.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/tagging.md
const (
	ownTag        = driverName + "/cluster"
	volumeTag     = "CSIVolumeName"
	snapshotTag   = "CSIVolumeSnapshotName"
	claimName     = "kubernetes.io/created-for/pvc/name"
	claimSpace    = "kubernetes.io/created-for/pvc/namespace"
	volumeName    = "kubernetes.io/created-for/pv/name"
	parameterName = "csi.storage.k8s.io/"
)

// controllerServer makes, attaches, enlarges and deletes volumes by EC2's API.
type controllerServer struct {
	csi.UnimplementedControllerServer
	ec2     *ec2.Client
	tags    tagFlag
	cluster string

	attaching sync.Mutex // while a device name is chosen and used

	mu     sync.Mutex
	tokens map[string]int // by name of a volume: the number of its client token, if EC2 knows the ones before with other parameters
}

func (s *controllerServer) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	out := &csi.ControllerGetCapabilitiesResponse{}
	for _, c := range []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT, csi.ControllerServiceCapability_RPC_LIST_SNAPSHOTS,
		csi.ControllerServiceCapability_RPC_EXPAND_VOLUME, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	} {
		out.Capabilities = append(out.Capabilities, &csi.ControllerServiceCapability{Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: c}}})
	}
	return out, nil
}

// failed returns an EC2 error as upstream words it, with the code that makes Kubernetes give up or try again. Other errors
// get the code otherwise.
func failed(otherwise codes.Code, err error, format string, args ...any) error {
	code := otherwise
	if notFound(err) {
		code = codes.NotFound
	}
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		switch e.ErrorCode() {
		case "IdempotentParameterMismatch":
			code = codes.AlreadyExists
		case "InvalidParameterValue", "InvalidParameterCombination", "InvalidParameterDependency":
			code = codes.InvalidArgument
		case "AttachmentLimitExceeded":
			code = codes.ResourceExhausted
		}
	}
	return status.Errorf(code, "%s: %v", fmt.Sprintf(format, args...), err)
}

func isCode(err error, code string) bool {
	e, ok := errors.AsType[smithy.APIError](err)
	return ok && e.ErrorCode() == code
}

// notFound reports whether an error says that a volume, a snapshot or an instance does not exist. IDs of another form, which EC2 does
// not look up, do not exist either.
func notFound(err error) bool {
	for _, resource := range []string{"InvalidVolume.NotFound", "InvalidSnapshot.NotFound", "InvalidInstanceID.NotFound", "InvalidVolumeID.Malformed", "InvalidSnapshotID.Malformed", "InvalidInstanceID.Malformed"} {
		if isCode(err, resource) {
			return true
		}
	}
	return false
}

// sdkTags returns tags in the order of their keys.
func sdkTags(all map[string]string) []types.Tag {
	var out []types.Tag
	for k, v := range all {
		out = append(out, types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	slices.SortFunc(out, func(a, b types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	return out
}

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

// A request is a CreateVolume with tags.
type request struct {
	in   *ec2.CreateVolumeInput
	tags map[string]string
	size int32
	grow bool // iopsPerGB may be raised to the type's minimum
	per  int64
}

// set applies a parameter of the storage class. https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/master/docs/parameters.md
func (r *request) set(key, value string) error {
	number := func() (*int32, error) {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "Could not parse invalid %s: %v", key, err)
		}
		return aws.Int32(int32(n)), nil
	}
	var err error
	switch strings.ToLower(key) {
	case "type":
		r.in.VolumeType = types.VolumeType(value)
	case "iops":
		r.in.Iops, err = number()
	case "iopspergb":
		var n *int32
		if n, err = number(); err == nil {
			r.per = int64(*n)
		}
	case "allowautoiopspergbincrease":
		r.grow = value == "true"
	case "throughput":
		r.in.Throughput, err = number()
	case "encrypted":
		r.in.Encrypted = aws.Bool(value == "true")
	case "kmskeyid":
		r.in.KmsKeyId = aws.String(value)
	case "fstype", "csi.storage.k8s.io/fstype":
		err = check(&csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}, AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: value}}})
	case "csi.storage.k8s.io/pvc/name":
		r.tags[claimName] = value
	case "csi.storage.k8s.io/pvc/namespace":
		r.tags[claimSpace] = value
	case "csi.storage.k8s.io/pv/name":
		r.tags[volumeName] = value
	case "blockexpress", "blocksize", "inodesize", "bytesperinode", "numberofinodes", "ext4bigalloc", "ext4clustersize", "ext4encryptionsupport", "volumeinitializationrate", "multiattachenabled", "xfsbigalloc", "outpostarn":
		return status.Errorf(codes.InvalidArgument, "the parameter %s is not implemented by Drydock", key)
	default:
		if name, ok := strings.CutPrefix(strings.ToLower(key), "tagspecification"); ok && strings.Trim(name, "_0123456789") == "" {
			k, v, ok := strings.Cut(value, "=")
			if strings.Contains(value, "{{") {
				return status.Errorf(codes.InvalidArgument, "templates of tags are not implemented by Drydock: %s", value)
			}
			if !ok {
				return status.Errorf(codes.InvalidArgument, "Invalid tag %q: it must have the form key=value", value)
			}
			r.tags[k] = v
			return nil
		}
		return status.Errorf(codes.InvalidArgument, "Invalid parameter key %s for CreateVolume", key)
	}
	return err
}

// minIOPS are the least of the types that have a choice, and maxIOPS the most of any type.
// https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html
var minIOPS = map[types.VolumeType]int64{types.VolumeTypeGp3: 3000, types.VolumeTypeIo1: 100, types.VolumeTypeIo2: 100}

const maxIOPS = 256000

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

// notAllowed is also what EC2 answers if a volume or a snapshot does not exist: it has no tags then, by which the driver's policy
// allows its deletion.
const notAllowed = "UnauthorizedOperation"

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
