package ecr

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/store"
)

// rootPrefix is the prefix of a rule that applies to all repositories.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-creating-rule.html
const rootPrefix = "ROOT"

// ruleFor returns the rule for a repository, and the repository's name in the upstream registry. The longest prefix wins.
func (s *Service) ruleFor(sc scope, repository string) (rule cacheRuleRecord, upstream string, ok bool) {
	for _, item := range cacheRules.All(s.store, sc.All()) {
		r := item.Value
		rest, has := strings.CutPrefix(repository, strings.TrimSuffix(r.Prefix, "/")+"/")
		if r.Prefix == rootPrefix {
			rest, has = repository, true
		}
		if !has || rest == "" || ok && (r.Prefix == rootPrefix || rule.Prefix != rootPrefix && len(r.Prefix) <= len(rule.Prefix)) {
			continue
		}
		rule, upstream, ok = r, rest, true
		if p := r.UpstreamPrefix; p != "" && p != rootPrefix {
			upstream = strings.TrimSuffix(p, "/") + "/" + rest
		}
	}
	return rule, upstream, ok
}

// UpstreamHeader is in requests that are made for a rule to one of Drydock's own registries.
const UpstreamHeader = "Drydock-Pull-Through"

// A pull is one pull of an image to which a rule applies.
type pull struct {
	*Service
	sc                    scope
	rule                  cacheRuleRecord
	repository, reference string
	tag                   string // of reference, or empty if that is a digest
	upstream              string // the repository in the upstream registry
}

// pull returns a pull, if a rule applies to the repository and its upstream registry can be reached.
func (s *Service) pull(account, region, repository, reference string) (*pull, bool) {
	p := &pull{Service: s, sc: scope{regional.At(account, region)}, repository: repository, reference: reference}
	if !strings.Contains(reference, ":") {
		p.tag = reference
	}
	var ok bool
	p.rule, p.upstream, ok = s.ruleFor(p.sc, repository)
	return p, ok && s.reaches(&p.rule)
}

// A found is an image in an upstream registry.
type found struct {
	*remote.Descriptor
	access *access
	puller *remote.Puller
	from   name.Repository
}

// find returns the image in the upstream registry, or nil if there is no such image.
func (p *pull) find(ctx context.Context) (*found, error) {
	a, err := p.access(ctx, p.sc, &p.rule)
	if err != nil {
		return nil, err
	}
	separator := ":"
	if p.tag == "" {
		separator = "@"
	}
	ref, err := name.ParseReference(p.rule.URL+"/"+p.upstream+separator+p.reference, name.StrictValidation)
	if err != nil {
		return nil, nil //nolint:nilerr // no upstream image has such a name
	}
	puller, err := remote.NewPuller(remote.WithAuth(a.login), remote.WithTransport(bounded{a.next}), remote.WithUserAgent("drydock"))
	if err != nil {
		return nil, err
	}
	d, err := puller.Get(ctx, ref)
	if answered := (*transport.Error)(nil); errors.As(err, &answered) {
		switch answered.StatusCode {
		case http.StatusNotFound:
			return nil, nil
		case http.StatusUnauthorized, http.StatusForbidden:
			if a.login == authn.Anonymous {
				return nil, nil
			}
		}
	}
	if err != nil {
		return nil, p.failed(ctx, a, err)
	}
	return &found{d, a, puller, ref.Context()}, nil
}

// copy imports a found image.
func (p *pull) copy(ctx context.Context, r *repositoryRecord, f *found) error {
	i := &upstreamImport{Service: p.Service, to: p.sc.contents(r), record: r, from: f.from, puller: f.puller, seen: map[string]bool{}}
	err := i.manifest(ctx, f.Manifest, f.MediaType, p.tag, 0)
	if err != nil && awserr.CodeOf(err) == "" {
		err = p.failed(ctx, f.access, err)
	}
	if err == nil {
		err = p.checked(ctx, r)
	}
	p.synced(f, err)
	return err
}

// synced reports an attempt to copy the image. f is nil if it was not found.
func (p *pull) synced(f *found, err error) {
	if p.cfg.Synced == nil {
		return
	}
	e := Sync{Account: p.sc.Account, Region: p.sc.Region, Repository: p.repository, Prefix: p.rule.Prefix, URL: p.rule.URL, Tag: p.tag, Failure: err, At: p.now()}
	if f != nil {
		e.Digest = f.Digest.String()
	} else if p.tag == "" {
		e.Digest = p.reference
	}
	p.cfg.Synced(e)
}

// PullThrough imports an image that the caller of ctx pulls, if a pull-through cache rule applies to the repository. It creates the
// repository with the caller's permission. reference is a tag or a digest. It returns false if there is no such rule or no such image.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html
//
// AWS deviation: the images of all platforms of a list are imported before the pull is answered, without layers that a registry does
// not store.
func (s *Service) PullThrough(ctx context.Context, api awsapi.API, account, region, repository, reference string) (bool, error) {
	p, ok := s.pull(account, region, repository, reference)
	if !ok {
		return false, nil
	}
	if err := s.may(ctx, "ecr:BatchImportUpstreamImage", p.sc, repository); err != nil {
		return false, err
	}
	f, err := p.find(ctx)
	if f == nil {
		if err == nil {
			p.synced(nil, p.sc.contents(&repositoryRecord{Name: repository}).ErrNoImage(imagestore.ID{Tag: p.tag, Digest: strings.TrimPrefix(reference, p.tag)}))
		} else {
			p.synced(nil, err)
		}
		return false, err
	}
	if _, err := s.repository(p.sc, repository); err != nil {
		if err := s.create(ctx, api, p.sc, repository, ecrtypes.RCTAppliedForPullThroughCache); err != nil && awserr.CodeOf(err) != "RepositoryAlreadyExistsException" {
			p.synced(f, err)
			return false, err
		}
	}
	r, err := s.repository(p.sc, repository)
	if err != nil {
		p.synced(f, err)
		return false, err
	}
	err = s.once(ctx, r.ID+"/"+reference, func(ctx context.Context) error { return p.copy(ctx, &r, f) })
	return err == nil, err
}

