// Package ecrpublic implements Amazon ECR Public: the repositories of an account's public registry, and the images in
// them. Anyone may pull from public.ecr.aws/ALIAS/REPOSITORY; pushing requires permissions.
//
// Package imagestore holds the images. The registry of Amazon ECR (internal/service/ecr/registry) serves them to
// registry clients. Package authz makes access decisions, including repository policies. Only the composition root
// imports the package.
package ecrpublic

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store  *store.Store
	Images *imagestore.Store
	// Token returns a password for the caller of ctx.
	Token func(ctx context.Context) (password string, expires time.Time, err error)
	// Allowed reports whether the caller of ctx would be allowed to access a target if its resource were as given. If
	// it is nil, everything is allowed.
	Allowed func(ctx context.Context, t authz.Target, as authz.Resource) bool
	Clock   clock.PassiveClock // nil means the real clock
}

// Service is Amazon ECR Public.
type Service struct {
	cfg    Config
	store  *store.Store
	images *imagestore.Store
	clock  clock.PassiveClock
	docs   policy.Documents
}

// New returns the service.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, store: cfg.Store, images: cfg.Images, clock: cfg.Clock}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.images != nil {
		s.images.Own(repositoryIDs)
	}
	return s
}

func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

const (
	// Host is the host of all public registries.
	Host = "public.ecr.aws"
	// home is the region of the API and of all records. The resources themselves have no region.
	// https://docs.aws.amazon.com/AmazonECR/latest/public/public-registry-auth.html
	home = "us-east-1"
)

// inHome refuses calls in other regions.
func inHome(ctx context.Context) error {
	if call := awsapi.CallFrom(ctx); call.Region != home {
		return errRegion(call.Operation)
	}
	return nil
}

// A scope identifies the registry of an account.
type scope struct{ regional.Scope }

func registry(account string) scope { return scope{regional.At(account, home)} }

// arn returns the ARN of a repository.
func (sc scope) arn(repository string) string {
	return arn.New("ecr-public", "", sc.Account, "repository/"+repository)
}

// alias returns the registry's name as it appears in the names of its images. AWS assigns a random one; here it is
// derived from the account, so it needs no record and the names of images survive a reset.
func (sc scope) alias() string {
	const letters, all = "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz0123456789"
	sum := sha256.Sum256([]byte("ECR Public " + sc.Account))
	out := []byte{letters[int(sum[0])%len(letters)]}
	for _, b := range sum[1:8] {
		out = append(out, all[int(b)%len(all)])
	}
	return string(out)
}

func (sc scope) uri(repository string) string { return Host + "/" + sc.alias() + "/" + repository }

// contents returns where a repository's images are stored.
func (sc scope) contents(r *repositoryRecord) *imagestore.Repository {
	return &imagestore.Repository{Scope: sc.Scope, ID: r.ID, Name: r.Name, Registry: sc.Account}
}

// byAlias returns the registry with an alias, if it has repositories. Otherwise there is nothing in it to refer to.
func (s *Service) byAlias(alias string) (scope, bool) {
	last := ""
	for _, r := range repositories.All(s.store, store.Scope{}) {
		if r.Key.Account == last {
			continue
		}
		last = r.Key.Account
		if sc := registry(last); sc.alias() == alias {
			return sc, true
		}
	}
	return scope{}, false
}

// registryOf returns the registry that a request names by its account or alias, or the caller's own.
func (s *Service) registryOf(ctx context.Context, id *string) (scope, error) {
	return s.registryFor(awsapi.CallFrom(ctx).Account, id)
}

func (s *Service) registryFor(account string, id *string) (scope, error) {
	sc := registry(account)
	if id == nil || *id == "" || *id == sc.Account || *id == sc.alias() {
		return sc, nil
	}
	if len(*id) == 12 && strings.Trim(*id, "0123456789") == "" {
		return registry(*id), nil
	}
	sc, ok := s.byAlias(*id)
	if !ok {
		return sc, errNoRegistry(*id)
	}
	return sc, nil
}

// within returns the registry and the repository that a request names, and where its images are stored.
func (s *Service) within(ctx context.Context, id, name *string) (scope, repositoryRecord, *imagestore.Repository, error) {
	sc, err := s.registryOf(ctx, id)
	if err != nil {
		return sc, repositoryRecord{}, nil, err
	}
	r, err := s.repository(sc, *name)
	return sc, r, sc.contents(&r), err
}

func (s *Service) repository(sc scope, name string) (repositoryRecord, error) {
	r, err := repositories.Get(s.store, sc.Key(name))
	return r, store.NotFoundAs(err, imagestore.ErrNoRepository(name, sc.Account))
}

// change changes the record of a repository.
func (s *Service) change(ctx context.Context, id, name *string, fn func(scope, *repositoryRecord) error) (scope, error) {
	sc, err := s.registryOf(ctx, id)
	if err != nil {
		return sc, err
	}
	err = repositories.UpdateOne(ctx, s.store, sc.Key(*name), func(r *repositoryRecord) error { return fn(sc, r) })
	return sc, store.NotFoundAs(err, imagestore.ErrNoRepository(*name, sc.Account))
}

// named returns the account and the name of the repository that an ARN identifies.
func named(resource string) (account, name string, err error) {
	a, err := arn.Parse(resource)
	name, ok := strings.CutPrefix(a.Resource, "repository/")
	if err != nil || !ok || a.Service != "ecr-public" {
		return "", "", imagestore.ErrParameter("resourceArn", "Invalid ARN") // from memory
	}
	return a.Account, name, nil
}

// Repository returns where the images of public.ecr.aws/ALIAS/NAME are stored, or nil, and the account that owns them.
// known reports whether a registry with that alias exists.
func (s *Service) Repository(alias, name string) (r *imagestore.Repository, account string, known bool) {
	sc, known := s.byAlias(alias)
	if !known {
		return nil, "", false
	}
	rec, err := repositories.Get(s.store, sc.Key(name))
	if err != nil {
		return nil, sc.Account, true
	}
	return sc.contents(&rec), sc.Account, true
}

// Exists reports whether a registry with an alias exists, whether it has a repository, and whether the repository has
// an image. reference is a tag or a digest.
func (s *Service) Exists(alias, name, reference string) (registry, repository, image bool) {
	r, _, registry := s.Repository(alias, name)
	if r == nil {
		return registry, false, false
	}
	id := imagestore.ID{Tag: reference}
	if strings.Contains(reference, ":") {
		id = imagestore.ID{Digest: reference}
	}
	_, failure, err := s.images.Find(r, id)
	return true, true, err == nil && failure == nil
}

// repositoryIDs implements imagestore.Owner.
func repositoryIDs(r store.Reader) (ids map[string]bool, err error) {
	if bad := repositories.Unreadable(r, store.Scope{}); len(bad) > 0 {
		return nil, fmt.Errorf("the record of public repository %s is unreadable", bad[0])
	}
	ids = map[string]bool{}
	for _, item := range repositories.All(r, store.Scope{}) {
		ids[item.Value.ID] = true
	}
	return ids, nil
}
