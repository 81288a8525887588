package ecr

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
	ecrForm   = regexp.MustCompile(`^([0-9]{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?$`)
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

// openUpstreams are the registries that are accessed without credentials.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache.html
var openUpstreams = []ecrtypes.UpstreamRegistry{ecrtypes.UpstreamRegistryEcrPublic, ecrtypes.UpstreamRegistryK8s, ecrtypes.UpstreamRegistryQuay}

// cacheRole is the role under which ECR reads the secrets of rules. The name of its sessions is from memory.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/slr-pullthroughcache.html
var cacheRole = awsapi.ServiceRole{Service: "pullthroughcache.ecr.amazonaws.com", Name: "AWSServiceRoleForECRPullThroughCache", Session: "ECRPullThroughCache"}

// ensureRole makes a service-linked role for the caller of ctx unless it exists.
func (s *Service) ensureRole(ctx context.Context, role awsapi.ServiceRole) error {
	if s.cfg.EnsureServiceRole == nil {
		return nil
	}
	err := s.cfg.EnsureServiceRole(ctx, role)
	if awserr.CodeOf(err) == "AccessDenied" {
		return awserr.New("AccessDeniedException", awserr.TextOf(err))
	}
	return err
}

// checkAccess checks that a rule says how its upstream registry can be accessed, and that ECR can do so now.
func (s *Service) checkAccess(ctx context.Context, sc scope, r *cacheRuleRecord) error {
	switch kind := ecrtypes.UpstreamRegistry(r.Upstream); {
	case kind == ecrtypes.UpstreamRegistryEcr:
		a := ecrForm.FindStringSubmatch(r.URL)
		switch {
		case r.URL == sc.host(): // from memory
			return errUpstream(r.URL)
		case r.Credential != "":
			return errCredentialKind()
		case r.CustomRole == "" && a[1] != sc.Account:
			return errNeedsRole()
		}
		return s.checkRole(sc, r.CustomRole)
	case r.CustomRole != "":
		return errCredentialKind()
	case slices.Contains(openUpstreams, kind):
		if r.Credential != "" {
			return errNeedsNoSecret()
		}
		return nil
	case r.Credential == "":
		return errNeedsSecret()
	}
	_, err := s.secret(ctx, sc, r.Credential)
	return err
}

// checkRole checks that a custom role is one of the registry's account.
func (s *Service) checkRole(sc scope, role string) error {
	if role == "" {
		return nil
	}
	a, err := arn.Parse(role)
	if err != nil || a.Service != "iam" || !strings.HasPrefix(a.Resource, "role/") || a.Account != sc.Account { // from memory
		return imagestore.ErrParameter("customRoleArn", "The role must be in the account of the registry")
	}
	return nil
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
	switch {
	case !ok:
		return nil, errUpstream(*in.UpstreamRegistryUrl)
	case in.UpstreamRegistry != "" && in.UpstreamRegistry != kind && !slices.Contains(openUpstreams, kind): // as ECR, which ignores the member for open registries
		return nil, errUpstreamKind()
	}
	r := cacheRuleRecord{
		Prefix: *in.EcrRepositoryPrefix, Upstream: string(kind), URL: *in.UpstreamRegistryUrl, UpstreamPrefix: aws.ToString(in.UpstreamRepositoryPrefix),
		Credential: aws.ToString(in.CredentialArn), CustomRole: aws.ToString(in.CustomRoleArn), Created: s.now(), Updated: s.now(),
	}
	if err := s.checkAccess(ctx, sc, &r); err != nil {
		return nil, err
	}
	if err := s.ensureRole(ctx, cacheRole); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error { return cacheRules.Create(tx, sc.Key(r.Prefix), r) })
	if errors.Is(err, store.ErrExists) {
		err = errCacheRuleExists(r.Prefix, sc.Account)
	}
	v := sc.rule(&r)
	return &awsecr.CreatePullThroughCacheRuleOutput{
		CreatedAt: v.CreatedAt, CredentialArn: v.CredentialArn, CustomRoleArn: v.CustomRoleArn, EcrRepositoryPrefix: v.EcrRepositoryPrefix, RegistryId: v.RegistryId,
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
		CreatedAt: &r.Created, UpdatedAt: &r.Updated, CredentialArn: present(r.Credential), CustomRoleArn: present(r.CustomRole), EcrRepositoryPrefix: &r.Prefix, RegistryId: &sc.Account,
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
	rule, err := cacheRules.Get(s.store, sc.Key(*in.EcrRepositoryPrefix))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoCacheRule(*in.EcrRepositoryPrefix, sc.Account))
	}
	change := func(r *cacheRuleRecord) {
		if in.CredentialArn != nil {
			r.Credential = *in.CredentialArn
		}
		if in.CustomRoleArn != nil {
			r.CustomRole = *in.CustomRoleArn
		}
	}
	change(&rule)
	if err := s.checkAccess(ctx, sc, &rule); err != nil {
		return nil, err
	}
	err = cacheRules.UpdateOne(ctx, s.store, sc.Key(*in.EcrRepositoryPrefix), func(r *cacheRuleRecord) error {
		change(r)
		r.Updated = s.now()
		rule = *r
		return nil
	})
	v := sc.rule(&rule)
	return &awsecr.UpdatePullThroughCacheRuleOutput{
		CredentialArn: v.CredentialArn, CustomRoleArn: v.CustomRoleArn, EcrRepositoryPrefix: v.EcrRepositoryPrefix, RegistryId: v.RegistryId, UpdatedAt: v.UpdatedAt,
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
		CreatedAt: v.CreatedAt, CredentialArn: v.CredentialArn, CustomRoleArn: v.CustomRoleArn, EcrRepositoryPrefix: v.EcrRepositoryPrefix, RegistryId: v.RegistryId,
		UpstreamRegistryUrl: v.UpstreamRegistryUrl, UpstreamRepositoryPrefix: v.UpstreamRepositoryPrefix,
	}, err
}

// ValidatePullThroughCacheRule connects with the upstream registry of a rule, as pulls do.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-working-validating.html
func (s *Service) ValidatePullThroughCacheRule(ctx context.Context, in *awsecr.ValidatePullThroughCacheRuleInput) (*awsecr.ValidatePullThroughCacheRuleOutput, error) {
	sc, err := ownRegistry(ctx, in.RegistryId)
	if err != nil {
		return nil, err
	}
	r, err := cacheRules.Get(s.store, sc.Key(*in.EcrRepositoryPrefix))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoCacheRule(*in.EcrRepositoryPrefix, sc.Account))
	}
	v := sc.rule(&r)
	out := &awsecr.ValidatePullThroughCacheRuleOutput{
		CredentialArn: v.CredentialArn, CustomRoleArn: v.CustomRoleArn, EcrRepositoryPrefix: v.EcrRepositoryPrefix, RegistryId: v.RegistryId,
		UpstreamRegistryUrl: v.UpstreamRegistryUrl, UpstreamRepositoryPrefix: v.UpstreamRepositoryPrefix, IsValid: true,
	}
	if err := s.probe(ctx, sc, &r); err != nil {
		if awserr.CodeOf(err) == "" {
			return nil, err
		}
		out.IsValid, out.Failure = false, aws.String(awserr.TextOf(err))
	}
	return out, nil
}
