// Package fargate manages Fargate profiles, chooses the profile of a new pod, and determines how
// its machine is launched. The machines are in internal/compute.
package fargate

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Service answers the operations on Fargate profiles and reconciles them.
type Service struct {
	*base.Service
	access *access.Service
}

// New returns the part of EKS that manages Fargate profiles.
func New(b *base.Service, a *access.Service) *Service { return &Service{b, a} }

// CreateFargateProfile records a Fargate profile. Its reconciler makes it ACTIVE.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateFargateProfile.html
func (s *Service) CreateFargateProfile(ctx context.Context, in *awseks.CreateFargateProfileInput) (*awseks.CreateFargateProfileOutput, error) {
	key, cluster, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := checkName(key.ID, in.FargateProfileName); err != nil {
		return nil, err
	}
	rec, err := base.Create(ctx, s.Service, record.FargateProfiles, base.FargateRole, key, &cluster, *in.FargateProfileName, in.ClientRequestToken, record.Fingerprint(in),
		func(p *record.FargateProfile) (token, request *string) { return &p.Token, &p.Request }, errExists(key.ID),
		func() (*record.FargateProfile, error) { return s.newRecord(ctx, key, cluster, in) },
		func(tx *store.Tx, now *record.Cluster, p *record.FargateProfile) error {
			all, err := s.settled(tx, key, "create", p.Name())
			if err != nil {
				return err
			}
			quotas, err := s.QuotasFor(key)
			switch {
			case err != nil:
				return err
			case len(all) >= quotas.FargateProfilesPerCluster:
				return errLimit(key.ID)
			case now.UsesAPI():
				p.AccessEntryMade, err = s.access.Admit(tx, key, p.Role, access.TypeFargateLinux)
			}
			return err
		})
	if err != nil {
		return nil, err
	}
	return &awseks.CreateFargateProfileOutput{FargateProfile: &rec.Profile}, nil
}

// settled returns a cluster's profiles. It fails if a profile or the cluster is changing: EKS
// changes one profile at a time.
func (s *Service) settled(r store.Reader, cluster store.Key, verb, name string) ([]store.Item[record.FargateProfile], error) {
	rec, err := record.Clusters.Get(r, cluster)
	if err != nil {
		return nil, store.NotFoundAs(err, ekserr.NoCluster(cluster.ID))
	}
	if rec.Cluster.Status == ekstypes.ClusterStatusUpdating {
		return nil, errClusterUpdating(verb, name, cluster.ID)
	}
	all := record.FargateProfiles.All(r, cluster.AllBelow())
	for _, p := range all {
		switch st := p.Value.Profile.Status; st {
		case ekstypes.FargateProfileStatusCreating, ekstypes.FargateProfileStatusDeleting:
			return nil, errBusy(verb, name, cluster.ID, p.Value.Name(), st)
		}
	}
	return all, nil
}

// newRecord checks a request and returns the record to store.
func (s *Service) newRecord(ctx context.Context, key store.Key, cluster record.Cluster, in *awseks.CreateFargateProfileInput) (*record.FargateProfile, error) {
	name, uuid := *in.FargateProfileName, ids.UUID()
	profileARN := arn.New("eks", key.Region, key.Account, "fargateprofile/"+key.ID+"/"+name+"/"+uuid)
	if err := base.CheckTags(key.ID, in.Tags); err != nil {
		return nil, err
	}
	if err := checkSelectors(key.ID, name, in.Selectors); err != nil {
		return nil, err
	}
	role, err := s.checkPodExecutionRole(ctx, key, name, profileARN, in.PodExecutionRoleArn)
	if err != nil {
		return nil, err
	}
	subnets, err := s.checkSubnets(ctx, key, cluster, name, in.Subnets)
	if err != nil {
		return nil, err
	}
	now := s.Now()
	return &record.FargateProfile{
		UUID: uuid, Since: now, Role: role,
		Profile: ekstypes.FargateProfile{
			FargateProfileName:  &name,
			FargateProfileArn:   &profileARN,
			ClusterName:         &key.ID,
			CreatedAt:           &now,
			PodExecutionRoleArn: in.PodExecutionRoleArn,
			Subnets:             subnets,
			Selectors:           in.Selectors,
			Status:              ekstypes.FargateProfileStatusCreating,
			Tags:                base.TagsOrEmpty(in.Tags),
			Health:              &ekstypes.FargateProfileHealth{Issues: []ekstypes.FargateProfileIssue{}},
		},
	}, nil
}

