package main

import (
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
