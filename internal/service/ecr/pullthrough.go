package ecr

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/imagestore"
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
// imported. Upstream registries are accessed without credentials.
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
	found, err := remote.Get(ref, remote.WithContext(ctx), remote.WithTransport(s.cfg.Upstream), remote.WithUserAgent("drydock"))
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
	if err := s.importUpstream(ctx, sc.contents(&r), found, tag, &r); err != nil {
		if awserr.CodeOf(err) != "" {
			return false, err
		}
		return false, s.unreachable(ctx, rule.URL, err)
	}
	return true, nil
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

// importUpstream stores an image or a list of images, with all that it refers to.
func (s *Service) importUpstream(ctx context.Context, to *imagestore.Repository, d *remote.Descriptor, tag string, r *repositoryRecord) error {
	if d.MediaType.IsIndex() {
		index, err := d.ImageIndex()
		if err != nil {
			return err
		}
		return s.importIndex(ctx, to, index, tag, r)
	}
	image, err := d.Image()
	if err != nil {
		return err
	}
	return s.importImage(ctx, to, image, tag, r)
}

func (s *Service) importIndex(ctx context.Context, to *imagestore.Repository, index v1.ImageIndex, tag string, r *repositoryRecord) error {
	list, err := index.IndexManifest()
	if err != nil {
		return err
	}
	for _, m := range list.Manifests {
		if m.MediaType.IsIndex() {
			inner, err := index.ImageIndex(m.Digest)
			if err != nil {
				return err
			}
			if err := s.importIndex(ctx, to, inner, "", r); err != nil {
				return err
			}
			continue
		}
		image, err := index.Image(m.Digest)
		if err != nil {
			return err
		}
		if err := s.importImage(ctx, to, image, "", r); err != nil {
			return err
		}
	}
	return s.putUpstream(ctx, to, index, tag, r)
}

func (s *Service) importImage(ctx context.Context, to *imagestore.Repository, image v1.Image, tag string, r *repositoryRecord) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	m, err := image.Manifest()
	if err != nil {
		return err
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return err
		}
		if err := s.importLayer(ctx, to, digest.String(), l.Compressed); err != nil {
			return err
		}
	}
	config := func() (io.ReadCloser, error) {
		raw, err := image.RawConfigFile()
		return io.NopCloser(strings.NewReader(string(raw))), err
	}
	if err := s.importLayer(ctx, to, m.Config.Digest.String(), config); err != nil {
		return err
	}
	return s.putUpstream(ctx, to, image, tag, r)
}

// importLayer stores a layer or a configuration, unless the repository has it.
func (s *Service) importLayer(ctx context.Context, to *imagestore.Repository, digest string, open func() (io.ReadCloser, error)) error {
	if _, ok := s.images.Layer(to, digest); ok {
		return nil
	}
	body, err := open()
	if err != nil {
		return err
	}
	defer body.Close()
	id, err := s.images.Begin(ctx, to)
	if err != nil {
		return err
	}
	part := make([]byte, imagestore.MaxPart)
	for at := int64(0); ; {
		n, err := io.ReadFull(body, part)
		if n > 0 {
			if err := s.images.Append(ctx, to, id, at, at+int64(n)-1, part[:n]); err != nil {
				return err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	_, err = s.images.Complete(ctx, to, id, []string{digest})
	if awserr.CodeOf(err) == "LayerAlreadyExistsException" { // another pull has imported it
		return nil
	}
	return err
}

// putUpstream stores a manifest.
func (s *Service) putUpstream(ctx context.Context, to *imagestore.Repository, m remote.Taggable, tag string, r *repositoryRecord) error {
	raw, err := m.RawManifest()
	if err != nil {
		return err
	}
	put := imagestore.Put{Manifest: string(raw), Tag: tag, Immutable: r.immutable, Scan: r.ScanOnPush}
	if typed, ok := m.(interface {
		MediaType() (types.MediaType, error)
	}); ok {
		kind, err := typed.MediaType()
		if err != nil {
			return err
		}
		put.MediaType = string(kind)
	}
	if _, err := s.images.Put(ctx, to, put); err != nil && awserr.CodeOf(err) != "ImageAlreadyExistsException" {
		return err
	}
	return nil
}
