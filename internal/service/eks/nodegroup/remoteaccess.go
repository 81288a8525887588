package nodegroup

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

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
	if strings.HasPrefix(ekserr.Code(err), "InvalidKeyPair") {
		return nil, errKeyPair(key.ID, ng, *in.Ec2SshKey)
	} else if err != nil {
		return nil, err
	}
	if len(in.SourceSecurityGroups) > 0 {
		_, err := s.Network.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: in.SourceSecurityGroups})
		if strings.HasPrefix(ekserr.Code(err), "InvalidGroup") {
			return nil, errSecurityGroup(key.ID, ng, ekserr.QuotedID(err, in.SourceSecurityGroups))
		} else if err != nil {
			return nil, err
		}
	}
	return in, nil
}

// ensureRemoteAccess makes the security group that lets ssh in, or finds it made.
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
	case ekserr.Code(err) == "InvalidGroup.Duplicate":
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
	if err != nil && ekserr.Code(err) != "InvalidPermission.Duplicate" {
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

// removeRemoteAccess removes the group's security group, also one that was made and
// not noted, as when a rule of its was refused. If other resources depend on it, it
// stays, and so does the node group, which becomes DELETE_FAILED after a while.
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
	case err == nil, strings.HasPrefix(ekserr.Code(err), "InvalidGroup"):
		return true, nil
	case ekserr.Code(err) != "DependencyViolation":
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