// DescribeFargateProfile returns a profile.
func (s *Service) DescribeFargateProfile(ctx context.Context, in *awseks.DescribeFargateProfileInput) (*awseks.DescribeFargateProfileOutput, error) {
	_, rec, err := s.find(ctx, in.ClusterName, in.FargateProfileName)
	return &awseks.DescribeFargateProfileOutput{FargateProfile: &rec.Profile}, err
}

// ListFargateProfiles returns the names of a cluster's profiles.
func (s *Service) ListFargateProfiles(ctx context.Context, in *awseks.ListFargateProfilesInput) (*awseks.ListFargateProfilesOutput, error) {
	names, next, err := base.ListNames(ctx, s.Service, record.FargateProfiles, in.ClusterName, in.MaxResults, in.NextToken)
	return &awseks.ListFargateProfilesOutput{FargateProfileNames: names, NextToken: next}, err
}

// DeleteFargateProfile marks a profile for its reconciler to remove together with its pods.
// https://docs.aws.amazon.com/eks/latest/userguide/delete-fargate-profile.html
func (s *Service) DeleteFargateProfile(ctx context.Context, in *awseks.DeleteFargateProfileInput) (*awseks.DeleteFargateProfileOutput, error) {
	key, _, err := s.find(ctx, in.ClusterName, in.FargateProfileName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteFargateProfileOutput
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.settled(tx, key.Owner(), "Delete", *in.FargateProfileName); err != nil {
			return err
		}
		return record.FargateProfiles.Update(tx, key, func(p *record.FargateProfile) error {
			p.Profile.Status, p.Since = ekstypes.FargateProfileStatusDeleting, s.Clock.Now().UTC()
			out.FargateProfile = &p.Profile
			return nil
		})
	})
	return &out, err
}

// find returns one of the caller's profiles.
func (s *Service) find(ctx context.Context, cluster, name *string) (store.Key, record.FargateProfile, error) {
	return base.Find(ctx, s.Service, record.FargateProfiles, cluster, name, "fargateProfileName", errNotFound)
}

// trustedService is the service that must be able to assume pod execution roles.
const trustedService = "eks-fargate-pods.amazonaws.com"

// https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html
const (
	maxSelectors      = 5
	maxSelectorLabels = 5
	// maxName is not an AWS quota: profile names are used as label values.
	maxName = 63
	// A label key has a prefix of at most 253 characters, a slash and a name.
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
		case len(ns) > maxLabelValue || !namespacePattern.MatchString(ns):
			return errNamespace(cluster, name)
		case len(sel.Labels) > maxSelectorLabels:
			return errLabelPairs(cluster, name)
		}
		for k, v := range sel.Labels {
			if k == "" || len(k) > maxLabelKey || !selectorText(k) || len(v) > maxLabelValue || !selectorText(v) {
				return errLabel(cluster, name)
			}
		}
	}
	return nil
}

// namespacePattern matches the names of namespaces, possibly with wildcards.
var namespacePattern = regexp.MustCompile(`^[a-z0-9*?]([-a-z0-9*?]*[a-z0-9*?])?$`)

// selectorText reports whether a text, possibly with wildcards, can match a part of a Kubernetes label.
func selectorText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./*?", r))
	})
}

// checkPodExecutionRole checks that the role exists and lets Fargate assume it for
// this profile.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-execution-role.html
func (s *Service) checkPodExecutionRole(ctx context.Context, cluster store.Key, profile, profileARN string, role *string) (record.Identity, error) {
	id, err := s.Role(ctx, cluster.Account, "podExecutionRoleArn", role, func(role string) error { return errRoleARN(cluster.ID, profile, role) })
	switch {
	case errors.Is(err, base.ErrNoIdentity):
		return record.Identity{}, errRoleNotFound(cluster.ID, profile, *role)
	case err != nil:
		return record.Identity{}, err
	case !trustsFargate(id, profileARN):
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

// checkSubnets returns the subnets of a new profile: those in the request, or else the cluster's
// private subnets.
func (s *Service) checkSubnets(ctx context.Context, key store.Key, cluster record.Cluster, profile string, named []string) ([]string, error) {
	vpc, subnets := cluster.Cluster.ResourcesVpcConfig, named
	if len(named) == 0 {
		subnets = vpc.SubnetIds
	}
	svc := s.AsService(ctx, key.Account, key.Region)
	got, err := s.Network.DescribeSubnets(svc, &awsec2.DescribeSubnetsInput{SubnetIds: subnets})
	if err != nil {
		if strings.HasPrefix(awserr.CodeOf(err), "InvalidSubnet") {
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
