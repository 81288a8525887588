package eks

import (
	"context"
	"fmt"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

var fargateProfiles = store.NewCollection[fargateProfileRecord]("eks", "fargateprofile")

// A fargateProfileRecord is a Fargate profile. Nothing of it changes but its status
// and tags.
type fargateProfileRecord struct {
	Profile        ekstypes.FargateProfile
	UUID           string // the last part of the ARN
	Token, Request string
	Since          time.Time
	// Role is the pod execution role.
	Role identityRef
	// AccessEntryMade says the role's access entry was EKS's own doing.
	AccessEntryMade bool
}

func (p *fargateProfileRecord) name() string { return *p.Profile.FargateProfileName }

// CreateFargateProfile records a Fargate profile, which its reconciler makes ACTIVE.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateFargateProfile.html
func (s *Service) CreateFargateProfile(ctx context.Context, in *awseks.CreateFargateProfileInput) (*awseks.CreateFargateProfileOutput, error) {
	key, cluster, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	if err := validateFargateName(key.ID, in.FargateProfileName); err != nil {
		return nil, err
	}
	name := *in.FargateProfileName
	untokened := *in
	untokened.ClientRequestToken = nil
	request := fingerprint(untokened)
	id := below(key, name)
	if old, err := fargateProfiles.Get(s.store, id); err == nil {
		return repeatedFargateProfile(key.ID, old, in.ClientRequestToken, request)
	}
	if err := usable(cluster); err != nil {
		return nil, err
	}
	rec, err := s.newFargateProfile(ctx, key, cluster, in)
	if err != nil {
		return nil, err
	}
	if ensure := s.cfg.EnsureFargateRole; ensure != nil {
		if err := ensure(ctx, key.Account); err != nil {
			return nil, fmt.Errorf("making the service-linked role of Fargate: %w", err)
		}
	}
	rec.Token, rec.Request = text(in.ClientRequestToken), request
	var out *awseks.CreateFargateProfileOutput
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if old, err := fargateProfiles.Get(tx, id); err == nil {
			out, err = repeatedFargateProfile(key.ID, old, in.ClientRequestToken, request)
			return err
		}
		now, err := clusters.Get(tx, key)
		if err != nil {
			return store.NotFoundAs(err, errNoCluster(key.ID))
		}
		if now.UID != cluster.UID {
			return errNoCluster(key.ID)
		}
		if err := usable(now); err != nil {
			return err
		}
		all, err := s.settledFargateProfiles(tx, key, "create", name)
		if err != nil {
			return err
		}
		quotas, err := s.quotas(key)
		if err != nil {
			return err
		}
		if len(all) >= quotas.FargateProfilesPerCluster {
			return errFargateProfileLimit(key.ID)
		}
		if now.usesAPI() {
			if rec.AccessEntryMade, err = s.admit(tx, key, rec.Role, typeFargateLinux); err != nil {
				return err
			}
		}
		out = &awseks.CreateFargateProfileOutput{FargateProfile: &rec.Profile}
		return fargateProfiles.Create(tx, id, *rec)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func repeatedFargateProfile(cluster string, old fargateProfileRecord, token *string, request string) (*awseks.CreateFargateProfileOutput, error) {
	switch {
	case token == nil || old.Token != *token:
		return nil, errFargateProfileExists(cluster)
	case old.Request != request:
		return nil, errTokenReused(cluster)
	}
	return &awseks.CreateFargateProfileOutput{FargateProfile: &old.Profile}, nil
}

// settledFargateProfiles returns a cluster's profiles, or the error by which EKS
// changes one at a time, and none while the cluster changes.
func (s *Service) settledFargateProfiles(r store.Reader, cluster store.Key, verb, name string) ([]store.Item[fargateProfileRecord], error) {
	rec, err := clusters.Get(r, cluster)
	if err != nil {
		return nil, store.NotFoundAs(err, errNoCluster(cluster.ID))
	}
	if rec.Cluster.Status == ekstypes.ClusterStatusUpdating {
		return nil, errFargateClusterUpdating(verb, name, cluster.ID)
	}
	all, err := fargateProfiles.List(r, allBelow(cluster))
	if err != nil {
		return nil, err
	}
	for _, p := range all {
		switch st := p.Value.Profile.Status; st {
		case ekstypes.FargateProfileStatusCreating, ekstypes.FargateProfileStatusDeleting:
			return nil, errFargateProfileBusy(verb, name, cluster.ID, p.Value.name(), st)
		}
	}
	return all, nil
}

// newFargateProfile checks a request and returns the record it makes.
func (s *Service) newFargateProfile(ctx context.Context, key store.Key, cluster clusterRecord, in *awseks.CreateFargateProfileInput) (*fargateProfileRecord, error) {
	name, uuid := *in.FargateProfileName, ids.UUID()
	profileARN := arn.New("eks", key.Region, key.Account, "fargateprofile/"+key.ID+"/"+name+"/"+uuid)
	if err := validateTags(key.ID, in.Tags); err != nil {
		return nil, err
	}
	if err := checkFargateSelectors(key.ID, name, in.Selectors); err != nil {
		return nil, err
	}
	role, err := s.checkPodExecutionRole(ctx, key, name, profileARN, in.PodExecutionRoleArn)
	if err != nil {
		return nil, err
	}
	subnets, err := s.checkFargateSubnets(ctx, key, cluster, name, in.Subnets)
	if err != nil {
		return nil, err
	}
	now := s.clock.Now().UTC().Truncate(time.Millisecond)
	return &fargateProfileRecord{
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
			Tags:                tagsOrEmpty(in.Tags),
			Health:              &ekstypes.FargateProfileHealth{Issues: []ekstypes.FargateProfileIssue{}},
		},
	}, nil
}

// DescribeFargateProfile returns a profile as it is now.
func (s *Service) DescribeFargateProfile(ctx context.Context, in *awseks.DescribeFargateProfileInput) (*awseks.DescribeFargateProfileOutput, error) {
	_, rec, err := s.fargateProfile(ctx, in.ClusterName, in.FargateProfileName)
	if err != nil {
		return nil, err
	}
	return &awseks.DescribeFargateProfileOutput{FargateProfile: &rec.Profile}, nil
}

// ListFargateProfiles returns the names of a cluster's profiles.
func (s *Service) ListFargateProfiles(ctx context.Context, in *awseks.ListFargateProfilesInput) (*awseks.ListFargateProfilesOutput, error) {
	key, _, err := s.cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	items, err := fargateProfiles.List(s.store, allBelow(key))
	if err != nil {
		return nil, err
	}
	items, next, err := page(items, func(i store.Item[fargateProfileRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListFargateProfilesOutput{FargateProfileNames: []string{}, NextToken: next}
	for _, i := range items {
		out.FargateProfileNames = append(out.FargateProfileNames, i.Value.name())
	}
	return out, nil
}

// DeleteFargateProfile marks a profile for its reconciler to remove, with its pods.
// https://docs.aws.amazon.com/eks/latest/userguide/delete-fargate-profile.html
func (s *Service) DeleteFargateProfile(ctx context.Context, in *awseks.DeleteFargateProfileInput) (*awseks.DeleteFargateProfileOutput, error) {
	key, _, err := s.fargateProfile(ctx, in.ClusterName, in.FargateProfileName)
	if err != nil {
		return nil, err
	}
	var out awseks.DeleteFargateProfileOutput
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.settledFargateProfiles(tx, clusterOf(key), "Delete", *in.FargateProfileName); err != nil {
			return err
		}
		return fargateProfiles.Update(tx, key, func(p *fargateProfileRecord) error {
			p.Profile.Status, p.Since = ekstypes.FargateProfileStatusDeleting, s.clock.Now().UTC()
			out.FargateProfile = &p.Profile
			return nil
		})
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// fargateProfile returns a profile of the caller.
func (s *Service) fargateProfile(ctx context.Context, cluster, name *string) (store.Key, fargateProfileRecord, error) {
	key, _, err := s.cluster(ctx, cluster)
	if err != nil {
		return key, fargateProfileRecord{}, err
	}
	if text(name) == "" {
		return key, fargateProfileRecord{}, errMissing("fargateProfileName")
	}
	id := below(key, *name)
	rec, err := fargateProfiles.Get(s.store, id)
	if err != nil {
		return id, rec, store.NotFoundAs(err, errNoFargateProfile(key.ID, *name))
	}
	return id, rec, nil
}
