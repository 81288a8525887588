package imagestore

import (
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/store"
)

// The rules for repositories below are common to Amazon ECR and Amazon ECR Public.

// TagRules are the rules for the tags of a repository.
var TagRules = tagging.Rules{Most: 50, Reserved: errReservedTag, Twice: errTagTwice, TooMany: errManyTags}

// Pages returns the rules for the pages of a response. A token is valid only for the question that it was issued for.
func Pages(question ...string) paging.Rules {
	return paging.Rules{Usual: 100, Question: strings.Join(question, "\x00"), BadToken: errToken}
}

// A Listing is a request for the repositories of a registry: either those that it names, or a page of all of them.
type Listing struct {
	Registry   regional.Scope
	Names      []string
	MaxResults *int32
	NextToken  *string
}

// List calls show for each repository of a listing and returns the token for the next page. The keys of repositories
// are their names.
func List[R any](s *store.Store, repositories store.Collection[R], l Listing, show func(*R)) (next *string, err error) {
	if len(l.Names) > 0 {
		if l.MaxResults != nil || l.NextToken != nil {
			return nil, ErrPaging()
		}
		for _, name := range l.Names {
			r, err := repositories.Get(s, l.Registry.Key(name))
			if err != nil {
				return nil, store.NotFoundAs(err, ErrNoRepository(name, l.Registry.Account))
			}
			show(&r)
		}
		return nil, nil
	}
	page, err := Pages(l.Registry.Account).Start(l.MaxResults, l.NextToken)
	if err != nil {
		return nil, err
	}
	repositories.Scan(s, l.Registry.All(), page.After, func(k store.Key, r R) bool {
		if page.Full() {
			return false
		}
		show(&r)
		page.Add(k.ID)
		return true
	})
	return page.Next(), nil
}

// A Tagging holds the tags in a request.
type Tagging struct {
	Creates bool // the request creates the repository that it names
	Tags    map[string]string
	Keys    []string // keys of tags to remove
}

// Targets returns the repositories in a request as targets for authorization. It returns false if the operation has
// no member for repositories. A request without names refers to all repositories. arnOf returns the ARN of a
// repository; registry is empty if the request does not name one.
//
// Members are found by name, because programs on simulated nodes make calls without the SDK's inputs.
func Targets(in any, tags Tagging, arnOf func(registry, name string) string) ([]authz.Target, bool) {
	v := reflect.Indirect(reflect.ValueOf(in))
	member := func(name string) any {
		if f := v.FieldByName(name); f.IsValid() {
			return f.Interface()
		}
		return nil
	}
	target := authz.Target{Type: RepositoryType, New: tags.Creates, Tags: tags.Tags, TagKeys: tags.Keys}
	for k := range tags.Tags {
		target.TagKeys = append(target.TagKeys, k)
	}
	if resource, ok := member("ResourceArn").(*string); ok {
		target.ID = aws.ToString(resource)
		return []authz.Target{target}, true
	}
	id, _ := member("RegistryId").(*string)
	registry := aws.ToString(id)
	if name, ok := member("RepositoryName").(*string); ok {
		target.ID = arnOf(registry, aws.ToString(name))
		return []authz.Target{target}, true
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
		out = append(out, authz.Target{Type: RepositoryType, ID: arnOf(registry, name)})
	}
	return out, true
}

// RepositoryType is the resource type of repositories in the authorization reference.
const RepositoryType = "repository"
