package ecr

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
)

// rootPrefix is the prefix of a rule that applies to all repositories.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-creating-rule.html
const rootPrefix = "ROOT"

// ruleFor returns the rule for a repository, and the repository's name in the upstream registry. The longest prefix wins.
func (s *Service) ruleFor(sc scope, repository string) (rule cacheRuleRecord, upstream string, ok bool) {
	for _, item := range cacheRules.All(s.store, sc.All()) {
		r := item.Value
		rest, has := strings.CutPrefix(repository, r.Prefix+"/")
		if r.Prefix == rootPrefix {
			rest, has = repository, true
		}
		if !has || rest == "" || ok && (r.Prefix == rootPrefix || rule.Prefix != rootPrefix && len(r.Prefix) <= len(rule.Prefix)) {
			continue
		}
		rule, upstream, ok = r, rest, true
		if p := r.UpstreamPrefix; p != "" && p != rootPrefix {
			upstream = p + "/" + rest
		}
	}
	return rule, upstream, ok
}

// PullThrough imports an image that the caller of ctx pulls, if a pull-through cache rule applies to the repository. It creates the
// repository with the caller's permission. reference is a tag or a digest. It returns false if there is no such rule or no such image.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html
//
// AWS deviation: an image is imported once; ECR looks for a newer one after 24 hours. The images of all platforms of a list are
// imported, without layers that a registry does not store. Upstream registries are accessed without credentials.
func (s *Service) PullThrough(ctx context.Context, api awsapi.API, account, region, repository, reference string) (bool, error) {
	sc := scope{regional.At(account, region)}
	rule, upstream, ok := s.ruleFor(sc, repository)
	if !ok || s.cfg.Upstream == nil {
		return false, nil
	}
	if _, ok := upstreamOf(rule.URL); !ok { // the rule was made when more was accepted
		return false, errUpstream(rule.URL)
	}
	if err := s.mayImport(ctx, sc, repository); err != nil {
		return false, err
	}
	separator := ":"
	if strings.Contains(reference, ":") {
		separator = "@"
	}
	ref, err := name.ParseReference(rule.URL+"/"+upstream+separator+reference, name.StrictValidation)
	if err != nil {
		return false, nil //nolint:nilerr // no upstream image has such a name
	}
	puller, err := remote.NewPuller(remote.WithTransport(bounded{s.cfg.Upstream}), remote.WithUserAgent("drydock"))
	if err != nil {
		return false, err
	}
	found, err := puller.Get(ctx, ref)
	if answered := (*transport.Error)(nil); errors.As(err, &answered) && (answered.StatusCode == http.StatusNotFound || answered.StatusCode == http.StatusUnauthorized || answered.StatusCode == http.StatusForbidden) {
		return false, nil
	}
	if err != nil {
		return false, s.unreachable(ctx, rule.URL, err)
	}
	if _, err := s.repository(sc, repository); err != nil {
		_, err := awsapi.Do[awsecr.CreateRepositoryOutput](ctx, api, &awsecr.CreateRepositoryInput{RegistryId: &account, RepositoryName: &repository})
		if err != nil && awserr.CodeOf(err) != "RepositoryAlreadyExistsException" {
			return false, err
		}
	}
	r, err := s.repository(sc, repository)
	if err != nil {
		return false, err
	}
	tag := reference
	if separator == "@" {
		tag = ""
	}
	i := &upstreamImport{Service: s, to: sc.contents(&r), record: &r, from: ref.Context(), puller: puller, seen: map[string]bool{}}
	err = s.once(ctx, r.ID+"/"+reference, func(ctx context.Context) error {
		return i.manifest(ctx, found.Manifest, found.MediaType, tag, 0)
	})
	if err != nil {
		if awserr.CodeOf(err) != "" {
			return false, err
		}
		return false, s.unreachable(ctx, rule.URL, err)
	}
	return true, nil
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

// unreachable returns the error for an upstream registry that does not answer as it should. Its text is from memory.
func (s *Service) unreachable(ctx context.Context, url string, err error) error {
	s.log.WarnContext(ctx, "ecr: pulling through from "+url, "err", err)
	return awserr.New("UnableToAccessUpstreamRegistryException", "Unable to access the upstream registry "+url+".")
}

// mayImport checks the caller's permission to import images into a repository. The registry policy applies whatever its scope.
func (s *Service) mayImport(ctx context.Context, sc scope, repository string) error {
	const action = "ecr:BatchImportUpstreamImage"
	if s.cfg.Allowed == nil {
		return nil
	}
	id := sc.arn(repository)
	as, _ := resolver{s}.Resource(ctx, "", "", "", id)
	as.Account = sc.Account
	settings, err := s.settings(sc)
	if err != nil {
		return err
	}
	if settings.Policy != "" && settings.setting(policyScope) == "V1" {
		as.AccountPolicies = append(as.AccountPolicies, policy.Source{Name: "registry policy of " + sc.Account, Document: s.docs.Get(settings.Policy)})
	}
	if s.cfg.Allowed(ctx, authz.Target{Action: action, Type: "repository", ID: id}, as) {
		return nil
	}
	return awserr.New("AccessDeniedException", fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s because no identity-based policy allows the %s action", awsapi.CallFrom(ctx).Principal.ARN, action, id, action))
}
