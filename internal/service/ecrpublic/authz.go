package ecrpublic

import (
	"context"
	"strings"

	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
)

type resolver struct{ s *Service }

const registryType = "registry"

// HoldsPolicies implements authz.PolicyHolder.
func (resolver) HoldsPolicies() {}

// Resource implements authz.Resolver. Resources are identified by their ARNs.
func (r resolver) Resource(_ context.Context, _, _, _, id string) (authz.Resource, bool) {
	a, err := arn.Parse(id)
	if err != nil {
		return authz.Resource{}, false
	}
	out := authz.Resource{ARN: id}
	name, ok := strings.CutPrefix(a.Resource, "repository/")
	if !ok {
		return out, true
	}
	repository, err := repositories.Get(r.s.store, registry(a.Account).Key(name))
	if err != nil {
		return out, true // the handler reports that it does not exist, if the caller may know that
	}
	out.Tags = repository.Tags
	if repository.Policy != "" {
		out.AccountPolicies = []policy.Source{{Name: "repository policy of " + id, Document: r.s.docs.Get(repository.Policy)}}
	}
	return out, true
}

// Targets implements authz.Targeter. The repositories that a request names may be in another account's registry.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	switch call.Operation {
	case "GetAuthorizationToken": // which also requires a permission for STS
		// https://docs.aws.amazon.com/AmazonECR/latest/public/public-registry-auth.html
		return []authz.Target{{}, {Action: "sts:GetServiceBearerToken", Keys: map[string][]string{"sts:awsservicename": {"ecr-public.amazonaws.com"}}}}, true
	case "DescribeRegistries", "GetRegistryCatalogData", "PutRegistryCatalogData":
		return []authz.Target{{Type: registryType, ID: arn.New("ecr-public", "", call.Account, "registry/"+call.Account)}}, true
	}
	return imagestore.Targets(in, taggingOf(in), func(id, name string) string {
		sc, err := r.s.registryFor(call.Account, &id)
		if err != nil {
			sc = registry(call.Account) // the handler reports that the registry does not exist
		}
		return sc.arn(name)
	})
}

// taggingOf returns the tags in a request. The handler reports invalid tags.
func taggingOf(in any) (t imagestore.Tagging) {
	switch in := in.(type) {
	case *awsecrpublic.CreateRepositoryInput:
		t.Creates = true
		t.Tags, _ = putTags(nil, in.Tags)
	case *awsecrpublic.TagResourceInput:
		t.Tags, _ = putTags(nil, in.Tags)
	case *awsecrpublic.UntagResourceInput:
		t.Keys = in.TagKeys
	}
	return t
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Tagging: awsapi.Tagging{Action: "TagResource", Source: "https://docs.aws.amazon.com/AmazonECR/latest/public/ecr-public-using-tags.html"},
}
