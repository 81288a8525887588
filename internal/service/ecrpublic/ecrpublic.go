// Package ecrpublic implements as much of Amazon ECR Public as clients need to pull images: GetAuthorizationToken
// returns the password with which docker, Helm and Terraform log in to public.ecr.aws. That registry is AWS's own, so
// the password has no other use here.
//
// Only the composition root imports the package.
package ecrpublic

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	publictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/module"
)

// Config is what the service needs.
type Config struct {
	// Token returns a password for the caller of ctx.
	Token func(ctx context.Context) (password string, expires time.Time, err error)
}

// Service is Amazon ECR Public.
type Service struct{ cfg Config }

// New returns the service.
func New(cfg Config) *Service { return &Service{cfg} }

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: resolver{}}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{Name: "ecrpublic", Handler: s, Operations: []awsapi.Operation{{Name: "GetAuthorizationToken"}}}
}

// home is the only region in which GetAuthorizationToken works.
// https://docs.aws.amazon.com/AmazonECR/latest/public/public-registry-auth.html
const home = "us-east-1"

// GetAuthorizationToken returns the password with which docker logs in to public.ecr.aws.
func (s *Service) GetAuthorizationToken(ctx context.Context, _ *awsecrpublic.GetAuthorizationTokenInput) (*awsecrpublic.GetAuthorizationTokenOutput, error) {
	if awsapi.CallFrom(ctx).Region != home {
		return nil, awserr.New("UnsupportedCommandException", "GetAuthorizationToken command is only supported in us-east-1.") // from memory
	}
	password, expires, err := s.cfg.Token(ctx)
	return &awsecrpublic.GetAuthorizationTokenOutput{AuthorizationData: &publictypes.AuthorizationData{
		AuthorizationToken: aws.String(base64.StdEncoding.EncodeToString([]byte("AWS:" + password))), ExpiresAt: &expires,
	}}, err
}

type resolver struct{}

// Resource implements authz.Resolver. ECR Public has no resources here.
func (resolver) Resource(context.Context, string, string, string, string) (authz.Resource, bool) {
	return authz.Resource{}, false
}

// Targets implements authz.Targeter. Getting a token also requires a permission for STS.
// https://docs.aws.amazon.com/AmazonECR/latest/public/public-registry-auth.html
func (resolver) Targets(context.Context, *awsapi.Call, any) ([]authz.Target, bool) {
	return []authz.Target{{}, {Action: "sts:GetServiceBearerToken", Keys: map[string][]string{"sts:awsservicename": {"ecr-public.amazonaws.com"}}}}, true
}
