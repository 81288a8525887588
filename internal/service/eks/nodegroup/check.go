package nodegroup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// checkScaling checks the sizes of a new group. AWS's defaults are a minimum of 1, a maximum of 2
// and a desired size of 2.
func (s *Service) checkScaling(key store.Key, ng string, in *ekstypes.NodegroupScalingConfig) (*ekstypes.NodegroupScalingConfig, error) {
	out := &ekstypes.NodegroupScalingConfig{MinSize: new(int32(1)), MaxSize: new(int32(2)), DesiredSize: new(int32(2))}
	if in != nil {
		out.MinSize, out.MaxSize = cmp.Or(in.MinSize, out.MinSize), cmp.Or(in.MaxSize, out.MaxSize)
		out.DesiredSize = cmp.Or(in.DesiredSize, out.MinSize)
	}
	cluster := key.ID
	if err := s.checkBounds(key, ng, out); err != nil {
		return nil, err
	}
	switch {
	case *out.MinSize > *out.MaxSize:
		return nil, errMinAboveMax(cluster, ng)
	case *out.MinSize > *out.DesiredSize:
		return nil, errMinAboveDesired(cluster, ng)
	case *out.DesiredSize > *out.MaxSize:
		return nil, errDesiredAboveMax(cluster, ng)
	}
	return out, nil
}

// checkBounds checks sizes of a group in the cluster at key.
func (s *Service) checkBounds(key store.Key, ng string, c *ekstypes.NodegroupScalingConfig) error {
	quotas, err := s.QuotasFor(key)
	if err != nil {
		return err
	}
	cluster := key.ID
	switch {
	case *c.MinSize < 0:
		return errNegativeSize(cluster, ng, "minSize")
	case *c.DesiredSize < 0:
		return errNegativeSize(cluster, ng, "desiredSize")
	case *c.MaxSize < 1:
		return errZeroMax(cluster, ng)
	case int(*c.MaxSize) > quotas.NodesPerNodegroup:
		return errNodesLimit(cluster, ng, quotas.NodesPerNodegroup)
	}
	return nil
}

// https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html
func checkUpdateConfig(cluster, ng string, in *ekstypes.NodegroupUpdateConfig, maxSize int32) (*ekstypes.NodegroupUpdateConfig, error) {
	switch {
	case in == nil:
		in = &ekstypes.NodegroupUpdateConfig{}
	case in.MaxUnavailable == nil && in.MaxUnavailablePercentage == nil && in.UpdateStrategy == "":
		return nil, errUpdateConfigEmpty(cluster, ng)
	}
	outside := func(p *int32) bool { return p != nil && (*p < 1 || *p > 100) }
	switch {
	case in.MaxUnavailable != nil && in.MaxUnavailablePercentage != nil:
		return nil, errUpdateConfigBoth(cluster, ng)
	case in.UpdateStrategy != "" && !slices.Contains(in.UpdateStrategy.Values(), in.UpdateStrategy):
		return nil, errUpdateConfig(cluster, ng, "updateStrategy must be one of DEFAULT, MINIMAL")
	case in.MaxUnavailable != nil && (*in.MaxUnavailable < 1 || *in.MaxUnavailable > maxSize):
		return nil, errMaxUnavailable(cluster, ng)
	case outside(in.MaxUnavailable):
		return nil, errUpdateConfig(cluster, ng, "maxUnavailable must be between 1 and 100")
	case outside(in.MaxUnavailablePercentage):
		return nil, errUpdateConfig(cluster, ng, "maxUnavailablePercentage must be between 1 and 100")
	}
	out := &ekstypes.NodegroupUpdateConfig{MaxUnavailable: in.MaxUnavailable, MaxUnavailablePercentage: in.MaxUnavailablePercentage, UpdateStrategy: in.UpdateStrategy}
	if in.MaxUnavailable == nil && in.MaxUnavailablePercentage == nil {
		out.MaxUnavailable = new(int32(1))
	}
	return out, nil
}

func checkLabels(cluster, ng string, labels map[string]string) error {
	for k, v := range labels {
		for _, p := range []string{"kubernetes.io/", "k8s.io/", "eks.amazonaws.com/"} {
			if strings.HasPrefix(k, p) {
				return errLabelPrefix(cluster, ng)
			}
		}
		if why := validation.IsQualifiedName(k); len(why) > 0 {
			return errLabelKey(cluster, ng, k)
		}
		if why := validation.IsValidLabelValue(v); len(why) > 0 {
			return errLabel(cluster, ng, k+"="+v+": "+why[0])
		}
	}
	return nil
}

