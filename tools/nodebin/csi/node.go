package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/drydock-dev/drydock/tools/nodebin/csi/limit"
)

// volumeDir is where a machine of Drydock's shows its attached volumes, by their IDs.
const volumeDir = "/var/lib/kubelet/drydock-volumes"

// folder is what pods see of a volume.
const folder = "volume"

// attachmentsFile is where a machine of Drydock's says how many volumes its instance type can have. Upstream's driver has a table.
const attachmentsFile = "/var/lib/kubelet/drydock-attachments.json"

// attachmentLimit reads the file. Without it, the limit is that of most types.
func attachmentLimit() (limit.Attachments, error) {
	out := limit.Attachments{Volumes: 27}
	b, err := os.ReadFile(attachmentsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	return out, json.Unmarshal(b, &out)
}

// nodeServer shows a node's volumes in pods.
type nodeServer struct {
	csi.UnimplementedNodeServer
	limit, reserved int64 // negative if not set
	driver          string
	topology        map[string]string // besides the zone
}

func (s *nodeServer) NodeGetInfo(ctx context.Context, _ *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	here, err := findInstance(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "could not find the instance: %v", err)
	}
	most := s.limit
	if most < 0 {
		all, err := attachmentLimit()
		if err != nil {
			return nil, status.Errorf(codes.Internal, "could not read how many volumes the instance can have: %v", err)
		}
		most = all.Left(here.interfaces, here.volumes, s.reserved)
	}
	segments := map[string]string{zoneKey: here.zone, "topology." + s.driver + "/zone": here.zone}
	if s.driver == driverName {
		segments["kubernetes.io/os"] = "linux"
	}
	maps.Copy(segments, s.topology)
	return &csi.NodeGetInfoResponse{NodeId: here.id, MaxVolumesPerNode: most, AccessibleTopology: &csi.Topology{Segments: segments}}, nil
}

func (s *nodeServer) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	out := &csi.NodeGetCapabilitiesResponse{}
	for _, c := range []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME, csi.NodeServiceCapability_RPC_EXPAND_VOLUME, csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
	} {
		out.Capabilities = append(out.Capabilities, &csi.NodeServiceCapability{Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: c}}})
	}
	return out, nil
}

// mounted reports whether something is mounted at a folder.
func mounted(dir string) (bool, error) {
	var at, above unix.Stat_t
	if err := unix.Lstat(dir, &at); err != nil {
		return false, err
	}
	if err := unix.Lstat(filepath.Dir(dir), &above); err != nil {
		return false, err
	}
	return at.Dev != above.Dev, nil
}

// appearIn bounds the time from the attachment of a volume until the machine shows it.
const appearIn = 20 * time.Second

// growIn bounds the time from the growth of a volume until its file system has grown.
const growIn = 3 * time.Second

// NodeStageVolume mounts a volume, which has a file system already, for all pods of the node.
func (s *nodeServer) NodeStageVolume(ctx context.Context, in *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Staging target", in.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if err := check(in.GetVolumeCapability()); err != nil {
		return nil, err
	}
	if filepath.Base(in.GetVolumeId()) != in.GetVolumeId() {
		return nil, status.Error(codes.InvalidArgument, "invalid volume ID")
	}
	device := filepath.Join(volumeDir, in.GetVolumeId())
	wait, cancel := context.WithTimeout(ctx, appearIn)
	defer cancel()
	err := poll(wait, func() (bool, error) {
		ok, err := mounted(device)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return ok, err
	})
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Failed to find device path %s. the volume is not shown by this machine: %v; drydock doctor containers says whether this computer can mount volumes", in.GetPublishContext()["devicePath"], err)
	}
	if err := bind(filepath.Join(device, folder), in.GetStagingTargetPath(), 0); err != nil {
		return nil, status.Errorf(codes.Internal, "could not mount %q at %q: %v", device, in.GetStagingTargetPath(), err)
	}
	return &csi.NodeStageVolumeResponse{}, nil
}

// NodeUnstageVolume ends the mount of a volume.
func (s *nodeServer) NodeUnstageVolume(_ context.Context, in *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Staging target", in.GetStagingTargetPath()); err != nil {
		return nil, err
	}
	if err := unbind(in.GetStagingTargetPath()); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not unmount target %q: %v", in.GetStagingTargetPath(), err)
	}
	return &csi.NodeUnstageVolumeResponse{}, nil
}

