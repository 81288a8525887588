// Package toy is a small AWS service: two operations of Amazon ECR Public. Tests of the composition root use it to
// show that a service needs only its folder and one line in the list of services. It is not part of the program.
package toy

import (
	"context"
	"maps"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	ecrpublictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

type place struct{ account, name string }

// Service implements the operations.
type Service struct {
	mu           sync.Mutex
	repositories map[place]ecrpublictypes.Repository
}

// New returns the service.
func New() *Service { return &Service{repositories: map[place]ecrpublictypes.Repository{}} }

// AWS returns the operation table.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "ecrpublic", Handler: s, Authorization: authorization, Operations: []awsapi.Operation{
		{Name: "CreateRepository", Members: "repositoryName"},
		{Name: "DescribeRepositories"},
	}}
}

// authorization corrects the service authorization reference: it names no resource for a list of all repositories.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{"DescribeRepositories": {Resources: "repository='toys", Source: "the toy"}},
}

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: s, Reset: s.reset}
}

func (s *Service) reset(_ context.Context, account string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.repositories, func(p place, _ ecrpublictypes.Repository) bool { return account == "" || p.account == account })
	return nil
}

// Resource implements authz.Resolver.
func (s *Service) Resource(_ context.Context, account, _, _, id string) (authz.Resource, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.repositories[place{account, id}]
	return authz.Resource{ARN: aws.ToString(r.RepositoryArn)}, ok
}

// CreateRepository creates a repository.
func (s *Service) CreateRepository(ctx context.Context, in *awsecrpublic.CreateRepositoryInput) (*awsecrpublic.CreateRepositoryOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	account := awsapi.CallFrom(ctx).Account
	r := ecrpublictypes.Repository{RepositoryName: in.RepositoryName, RepositoryArn: aws.String(arn.New("ecr-public", "", account, "repository/"+*in.RepositoryName))}
	s.repositories[place{account, *in.RepositoryName}] = r
	return &awsecrpublic.CreateRepositoryOutput{Repository: &r}, nil
}

// DescribeRepositories lists the account's repositories.
func (s *Service) DescribeRepositories(ctx context.Context, _ *awsecrpublic.DescribeRepositoriesInput) (*awsecrpublic.DescribeRepositoriesOutput, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &awsecrpublic.DescribeRepositoriesOutput{Repositories: []ecrpublictypes.Repository{}}
	for p, r := range s.repositories {
		if p.account == awsapi.CallFrom(ctx).Account {
			out.Repositories = append(out.Repositories, r)
		}
	}
	return out, nil
}
