package ecr

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/store"
)

// immutables are the mutabilities with which tags are immutable unless an exception matches them.
var immutables = map[string]bool{
	string(ecrtypes.ImageTagMutabilityImmutable): true, string(ecrtypes.ImageTagMutabilityImmutableWithExclusion): true,
}

// exceptions checks the filters for a mutability and returns their patterns.
func exceptions(mutability ecrtypes.ImageTagMutability, filters []ecrtypes.ImageTagMutabilityExclusionFilter) ([]string, error) {
	with := mutability == ecrtypes.ImageTagMutabilityImmutableWithExclusion || mutability == ecrtypes.ImageTagMutabilityMutableWithExclusion
	switch {
	case with && len(filters) == 0:
		return nil, errFilters("Filters are required for " + string(mutability))
	case !with && len(filters) > 0:
		return nil, errFilters("Filters are not allowed for " + string(mutability))
	}
	var out []string
	for _, f := range filters {
		if strings.Count(*f.Filter, "*") > 2 { // https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-tag-mutability.html
			return nil, errFilters("A filter can have at most 2 wildcards")
		}
		out = append(out, *f.Filter)
	}
	return out, nil
}

func filters(patterns []string) []ecrtypes.ImageTagMutabilityExclusionFilter {
	var out []ecrtypes.ImageTagMutabilityExclusionFilter
	for _, p := range patterns {
		out = append(out, ecrtypes.ImageTagMutabilityExclusionFilter{Filter: &p, FilterType: ecrtypes.ImageTagMutabilityExclusionFilterTypeWildcard})
	}
	return out
}

// CreateRepository creates a repository.
func (s *Service) CreateRepository(ctx context.Context, in *awsecr.CreateRepositoryInput) (*awsecr.CreateRepositoryOutput, error) {
	if b, ok := ctx.Value(onBehalfKey{}).(onBehalf); ok && b.denied != nil {
		return nil, b.denied
	}
	sc := registryOf(ctx, in.RegistryId)
	r := repositoryRecord{
		ID: ids.UUID(), Name: *in.RepositoryName, Created: s.now(), Mutability: string(ecrtypes.ImageTagMutabilityMutable), Encryption: string(ecrtypes.EncryptionTypeAes256),
	}
	if in.ImageTagMutability != "" {
		r.Mutability = string(in.ImageTagMutability)
	}
	if in.ImageScanningConfiguration != nil {
		r.ScanOnPush = in.ImageScanningConfiguration.ScanOnPush
	}
	var err error
	if r.Exceptions, err = exceptions(ecrtypes.ImageTagMutability(r.Mutability), in.ImageTagMutabilityExclusionFilters); err != nil {
		return nil, err
	}
	if r.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	if _, err := repositories.Get(s.store, sc.Key(r.Name)); err == nil {
		return nil, imagestore.ErrRepositoryExists(r.Name, sc.Account)
	}
	if e := in.EncryptionConfiguration; e != nil && e.EncryptionType != ecrtypes.EncryptionTypeAes256 {
		r.Encryption, r.KMSKey = string(e.EncryptionType), aws.ToString(e.KmsKey)
		if r.KMSKey == "" {
			r.KMSKey = "alias/aws/ecr"
		}
		if r.KMSKey, err = s.checkKey(ctx, r.KMSKey); err != nil {
			return nil, err
		}
	}
	if t, ok := ctx.Value(templateKey{}).(*templateRecord); ok {
		r.Policy, r.Lifecycle = t.Policy, t.Lifecycle
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error { return repositories.Create(tx, sc.Key(r.Name), r) })
	if errors.Is(err, store.ErrExists) {
		err = imagestore.ErrRepositoryExists(r.Name, sc.Account)
	}
	return &awsecr.CreateRepositoryOutput{Repository: sc.shown(&r)}, err
}

// dryGrant returns a request that asks, as a dry run, whether the caller may create the grant that ECR creates for a
// repository.
func dryGrant(key, account string) *awskms.CreateGrantInput {
	return &awskms.CreateGrantInput{
		KeyId: &key, GranteePrincipal: aws.String("arn:aws:iam::" + account + ":root"), DryRun: aws.Bool(true),
		Operations: []kmstypes.GrantOperation{kmstypes.GrantOperationGenerateDataKey, kmstypes.GrantOperationDecrypt},
	}
}

