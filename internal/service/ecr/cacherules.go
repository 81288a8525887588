package ecr

import (
	"context"
	"errors"
	"fmt"
	"regexp"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/store"
)

// upstreams are the registries that can be cached, by URL.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache.html
var upstreams = map[string]ecrtypes.UpstreamRegistry{
	"public.ecr.aws": ecrtypes.UpstreamRegistryEcrPublic, "registry.k8s.io": ecrtypes.UpstreamRegistryK8s, "quay.io": ecrtypes.UpstreamRegistryQuay,
	"registry-1.docker.io": ecrtypes.UpstreamRegistryDockerHub, "ghcr.io": ecrtypes.UpstreamRegistryGitHubContainerRegistry,
	"registry.gitlab.com": ecrtypes.UpstreamRegistryGitLabContainerRegistry, "cgr.dev": ecrtypes.UpstreamRegistryChainguard,
}

// The forms of the hosts of registries that belong to a customer. That an Azure name may end with a hyphen and a hash is from
// memory.
var (
	azureForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*\.azurecr\.io$`)
	ecrForm   = regexp.MustCompile(`^[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(\.cn)?$`)
)

// upstreamOf returns the kind of the registry at a URL, which is only a host name.
func upstreamOf(url string) (ecrtypes.UpstreamRegistry, bool) {
	switch {
	case azureForm.MatchString(url):
		return ecrtypes.UpstreamRegistryAzureContainerRegistry, true
	case ecrForm.MatchString(url):
		return ecrtypes.UpstreamRegistryEcr, true
	}
	u, ok := upstreams[url]
	return u, ok
}

// ownRegistry returns the caller's registry. Requests for another account's rules are denied: they name no resource whose
// policy could allow them.
func ownRegistry(ctx context.Context, id *string) (scope, error) {
	own, sc := registryOf(ctx, nil), registryOf(ctx, id)
	if sc.Account == own.Account {
		return sc, nil
	}
	call := awsapi.CallFrom(ctx)
	action := "ecr:" + call.Operation
	return sc, awserr.New("AccessDeniedException", fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because no resource-based policy allows the %s action",
		call.Principal.ARN, action, arn.New("ecr", sc.Region, sc.Account, "*"), action))
}

// CreatePullThroughCacheRule stores a rule, by which PullThrough imports images.
func (s *Service) CreatePullThroughCacheRule(ctx context.Context, in *awsecr.CreatePullThroughCacheRuleInput) (*awsecr.CreatePullThroughCacheRuleOutput, error) {
	sc, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	kind, ok := upstreamOf(*in.UpstreamRegistryUrl)
	if !ok || in.UpstreamRegistry != "" && in.UpstreamRegistry != kind {
		return nil, errUpstream(*in.UpstreamRegistryUrl)
	}
	r := cacheRuleRecord{
		Prefix: *in.EcrRepositoryPrefix, Upstream: string(kind), URL: *in.UpstreamRegistryUrl, UpstreamPrefix: aws.ToString(in.UpstreamRepositoryPrefix),
		Credential: aws.ToString(in.CredentialArn), Created: s.now(), Updated: s.now(),
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error { return cacheRules.Create(tx, sc.Key(r.Prefix), r) })
	if errors.Is(err, store.ErrExists) {
		err = errCacheRuleExists(r.Prefix, sc.Account)
	}
	v := sc.rule(&r)
	return &awsecr.CreatePullThroughCacheRuleOutput{
		CreatedAt: v.CreatedAt, CredentialArn: v.CredentialArn, EcrRepositoryPrefix: v.EcrRepositoryPrefix, RegistryId: v.RegistryId,
		UpstreamRegistry: v.UpstreamRegistry, UpstreamRegistryUrl: v.UpstreamRegistryUrl, UpstreamRepositoryPrefix: v.UpstreamRepositoryPrefix,
	}, err
}

func present(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (sc scope) rule(r *cacheRuleRecord) ecrtypes.PullThroughCacheRule {
	return ecrtypes.PullThroughCacheRule{
		CreatedAt: &r.Created, UpdatedAt: &r.Updated, CredentialArn: present(r.Credential), EcrRepositoryPrefix: &r.Prefix, RegistryId: &sc.Account,
		UpstreamRegistry: ecrtypes.UpstreamRegistry(r.Upstream), UpstreamRegistryUrl: &r.URL, UpstreamRepositoryPrefix: present(r.UpstreamPrefix),
	}
}

// DescribePullThroughCacheRules lists rules by prefix.
func (s *Service) DescribePullThroughCacheRules(ctx context.Context, in *awsecr.DescribePullThroughCacheRulesInput) (*awsecr.DescribePullThroughCacheRulesOutput, error) {
	sc, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	out := &awsecr.DescribePullThroughCacheRulesOutput{PullThroughCacheRules: []ecrtypes.PullThroughCacheRule{}}
	if len(in.EcrRepositoryPrefixes) > 0 {
		for _, prefix := range in.EcrRepositoryPrefixes {
			r, err := cacheRules.Get(s.store, sc.Key(prefix))
			if err != nil {
				return nil, store.NotFoundAs(err, errNoCacheRule(prefix, sc.Account))
			}
			out.PullThroughCacheRules = append(out.PullThroughCacheRules, sc.rule(&r))
		}
		return out, nil
	}
	list, next, err := paging.Cut(imagestore.Pages(sc.Account), cacheRules.All(s.store, sc.All()), func(i store.Item[cacheRuleRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	for _, i := range list {
		out.PullThroughCacheRules = append(out.PullThroughCacheRules, sc.rule(&i.Value))
	}
	out.NextToken = next
	return out, err
}

// UpdatePullThroughCacheRule changes how the upstream registry is accessed.
func (s *Service) UpdatePullThroughCacheRule(ctx context.Context, in *awsecr.UpdatePullThroughCacheRuleInput) (*awsecr.UpdatePullThroughCacheRuleOutput, error) {
	sc, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	var rule cacheRuleRecord
	err = cacheRules.UpdateOne(ctx, s.store, sc.Key(*in.EcrRepositoryPrefix), func(r *cacheRuleRecord) error {
		if in.CredentialArn != nil {
			r.Credential = *in.CredentialArn
		}
		r.Updated = s.now()
		rule = *r
		return nil
	})
	v := sc.rule(&rule)
	return &awsecr.UpdatePullThroughCacheRuleOutput{
		CredentialArn: v.CredentialArn, EcrRepositoryPrefix: v.EcrRepositoryPrefix, RegistryId: v.RegistryId, UpdatedAt: v.UpdatedAt,
		UpstreamRepositoryPrefix: v.UpstreamRepositoryPrefix,
	}, store.NotFoundAs(err, errNoCacheRule(*in.EcrRepositoryPrefix, sc.Account))
}

// DeletePullThroughCacheRule deletes a rule.
func (s *Service) DeletePullThroughCacheRule(ctx context.Context, in *awsecr.DeletePullThroughCacheRuleInput) (*awsecr.DeletePullThroughCacheRuleOutput, error) {
	sc, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	var r cacheRuleRecord
	err = s.store.Update(ctx, func(tx *store.Tx) (err error) {
		if r, err = cacheRules.Get(tx, sc.Key(*in.EcrRepositoryPrefix)); err != nil {
			return store.NotFoundAs(err, errNoCacheRule(*in.EcrRepositoryPrefix, sc.Account))
		}
		cacheRules.Delete(tx, sc.Key(r.Prefix))
		return nil
	})
	v := sc.rule(&r)
	return &awsecr.DeletePullThroughCacheRuleOutput{
		CreatedAt: v.CreatedAt, CredentialArn: v.CredentialArn, EcrRepositoryPrefix: v.EcrRepositoryPrefix, RegistryId: v.RegistryId,
		UpstreamRegistryUrl: v.UpstreamRegistryUrl, UpstreamRepositoryPrefix: v.UpstreamRepositoryPrefix,
	}, err
}
