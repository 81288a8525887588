package ecr

import (
	"context"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Authz provides package authz with the stored attributes of repositories, including their policies and the
// registry's.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

const repositoryType = "repository"

// HoldsPolicies implements authz.PolicyHolder.
func (resolver) HoldsPolicies() {}

// Resource implements authz.Resolver. A repository is identified by its ARN.
func (r resolver) Resource(_ context.Context, _, _, _, id string) (authz.Resource, bool) {
	a, err := arn.Parse(id)
	if err != nil || len(a.Resource) <= len("repository/") {
		return authz.Resource{}, false
	}
	sc, name := scope{regional.At(a.Account, a.Region)}, a.Resource[len("repository/"):]
	out := authz.Resource{ARN: id}
	if settings, err := r.s.settings(sc); err == nil && settings.Policy != "" && settings.setting(policyScope) == "V2" {
		out.AccountPolicies = append(out.AccountPolicies, policy.Source{Name: "registry policy of " + sc.Account, Document: r.s.docs.Get(settings.Policy)})
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
// Members are found by name, because programs on simulated nodes make calls without the SDK's inputs.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	v := reflect.Indirect(reflect.ValueOf(in))
	member := func(name string) any {
		if f := v.FieldByName(name); f.IsValid() {
			return f.Interface()
		}
		return nil
	}
	sc := scope{regional.At(call.Account, call.Region)}
	if id, _ := member("RegistryId").(*string); aws.ToString(id) != "" {
		sc.Account = *id
	}
	if resource, ok := member("ResourceArn").(*string); ok {
		return []authz.Target{tagged(in, authz.Target{Type: repositoryType, ID: aws.ToString(resource)})}, true
	}
	if name, ok := member("RepositoryName").(*string); ok {
		return []authz.Target{tagged(in, authz.Target{Type: repositoryType, ID: sc.arn(aws.ToString(name))})}, true
	}
	names, ok := member("RepositoryNames").([]string)
	if !ok {
		return nil, false
	}
	if len(names) == 0 {
		names = []string{"*"}
	}
	var out []authz.Target
	for _, name := range names {
		out = append(out, authz.Target{Type: repositoryType, ID: sc.arn(name)})
	}
	return out, true
}

// tagged adds the tags of a request to its target.
func tagged(in any, t authz.Target) authz.Target {
	switch in := in.(type) {
	case *awsecr.CreateRepositoryInput:
		t.New = true
		t.Tags, _ = putTags(nil, in.Tags) // the handler reports what is wrong with them
	case *awsecr.TagResourceInput:
		t.Tags, _ = putTags(nil, in.Tags)
	case *awsecr.UntagResourceInput:
		t.TagKeys = in.TagKeys
	}
	for k := range t.Tags {
		t.TagKeys = append(t.TagKeys, k)
	}
	return t
}
