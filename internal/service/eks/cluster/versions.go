package cluster

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// DescribeClusterVersions lists the available Kubernetes versions, latest first.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeClusterVersions.html
func (s *Service) DescribeClusterVersions(_ context.Context, in *awseks.DescribeClusterVersionsInput) (*awseks.DescribeClusterVersionsOutput, error) {
	if t := aws.ToString(in.ClusterType); t != "" && t != "eks" && t != "eks-local" {
		return nil, ekserr.InvalidParameter("", "Invalid clusterType: %s", t)
	}
	out := &awseks.DescribeClusterVersionsOutput{ClusterVersions: []ekstypes.ClusterVersionInformation{}}
	now := s.Clock.Now()
	all := eksversions.All()
	for _, v := range in.ClusterVersions {
		if _, ok := eksversions.Lookup(v); !ok {
			return nil, errUnsupportedVersion("")
		}
	}
	slices.Reverse(all)
	for _, v := range all {
		info := ekstypes.ClusterVersionInformation{
			ClusterVersion:           &v.Minor,
			ClusterType:              new("eks"),
			DefaultPlatformVersion:   &v.PlatformVersion,
			DefaultVersion:           v.Minor == eksversions.Default,
			KubernetesPatchVersion:   &v.Patch,
			ReleaseDate:              &v.Released,
			EndOfStandardSupportDate: &v.EndOfStandardSupport,
			EndOfExtendedSupportDate: &v.EndOfExtendedSupport,
			Status:                   ekstypes.ClusterVersionStatusStandardSupport,
			VersionStatus:            ekstypes.VersionStatusStandardSupport,
		}
		if now.After(v.EndOfStandardSupport) {
			info.Status, info.VersionStatus = ekstypes.ClusterVersionStatusExtendedSupport, ekstypes.VersionStatusExtendedSupport
		}
		switch {
		case len(in.ClusterVersions) > 0 && !slices.Contains(in.ClusterVersions, v.Minor),
			in.DefaultOnly != nil && *in.DefaultOnly && !info.DefaultVersion,
			//lint:ignore SA1019 clients of today still send it
			in.Status != "" && in.Status != info.Status,
			in.VersionStatus != "" && in.VersionStatus != info.VersionStatus,
			aws.ToString(in.ClusterType) == "eks-local":
			continue
		}
		out.ClusterVersions = append(out.ClusterVersions, info)
	}
	// Page by distance from the newest version, because the newest come first.
	order := func(i ekstypes.ClusterVersionInformation) string {
		return string(rune('a' + eksversions.Number(eksversions.Default) - eksversions.Number(*i.ClusterVersion)))
	}
	var err error
	out.ClusterVersions, out.NextToken, err = base.Page(out.ClusterVersions, order, in.MaxResults, in.NextToken)
	return out, err
}