func (sc scope) shown(r *repositoryRecord) *ecrtypes.Repository {
	out := &ecrtypes.Repository{
		CreatedAt: &r.Created, RegistryId: &sc.Account, RepositoryArn: aws.String(sc.arn(r.Name)), RepositoryName: &r.Name, RepositoryUri: aws.String(sc.host() + "/" + r.Name),
		ImageTagMutability: ecrtypes.ImageTagMutability(r.Mutability), ImageTagMutabilityExclusionFilters: filters(r.Exceptions),
		ImageScanningConfiguration: &ecrtypes.ImageScanningConfiguration{ScanOnPush: r.ScanOnPush},
		EncryptionConfiguration:    &ecrtypes.EncryptionConfiguration{EncryptionType: ecrtypes.EncryptionType(r.Encryption)},
	}
	if r.KMSKey != "" {
		out.EncryptionConfiguration.KmsKey = &r.KMSKey
	}
	return out
}

// DescribeRepositories lists repositories by name.
func (s *Service) DescribeRepositories(ctx context.Context, in *awsecr.DescribeRepositoriesInput) (*awsecr.DescribeRepositoriesOutput, error) {
	sc := registryOf(ctx, in.RegistryId)
	out := &awsecr.DescribeRepositoriesOutput{Repositories: []ecrtypes.Repository{}}
	listing := imagestore.Listing{Registry: sc.Scope, Names: in.RepositoryNames, MaxResults: in.MaxResults, NextToken: in.NextToken}
	var err error
	out.NextToken, err = imagestore.List(s.store, repositories, listing, func(r *repositoryRecord) {
		out.Repositories = append(out.Repositories, *sc.shown(r))
	})
	return out, err
}

// DeleteRepository deletes a repository and, if forced, the images in it.
func (s *Service) DeleteRepository(ctx context.Context, in *awsecr.DeleteRepositoryInput) (*awsecr.DeleteRepositoryOutput, error) {
	sc := registryOf(ctx, in.RegistryId)
	var r repositoryRecord
	err := s.store.Update(ctx, func(tx *store.Tx) (err error) {
		if r, err = repositories.Get(tx, sc.Key(*in.RepositoryName)); err != nil {
			return store.NotFoundAs(err, imagestore.ErrNoRepository(*in.RepositoryName, sc.Account))
		}
		if !in.Force && !s.images.Empty(tx, sc.contents(&r)) {
			return imagestore.ErrNotEmpty(r.Name, sc.Account)
		}
		repositories.Delete(tx, sc.Key(r.Name))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awsecr.DeleteRepositoryOutput{Repository: sc.shown(&r)}, s.images.Drop(ctx, sc.contents(&r))
}

// PutImageTagMutability sets whether tags may move from one image to another.
func (s *Service) PutImageTagMutability(ctx context.Context, in *awsecr.PutImageTagMutabilityInput) (*awsecr.PutImageTagMutabilityOutput, error) {
	patterns, err := exceptions(in.ImageTagMutability, in.ImageTagMutabilityExclusionFilters)
	if err != nil {
		return nil, err
	}
	sc, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(r *repositoryRecord) error {
		r.Mutability, r.Exceptions = string(in.ImageTagMutability), patterns
		return nil
	})
	return &awsecr.PutImageTagMutabilityOutput{
		ImageTagMutability: in.ImageTagMutability, ImageTagMutabilityExclusionFilters: in.ImageTagMutabilityExclusionFilters, RegistryId: &sc.Account, RepositoryName: in.RepositoryName,
	}, err
}

func putTags(old map[string]string, more []ecrtypes.Tag) (map[string]string, error) {
	return tagging.Put(imagestore.TagRules, old, more, func(t ecrtypes.Tag) (key, value *string) { return t.Key, t.Value })
}

// TagResource adds or replaces tags of a repository.
func (s *Service) TagResource(ctx context.Context, in *awsecr.TagResourceInput) (*awsecr.TagResourceOutput, error) {
	sc, name, err := s.named(ctx, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, &sc.Account, &name, func(r *repositoryRecord) (err error) {
		r.Tags, err = putTags(r.Tags, in.Tags)
		return err
	})
	return &awsecr.TagResourceOutput{}, err
}

// UntagResource removes tags from a repository.
func (s *Service) UntagResource(ctx context.Context, in *awsecr.UntagResourceInput) (*awsecr.UntagResourceOutput, error) {
	sc, name, err := s.named(ctx, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, &sc.Account, &name, func(r *repositoryRecord) error {
		for _, k := range in.TagKeys {
			delete(r.Tags, k)
		}
		return nil
	})
	return &awsecr.UntagResourceOutput{}, err
}

// ListTagsForResource lists the tags of a repository.
func (s *Service) ListTagsForResource(ctx context.Context, in *awsecr.ListTagsForResourceInput) (*awsecr.ListTagsForResourceOutput, error) {
	sc, name, err := s.named(ctx, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	r, err := s.repository(sc, name)
	return &awsecr.ListTagsForResourceOutput{Tags: tagging.List(r.Tags, func(k, v *string) ecrtypes.Tag { return ecrtypes.Tag{Key: k, Value: v} })}, err
}
