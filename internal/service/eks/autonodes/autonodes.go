// Package autonodes launches and terminates the nodes of EKS Auto Mode. Karpenter's controllers, in the process of a
// cluster's control plane, decide which nodes to launch and terminate (internal/controlplane/child/karpenter), and
// call this package through the daemon.
//
// As on AWS, EKS launches as the cluster role, with the cluster's name as a session tag that the role's policies
// check. It describes, terminates and cleans up as its service-linked role.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonEKSComputePolicy.html
package autonodes

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// A Service launches the nodes of EKS Auto Mode.
type Service struct{ *base.Service }

// New returns the part of EKS that launches the nodes of EKS Auto Mode.
func New(b *base.Service) *Service { return &Service{b} }

// Enabled reports whether EKS Auto Mode is enabled on a cluster.
func Enabled(c *ekstypes.Cluster) bool {
	return c.ComputeConfig != nil && aws.ToBool(c.ComputeConfig.Enabled)
}

// nodeVersion returns the Kubernetes version of a cluster's new nodes.
func nodeVersion(rec *record.Cluster) string {
	if rec.Rollback != nil {
		return rec.Rollback.Version
	}
	return *rec.Cluster.Version
}

// Setting returns what a cluster's controllers need to know, or nil if EKS Auto Mode is disabled.
func Setting(region string, rec *record.Cluster) *automode.Setting {
	c := &rec.Cluster
	if !Enabled(c) {
		return nil
	}
	out := &automode.Setting{Region: region, Version: nodeVersion(rec), NodePools: slices.Sorted(slices.Values(c.ComputeConfig.NodePools))}
	if role := aws.ToString(c.ComputeConfig.NodeRoleArn); role != "" {
		out.NodeRole = roleName(role)
		out.Subnets, out.SecurityGroup = c.ResourcesVpcConfig.SubnetIds, aws.ToString(c.ResourcesVpcConfig.ClusterSecurityGroupId)
	}
	return out
}

func roleName(roleARN string) string { return roleARN[strings.LastIndexByte(roleARN, '/')+1:] }

// AutoMode answers a call of the controllers in a control plane.
func (s *Service) AutoMode(ctx context.Context, planeID string, call automode.Call) automode.Answer {
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil {
		return failed(automode.Other, "Cluster", err)
	}
	switch {
	case call.Enabled:
		return automode.Answer{}
	case call.Resolve != nil:
		return automode.Answer{Resolved: s.resolve(ctx, key, &rec, call.Resolve)}
	case call.Forget != nil:
		if err := s.removeProfile(ctx, key, &rec, call.Forget); err != nil {
			return failed(automode.Other, "InstanceProfile", err)
		}
		return automode.Answer{}
	case call.Launch != nil:
		return s.launch(ctx, key, &rec, call.Launch)
	case call.Terminate != "":
		return s.terminate(ctx, key, call.Terminate)
	case call.Get != "":
		i, err := s.instance(ctx, key, call.Get)
		if err != nil {
			return failed(kindOf(err), "Instance", err)
		}
		return automode.Answer{Instance: i}
	case call.List:
		all, err := s.instances(ctx, key)
		if err != nil {
			return failed(automode.Other, "Instances", err)
		}
		return automode.Answer{Instances: all}
	}
	return failed(automode.Other, "Call", fmt.Errorf("unknown call"))
}

func failed(kind automode.Kind, reason string, err error) automode.Answer {
	return automode.Answer{Failed: kind, Problem: &automode.Problem{Reason: reason, Message: err.Error()}}
}

func kindOf(err error) automode.Kind {
	if strings.HasPrefix(awserr.CodeOf(err), "InvalidInstanceID") || err == errGone {
		return automode.NotFound
	}
	return automode.Other
}

// tagsOf returns the tags of what EKS Auto Mode creates for a NodeClass and a node pool.
func tagsOf(cluster, nodeClass, nodePool string, more map[string]string) []ec2types.Tag {
	out := []ec2types.Tag{base.EC2Tag(automode.TagCluster, cluster), base.EC2Tag(automode.TagNodeClass, nodeClass), base.EC2Tag(automode.TagNodePool, nodePool)}
	for k, v := range more {
		out = append(out, base.EC2Tag(k, v))
	}
	slices.SortFunc(out, func(a, b ec2types.Tag) int { return strings.Compare(*a.Key, *b.Key) })
	return out
}

func tagValue(tags []ec2types.Tag, key string) string {
	for _, t := range tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

// profileName returns the name of the instance profile that EKS makes for a role.
func profileName(region, cluster, role string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(region + "/" + cluster + "/" + role))
	if len(cluster) > 80 { // a name has at most 128 characters
		cluster = cluster[:80]
	}
	return fmt.Sprintf("eks-%s-%s-%d", region, cluster, h.Sum64())
}
