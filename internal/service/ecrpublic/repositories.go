package ecrpublic

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	publictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// GetAuthorizationToken returns the password with which docker logs in to public.ecr.aws.
func (s *Service) GetAuthorizationToken(ctx context.Context, _ *awsecrpublic.GetAuthorizationTokenInput) (*awsecrpublic.GetAuthorizationTokenOutput, error) {
	password, expires, err := s.cfg.Token(ctx)
	return &awsecrpublic.GetAuthorizationTokenOutput{AuthorizationData: &publictypes.AuthorizationData{
		AuthorizationToken: aws.String(base64.StdEncoding.EncodeToString([]byte("AWS:" + password))), ExpiresAt: &expires,
	}}, err
}

// CreateRepository creates a repository.
func (s *Service) CreateRepository(ctx context.Context, in *awsecrpublic.CreateRepositoryInput) (*awsecrpublic.CreateRepositoryOutput, error) {
	sc := registry(awsapi.CallFrom(ctx).Account)
	r := repositoryRecord{ID: ids.UUID(), Name: *in.RepositoryName, Created: s.now(), Catalog: catalogOf(in.CatalogData)}
	var err error
	if r.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error { return repositories.Create(tx, sc.Key(r.Name), r) })
	if errors.Is(err, store.ErrExists) {
		err = imagestore.ErrRepositoryExists(r.Name, sc.Account)
	}
	return &awsecrpublic.CreateRepositoryOutput{Repository: sc.shown(&r), CatalogData: r.Catalog.shown()}, err
}

func (sc scope) shown(r *repositoryRecord) *publictypes.Repository {
	return &publictypes.Repository{
		CreatedAt: &r.Created, RegistryId: &sc.Account, RepositoryArn: aws.String(sc.arn(r.Name)), RepositoryName: &r.Name, RepositoryUri: aws.String(sc.uri(r.Name)),
	}
}

func catalogOf(in *publictypes.RepositoryCatalogDataInput) catalogRecord {
	if in == nil {
		return catalogRecord{}
	}
	return catalogRecord{
		Description: aws.ToString(in.Description), About: aws.ToString(in.AboutText), Usage: aws.ToString(in.UsageText),
		Architectures: in.Architectures, OperatingSystems: in.OperatingSystems,
	}
}

func (c *catalogRecord) shown() *publictypes.RepositoryCatalogData {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	return &publictypes.RepositoryCatalogData{
		Description: text(c.Description), AboutText: text(c.About), UsageText: text(c.Usage), Architectures: c.Architectures, OperatingSystems: c.OperatingSystems,
		MarketplaceCertified: new(false),
	}
}

