package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// notAllowed is also what EC2 answers if a volume or a snapshot does not exist: it has no tags then, by which the driver's policy
// allows its deletion.
const notAllowed = "UnauthorizedOperation"

// sdkTags returns tags in the order of their keys.
func sdkTags(all map[string]string) []types.Tag {
	var out []types.Tag
	for k, v := range all {
		out = append(out, types.Tag{Key: aws.String(k), Value: aws.String(v)})
	}
	slices.SortFunc(out, func(a, b types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	return out
}
