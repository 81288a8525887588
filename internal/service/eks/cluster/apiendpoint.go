package cluster

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// An APIEndpoint is where a cluster's API server is found in AWS's network.
type APIEndpoint struct {
	Host string // 0123….gr7.us-east-1.eks.amazonaws.com
	ARN  string
	// VPCID resolves Host to the control plane's network interfaces, Interfaces,
	// when Private access is on; elsewhere it has a public address when Public
	// access is on, which answers to PublicCIDRs.
	VPCID           string
	Interfaces      []string
	Public, Private bool
	PublicCIDRs     []string
}

// APIEndpoints returns those of an account and region's clusters.
func (s *Service) APIEndpoints(_ context.Context, account, region string) ([]APIEndpoint, error) {
	return APIEndpoints(s.Store, account, region), nil
}

// APIEndpoints returns those of an account and region's clusters.
func APIEndpoints(r store.Reader, account, region string) []APIEndpoint {
	all := record.Clusters.All(r, store.Scope{Account: account, Region: region})
	var out []APIEndpoint
	for _, i := range all {
		c := i.Value.Cluster
		if i.Value.Plane.AWSHost == "" || c.ResourcesVpcConfig == nil {
			continue
		}
		v := c.ResourcesVpcConfig
		out = append(out, APIEndpoint{
			Host: i.Value.Plane.AWSHost, ARN: aws.ToString(c.Arn), VPCID: aws.ToString(v.VpcId),
			Interfaces: slices.Sorted(maps.Values(i.Value.Interfaces)),
			Public:     v.EndpointPublicAccess, Private: v.EndpointPrivateAccess, PublicCIDRs: v.PublicAccessCidrs,
		})
	}
	return out
}
