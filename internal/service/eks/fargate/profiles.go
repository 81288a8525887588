package fargate

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateFargateProfile records a Fargate profile, which its reconciler makes ACTIVE.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateFargateProfile.html
func (s *Service) CreateFargateProfile(ctx context.Context, in *awseks.CreateFargateProfileInput) (*awseks.CreateFargateProfileOutput, error) {
	key, cluster, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := checkName(key.ID, in.FargateProfileName); err != nil {
		return nil, err
	}
	name := *in.FargateProfileName
	request := record.Fingerprint(in)
	id := record.Below(key, name)
	if old, err := record.FargateProfiles.Get(s.Store, id); err == nil {
		return repeated(key.ID, &old, in.ClientRequestToken, request)
	}
	if err := base.Usable(cluster); err != nil {
		return nil, err
	}
	rec, err := s.newRecord(ctx, key, cluster, in)
	if err != nil {
		return nil, err
	}
	if err := s.EnsureRole(ctx, key.ID, base.FargateRole); err != nil {
		return nil, err
	}
	rec.Token, rec.Request = aws.ToString(in.ClientRequestToken), request
	var out *awseks.CreateFargateProfileOutput
	err = s.Store.Update(ctx, func(tx *store.Tx) error {
		if old, err := record.FargateProfiles.Get(tx, id); err == nil {
			out, err = repeated(key.ID, &old, in.ClientRequestToken, request)
			return err
		}
		now, err := base.StillUsable(tx, key, &cluster)
		if err != nil {
			return err
		}
		all, err := s.settled(tx, key, "create", name)
		if err != nil {
			return err
		}
		quotas, err := s.QuotasFor(key)
		if err != nil {
			return err
		}
		if len(all) >= quotas.FargateProfilesPerCluster {
			return errLimit(key.ID)
		}
		if now.UsesAPI() {
			if rec.AccessEntryMade, err = s.access.Admit(tx, key, rec.Role, access.TypeFargateLinux); err != nil {
				return err
			}
		}
		out = &awseks.CreateFargateProfileOutput{FargateProfile: &rec.Profile}
		return record.FargateProfiles.Create(tx, id, *rec)
	})
	return out, err
}

func repeated(cluster string, old *record.FargateProfile, token *string, request string) (*awseks.CreateFargateProfileOutput, error) {
	if err := base.Repeats(cluster, token, request, old.Token, old.Request, errExists(cluster)); err != nil {
		return nil, err
	}
	return &awseks.CreateFargateProfileOutput{FargateProfile: &old.Profile}, nil
}

// settled returns a cluster's profiles, or the error by which EKS
// changes one at a time, and none while the cluster changes.
func (s *Service) settled(r store.Reader, cluster store.Key, verb, name string) ([]store.Item[record.FargateProfile], error) {
	rec, err := record.Clusters.Get(r, cluster)
	if err != nil {
		return nil, store.NotFoundAs(err, ekserr.NoCluster(cluster.ID))
	}
	if rec.Cluster.Status == ekstypes.ClusterStatusUpdating {
		return nil, errClusterUpdating(verb, name, cluster.ID)
	}
	all := record.FargateProfiles.All(r, record.AllBelow(cluster))
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
	now := s.Clock.Now().UTC().Truncate(time.Millisecond)
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
		if _, err := s.settled(tx, record.ClusterOf(key), "Delete", *in.FargateProfileName); err != nil {
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

// find returns a profile of the caller.
func (s *Service) find(ctx context.Context, cluster, name *string) (store.Key, record.FargateProfile, error) {
	return base.Find(ctx, s.Service, record.FargateProfiles, cluster, name, "fargateProfileName", errNotFound)
}
