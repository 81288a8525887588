// Package ssm answers the Parameter Store of Systems Manager: an account's own parameters, and the
// public ones below /aws/service for machine images (catalog/images) and regions. SecureString
// parameters are encrypted with KMS, using AWS's alias/aws/ssm or customer managed keys. Only the
// composition root imports the package.
package ssm

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	timing "github.com/drydock-dev/drydock/internal/clock"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	// Image reports whether a region has an image, for parameters of the data type aws:ec2:image.
	// nil means that only public images exist.
	Image func(ctx context.Context, account, region, id string) (bool, error)
	// KMS encrypts SecureStrings as the caller of ctx. If it is nil, the service uses a key of its
	// own as alias/aws/ssm, and there are no other keys.
	KMS   KMS
	Clock clock.Clock // nil means the real clock
	Log   *slog.Logger
}

// Service is the Systems Manager service.
type Service struct {
	store *store.Store
	image func(ctx context.Context, account, region, id string) (bool, error)
	kms   KMS
	clock clock.Clock
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{store: cfg.Store, image: cfg.Image, kms: cfg.KMS, clock: cmp.Or[clock.Clock](cfg.Clock, clock.RealClock{})}
	if s.image == nil {
		s.image = func(_ context.Context, _, region, id string) (bool, error) {
			_, ok := images.ByID(region, id)
			return ok, nil
		}
	}
	return s
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:    "ssm",
		Handler: s,
		Refused: []awsapi.Refusal{{
			Operations: "StartSession TerminateSession ResumeSession DescribeSessions DescribeInstanceInformation SendCommand GetCommandInvocation ListCommandInvocations",
			Why:        "instances do not run the SSM agent yet",
		}},
		Operations: []awsapi.Operation{
			{Name: "GetParameter", Members: "Name WithDecryption"},
			{Name: "GetParameters", Members: "Names WithDecryption"},
			{Name: "GetParametersByPath", Members: "MaxResults NextToken ParameterFilters Path Recursive WithDecryption"},
			{Name: "GetParameterHistory", Members: "MaxResults Name NextToken WithDecryption"},
			{Name: "PutParameter", Members: "AllowedPattern DataType Description KeyId Name Overwrite Tags Tier Type Value"},
			{Name: "LabelParameterVersion", Members: "Labels Name ParameterVersion"},
			{Name: "UnlabelParameterVersion", Members: "Labels Name ParameterVersion"},
			{Name: "DeleteParameter", Members: "Name"},
			{Name: "DeleteParameters", Members: "Names"},
			{Name: "DescribeParameters", Members: "MaxResults NextToken ParameterFilters Shared"},
			{Name: "AddTagsToResource", Members: "ResourceId ResourceType Tags"},
			{Name: "RemoveTagsFromResource", Members: "ResourceId ResourceType TagKeys"},
			{Name: "ListTagsForResource", Members: "ResourceId ResourceType"},
		},
	}
}

type scope struct{ regional.Scope }

func scopeOf(ctx context.Context) scope { return scope{regional.Of(ctx)} }

func (sc scope) arn(name string) string {
	account := sc.Account
	if strings.HasPrefix(name, publicPrefix) {
		account = "" // public parameters do not belong to an account
	}
	return arn.New("ssm", sc.Region, account, "parameter/"+strings.TrimPrefix(name, "/"))
}

func (s *Service) now() time.Time { return timing.Stamp(s.clock) }