// DescribeRepositories lists repositories by name.
func (s *Service) DescribeRepositories(ctx context.Context, in *awsecrpublic.DescribeRepositoriesInput) (*awsecrpublic.DescribeRepositoriesOutput, error) {
	sc, err := s.registryOf(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	out := &awsecrpublic.DescribeRepositoriesOutput{Repositories: []publictypes.Repository{}}
	listing := imagestore.Listing{Registry: sc.Scope, Names: in.RepositoryNames, MaxResults: in.MaxResults, NextToken: in.NextToken}
	out.NextToken, err = imagestore.List(s.store, repositories, listing, func(r *repositoryRecord) {
		out.Repositories = append(out.Repositories, *sc.shown(r))
	})
	return out, err
}

// DeleteRepository deletes a repository and, if forced, the images in it.
func (s *Service) DeleteRepository(ctx context.Context, in *awsecrpublic.DeleteRepositoryInput) (*awsecrpublic.DeleteRepositoryOutput, error) {
	sc, err := s.registryOf(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	var r repositoryRecord
	err = s.store.Update(ctx, func(tx *store.Tx) (err error) {
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
	return &awsecrpublic.DeleteRepositoryOutput{Repository: sc.shown(&r)}, s.images.Drop(ctx, sc.contents(&r))
}

// PutRepositoryCatalogData replaces what the gallery shows about a repository.
func (s *Service) PutRepositoryCatalogData(ctx context.Context, in *awsecrpublic.PutRepositoryCatalogDataInput) (*awsecrpublic.PutRepositoryCatalogDataOutput, error) {
	c := catalogOf(in.CatalogData)
	_, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(_ scope, r *repositoryRecord) error {
		r.Catalog = c
		return nil
	})
	return &awsecrpublic.PutRepositoryCatalogDataOutput{CatalogData: c.shown()}, err
}

// GetRepositoryCatalogData returns what the gallery shows about a repository.
func (s *Service) GetRepositoryCatalogData(ctx context.Context, in *awsecrpublic.GetRepositoryCatalogDataInput) (*awsecrpublic.GetRepositoryCatalogDataOutput, error) {
	_, r, _, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	return &awsecrpublic.GetRepositoryCatalogDataOutput{CatalogData: r.Catalog.shown()}, err
}

// SetRepositoryPolicy sets the policy of a repository, which applies in addition to the callers' own policies.
func (s *Service) SetRepositoryPolicy(ctx context.Context, in *awsecrpublic.SetRepositoryPolicyInput) (*awsecrpublic.SetRepositoryPolicyOutput, error) {
	document, err := policy.Parse(policy.Resource, *in.PolicyText)
	if err != nil {
		return nil, imagestore.ErrPolicy()
	}
	sc, err := s.registryOf(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	if !in.Force && s.cfg.Allowed != nil {
		as := authz.Resource{ARN: sc.arn(*in.RepositoryName), Policy: &policy.Source{Name: "the new policy", Document: document}}
		if !s.cfg.Allowed(ctx, authz.Target{Action: "ecr-public:SetRepositoryPolicy", Type: imagestore.RepositoryType}, as) {
			return nil, imagestore.ErrLockOut()
		}
	}
	_, err = s.change(ctx, in.RegistryId, in.RepositoryName, func(_ scope, r *repositoryRecord) error {
		r.Policy = *in.PolicyText
		return nil
	})
	return &awsecrpublic.SetRepositoryPolicyOutput{PolicyText: in.PolicyText, RegistryId: &sc.Account, RepositoryName: in.RepositoryName}, err
}

// GetRepositoryPolicy returns a repository's policy.
func (s *Service) GetRepositoryPolicy(ctx context.Context, in *awsecrpublic.GetRepositoryPolicyInput) (*awsecrpublic.GetRepositoryPolicyOutput, error) {
	sc, r, _, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err == nil && r.Policy == "" {
		err = imagestore.ErrNoPolicy(r.Name, sc.Account)
	}
	return &awsecrpublic.GetRepositoryPolicyOutput{PolicyText: &r.Policy, RegistryId: &sc.Account, RepositoryName: &r.Name}, err
}

// DeleteRepositoryPolicy deletes a repository's policy.
func (s *Service) DeleteRepositoryPolicy(ctx context.Context, in *awsecrpublic.DeleteRepositoryPolicyInput) (*awsecrpublic.DeleteRepositoryPolicyOutput, error) {
	var was string
	sc, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(sc scope, r *repositoryRecord) error {
		if was = r.Policy; was == "" {
			return imagestore.ErrNoPolicy(r.Name, sc.Account)
		}
		r.Policy = ""
		return nil
	})
	return &awsecrpublic.DeleteRepositoryPolicyOutput{PolicyText: &was, RegistryId: &sc.Account, RepositoryName: in.RepositoryName}, err
}

func putTags(old map[string]string, more []publictypes.Tag) (map[string]string, error) {
	return tagging.Put(imagestore.TagRules, old, more, func(t publictypes.Tag) (key, value *string) { return t.Key, t.Value })
}

// TagResource adds or replaces tags of a repository.
func (s *Service) TagResource(ctx context.Context, in *awsecrpublic.TagResourceInput) (*awsecrpublic.TagResourceOutput, error) {
	account, name, err := named(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, &account, &name, func(_ scope, r *repositoryRecord) (err error) {
		r.Tags, err = putTags(r.Tags, in.Tags)
		return err
	})
	return &awsecrpublic.TagResourceOutput{}, err
}

// UntagResource removes tags from a repository.
func (s *Service) UntagResource(ctx context.Context, in *awsecrpublic.UntagResourceInput) (*awsecrpublic.UntagResourceOutput, error) {
	account, name, err := named(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, &account, &name, func(_ scope, r *repositoryRecord) error {
		for _, k := range in.TagKeys {
			delete(r.Tags, k)
		}
		return nil
	})
	return &awsecrpublic.UntagResourceOutput{}, err
}

// ListTagsForResource lists the tags of a repository.
func (s *Service) ListTagsForResource(ctx context.Context, in *awsecrpublic.ListTagsForResourceInput) (*awsecrpublic.ListTagsForResourceOutput, error) {
	account, name, err := named(*in.ResourceArn)
	if err != nil {
		return nil, err
	}
	r, err := s.repository(registry(account), name)
	return &awsecrpublic.ListTagsForResourceOutput{Tags: tagList(r.Tags)}, err
}

// DescribeRegistries describes the caller's registry.
func (s *Service) DescribeRegistries(ctx context.Context, _ *awsecrpublic.DescribeRegistriesInput) (*awsecrpublic.DescribeRegistriesOutput, error) {
	sc := registry(awsapi.CallFrom(ctx).Account)
	return &awsecrpublic.DescribeRegistriesOutput{Registries: []publictypes.Registry{{
		RegistryId: &sc.Account, RegistryArn: aws.String(arn.New("ecr-public", "", sc.Account, "registry/"+sc.Account)), RegistryUri: aws.String(Host + "/" + sc.alias()), Verified: new(false),
		Aliases: []publictypes.RegistryAlias{{Name: aws.String(sc.alias()), Status: publictypes.RegistryAliasStatusActive, PrimaryRegistryAlias: true, DefaultRegistryAlias: true}},
	}}}, nil
}

// PutRegistryCatalogData sets the name that the gallery shows for the registry.
func (s *Service) PutRegistryCatalogData(ctx context.Context, in *awsecrpublic.PutRegistryCatalogDataInput) (*awsecrpublic.PutRegistryCatalogDataOutput, error) {
	r := registryRecord{DisplayName: aws.ToString(in.DisplayName)}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		return registries.Put(tx, registry(awsapi.CallFrom(ctx).Account).Key(registryID), r)
	})
	return &awsecrpublic.PutRegistryCatalogDataOutput{RegistryCatalogData: &publictypes.RegistryCatalogData{DisplayName: &r.DisplayName}}, err
}

// GetRegistryCatalogData returns the name that the gallery shows for the registry.
func (s *Service) GetRegistryCatalogData(ctx context.Context, _ *awsecrpublic.GetRegistryCatalogDataInput) (*awsecrpublic.GetRegistryCatalogDataOutput, error) {
	r, err := registries.Get(s.store, registry(awsapi.CallFrom(ctx).Account).Key(registryID))
	out := &awsecrpublic.GetRegistryCatalogDataOutput{RegistryCatalogData: &publictypes.RegistryCatalogData{}}
	if r.DisplayName != "" {
		out.RegistryCatalogData.DisplayName = &r.DisplayName
	}
	return out, store.IgnoreNotFound(err)
}