// options are mount options that a bind mount can have. The others are the file system's, which is mounted already.
var options = map[string]uintptr{
	"ro": unix.MS_RDONLY, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME, "noexec": unix.MS_NOEXEC,
	"nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "rw": 0, "defaults": 0,
}

// NodePublishVolume shows a volume in a pod.
func (s *nodeServer) NodePublishVolume(_ context.Context, in *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Staging target", in.GetStagingTargetPath(), "Target path", in.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := check(in.GetVolumeCapability()); err != nil {
		return nil, err
	}
	flags := uintptr(0)
	if in.GetReadonly() {
		flags |= unix.MS_RDONLY
	}
	for _, o := range in.GetVolumeCapability().GetMount().GetMountFlags() {
		f, ok := options[o]
		if !ok {
			return nil, status.Errorf(codes.InvalidArgument, "the mount option %s is not implemented by Drydock", o)
		}
		flags |= f
	}
	if err := bind(in.GetStagingTargetPath(), in.GetTargetPath(), flags); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not mount %q at %q: %v", in.GetStagingTargetPath(), in.GetTargetPath(), err)
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume unmounts a volume from a pod.
func (s *nodeServer) NodeUnpublishVolume(_ context.Context, in *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Target path", in.GetTargetPath()); err != nil {
		return nil, err
	}
	if err := unbind(in.GetTargetPath()); err != nil {
		return nil, status.Errorf(codes.Internal, "Could not unmount %q: %v", in.GetTargetPath(), err)
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// NodeGetVolumeStats returns how much of a volume is used.
func (s *nodeServer) NodeGetVolumeStats(_ context.Context, in *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Volume path", in.GetVolumePath()); err != nil {
		return nil, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(in.GetVolumePath(), &st); errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "path %s does not exist", in.GetVolumePath())
	} else if err != nil {
		return nil, status.Errorf(codes.Internal, "failed to get fs info on path %s: %v", in.GetVolumePath(), err)
	}
	size := st.Bsize
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Available: int64(st.Bavail) * size, Total: int64(st.Blocks) * size, Used: int64(st.Blocks-st.Bfree) * size},
		{Unit: csi.VolumeUsage_INODES, Available: int64(st.Ffree), Total: int64(st.Files), Used: int64(st.Files - st.Ffree)},
	}}, nil
}

// usable returns how much of a volume its file system offers at least: inodes take less than two percent, and the journal at
// most 128 MiB of volumes of usual sizes.
func usable(size int64) int64 { return size - size/100*3 - 128<<20 }

// NodeExpandVolume checks that the file system has grown with its volume, which the machine sees to.
func (s *nodeServer) NodeExpandVolume(ctx context.Context, in *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	if err := required("Volume ID", in.GetVolumeId(), "Volume path", in.GetVolumePath()); err != nil {
		return nil, err
	}
	want := in.GetCapacityRange().GetRequiredBytes()
	var has int64
	wait, cancel := context.WithTimeout(ctx, growIn)
	defer cancel()
	err := poll(wait, func() (bool, error) {
		var st unix.Statfs_t
		if err := unix.Statfs(in.GetVolumePath(), &st); err != nil {
			return false, err
		}
		has = int64(st.Blocks) * st.Bsize
		return has >= usable(want), nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "path %s does not exist", in.GetVolumePath())
	}
	if err != nil {
		return nil, status.Errorf(codes.Internal, "Could not resize volume %q: its file system has %d MiB: %v. If this computer does not let Drydock enlarge a mounted file system (CAP_SYS_RESOURCE), it grows when no pod uses the volume", in.GetVolumeId(), has>>20, err)
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: want}, nil
}

// bind shows a folder at another place, once.
func bind(from, to string, flags uintptr) error {
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	if ok, err := mounted(to); ok || err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil || flags == 0 {
		return err
	}
	// A machine may not take away the flags that its volumes have.
	if err := unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NODEV|unix.MS_NOSUID|flags, ""); err != nil {
		return errors.Join(err, unix.Unmount(to, unix.MNT_DETACH))
	}
	return nil
}

// unbind takes a folder away, if it is there.
func unbind(at string) error {
	ok, err := mounted(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && ok {
		err = unix.Unmount(at, 0)
	}
	if err != nil {
		return err
	}
	return os.Remove(at)
}
