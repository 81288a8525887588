package nodegroup

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A userTemplate is the launch template in a request, resolved to a version.
type userTemplate struct {
	spec *ekstypes.LaunchTemplateSpecification
	data *ec2types.ResponseLaunchTemplateData
}

// checkTemplate resolves the launch template in a request and checks it against EKS's rules. It
// returns nil if the request has none.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
func (s *Service) checkTemplate(ctx context.Context, key store.Key, ng string, in *awseks.CreateNodegroupInput) (*userTemplate, error) {
	spec := in.LaunchTemplate
	if spec == nil {
		return nil, nil
	}
	switch id, name := aws.ToString(spec.Id) != "", aws.ToString(spec.Name) != ""; {
	case id && name:
		return nil, errTemplateSpec(key.ID, ng)
	case !id && !name:
		return nil, errTemplateUnnamed(key.ID, ng)
	}
	version := "$Default"
	if aws.ToString(spec.Version) != "" {
		version = *spec.Version
	}
	got, err := s.templateVersion(s.asService(ctx, key), spec, version)
	if err != nil {
		if strings.HasPrefix(awserr.CodeOf(err), "InvalidLaunchTemplate") {
			return nil, invalid(key.ID, ng, "%s", awserr.TextOf(err))
		}
		return nil, err
	}
	d, name := got.LaunchTemplateData, aws.ToString(got.LaunchTemplateName)
	switch {
	case d.IamInstanceProfile != nil:
		return nil, errTemplateProfile(key.ID, ng, name)
	case slices.ContainsFunc(d.NetworkInterfaces, func(n ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification) bool { return n.SubnetId != nil }):
		return nil, errTemplateSubnet(key.ID, ng)
	case len(d.NetworkInterfaces) > 1:
		return nil, errTemplateInterfaces(key.ID, ng, name)
	case d.InstanceMarketOptions != nil:
		return nil, errTemplateForbids(key.ID, ng, name, "spot market options")
	case d.HibernationOptions != nil && d.HibernationOptions.Configured != nil && *d.HibernationOptions.Configured:
		return nil, errTemplateForbids(key.ID, ng, name, "hibernation options")
	case d.InstanceInitiatedShutdownBehavior != "":
		return nil, errTemplateForbids(key.ID, ng, name, "a shutdown behavior")
	case in.RemoteAccess != nil:
		return nil, errRemoteAccessAndTemplate(key.ID, ng)
	case in.DiskSize != nil:
		return nil, invalid(key.ID, ng, "Disk size must be specified within the launch template.")
	case d.InstanceType != "" && len(in.InstanceTypes) > 0:
		return nil, errInstanceTypesTwice(key.ID, ng)
	case d.ImageId != nil && in.AmiType != "" && in.AmiType != ekstypes.AMITypesCustom:
		return nil, errImageAndType(key.ID, ng)
	case d.ImageId != nil && in.Version != nil:
		return nil, errImageAndVersion(key.ID, ng, "kubernetes")
	case d.ImageId != nil && in.ReleaseVersion != nil:
		return nil, errImageAndVersion(key.ID, ng, "release")
	case d.InstanceRequirements != nil:
		return nil, awserr.NotImplemented("launch templates with instance requirements in a node group")
	}
	return &userTemplate{
		spec: &ekstypes.LaunchTemplateSpecification{Id: got.LaunchTemplateId, Name: got.LaunchTemplateName, Version: new(fmt.Sprint(*got.VersionNumber))},
		data: d,
	}, nil
}

func (s *Service) templateVersion(ctx context.Context, spec *ekstypes.LaunchTemplateSpecification, version string) (*ec2types.LaunchTemplateVersion, error) {
	ask := &awsec2.DescribeLaunchTemplateVersionsInput{Versions: []string{version}}
	if aws.ToString(spec.Id) != "" {
		ask.LaunchTemplateId = spec.Id
	} else {
		ask.LaunchTemplateName = spec.Name
	}
	got, err := s.Instances.DescribeLaunchTemplateVersions(ctx, ask)
	if err != nil {
		return nil, err
	}
	if len(got.LaunchTemplateVersions) == 0 || got.LaunchTemplateVersions[0].LaunchTemplateData == nil {
		return nil, awserr.Newf("InvalidLaunchTemplateId.VersionNotFound", "Could not find the specified version %s for the launch template.", version)
	}
	return &got.LaunchTemplateVersions[0], nil
}

// request converts the template's data to a request for another template.
func (t *userTemplate) request() (*ec2types.RequestLaunchTemplateData, error) {
	out := &ec2types.RequestLaunchTemplateData{}
	if t == nil {
		return out, nil
	}
	raw, err := json.Marshal(t.data) // both types have the same fields
	if err != nil {
		return nil, err
	}
	return out, json.Unmarshal(raw, out)
}

