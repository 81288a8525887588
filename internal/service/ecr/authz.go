package ecr

import (
	"cmp"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Authz provides package authz with the stored attributes of repositories, including their policies and the
// registry's.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder.
func (resolver) HoldsPolicies() {}

// Resource implements authz.Resolver. A repository is identified by its ARN.
func (r resolver) Resource(ctx context.Context, _, _, _, id string) (authz.Resource, bool) {
	a, err := arn.Parse(id)
	if err != nil || len(a.Resource) <= len("repository/") {
		return authz.Resource{}, false
	}
	sc, name := scope{regional.At(a.Account, a.Region)}, a.Resource[len("repository/"):]
	out := authz.Resource{ARN: id}
	if settings, err := r.s.settings(sc); err == nil && settings.Policy != "" && (isOnBehalf(ctx) || settings.setting(policyScope) == "V2") {
		out.AccountPolicies = append(out.AccountPolicies, policy.Source{Name: "registry policy of " + sc.Account, Document: r.s.docs.Get(settings.Policy)})
	}
	if sc.supplied(name) != nil {
		out.AccountPolicies = append(out.AccountPolicies, r.s.suppliedPolicy(id))
	}
	repository, err := repositories.Get(r.s.store, sc.Key(name))
	if err != nil {
		return out, true // the handler reports that it does not exist, if the caller may know that
	}
	out.Tags = repository.Tags
	if repository.Policy != "" {
		out.AccountPolicies = append(out.AccountPolicies, policy.Source{Name: "repository policy of " + id, Document: r.s.docs.Get(repository.Policy)})
	}
	return out, true
}

// Targets implements authz.Targeter. The repositories that a request names may be in another account's registry.
func (r resolver) Targets(ctx context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	switch in := in.(type) {
	case *awsecr.CreateRepositoryCreationTemplateInput:
		return templateTargets(call, in.Prefix, in.CustomRoleArn, in.LifecyclePolicy, in.RepositoryPolicy), true
	case *awsecr.UpdateRepositoryCreationTemplateInput:
		return templateTargets(call, in.Prefix, in.CustomRoleArn, in.LifecyclePolicy, in.RepositoryPolicy), true
	}
	targets, ok := imagestore.Targets(in, taggingOf(in), func(registry, name string) string {
		return scope{regional.At(cmp.Or(registry, call.Account), call.Region)}.arn(name)
	})
	if _, creates := in.(*awsecr.CreateRepositoryInput); creates {
		for i := range targets {
			targets[i].New = false // new resources have no policies, but repositories have the registry policy
		}
	}
	return targets, ok
}

// templateTargets returns what a request for a repository creation template needs permission for. Which repositories are meant is from
// memory.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-creation-templates-create.html
func templateTargets(call *awsapi.Call, prefix, role, lifecycle, policy *string) []authz.Target {
	below := "*"
	if p := strings.TrimSuffix(aws.ToString(prefix), "/"); p != rootPrefix {
		below = p + "/*"
	}
	id := scope{regional.At(call.Account, call.Region)}.arn(below)
	out := []authz.Target{{}, {Action: "ecr:CreateRepository", Type: imagestore.RepositoryType, ID: id}}
	if aws.ToString(lifecycle) != "" {
		out = append(out, authz.Target{Action: "ecr:PutLifecyclePolicy", Type: imagestore.RepositoryType, ID: id})
	}
	if aws.ToString(policy) != "" {
		out = append(out, authz.Target{Action: "ecr:SetRepositoryPolicy", Type: imagestore.RepositoryType, ID: id})
	}
	if aws.ToString(role) != "" {
		out = append(out, authz.Target{Action: "iam:PassRole", Type: "role", ID: *role, Keys: map[string][]string{"iam:passedtoservice": {templateRole.Service}}})
	}
	return out
}

// taggingOf returns the tags in a request. The handler reports invalid tags.
func taggingOf(in any) (t imagestore.Tagging) {
	switch in := in.(type) {
	case *awsecr.CreateRepositoryInput:
		t.Creates = true
		t.Tags, _ = putTags(nil, in.Tags)
	case *awsecr.TagResourceInput:
		t.Tags, _ = putTags(nil, in.Tags)
	case *awsecr.UntagResourceInput:
		t.Keys = in.TagKeys
	}
	return t
}

const (
	sourceCustomRole = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-private.html"
	sourceTemplate   = "https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-creation-templates-create.html"
)

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Actions: map[string]string{
		// The embedded reference is older than the operation. On AWS its action has its own name; here the policies for
		// pulling an image allow it.
		"ListImageReferrers": "BatchGetImage",
	},
	PassedRoles: map[string][]awsapi.PassedRole{
		"CreatePullThroughCacheRule":       {{Member: "CustomRoleArn", Service: cacheRole.Service, Source: sourceCustomRole}},
		"UpdatePullThroughCacheRule":       {{Member: "CustomRoleArn", Service: cacheRole.Service, Source: sourceCustomRole}},
		"CreateRepositoryCreationTemplate": {{Member: "CustomRoleArn", Service: templateRole.Service, Source: sourceTemplate}}, // as templateTargets
		"UpdateRepositoryCreationTemplate": {{Member: "CustomRoleArn", Service: templateRole.Service, Source: sourceTemplate}},
	},
	Tagging: awsapi.Tagging{Action: "TagResource", Source: "https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-using-tags.html"},
}
