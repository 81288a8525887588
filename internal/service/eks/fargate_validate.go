package eks

import (
	"context"
	"errors"
	"slices"
	"strings"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/store"
)

// fargateService assumes pod execution roles.
const fargateService = "eks-fargate-pods.amazonaws.com"

// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const (
	maxSelectors      = 5
	maxSelectorLabels = 5
	// maxFargateName is a quota of nobody's: profile names are label values.
	maxFargateName = 63
	// A label's key has a prefix of 253 characters at most, a slash and a name.
	maxLabelKey   = 317
	maxLabelValue = 63
)

func validateFargateName(cluster string, name *string) error {
	if err := validateName(name, "fargateProfileName", "fargateProfileName", cluster, maxFargateName); err != nil {
		return err
	}
	if strings.HasPrefix(*name, "eks-") {
		return errFargateReservedName(cluster, *name)
	}
	return nil
}

func checkFargateSelectors(cluster, name string, selectors []ekstypes.FargateProfileSelector) error {
	if len(selectors) == 0 {
		return errFargateNoSelector(cluster, name)
	}
	if len(selectors) > maxSelectors {
		return errFargateSelectors(cluster, name)
	}
	for _, sel := range selectors {
		switch ns := text(sel.Namespace); {
		case ns == "":
			return errFargateNoNamespace(cluster, name)
		case len(ns) > maxLabelValue || !selectorText(ns):
			return errFargateSelector(cluster, name, "the namespace "+quoted(ns)+" is none")
		case len(sel.Labels) > maxSelectorLabels:
			return errFargateLabelPairs(cluster, name)
		}
		for k, v := range sel.Labels {
			if k == "" || len(k) > maxLabelKey || !selectorText(k) || len(v) > maxLabelValue || !selectorText(v) {
				return errFargateSelector(cluster, name, "the label "+quoted(k+"="+v)+" is none")
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

// quoted is a hostile text in an error.
func quoted(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return "'" + s + "'"
}

// checkPodExecutionRole checks that the role exists and lets Fargate assume it for
// this profile.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func (s *Service) checkPodExecutionRole(ctx context.Context, cluster store.Key, profile, profileARN string, role *string) (identityRef, error) {
	if text(role) == "" {
		return identityRef{}, errMissing("podExecutionRoleArn")
	}
	a, err := arn.Parse(*role)
	switch {
	case err != nil || a.Service != "iam" || !strings.HasPrefix(a.Resource, "role/"):
		return identityRef{}, errFargateRoleARN(cluster.ID, profile, *role)
	case a.Account != cluster.Account:
		return identityRef{}, errCrossAccountRole()
	}
	id, err := s.cfg.Identity(ctx, *role)
	if errors.Is(err, ErrNoIdentity) {
		return identityRef{}, errFargateRoleNotFound(cluster.ID, profile, *role)
	}
	if err != nil {
		return identityRef{}, err
	}
	if !trustsFargate(id, profileARN) {
		return identityRef{}, errFargateRoleTrust(cluster.ID, profile)
	}
	return identityRef{*role, id.ID}, nil
}

// trustsFargate reports whether Fargate may assume a role for a profile.
func trustsFargate(role Identity, profileARN string) bool {
	if role.Trusts != nil {
		return role.Trusts(fargateService, profileARN)
	}
	return slices.Contains(role.TrustedServices, fargateService)
}

// checkFargateSubnets returns the subnets of a new profile: those named, or else the
// cluster's private ones.
func (s *Service) checkFargateSubnets(ctx context.Context, key store.Key, cluster clusterRecord, profile string, named []string) ([]string, error) {
	vpc, subnets := cluster.Cluster.ResourcesVpcConfig, named
	if len(named) == 0 {
		subnets = vpc.SubnetIds
	}
	svc := s.asService(ctx, key.Account, key.Region)
	got, err := s.cfg.Network.DescribeSubnets(svc, &awsec2.DescribeSubnetsInput{SubnetIds: subnets})
	if err != nil {
		if strings.HasPrefix(code(err), "InvalidSubnet") {
			return nil, errFargateSubnetNotFound(key.ID, profile, quotedID(err, subnets))
		}
		return nil, err
	}
	for _, sn := range got.Subnets {
		if text(sn.VpcId) != text(vpc.VpcId) {
			return nil, errFargateSubnetVPC(key.ID, profile, *sn.SubnetId)
		}
	}
	tables, err := s.cfg.Network.DescribeRouteTables(svc, &awsec2.DescribeRouteTablesInput{Filters: []ec2types.Filter{filter("vpc-id", *vpc.VpcId)}})
	if err != nil {
		return nil, err
	}
	var private []string
	for _, id := range subnets {
		switch {
		case !public(tables.RouteTables, id):
			private = append(private, id)
		case len(named) > 0:
			return nil, errFargateSubnetPublic(key.ID, profile, id)
		}
	}
	if len(private) == 0 {
		return nil, errFargateNoPrivateSubnet(key.ID, profile)
	}
	return private, nil
}
