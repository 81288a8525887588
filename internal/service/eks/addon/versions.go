package addon

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// DescribeAddonVersions returns the add-ons that can be had, their versions and
// which Kubernetes releases those run on.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeAddonVersions.html
func (s *Service) DescribeAddonVersions(_ context.Context, in *awseks.DescribeAddonVersionsInput) (*awseks.DescribeAddonVersionsOutput, error) {
	if in.AddonName != nil {
		if _, err := lookup("", in.AddonName); err != nil {
			return nil, err
		}
	}
	among := func(wanted []string, have string) bool { return len(wanted) == 0 || slices.Contains(wanted, have) }
	var found []ekstypes.AddonInfo
	for i := range addons.All() {
		a := &addons.All()[i]
		if in.AddonName != nil && a.Name != *in.AddonName || !among(in.Types, a.Type) || !among(in.Publishers, a.Publisher) || !among(in.Owners, a.Owner) {
			continue
		}
		if info := infoOf(a, in.KubernetesVersion); len(info.AddonVersions) > 0 {
			found = append(found, info)
		}
	}
	found, next, err := base.Page(found, func(a ekstypes.AddonInfo) string { return *a.AddonName }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	if found == nil {
		found = []ekstypes.AddonInfo{}
	}
	return &awseks.DescribeAddonVersionsOutput{Addons: found, NextToken: next}, nil
}

// infoOf describes an add-on, on demand only for one Kubernetes release.
func infoOf(a *addons.AddOn, kubernetes *string) ekstypes.AddonInfo {
	info := ekstypes.AddonInfo{
		AddonName: &a.Name, Type: &a.Type, Publisher: &a.Publisher, Owner: &a.Owner, DefaultNamespace: new(addons.Namespace),
	}
	for i := range a.Versions {
		v := &a.Versions[i]
		var runs []ekstypes.Compatibility
		for k := range v.Kubernetes {
			if kubernetes == nil || v.Kubernetes[k] == *kubernetes {
				runs = append(runs, ekstypes.Compatibility{
					ClusterVersion: &v.Kubernetes[k], PlatformVersions: []string{"*"}, DefaultVersion: slices.Contains(v.DefaultFor, v.Kubernetes[k]),
				})
			}
		}
		if len(runs) > 0 {
			info.AddonVersions = append(info.AddonVersions, ekstypes.AddonVersionInfo{
				AddonVersion: &v.Version, Architecture: []string{"amd64", "arm64"}, ComputeTypes: a.ComputeTypes,
				Compatibilities: runs, RequiresIamPermissions: a.RequiresIAMPermissions,
			})
		}
	}
	return info
}

// DescribeAddonConfiguration returns what of an add-on can be configured, and the
// policies its service accounts should have.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeAddonConfiguration.html
func (s *Service) DescribeAddonConfiguration(_ context.Context, in *awseks.DescribeAddonConfigurationInput) (*awseks.DescribeAddonConfigurationOutput, error) {
	a, err := lookup("", in.AddonName)
	if err != nil {
		return nil, err
	}
	if aws.ToString(in.AddonVersion) == "" {
		return nil, ekserr.Missing("addonVersion")
	}
	v := a.Version(*in.AddonVersion)
	if v == nil {
		return nil, errVersion("", a.Name)
	}
	out := &awseks.DescribeAddonConfigurationOutput{AddonName: in.AddonName, AddonVersion: in.AddonVersion, ConfigurationSchema: new(a.Schema(v))}
	for i := range a.ServiceAccounts {
		sa := &a.ServiceAccounts[i]
		c := ekstypes.AddonPodIdentityConfiguration{ServiceAccount: &sa.Name}
		for _, p := range sa.Policies {
			c.RecommendedManagedPolicies = append(c.RecommendedManagedPolicies, "arn:"+awsapi.Partition+":iam::aws:policy/"+p)
		}
		out.PodIdentityConfiguration = append(out.PodIdentityConfiguration, c)
	}
	return out, nil
}