// launchTemplate creates the group's own launch template, unless an earlier attempt has. It
// contains the user's template, if there is one, and EKS's additions.
func (s *Service) launchTemplate(ctx context.Context, cluster *record.Cluster, g *record.Nodegroup) (string, error) {
	name := "eks-" + g.UUID
	data, err := s.templateData(ctx, cluster, g)
	if err != nil {
		return "", err
	}
	made, err := s.Instances.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: &name, LaunchTemplateData: data,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeLaunchTemplate, Tags: []ec2types.Tag{
			base.EC2Tag("eks:cluster-name", cluster.Name()), base.EC2Tag("eks:nodegroup-name", *g.Nodegroup.NodegroupName),
		}}},
	})
	if awserr.CodeOf(err) == "InvalidLaunchTemplateName.AlreadyExistsException" {
		v, err := s.templateVersion(ctx, &ekstypes.LaunchTemplateSpecification{Name: &name}, "$Latest")
		if err != nil {
			return "", err
		}
		return *v.LaunchTemplateId, nil
	} else if err != nil {
		return "", fmt.Errorf("creating the launch template: %w", err)
	}
	return *made.LaunchTemplate.LaunchTemplateId, nil
}

// newTemplateVersion creates a version with the group's current labels and taints, one per update.
func (s *Service) newTemplateVersion(ctx context.Context, cluster *record.Cluster, g *record.Nodegroup) (string, error) {
	data, err := s.templateData(ctx, cluster, g)
	if err != nil {
		return "", err
	}
	made, err := s.Instances.CreateLaunchTemplateVersion(ctx, &awsec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: &g.LaunchTemplateID, LaunchTemplateData: data, ClientToken: &g.UpdateID,
	})
	if err != nil {
		return "", fmt.Errorf("creating a version of the launch template: %w", err)
	}
	return fmt.Sprint(*made.LaunchTemplateVersion.VersionNumber), nil
}

// templateData returns the user's launch template, if there is one, with EKS's additions.
func (s *Service) templateData(ctx context.Context, cluster *record.Cluster, g *record.Nodegroup) (*ec2types.RequestLaunchTemplateData, error) {
	var own *userTemplate
	if spec := g.Nodegroup.LaunchTemplate; spec != nil {
		v, err := s.templateVersion(ctx, &ekstypes.LaunchTemplateSpecification{Id: spec.Id}, *spec.Version)
		if err != nil {
			return nil, err
		}
		own = &userTemplate{spec, v.LaunchTemplateData}
	}
	data, err := own.request()
	if err != nil {
		return nil, err
	}
	if data.UserData, err = groupUserData(cluster, g, own); err != nil {
		return nil, err
	}
	fillTemplate(data, cluster, g)
	return data, nil
}

func groupUserData(cluster *record.Cluster, g *record.Nodegroup, own *userTemplate) (*string, error) {
	users := ""
	if own != nil {
		users = aws.ToString(own.data.UserData)
	}
	data, err := userData(cluster, g, users)
	return record.Optional(data), err
}

// fillTemplate adds EKS's settings to a launch template.
// https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
func fillTemplate(d *ec2types.RequestLaunchTemplateData, cluster *record.Cluster, g *record.Nodegroup) {
	d.ImageId = &g.ImageID
	d.IamInstanceProfile = &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: &g.InstanceProfile}
	withGroups := slices.ContainsFunc(d.NetworkInterfaces, func(n ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest) bool {
		return len(n.Groups) > 0
	})
	if len(d.SecurityGroupIds) == 0 && len(d.SecurityGroups) == 0 && !withGroups {
		groups := []string{*cluster.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId}
		if r := g.Nodegroup.Resources; r != nil && r.RemoteAccessSecurityGroup != nil {
			groups = append([]string{*r.RemoteAccessSecurityGroup}, groups...)
		}
		if len(d.NetworkInterfaces) > 0 {
			d.NetworkInterfaces[0].Groups = groups
		} else {
			d.SecurityGroupIds = groups
		}
	}
	if r := g.Nodegroup.RemoteAccess; r != nil {
		d.KeyName = r.Ec2SshKey
	}
	if len(d.BlockDeviceMappings) == 0 && g.Nodegroup.DiskSize != nil {
		d.BlockDeviceMappings = []ec2types.LaunchTemplateBlockDeviceMappingRequest{{
			DeviceName: new("/dev/xvda"),
			Ebs:        &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: g.Nodegroup.DiskSize, VolumeType: ec2types.VolumeTypeGp3, DeleteOnTermination: new(true)},
		}}
	}
	if d.MetadataOptions == nil {
		d.MetadataOptions = &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
			HttpPutResponseHopLimit: new(int32(2)), HttpTokens: ec2types.LaunchTemplateHttpTokensStateRequired,
		}
	}
	tags := map[string]string{"eks:cluster-name": cluster.Name(), "eks:nodegroup-name": *g.Nodegroup.NodegroupName}
	// AWS deviation: the tags of a node group stay on the group, but these say what runs its instances.
	for _, name := range []string{"drydock:runtime", "drydock:userland"} {
		if value := g.Nodegroup.Tags[name]; value != "" {
			tags[name] = value
		}
	}
	for _, kind := range []ec2types.ResourceType{ec2types.ResourceTypeInstance, ec2types.ResourceTypeVolume, ec2types.ResourceTypeNetworkInterface} {
		i := slices.IndexFunc(d.TagSpecifications, func(t ec2types.LaunchTemplateTagSpecificationRequest) bool { return t.ResourceType == kind })
		if i < 0 {
			i = len(d.TagSpecifications)
			d.TagSpecifications = append(d.TagSpecifications, ec2types.LaunchTemplateTagSpecificationRequest{ResourceType: kind})
		}
		for _, k := range slices.Sorted(maps.Keys(tags)) {
			d.TagSpecifications[i].Tags = slices.DeleteFunc(d.TagSpecifications[i].Tags, func(t ec2types.Tag) bool { return aws.ToString(t.Key) == k })
			d.TagSpecifications[i].Tags = append(d.TagSpecifications[i].Tags, base.EC2Tag(k, tags[k]))
		}
	}
}

