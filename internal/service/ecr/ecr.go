// Package ecr implements Amazon Elastic Container Registry: repositories with their policies, and the images in them.
//
// Package imagestore holds the images. The sub-package lifecycle evaluates lifecycle policies. The sub-package registry
// lets registry clients such as docker push and pull, with the same operations as the API.
//
//	aws ecr … ──► operations ──► imagestore: images, tags, layers
//	docker  ──► registry ──┘
//
// Package authz makes access decisions, including repository and registry policies. Only the composition root imports
// the package.
package ecr

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awssecretsmanager "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"golang.org/x/sync/singleflight"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// KMS has the operations that ECR calls on behalf of a user who creates an encrypted repository.
type KMS interface {
	DescribeKey(context.Context, *awskms.DescribeKeyInput) (*awskms.DescribeKeyOutput, error)
	CreateGrant(context.Context, *awskms.CreateGrantInput) (*awskms.CreateGrantOutput, error)
}

// An Action is a change to an image.
type Action struct {
	Account, Region, Repository string
	Type                        string // PUSH or DELETE
	Digest, Tag                 string
	At                          time.Time
}

// A Sync is an attempt to copy an image from an upstream registry.
type Sync struct {
	Account, Region, Repository string
	Prefix, URL                 string // of the rule
	Digest, Tag                 string // empty if not known
	Failure                     error  // nil if it succeeded
	At                          time.Time
}

// Secrets has the operation with which ECR reads the credentials for upstream registries.
type Secrets interface {
	GetSecretValue(context.Context, *awssecretsmanager.GetSecretValueInput) (*awssecretsmanager.GetSecretValueOutput, error)
}

// Config is what the service needs.
type Config struct {
	Store  *store.Store
	Images *imagestore.Store
	KMS    KMS
	// Allowed reports whether the caller of ctx would be allowed to access a target if its resource were as given. If
	// it is nil, everything is allowed.
	Allowed func(ctx context.Context, t authz.Target, as authz.Resource) bool
	// Upstream is how upstream registries of pull-through cache rules are reached. Nil means that nothing is pulled through,
	// except from Drydock's own registries.
	Upstream http.RoundTripper
	// Own is how Drydock's own private registries are reached, which are the upstream registries of rules for ECR.
	Own     http.RoundTripper
	Secrets Secrets
	// EnsureServiceRole makes a service-linked role in the account of ctx's caller, unless it exists. Nil makes none.
	EnsureServiceRole func(ctx context.Context, role awsapi.ServiceRole) error
	// Assume returns a session of a role that was passed to a service, if the role trusts the service.
	Assume func(ctx context.Context, roleARN, service string) (awsapi.Principal, error)
	// Emit is called after each action on an image. It may be nil.
	Emit func(Action)
	// Synced is called after each attempt to copy an image from an upstream registry. It may be nil.
	Synced func(Sync)
	Clock  clock.WithTicker // nil means the real clock
	Log    *slog.Logger     // nil means slog.Default
}

// Service is Amazon ECR.
type Service struct {
	cfg    Config
	store  *store.Store
	images *imagestore.Store
	clock  clock.WithTicker
	log    *slog.Logger
	docs   policy.Documents

	// imports are the pull-through imports in progress. They end with life, which Run ends.
	imports  singleflight.Group
	failures failures // of refreshing tags
	life     context.Context
	end      context.CancelFunc
}

