package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// autoNodes lets EKS launch and terminate the nodes of EKS Auto Mode.
type autoNodes struct {
	awscall.EC2
	iam awscall.IAM
	d   *daemon
}

var _ eks.AutoNodes = autoNodes{}

// autoBalancers lets EKS create the load balancers of EKS Auto Mode.
type autoBalancers struct {
	awscall.EC2
	awscall.ELBv2
}

var _ eks.LoadBalancers = autoBalancers{}

// AddRoleToInstanceProfile implements eks.AutoNodes.
func (a autoNodes) AddRoleToInstanceProfile(ctx context.Context, in *awsiam.AddRoleToInstanceProfileInput) (*awsiam.AddRoleToInstanceProfileOutput, error) {
	return a.iam.AddRoleToInstanceProfile(ctx, in)
}

// AsClusterRole implements eks.AutoNodes.
func (a autoNodes) AsClusterRole(ctx context.Context, clusterARN, roleARN, region string, tags map[string]string) (context.Context, error) {
	p, err := a.d.clusterSession(ctx, clusterARN, roleARN, region, tags)
	return awsapi.AsRole(ctx, p, region, clusterService, time.Now()), err
}

// clusterSession assumes a cluster's role with session tags, which its trust policy must allow.
func (d *daemon) clusterSession(ctx context.Context, clusterARN, roleARN, region string, tags map[string]string) (awsapi.Principal, error) {
	role, err := arn.Parse(roleARN)
	if err != nil {
		return awsapi.Principal{}, err
	}
	now := time.Now()
	in := &awssts.AssumeRoleInput{RoleArn: &roleARN, RoleSessionName: aws.String(fmt.Sprintf(cloudSessionName, now.UnixNano()))}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		in.Tags = append(in.Tags, ststypes.Tag{Key: &k, Value: aws.String(tags[k])})
	}
	out, err := d.assume(awsapi.AsServicePrincipal(ctx, role.Account, region, clusterService, clusterARN, now), in)
	if err != nil {
		return awsapi.Principal{}, fmt.Errorf("assuming the cluster role %s: %w", roleARN, err)
	}
	_, p, err := d.sts.OpenSession(ctx, out.AccessKeyID, out.SessionToken)
	return p, err
}

// networkOf returns whom EKS calls as for the network of an instance of EKS Auto Mode.
func (d *daemon) networkOf(ctx context.Context, in machine.Instance, cluster string) (awsapi.Principal, error) {
	arn, role, err := d.eks.ClusterRole(in.Account, in.Region, cluster)
	if err != nil {
		return awsapi.Principal{}, err
	}
	return d.clusterSession(ctx, arn, role, in.Region, map[string]string{automode.TagCluster: cluster})
}
