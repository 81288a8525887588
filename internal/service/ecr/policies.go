package ecr

import (
	"context"
	"errors"
	"time"

	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/ecr/lifecycle"
	"github.com/drydock-dev/drydock/internal/store"
)

// SetRepositoryPolicy sets the policy of a repository, which applies in addition to the callers' own policies.
func (s *Service) SetRepositoryPolicy(ctx context.Context, in *awsecr.SetRepositoryPolicyInput) (*awsecr.SetRepositoryPolicyOutput, error) {
	document, err := policy.Parse(policy.Resource, *in.PolicyText)
	if err != nil {
		return nil, imagestore.ErrPolicy()
	}
	sc := registryOf(ctx, in.RegistryId)
	if !in.Force && s.cfg.Allowed != nil {
		as := authz.Resource{ARN: sc.arn(*in.RepositoryName), Policy: &policy.Source{Name: "the new policy", Document: document}}
		if !s.cfg.Allowed(ctx, authz.Target{Action: "ecr:SetRepositoryPolicy", Type: imagestore.RepositoryType}, as) {
			return nil, imagestore.ErrLockOut()
		}
	}
	_, err = s.change(ctx, in.RegistryId, in.RepositoryName, func(r *repositoryRecord) error {
		r.Policy = *in.PolicyText
		return nil
	})
	return &awsecr.SetRepositoryPolicyOutput{PolicyText: in.PolicyText, RegistryId: &sc.Account, RepositoryName: in.RepositoryName}, err
}

// GetRepositoryPolicy returns a repository's policy.
func (s *Service) GetRepositoryPolicy(ctx context.Context, in *awsecr.GetRepositoryPolicyInput) (*awsecr.GetRepositoryPolicyOutput, error) {
	sc, r, _, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err == nil && r.Policy == "" {
		err = imagestore.ErrNoPolicy(r.Name, sc.Account)
	}
	return &awsecr.GetRepositoryPolicyOutput{PolicyText: &r.Policy, RegistryId: &sc.Account, RepositoryName: &r.Name}, err
}

// DeleteRepositoryPolicy deletes a repository's policy.
func (s *Service) DeleteRepositoryPolicy(ctx context.Context, in *awsecr.DeleteRepositoryPolicyInput) (*awsecr.DeleteRepositoryPolicyOutput, error) {
	var was string
	registry := registryOf(ctx, in.RegistryId).Account
	_, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(r *repositoryRecord) error {
		if was = r.Policy; was == "" {
			return imagestore.ErrNoPolicy(r.Name, registry)
		}
		r.Policy = ""
		return nil
	})
	return &awsecr.DeleteRepositoryPolicyOutput{PolicyText: &was, RegistryId: &registry, RepositoryName: in.RepositoryName}, err
}

// PutLifecyclePolicy sets the policy by which images of a repository expire.
func (s *Service) PutLifecyclePolicy(ctx context.Context, in *awsecr.PutLifecyclePolicyInput) (*awsecr.PutLifecyclePolicyOutput, error) {
	if _, err := lifecycle.Parse(*in.LifecyclePolicyText); err != nil {
		return nil, errLifecycle(err)
	}
	sc, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(r *repositoryRecord) error {
		r.Lifecycle = *in.LifecyclePolicyText
		return nil
	})
	return &awsecr.PutLifecyclePolicyOutput{LifecyclePolicyText: in.LifecyclePolicyText, RegistryId: &sc.Account, RepositoryName: in.RepositoryName}, err
}

// GetLifecyclePolicy returns a repository's lifecycle policy.
func (s *Service) GetLifecyclePolicy(ctx context.Context, in *awsecr.GetLifecyclePolicyInput) (*awsecr.GetLifecyclePolicyOutput, error) {
	sc, r, _, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err == nil && r.Lifecycle == "" {
		err = errNoLifecycle(r.Name, sc.Account)
	}
	return &awsecr.GetLifecyclePolicyOutput{LifecyclePolicyText: &r.Lifecycle, RegistryId: &sc.Account, RepositoryName: &r.Name, LastEvaluatedAt: evaluatedAt(&r)}, err
}

func evaluatedAt(r *repositoryRecord) *time.Time {
	at := r.Evaluated // AWS returns 1970 for a policy that has not been evaluated yet
	if at.IsZero() {
		at = time.Unix(0, 0)
	}
	return &at
}

// DeleteLifecyclePolicy deletes a repository's lifecycle policy.
func (s *Service) DeleteLifecyclePolicy(ctx context.Context, in *awsecr.DeleteLifecyclePolicyInput) (*awsecr.DeleteLifecyclePolicyOutput, error) {
	var was repositoryRecord
	registry := registryOf(ctx, in.RegistryId).Account
	_, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(r *repositoryRecord) error {
		if was = *r; was.Lifecycle == "" {
			return errNoLifecycle(r.Name, registry)
		}
		r.Lifecycle, r.Evaluated = "", time.Time{}
		return nil
	})
	return &awsecr.DeleteLifecyclePolicyOutput{LifecyclePolicyText: &was.Lifecycle, RegistryId: &registry, RepositoryName: in.RepositoryName, LastEvaluatedAt: evaluatedAt(&was)}, err
}

