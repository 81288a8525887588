package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/twin/account"
)

const (
	// cloudSession is how long the cluster role's credentials are valid, in seconds.
	cloudSession = 3600
	// cloudSessionName is what EKS calls its sessions of the cluster role; the digits
	// there are the time.
	cloudSessionName = "aws-go-sdk-%d"
	// clusterService is the service that assumes the cluster role.
	clusterService = "eks.amazonaws.com"
)

// cloud tells the cloud provider of a cluster's control plane where it runs and gives it the cluster role's
// credentials, so that the role's policies govern every load balancer:
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html
func (d *daemon) cloud(ctx context.Context, planeID string) (controlplane.Cloud, error) {
	p, err := d.planes.Get(planeID)
	if err != nil {
		return controlplane.Cloud{}, err
	}
	ctx = awsapi.AsService(ctx, p.Key.Account, p.Key.Region, eks.ServiceRole, time.Now())
	described, err := d.eks.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: &p.Key.Name})
	if err != nil {
		return controlplane.Cloud{}, err
	}
	c := described.Cluster
	if c.ResourcesVpcConfig == nil || len(c.ResourcesVpcConfig.SubnetIds) == 0 {
		return controlplane.Cloud{}, errors.New("the cluster has no network yet")
	}
	out := controlplane.Cloud{
		Region: p.Key.Region, Cluster: p.Key.Name, VPC: aws.ToString(c.ResourcesVpcConfig.VpcId), Subnet: c.ResourcesVpcConfig.SubnetIds[0], Endpoint: d.info.URL,
	}
	if account.Held(d.store, p.Key.Account) {
		return out, errors.New("nothing was changed in this twin, so that nothing is made for its Services")
	}
	// Without its role the cloud provider still runs, but its calls fail, which
	// events of the Services report.
	session := fmt.Sprintf(cloudSessionName, time.Now().UnixNano())
	role, err := d.assume(awsapi.AsServicePrincipal(ctx, p.Key.Account, p.Key.Region, clusterService, *c.Arn, time.Now()), &awssts.AssumeRoleInput{
		RoleArn: c.RoleArn, RoleSessionName: &session, DurationSeconds: aws.Int32(cloudSession),
	})
	out.Credentials = controlplane.CloudCredentials{
		AccessKeyID: role.AccessKeyID, SecretAccessKey: role.SecretAccessKey, SessionToken: role.SessionToken, Expiration: role.Expiration,
	}
	return out, err
}

// clusterRoles lets EKS act as the roles that users pass to clusters.
type clusterRoles struct {
	iam *iam.Service
	sts *sts.Service
}

// as returns a context in which EKS calls as a cluster's role.
func (r clusterRoles) as(ctx context.Context, cluster, roleARN, region string) (context.Context, error) {
	role, err := r.iam.RoleByARN(ctx, roleARN)
	switch {
	case errors.Is(err, iam.ErrNoSuchRole):
		return nil, fmt.Errorf("%w: the cluster role %s: %w", eks.ErrNoIdentity, roleARN, err)
	case err != nil:
		return nil, fmt.Errorf("the cluster role %s: %w", roleARN, err)
	case !r.iam.TrustsServiceFor(role, clusterService, cluster):
		return nil, fmt.Errorf("%w: the cluster role %s: its trust policy does not let %s assume it", eks.ErrNoIdentity, roleARN, clusterService)
	}
	now := time.Now()
	session, err := r.sts.RoleSession(ctx, role.ARN, fmt.Sprintf(cloudSessionName, now.UnixNano()))
	return awsapi.AsRole(ctx, session, region, clusterService, now), err
}