// ensureInstanceProfile creates the instance profile that gives the group's instances the node
// role.
func (w *work) ensureInstanceProfile() error {
	p := w.s.InstanceProfiles
	_, err := p.CreateInstanceProfile(w.svc, &awsiam.CreateInstanceProfileInput{InstanceProfileName: &w.g.InstanceProfile})
	if err != nil && !isCode(err, "EntityAlreadyExists") {
		return fmt.Errorf("creating the instance profile: %w", err)
	}
	_, err = p.AddRoleToInstanceProfile(w.svc, &awsiam.AddRoleToInstanceProfileInput{
		InstanceProfileName: &w.g.InstanceProfile, RoleName: new(access.RoleName(w.g.Role.ARN)),
	})
	if err != nil && !isCode(err, "LimitExceeded") { // it has its one role already
		return fmt.Errorf("adding the node role to the instance profile: %w", err)
	}
	return nil
}

func (w *work) removeInstanceProfile() error {
	p := w.s.InstanceProfiles
	_, err := p.RemoveRoleFromInstanceProfile(w.svc, &awsiam.RemoveRoleFromInstanceProfileInput{
		InstanceProfileName: &w.g.InstanceProfile, RoleName: new(access.RoleName(w.g.Role.ARN)),
	})
	if err != nil && !isCode(err, "NoSuchEntity") {
		return fmt.Errorf("emptying the instance profile: %w", err)
	}
	_, err = p.DeleteInstanceProfile(w.svc, &awsiam.DeleteInstanceProfileInput{InstanceProfileName: &w.g.InstanceProfile})
	if err != nil && !isCode(err, "NoSuchEntity") {
		return fmt.Errorf("removing the instance profile: %w", err)
	}
	return nil
}

// isCode reports whether err has an IAM error code in either spelling: the SDK's types end in
// Exception, the wire codes do not.
func isCode(err error, want string) bool {
	return strings.TrimSuffix(awserr.CodeOf(err), "Exception") == want
}

// checkRemoteAccess checks who may reach port 22 of a group's nodes.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_RemoteAccessConfig.html
func (s *Service) checkRemoteAccess(ctx context.Context, key store.Key, ng string, in *ekstypes.RemoteAccessConfig) (*ekstypes.RemoteAccessConfig, error) {
	if in == nil || in.Ec2SshKey == nil && len(in.SourceSecurityGroups) == 0 {
		return nil, nil
	}
	if aws.ToString(in.Ec2SshKey) == "" {
		return nil, errRemoteAccessKey(key.ID, ng)
	}
	ctx = s.asService(ctx, key)
	_, err := s.Instances.DescribeKeyPairs(ctx, &awsec2.DescribeKeyPairsInput{KeyNames: []string{*in.Ec2SshKey}})
	if strings.HasPrefix(awserr.CodeOf(err), "InvalidKeyPair") {
		return nil, errKeyPair(key.ID, ng, *in.Ec2SshKey)
	} else if err != nil {
		return nil, err
	}
	if len(in.SourceSecurityGroups) > 0 {
		_, err := s.Network.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: in.SourceSecurityGroups})
		if strings.HasPrefix(awserr.CodeOf(err), "InvalidGroup") {
			return nil, errSecurityGroup(key.ID, ng, ekserr.QuotedID(err, in.SourceSecurityGroups))
		} else if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// ensureRemoteAccess creates the security group that allows SSH, unless it exists.