// StartLifecyclePolicyPreview evaluates a lifecycle policy without deleting images. The preview is complete at once.
func (s *Service) StartLifecyclePolicyPreview(ctx context.Context, in *awsecr.StartLifecyclePolicyPreviewInput) (*awsecr.StartLifecyclePolicyPreviewOutput, error) {
	out := &awsecr.StartLifecyclePolicyPreviewOutput{RepositoryName: in.RepositoryName, Status: ecrtypes.LifecyclePolicyPreviewStatusInProgress}
	registry := registryOf(ctx, in.RegistryId).Account
	out.RegistryId = &registry
	if in.LifecyclePolicyText != nil {
		if _, err := lifecycle.Parse(*in.LifecyclePolicyText); err != nil {
			return nil, errLifecycle(err)
		}
	}
	_, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(r *repositoryRecord) error {
		text := r.Lifecycle
		if in.LifecyclePolicyText != nil {
			text = *in.LifecyclePolicyText
		}
		if text == "" {
			return errNoLifecycle(r.Name, registry)
		}
		r.Preview, out.LifecyclePolicyText = &previewRecord{text, s.now()}, &text
		return nil
	})
	return out, err
}

// GetLifecyclePolicyPreview returns the results of a preview. It evaluates the images that exist when it is called.
func (s *Service) GetLifecyclePolicyPreview(ctx context.Context, in *awsecr.GetLifecyclePolicyPreviewInput) (*awsecr.GetLifecyclePolicyPreviewOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err == nil && r.Preview == nil {
		err = errNoPreview(r.Name, sc.Account)
	}
	if err != nil {
		return nil, err
	}
	p, err := lifecycle.Parse(r.Preview.Policy)
	if err != nil {
		return nil, err
	}
	expired := p.Expired(lifecycleImages(s.images.Images(contents)), r.Preview.At)
	var results []ecrtypes.LifecyclePolicyPreviewResult
	for _, e := range expired {
		if len(in.ImageIds) > 0 && !named(in.ImageIds, e.Image.Digest, e.Image.Tags) || in.Filter != nil && !hasStatus(in.Filter.TagStatus, e.Image.Tags) {
			continue
		}
		results = append(results, ecrtypes.LifecyclePolicyPreviewResult{
			Action: &ecrtypes.LifecyclePolicyRuleAction{Type: ecrtypes.ImageActionTypeExpire}, AppliedRulePriority: &e.Priority,
			ImageDigest: &e.Image.Digest, ImagePushedAt: &e.Image.Pushed, ImageTags: e.Image.Tags, StorageClass: ecrtypes.LifecyclePolicyStorageClassStandard,
		})
	}
	out := &awsecr.GetLifecyclePolicyPreviewOutput{
		LifecyclePolicyText: &r.Preview.Policy, RegistryId: &sc.Account, RepositoryName: &r.Name, Status: ecrtypes.LifecyclePolicyPreviewStatusComplete,
		Summary: &ecrtypes.LifecyclePolicyPreviewSummary{ExpiringImageTotalCount: new(int32(len(expired)))},
	}
	out.PreviewResults, out.NextToken, err = paging.CutInOrder(imagestore.Pages(r.ID), results, func(r ecrtypes.LifecyclePolicyPreviewResult) string { return *r.ImageDigest }, in.MaxResults, in.NextToken)
	return out, err
}

func lifecycleImages(list []imagestore.Image) []lifecycle.Image {
	var out []lifecycle.Image
	for i := range list {
		out = append(out, lifecycle.Image{Digest: list[i].Digest, Tags: list[i].Names(), Pushed: list[i].Pushed, Pulled: list[i].Pulled})
	}
	return out
}

// applyPolicies deletes the images that have expired under their lifecycle policies.
func (s *Service) applyPolicies(ctx context.Context) error {
	var errs []error
	for _, item := range repositories.All(s.store, store.Scope{}) {
		if item.Value.Lifecycle != "" {
			errs = append(errs, s.applyPolicy(ctx, item.Key, item.Value))
		}
	}
	return errors.Join(errs...)
}

func (s *Service) applyPolicy(ctx context.Context, key store.Key, r repositoryRecord) error {
	p, err := lifecycle.Parse(r.Lifecycle)
	if err != nil {
		return err
	}
	sc := scope{}
	sc.Account, sc.Region = key.Account, key.Region
	now := s.now()
	var gone []imagestore.ID
	for _, e := range p.Expired(lifecycleImages(s.images.Images(sc.contents(&r))), now) {
		gone = append(gone, imagestore.ID{Digest: e.Image.Digest})
	}
	deleted, _, err := s.delete(ctx, sc, &r, gone) // images that are part of an index stay
	if err != nil || len(deleted) == 0 && !r.Evaluated.IsZero() {
		return err // do not write the record without a reason
	}
	return store.IgnoreNotFound(repositories.UpdateOne(ctx, s.store, key, func(r *repositoryRecord) error {
		r.Evaluated = now
		return nil
	}))
}
