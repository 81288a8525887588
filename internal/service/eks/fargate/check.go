package fargate

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// trustedService assumes pod execution roles.
const trustedService = "eks-fargate-pods.amazonaws.com"

// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const (
	maxSelectors      = 5
	maxSelectorLabels = 5
	// maxName is not a quota of AWS: profile names are label values.
	maxName = 63
	// A label's key has a prefix of 253 characters at most, a slash and a name.
	maxLabelKey   = 317
	maxLabelValue = 63
)

func checkName(cluster string, name *string) error {
	if err := base.CheckName(name, "fargateProfileName", "fargateProfileName", cluster, maxName); err != nil {
		return err
	}
	if strings.HasPrefix(*name, "eks-") {
		return errReservedName(cluster, *name)
	}
	return nil
}

func checkSelectors(cluster, name string, selectors []ekstypes.FargateProfileSelector) error {
	if len(selectors) == 0 {
		return errNoSelector(cluster, name)
	}
	if len(selectors) > maxSelectors {
		return errSelectors(cluster, name)
	}
	for _, sel := range selectors {
		switch ns := aws.ToString(sel.Namespace); {
		case ns == "":
			return errNoNamespace(cluster, name)
		case len(ns) > maxLabelValue || !selectorText(ns):
			return errSelector(cluster, name, quoted(ns)+" is not a valid namespace")
		case len(sel.Labels) > maxSelectorLabels:
			return errLabelPairs(cluster, name)
		}
		for k, v := range sel.Labels {
			if k == "" || len(k) > maxLabelKey || !selectorText(k) || len(v) > maxLabelValue || !selectorText(v) {
				return errSelector(cluster, name, quoted(k+"="+v)+" is not a valid label")
			}
		}
	}
	return nil
}

// selectorText reports whether a text could match a Kubernetes name or label, with
// the wildcards of selectors.
func selectorText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./*?", r))
	})
}

// quoted quotes text from a request, which may be long, for an error.
func quoted(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return "'" + s + "'"
}

// checkPodExecutionRole checks that the role exists and lets Fargate assume it for
// this profile.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func (s *Service) checkPodExecutionRole(ctx context.Context, cluster store.Key, profile, profileARN string, role *string) (record.Identity, error) {
	if aws.ToString(role) == "" {
		return record.Identity{}, ekserr.Missing("podExecutionRoleArn")
	}
	a, err := arn.Parse(*role)
	switch {
	case err != nil || a.Service != "iam" || !strings.HasPrefix(a.Resource, "role/"):
		return record.Identity{}, errRoleARN(cluster.ID, profile, *role)
	case a.Account != cluster.Account:
		return record.Identity{}, ekserr.CrossAccountRole()
	}
	id, err := s.Identity(ctx, *role)
	if errors.Is(err, base.ErrNoIdentity) {
		return record.Identity{}, errRoleNotFound(cluster.ID, profile, *role)
	}
	if err != nil {
		return record.Identity{}, err
	}
	if !trustsFargate(id, profileARN) {
		return record.Identity{}, errRoleTrust(cluster.ID, profile)
	}
	return record.Identity{ARN: *role, ID: id.ID}, nil
}

// trustsFargate reports whether Fargate may assume a role for a profile.
func trustsFargate(role base.Identity, profileARN string) bool {
	if role.Trusts != nil {
		return role.Trusts(trustedService, profileARN)
	}
	return slices.Contains(role.TrustedServices, trustedService)
}

// checkSubnets returns the subnets of a new profile: those named, or else the
// cluster's private ones.
func (s *Service) checkSubnets(ctx context.Context, key store.Key, cluster record.Cluster, profile string, named []string) ([]string, error) {
	vpc, subnets := cluster.Cluster.ResourcesVpcConfig, named
	if len(named) == 0 {
		subnets = vpc.SubnetIds
	}
	svc := s.AsService(ctx, key.Account, key.Region)
	got, err := s.Network.DescribeSubnets(svc, &awsec2.DescribeSubnetsInput{SubnetIds: subnets})
	if err != nil {
		if strings.HasPrefix(ekserr.Code(err), "InvalidSubnet") {
			return nil, errSubnetNotFound(key.ID, profile, ekserr.QuotedID(err, subnets))
		}
		return nil, err
	}
	for _, sn := range got.Subnets {
		if aws.ToString(sn.VpcId) != aws.ToString(vpc.VpcId) {
			return nil, errSubnetVPC(key.ID, profile, *sn.SubnetId)
		}
	}
	tables, err := s.Network.DescribeRouteTables(svc, &awsec2.DescribeRouteTablesInput{Filters: []ec2types.Filter{base.EC2Filter("vpc-id", *vpc.VpcId)}})
	if err != nil {
		return nil, err
	}
	var private []string
	for _, id := range subnets {
		switch {
		case !base.RoutesToInternet(tables.RouteTables, id):
			private = append(private, id)
		case len(named) > 0:
			return nil, errSubnetPublic(key.ID, profile, id)
		}
	}
	if len(private) == 0 {
		return nil, errNoPrivateSubnet(key.ID, profile)
	}
	return private, nil
}
