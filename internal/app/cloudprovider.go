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
	"github.com/drydock-dev/drydock/internal/service/sts"
)

const (
	// cloudSession is how long the cluster role's credentials are valid, as those of
	// sessions are by default.
	cloudSession = time.Hour
	// cloudSessionName is what EKS calls its sessions of the cluster role; the digits
	// there are the time.
	cloudSessionName = "aws-go-sdk-%d"
	// clusterService is who assumes the cluster role.
	clusterService = "eks.amazonaws.com"
)

// cloud tells the cloud provider in a cluster's control plane where it is and lends
// it the cluster role, whose policies then decide about every load balancer:
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-iam-role.html
func (d *daemon) cloud(ctx context.Context, planeID string) (controlplane.Cloud, error) {
	p, err := d.planes.Get(planeID)
	if err != nil {
		return controlplane.Cloud{}, err
	}
	ctx = awsapi.WithCall(ctx, &awsapi.Call{Account: p.Key.Account, Region: p.Key.Region})
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
	// Without its role the cloud provider runs all the same: its calls fail, and the
	// events of the services say so.
	out.Credentials, err = d.assumeClusterRole(ctx, aws.ToString(c.RoleArn), aws.ToString(c.Arn))
	return out, err
}

var errRoleTrust = errors.New("its trust policy does not let " + clusterService + " assume it")

// assumeClusterRole returns credentials of a cluster's role.
func (d *daemon) assumeClusterRole(ctx context.Context, roleARN, cluster string) (controlplane.CloudCredentials, error) {
	role, err := d.iam.RoleByARN(ctx, roleARN)
	if err != nil {
		return controlplane.CloudCredentials{}, fmt.Errorf("the cluster role %s: %w", roleARN, err)
	}
	if !d.iam.TrustsServiceFor(role, clusterService, cluster) {
		return controlplane.CloudCredentials{}, fmt.Errorf("the cluster role %s: %w", role.ARN, errRoleTrust)
	}
	creds, err := d.sts.IssueRoleSession(ctx, role.ARN, fmt.Sprintf(cloudSessionName, time.Now().UnixNano()), cloudSession, sts.SessionOptions{})
	if err != nil {
		return controlplane.CloudCredentials{}, err
	}
	return controlplane.CloudCredentials{
		AccessKeyID: creds.AccessKeyID, SecretAccessKey: creds.SecretAccessKey, SessionToken: creds.SessionToken, Expiration: creds.Expiration,
	}, nil
}