func (w *work) ensureRemoteAccess() (id string, err error) {
	network, vpc := w.s.Network, aws.ToString(w.cluster.Cluster.ResourcesVpcConfig.VpcId)
	name := w.remoteAccessName()
	made, err := network.CreateSecurityGroup(w.svc, &awsec2.CreateSecurityGroupInput{
		GroupName: &name, Description: new("Security group for all nodes in the nodeGroup to allow SSH access"), VpcId: &vpc,
		TagSpecifications: []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: []ec2types.Tag{
			base.EC2Tag("eks", *w.g.Nodegroup.NodegroupName), base.EC2Tag("eks:nodegroup-name", *w.g.Nodegroup.NodegroupName),
		}}},
	})
	switch {
	case err == nil:
		id = *made.GroupId
	case awserr.CodeOf(err) == "InvalidGroup.Duplicate":
		if id, err = w.findRemoteAccess(); err != nil {
			return "", err
		}
		if id == "" {
			return "", fmt.Errorf("EC2 reports that the security group %s exists, but does not list it", name)
		}
	default:
		return "", fmt.Errorf("creating the security group for ssh: %w", err)
	}
	ssh := ec2types.IpPermission{IpProtocol: new("tcp"), FromPort: new(int32(22)), ToPort: new(int32(22))}
	for _, source := range w.g.Nodegroup.RemoteAccess.SourceSecurityGroups {
		ssh.UserIdGroupPairs = append(ssh.UserIdGroupPairs, ec2types.UserIdGroupPair{GroupId: &source})
	}
	if len(ssh.UserIdGroupPairs) == 0 {
		ssh.IpRanges = []ec2types.IpRange{{CidrIp: new("0.0.0.0/0")}}
	}
	_, err = network.AuthorizeSecurityGroupIngress(w.svc, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: []ec2types.IpPermission{ssh}})
	if err != nil && awserr.CodeOf(err) != "InvalidPermission.Duplicate" {
		return "", fmt.Errorf("allowing ssh: %w", err)
	}
	return id, nil
}

func (w *work) remoteAccessName() string { return "eks-remoteAccess-" + w.g.UUID }

// findRemoteAccess returns the security group that ensureRemoteAccess created, or ""
// if there is none.
func (w *work) findRemoteAccess() (id string, err error) {
	got, err := w.s.Network.DescribeSecurityGroups(w.svc, &awsec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		base.EC2Filter("group-name", w.remoteAccessName()), base.EC2Filter("vpc-id", aws.ToString(w.cluster.Cluster.ResourcesVpcConfig.VpcId)),
	}})
	if err != nil || len(got.SecurityGroups) == 0 {
		return "", err
	}
	return *got.SecurityGroups[0].GroupId, nil
}

// removeRemoteAccess deletes the group's security group, even one that was created but not
// recorded, as when one of its rules was refused. If other resources depend on it, it stays, and
// the node group eventually becomes DELETE_FAILED.
func (w *work) removeRemoteAccess(ctx context.Context) (done bool, err error) {
	var id string
	if r := w.g.Nodegroup.Resources; r != nil {
		id = aws.ToString(r.RemoteAccessSecurityGroup)
	}
	if id == "" && w.g.Nodegroup.RemoteAccess != nil {
		if id, err = w.findRemoteAccess(); err != nil {
			return false, fmt.Errorf("looking up the security group for ssh: %w", err)
		}
	}
	if id == "" {
		return true, nil
	}
	_, err = w.s.Network.DeleteSecurityGroup(w.svc, &awsec2.DeleteSecurityGroupInput{GroupId: &id})
	switch {
	case err == nil, strings.HasPrefix(awserr.CodeOf(err), "InvalidGroup"):
		return true, nil
	case awserr.CodeOf(err) != "DependencyViolation":
		return false, fmt.Errorf("removing the security group for ssh: %w", err)
	case w.s.Clock.Since(w.g.Since) < w.s.Timing.NodeDrain:
		return false, nil
	}
	return false, w.change(ctx, func(g *record.Nodegroup) {
		if g.Nodegroup.Status == ekstypes.NodegroupStatusDeleting {
			g.Nodegroup.Status, g.Since = ekstypes.NodegroupStatusDeleteFailed, w.s.Clock.Now().UTC()
			g.Nodegroup.Health = &ekstypes.NodegroupHealth{Issues: []ekstypes.Issue{issue( // [seen] hashicorp/terraform-provider-aws#20405
				ekstypes.NodegroupIssueCodeEc2SecurityGroupDeletionFailure, "DependencyViolation - resource has a dependent object", id)}}
		}
	})
}
