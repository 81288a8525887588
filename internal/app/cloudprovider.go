package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
)

const (
	// cloudSession is how long the cluster role's credentials are valid: AWS's default for sessions.
	cloudSession = time.Hour
	// cloudSessionName is what EKS names its sessions of the cluster role; the digits are the time.
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
	// Without its role the cloud provider still runs. Its calls then fail, and the Services' events report that.
	out.Credentials, err = clusterRoles{d.iam, d.sts}.credentials(ctx, aws.ToString(c.Arn), aws.ToString(c.RoleArn))
	return out, err
}

// clusterRoles lets EKS act as the roles that users pass to clusters.
type clusterRoles struct {
	iam *iam.Service
	sts *sts.Service
}

// check returns a cluster's role if EKS may assume it.
func (r clusterRoles) check(ctx context.Context, cluster, roleARN string) (iam.Role, error) {
	role, err := r.iam.RoleByARN(ctx, roleARN)
	switch {
	case errors.Is(err, iam.ErrNoSuchRole):
		return role, fmt.Errorf("%w: the cluster role %s: %w", eks.ErrNoIdentity, roleARN, err)
	case err != nil:
		return role, fmt.Errorf("the cluster role %s: %w", roleARN, err)
	case !r.iam.TrustsServiceFor(role, clusterService, cluster):
		return role, fmt.Errorf("%w: the cluster role %s: its trust policy does not let %s assume it", eks.ErrNoIdentity, roleARN, clusterService)
	}
	return role, nil
}

// as returns a context in which EKS calls as a cluster's role.
func (r clusterRoles) as(ctx context.Context, cluster, roleARN, region string) (context.Context, error) {
	role, err := r.check(ctx, cluster, roleARN)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	session, err := r.sts.RoleSession(ctx, role.ARN, fmt.Sprintf(cloudSessionName, now.UnixNano()))
	return awsapi.AsRole(ctx, session, region, clusterService, now), err
}

// credentials returns temporary credentials of a cluster's role.
func (r clusterRoles) credentials(ctx context.Context, cluster, roleARN string) (controlplane.CloudCredentials, error) {
	role, err := r.check(ctx, cluster, roleARN)
	if err != nil {
		return controlplane.CloudCredentials{}, err
	}
	creds, err := r.sts.IssueRoleSession(ctx, role.ARN, fmt.Sprintf(cloudSessionName, time.Now().UnixNano()), cloudSession, sts.SessionOptions{})
	if err != nil {
		return controlplane.CloudCredentials{}, err
	}
	return controlplane.CloudCredentials{
		AccessKeyID: creds.AccessKeyID, SecretAccessKey: creds.SecretAccessKey, SessionToken: creds.SessionToken, Expiration: creds.Expiration,
	}, nil
}