// New returns the service. Call Run to apply lifecycle policies.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, store: cfg.Store, images: cfg.Images, clock: cfg.Clock, log: cfg.Log}
	s.life, s.end = context.WithCancel(context.Background())
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.images != nil {
		s.images.Own(repositoryIDs)
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

// A scope identifies a registry: an account and a region.
type scope struct{ regional.Scope }

// registryOf returns the registry that a request names, or the caller's own.
func registryOf(ctx context.Context, id *string) scope {
	sc := scope{regional.Of(ctx)}
	if id != nil && *id != "" {
		sc.Account = *id
	}
	return sc
}

func (sc scope) arn(repository string) string {
	return arn.New("ecr", sc.Region, sc.Account, "repository/"+repository)
}

// Host returns the host name of a registry, which docker logs in to.
func Host(account, region string) string {
	return account + ".dkr.ecr." + region + ".amazonaws.com"
}

func (sc scope) host() string { return Host(sc.Account, sc.Region) }

// contents returns where a repository's images are stored.
func (sc scope) contents(r *repositoryRecord) *imagestore.Repository {
	return &imagestore.Repository{Scope: sc.Scope, ID: r.ID, Name: r.Name, Registry: sc.Account}
}

// repository returns the record of a repository.
func (s *Service) repository(sc scope, name string) (repositoryRecord, error) {
	r, err := repositories.Get(s.store, sc.Key(name))
	return r, store.NotFoundAs(err, imagestore.ErrNoRepository(name, sc.Account))
}

// within returns the registry and the repository that a request names, and where its images are stored.
func (s *Service) within(ctx context.Context, registry, name *string) (scope, repositoryRecord, *imagestore.Repository, error) {
	sc := registryOf(ctx, registry)
	r, err := s.repository(sc, *name)
	return sc, r, sc.contents(&r), err
}

// change changes the record of a repository.
func (s *Service) change(ctx context.Context, registry, name *string, fn func(*repositoryRecord) error) (scope, error) {
	sc := registryOf(ctx, registry)
	err := repositories.UpdateOne(ctx, s.store, sc.Key(*name), fn)
	return sc, store.NotFoundAs(err, imagestore.ErrNoRepository(*name, sc.Account))
}

// named returns the registry and the name of the repository that an ARN identifies.
func (s *Service) named(ctx context.Context, resource string) (scope, string, error) {
	sc := scope{regional.Of(ctx)}
	a, err := arn.Parse(resource)
	name, ok := strings.CutPrefix(a.Resource, "repository/")
	if err != nil || !ok || a.Service != "ecr" || a.Region != sc.Region {
		return sc, "", imagestore.ErrParameter("resourceArn", "Invalid ARN") // from memory
	}
	sc.Account = a.Account
	return sc, name, nil
}

// checkKey asks KMS, on behalf of the user, whether the key of a new repository can be used and whether the user may
// grant ECR the use of it.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/encryption-at-rest.html
//
// AWS deviation: no grant is made, since nothing is encrypted with the key.
func (s *Service) checkKey(ctx context.Context, key string) (string, error) {
	if s.cfg.KMS == nil {
		return key, nil
	}
	out, err := s.cfg.KMS.DescribeKey(ctx, &awskms.DescribeKeyInput{KeyId: &key})
	if err == nil {
		key = *out.KeyMetadata.Arn
		_, err = s.cfg.KMS.CreateGrant(ctx, dryGrant(key, awsapi.CallFrom(ctx).Account))
	}
	switch {
	case err == nil || isDryRun(err):
		return key, nil
	case awsapi.IsThrottle(err):
		return key, err
	}
	return key, errKMS(err)
}

// Repository returns where the images of a repository are stored, or false if the repository does not exist. The
// registry uses it to serve layers.
func (s *Service) Repository(account, region, name string) (*imagestore.Repository, bool) {
	sc := scope{regional.At(account, region)}
	r, err := repositories.Get(s.store, sc.Key(name))
	return sc.contents(&r), err == nil
}

// Exists reports whether a repository exists, and whether an image exists in it. reference is a tag or a digest.
func (s *Service) Exists(account, region, name, reference string) (repository, image bool) {
	r, ok := s.Repository(account, region, name)
	if !ok {
		return false, false
	}
	id := imagestore.ID{Tag: reference}
	if strings.Contains(reference, ":") {
		id = imagestore.ID{Digest: reference}
	}
	_, failure, err := s.images.Find(r, id)
	return true, err == nil && failure == nil
}

// repositoryIDs implements imagestore.Owner.
func repositoryIDs(r store.Reader) (ids map[string]bool, err error) {
	if bad := repositories.Unreadable(r, store.Scope{}); len(bad) > 0 {
		return nil, fmt.Errorf("the record of repository %s is unreadable", bad[0])
	}
	ids = map[string]bool{}
	for _, item := range repositories.All(r, store.Scope{}) {
		ids[item.Value.ID] = true
	}
	return ids, nil
}

// lifecycleEvery is how often lifecycle policies are applied. AWS applies them within a day.
const lifecycleEvery = 30 * time.Second

// Run applies lifecycle policies until ctx ends. Then pull-through imports end, too.
func (s *Service) Run(ctx context.Context) error {
	defer s.end()
	if err := s.images.Sweep(ctx); err != nil {
		s.log.WarnContext(ctx, "ecr: removing contents that no image has", "err", err)
	}
	tick := s.clock.NewTicker(lifecycleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C():
			if err := s.applyPolicies(ctx); err != nil && !errors.Is(err, context.Canceled) {
				s.log.WarnContext(ctx, "ecr: applying lifecycle policies", "err", err)
			}
		}
	}
}