// https://docs.aws.amazon.com/eks/latest/userguide/node-taints-managed-node-groups.html
func checkTaints(cluster, ng string, taints []ekstypes.Taint) error {
	if len(taints) > 50 {
		return errTaint(cluster, ng, "at most 50 taints are allowed")
	}
	for _, t := range taints {
		if why := validation.IsQualifiedName(aws.ToString(t.Key)); len(why) > 0 {
			return errTaintKey(cluster, ng, aws.ToString(t.Key))
		}
		if why := validation.IsValidLabelValue(aws.ToString(t.Value)); len(why) > 0 {
			return errTaint(cluster, ng, aws.ToString(t.Key)+"="+aws.ToString(t.Value)+": "+why[0])
		}
		if !slices.Contains(t.Effect.Values(), t.Effect) {
			return errTaintEffect(cluster, ng, t.Effect)
		}
	}
	return nil
}

// checkNodeRole checks that the role exists and lets EC2 assume it.
func (s *Service) checkNodeRole(ctx context.Context, cluster store.Key, ng string, role *string) (record.Identity, error) {
	id, err := s.Role(ctx, cluster.Account, "nodeRole", role, func(role string) error {
		return invalid(cluster.ID, ng, "nodeRole, %s, is not a valid role ARN of this account", role)
	})
	switch {
	case errors.Is(err, base.ErrNoIdentity):
		return record.Identity{}, errNodeRoleNotFound(cluster.ID, ng, access.RoleName(*role))
	case err != nil:
		return record.Identity{}, err
	case !slices.Contains(id.TrustedServices, "ec2.amazonaws.com"):
		return record.Identity{}, errNodeRoleTrust(cluster.ID, ng, *role)
	}
	return record.Identity{ARN: *role, ID: id.ID}, nil
}

func (s *Service) checkSubnets(ctx context.Context, key store.Key, cluster record.Cluster, ng string, subnets []string) error {
	if len(subnets) == 0 {
		return ekserr.Missing("subnets")
	}
	got, err := s.Network.DescribeSubnets(s.asService(ctx, key), &awsec2.DescribeSubnetsInput{SubnetIds: subnets})
	if err != nil {
		if strings.HasPrefix(awserr.CodeOf(err), "InvalidSubnet") {
			return errSubnetNotFound(key.ID, ng, ekserr.QuotedID(err, subnets))
		}
		return err
	}
	vpc := aws.ToString(cluster.Cluster.ResourcesVpcConfig.VpcId)
	if slices.ContainsFunc(got.Subnets, func(sn ec2types.Subnet) bool { return aws.ToString(sn.VpcId) != vpc }) {
		return errSubnetVPC(key.ID, ng, vpc)
	}
	return nil
}

// A machine is the image, instance types and disk of a node group's instances.
type machine struct {
	amiType        ekstypes.AMITypes
	imageID        string
	releaseVersion string
	instanceTypes  []string
	launched       []string // instanceTypes, or the launch template's type
	diskSize       *int32
}

// An amiKind maps an AMI type to the image catalogue.
type amiKind struct {
	family        images.Family
	arch, variant string
}

// release returns the image of a release, which need not be the latest.
func (k amiKind) release(region, version, release string) (images.Image, bool) {
	for _, i := range images.All(region) {
		if i.Family == k.family && i.KubernetesVersion == version && i.Architecture == k.arch && i.Variant == k.variant && i.ReleaseVersion == release {
			return i, true
		}
	}
	return images.Image{}, false
}

func amiKinds() map[ekstypes.AMITypes]amiKind {
	const x86, arm = "x86_64", "arm64"
	return map[ekstypes.AMITypes]amiKind{
		ekstypes.AMITypesAl2X8664:                {images.AL2, x86, "standard"},
		ekstypes.AMITypesAl2X8664Gpu:             {images.AL2, x86, "gpu"},
		ekstypes.AMITypesAl2Arm64:                {images.AL2, arm, "standard"},
		ekstypes.AMITypesAl2023X8664Standard:     {images.AL2023, x86, "standard"},
		ekstypes.AMITypesAl2023Arm64Standard:     {images.AL2023, arm, "standard"},
		ekstypes.AMITypesAl2023X8664Nvidia:       {images.AL2023, x86, "nvidia"},
		ekstypes.AMITypesAl2023X8664Neuron:       {images.AL2023, x86, "neuron"},
		ekstypes.AMITypesAl2023Arm64Nvidia:       {images.AL2023, arm, "nvidia"},
		ekstypes.AMITypesBottlerocketX8664:       {images.Bottlerocket, x86, "standard"},
		ekstypes.AMITypesBottlerocketArm64:       {images.Bottlerocket, arm, "standard"},
		ekstypes.AMITypesBottlerocketX8664Nvidia: {images.Bottlerocket, x86, "nvidia"},
		ekstypes.AMITypesBottlerocketArm64Nvidia: {images.Bottlerocket, arm, "nvidia"},
	}
}