// checkEvery is how often ECR looks for a newer image with a tag.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache.html#pull-through-cache-considerations
const checkEvery = 24 * time.Hour

// answerTime is how long an upstream registry may take to answer while there is a cached image.
const answerTime = 10 * time.Second

// retryAfter is how long ECR waits after a failure before it looks for a newer image again. It is Drydock's choice.
const retryAfter = 10 * time.Minute

// Refresh imports the image that a tag has in the upstream registry now, if that was not checked in the last 24 hours. cached is the
// digest of the tag's image, which stays if anything fails. It reports whether the tag has another image now. Only tags that ECR has
// imported are refreshed, as users may push images to the same repositories, and no immutable ones.
func (s *Service) Refresh(ctx context.Context, account, region, repository, tag, cached string) bool {
	p, ok := s.pull(account, region, repository, tag)
	if !ok || p.tag == "" {
		return false
	}
	r, err := s.repository(p.sc, repository)
	if err != nil || r.immutable(tag) || !s.images.Imported(p.sc.contents(&r), imagestore.ID{Digest: cached, Tag: tag}) ||
		s.now().Sub(r.Checked[tag]) < checkEvery || s.may(ctx, "ecr:BatchImportUpstreamImage", p.sc, repository) != nil {
		return false
	}
	key := r.ID + "/" + tag
	if s.failures.recent(key, s.now()) {
		return false
	}
	err = s.once(ctx, key, func(ctx context.Context) error {
		err := p.refresh(ctx, &r, cached)
		if err != nil {
			s.failures.add(key, s.now())
		}
		return err
	})
	if err != nil {
		s.log.WarnContext(ctx, "ecr: a cached image stays", "repository", repository, "tag", tag, "err", err)
	}
	now, failure, err := s.images.Find(p.sc.contents(&r), imagestore.ID{Tag: tag})
	return err == nil && failure == nil && now.Digest != cached
}

func (p *pull) refresh(ctx context.Context, r *repositoryRecord, cached string) error {
	patience, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	f, err := p.find(patience)
	switch {
	case err != nil:
		p.synced(nil, err)
		return err
	case f == nil || f.Digest.String() == cached:
		return p.checked(ctx, r)
	}
	return p.copy(ctx, r, f)
}

// failures are when refreshing tags failed in the last retryAfter.
type failures struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (f *failures) recent(key string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, ok := f.at[key]
	return ok && now.Sub(at) < retryAfter
}

func (f *failures) add(key string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at == nil {
		f.at = map[string]time.Time{}
	}
	maps.DeleteFunc(f.at, func(_ string, at time.Time) bool { return now.Sub(at) >= retryAfter })
	f.at[key] = now
}

// checked notes that the tag was compared with the upstream registry.
func (p *pull) checked(ctx context.Context, r *repositoryRecord) error {
	if p.tag == "" {
		return nil
	}
	now := p.now()
	return store.IgnoreNotFound(repositories.UpdateOne(ctx, p.store, p.sc.Key(r.Name), func(rec *repositoryRecord) error {
		if rec.ID != r.ID {
			return nil
		}
		next := map[string]time.Time{p.tag: now}
		for tag, at := range rec.Checked {
			if tag != p.tag && now.Sub(at) < checkEvery {
				next[tag] = at
			}
		}
		rec.Checked = next
		return nil
	}))
}

// importTime is how long the import of an image may take. A later pull goes on with the layers that are missing.
const importTime = 15 * time.Minute

// once runs an import that several requests may wait for. It goes on if their clients leave, and ends with the service.
func (s *Service) once(ctx context.Context, key string, fn func(context.Context) error) error {
	done := s.imports.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), importTime)
		defer cancel()
		defer context.AfterFunc(s.life, cancel)()
		return nil, fn(ctx)
	})
	select {
	case r := <-done:
		return r.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// may checks the caller's permission for an action on a repository that may not exist yet. The registry policy applies whatever its scope.
func (s *Service) may(ctx context.Context, action string, sc scope, repository string) error {
	if s.cfg.Allowed == nil {
		return nil
	}
	id := sc.arn(repository)
	if _, err := s.settings(sc); err != nil {
		return err
	}
	as, _ := resolver{s}.Resource(context.WithValue(ctx, onBehalfKey{}, onBehalf{}), "", "", "", id)
	as.Account = sc.Account
	if s.cfg.Allowed(ctx, authz.Target{Action: action, Type: "repository", ID: id}, as) {
		return nil
	}
	return awserr.New("AccessDeniedException", fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action", awsapi.CallFrom(ctx).Principal.ARN, action, id, action))
}