// supportedVersions returns the Kubernetes versions that node groups of a cluster of a version can have: its own, and three older ones,
// which was seen for clusters of version 1.35 (see errVersionSkew).
func supportedVersions(cluster string) []string {
	var out []string
	for older := range 4 {
		out = append(out, fmt.Sprintf("1.%d", eksversions.Number(cluster)-older))
	}
	return out
}

// chooseMachine determines the image, instance types and disk of a new node group.
func chooseMachine(key store.Key, version, ng string, in *awseks.CreateNodegroupInput, tmpl *userTemplate) (*machine, error) {
	m := &machine{amiType: in.AmiType, instanceTypes: in.InstanceTypes}
	named := in.InstanceTypes
	if tmpl != nil && tmpl.data.InstanceType != "" {
		named = []string{string(tmpl.data.InstanceType)} // not included in the group's description
	}
	var unknown []string
	for _, t := range named {
		if !instancetypes.Valid(t) {
			unknown = append(unknown, t)
		}
	}
	if len(unknown) > 0 {
		return nil, errInstanceTypeUnknown(key.ID, ng, strings.Join(unknown, ", "))
	}
	if tmpl != nil && tmpl.data.ImageId != nil {
		m.amiType, m.imageID = ekstypes.AMITypesCustom, *tmpl.data.ImageId
		if len(named) == 0 {
			named = []string{"t3.medium"}
			m.instanceTypes = named
		}
		m.launched = named
		return m, nil
	}
	switch {
	case m.amiType == "":
		m.amiType = defaultAMIType(named)
	case m.amiType == ekstypes.AMITypesCustom:
		return nil, invalid(key.ID, ng, "AMI Type CUSTOM requires a launch template with an image ID.")
	case !slices.Contains(m.amiType.Values(), m.amiType):
		return nil, invalid(key.ID, ng, "Invalid amiType: %s", m.amiType)
	}
	kind, ok := amiKinds()[m.amiType]
	if !ok {
		return nil, awserr.NotImplemented("node groups of AMI type " + string(m.amiType))
	}
	if kind.family == images.AL2 && eksversions.Number(version) > 32 {
		return nil, errAL2(key.ID, ng, string(m.amiType))
	}
	if len(named) == 0 {
		m.instanceTypes = []string{"t3.medium"}
		if kind.arch == "arm64" {
			m.instanceTypes = []string{"t4g.medium"}
		}
		named = m.instanceTypes
	}
	m.launched = named
	for _, t := range named {
		if it, ok := instancetypes.Lookup(t); !ok || !it.Supports(kind.arch) {
			return nil, errInstanceTypeArchitecture(key.ID, ng, strings.Join(named, ", "), string(m.amiType))
		}
	}
	img, ok := images.EKS(key.Region, kind.family, version, kind.arch, kind.variant)
	if !ok {
		return nil, errAMIType(key.ID, ng, string(m.amiType), version)
	}
	if in.ReleaseVersion != nil && *in.ReleaseVersion != img.ReleaseVersion {
		older, ok := kind.release(key.Region, version, *in.ReleaseVersion)
		if !ok {
			return nil, errReleaseVersion(key.ID, ng, *in.ReleaseVersion, img.ReleaseVersion)
		}
		img = older
	}
	m.imageID, m.releaseVersion = img.ID, img.ReleaseVersion
	if tmpl == nil {
		m.diskSize = cmp.Or(in.DiskSize, new(int32(20)))
		if *m.diskSize < 1 || *m.diskSize > 16384 {
			return nil, invalid(key.ID, ng, "diskSize must be between 1 and 16384")
		}
	}
	return m, nil
}

// defaultAMIType derives the AMI type from the instance types. The default is AL2023.
func defaultAMIType(types []string) ekstypes.AMITypes {
	for _, t := range types {
		it, ok := instancetypes.Lookup(t)
		switch {
		case !ok:
		case it.GPUs > 0 && it.Supports("x86_64"):
			return ekstypes.AMITypesAl2023X8664Nvidia
		case !it.Supports("x86_64"):
			return ekstypes.AMITypesAl2023Arm64Standard
		}
	}
	return ekstypes.AMITypesAl2023X8664Standard
}
