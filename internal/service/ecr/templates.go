package ecr

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/ecr/lifecycle"
	"github.com/drydock-dev/drydock/internal/store"
)

// templateRole is the role under which ECR creates repositories from templates without a role of their own. The name of its sessions
// is from memory.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/slr-rct.html
var templateRole = awsapi.ServiceRole{Service: "ecr.amazonaws.com", Name: "AWSServiceRoleForECRTemplate", Session: "ECRTemplate"}

// templateID returns the ID of a template, whose prefix may end with a slash.
func templateID(prefix string) string { return strings.TrimSuffix(prefix, "/") }

// check checks the settings of a template, as the operations for repositories do.
func (t *templateRecord) check(filters []ecrtypes.ImageTagMutabilityExclusionFilter) (err error) {
	if t.Exceptions, err = exceptions(ecrtypes.ImageTagMutability(t.Mutability), filters); err != nil {
		return err
	}
	if t.Policy != "" {
		if _, err := policy.Parse(policy.Resource, t.Policy); err != nil {
			return imagestore.ErrPolicy()
		}
	}
	if t.Lifecycle != "" {
		if _, err := lifecycle.Parse(t.Lifecycle); err != nil {
			return errLifecycle(err)
		}
	}
	return nil
}

func (t *templateRecord) encrypt(e *ecrtypes.EncryptionConfigurationForRepositoryCreationTemplate) {
	if e != nil {
		t.Encryption, t.KMSKey = string(e.EncryptionType), aws.ToString(e.KmsKey)
	}
}

func (t *templateRecord) applyFor(list []ecrtypes.RCTAppliedFor) {
	t.AppliedFor = nil
	for _, a := range list {
		t.AppliedFor = append(t.AppliedFor, string(a))
	}
}

func (t *templateRecord) shown() *ecrtypes.RepositoryCreationTemplate {
	out := &ecrtypes.RepositoryCreationTemplate{
		Prefix: &t.Prefix, Description: present(t.Description), CreatedAt: &t.Created, UpdatedAt: &t.Updated, CustomRoleArn: present(t.CustomRole),
		ImageTagMutability: ecrtypes.ImageTagMutability(t.Mutability), ImageTagMutabilityExclusionFilters: filters(t.Exceptions),
		EncryptionConfiguration: &ecrtypes.EncryptionConfigurationForRepositoryCreationTemplate{EncryptionType: ecrtypes.EncryptionType(t.Encryption), KmsKey: present(t.KMSKey)},
		RepositoryPolicy:        present(t.Policy), LifecyclePolicy: present(t.Lifecycle), ResourceTags: tagsOf(t.Tags),
	}
	for _, a := range t.AppliedFor {
		out.AppliedFor = append(out.AppliedFor, ecrtypes.RCTAppliedFor(a))
	}
	return out
}

func tagsOf(tags map[string]string) []ecrtypes.Tag {
	if len(tags) == 0 {
		return nil
	}
	return tagging.List(tags, func(k, v *string) ecrtypes.Tag { return ecrtypes.Tag{Key: k, Value: v} })
}

// CreateRepositoryCreationTemplate stores the settings of repositories that ECR creates.
func (s *Service) CreateRepositoryCreationTemplate(ctx context.Context, in *awsecr.CreateRepositoryCreationTemplateInput) (*awsecr.CreateRepositoryCreationTemplateOutput, error) {
	sc := registryOf(ctx, nil)
	t := templateRecord{
		Prefix: *in.Prefix, Description: aws.ToString(in.Description), Mutability: string(ecrtypes.ImageTagMutabilityMutable), Encryption: string(ecrtypes.EncryptionTypeAes256),
		Policy: aws.ToString(in.RepositoryPolicy), Lifecycle: aws.ToString(in.LifecyclePolicy), CustomRole: aws.ToString(in.CustomRoleArn), Created: s.now(), Updated: s.now(),
	}
	if in.ImageTagMutability != "" {
		t.Mutability = string(in.ImageTagMutability)
	}
	t.encrypt(in.EncryptionConfiguration)
	t.applyFor(in.AppliedFor)
	err := errors.Join(t.check(in.ImageTagMutabilityExclusionFilters), s.checkRole(sc, t.CustomRole))
	if err == nil {
		t.Tags, err = putTags(nil, in.ResourceTags)
	}
	if err == nil {
		err = s.ensureRole(ctx, templateRole)
	}
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error { return templates.Create(tx, sc.Key(templateID(t.Prefix)), t) })
	if errors.Is(err, store.ErrExists) {
		err = errTemplateExists()
	}
	return &awsecr.CreateRepositoryCreationTemplateOutput{RegistryId: &sc.Account, RepositoryCreationTemplate: t.shown()}, err
}

// DescribeRepositoryCreationTemplates lists templates by prefix.
func (s *Service) DescribeRepositoryCreationTemplates(ctx context.Context, in *awsecr.DescribeRepositoryCreationTemplatesInput) (*awsecr.DescribeRepositoryCreationTemplatesOutput, error) {
	sc := registryOf(ctx, nil)
	all := templates.All(s.store, sc.All())
	if len(in.Prefixes) > 0 {
		all = slices.DeleteFunc(all, func(i store.Item[templateRecord]) bool {
			return !slices.ContainsFunc(in.Prefixes, func(p string) bool { return templateID(p) == i.Key.ID })
		})
	}
	out := &awsecr.DescribeRepositoryCreationTemplatesOutput{RegistryId: &sc.Account, RepositoryCreationTemplates: []ecrtypes.RepositoryCreationTemplate{}}
	list, next, err := paging.Cut(imagestore.Pages(append([]string{sc.Account}, in.Prefixes...)...), all, func(i store.Item[templateRecord]) string { return i.Key.ID }, in.MaxResults, in.NextToken)
	for _, i := range list {
		out.RepositoryCreationTemplates = append(out.RepositoryCreationTemplates, *i.Value.shown())
	}
	out.NextToken = next
	return out, err
}

// UpdateRepositoryCreationTemplate changes the given settings of a template.
func (s *Service) UpdateRepositoryCreationTemplate(ctx context.Context, in *awsecr.UpdateRepositoryCreationTemplateInput) (*awsecr.UpdateRepositoryCreationTemplateOutput, error) {
	sc := registryOf(ctx, nil)
	if err := s.checkRole(sc, aws.ToString(in.CustomRoleArn)); err != nil {
		return nil, err
	}
	var t templateRecord
	err := templates.UpdateOne(ctx, s.store, sc.Key(templateID(*in.Prefix)), func(r *templateRecord) (err error) {
		for _, m := range []struct {
			to   *string
			from *string
		}{{&r.Description, in.Description}, {&r.Policy, in.RepositoryPolicy}, {&r.Lifecycle, in.LifecyclePolicy}, {&r.CustomRole, in.CustomRoleArn}} {
			if m.from != nil {
				*m.to = *m.from
			}
		}
		exclusions := filters(r.Exceptions)
		if in.ImageTagMutability != "" {
			r.Mutability, exclusions = string(in.ImageTagMutability), in.ImageTagMutabilityExclusionFilters
		} else if in.ImageTagMutabilityExclusionFilters != nil {
			exclusions = in.ImageTagMutabilityExclusionFilters
		}
		r.encrypt(in.EncryptionConfiguration)
		if in.AppliedFor != nil {
			r.applyFor(in.AppliedFor)
		}
		if in.ResourceTags != nil {
			if r.Tags, err = putTags(nil, in.ResourceTags); err != nil {
				return err
			}
		}
		r.Updated = s.now()
		if err := r.check(exclusions); err != nil {
			return err
		}
		t = *r
		return nil
	})
	return &awsecr.UpdateRepositoryCreationTemplateOutput{RegistryId: &sc.Account, RepositoryCreationTemplate: t.shown()}, store.NotFoundAs(err, errNoTemplate())
}

// DeleteRepositoryCreationTemplate deletes a template. Repositories keep the settings that they have from it.
func (s *Service) DeleteRepositoryCreationTemplate(ctx context.Context, in *awsecr.DeleteRepositoryCreationTemplateInput) (*awsecr.DeleteRepositoryCreationTemplateOutput, error) {
	sc := registryOf(ctx, nil)
	var t templateRecord
	err := s.store.Update(ctx, func(tx *store.Tx) (err error) {
		key := sc.Key(templateID(*in.Prefix))
		if t, err = templates.Get(tx, key); err != nil {
			return store.NotFoundAs(err, errNoTemplate())
		}
		templates.Delete(tx, key)
		return nil
	})
	return &awsecr.DeleteRepositoryCreationTemplateOutput{RegistryId: &sc.Account, RepositoryCreationTemplate: t.shown()}, err
}

// templateFor returns the template for a repository that ECR creates, or nil. The longest prefix wins.
func (s *Service) templateFor(sc scope, repository string, why ecrtypes.RCTAppliedFor) *templateRecord {
	var best *templateRecord
	for _, item := range templates.All(s.store, sc.All()) {
		t := item.Value
		root := item.Key.ID == rootPrefix
		switch {
		case !slices.Contains(t.AppliedFor, string(why)), !root && !strings.HasPrefix(repository, item.Key.ID+"/"):
		case best == nil, best.Prefix == rootPrefix, !root && len(item.Key.ID) > len(templateID(best.Prefix)):
			best = &t
		}
	}
	return best
}

// create creates a repository for the caller of ctx, with the settings of the template that applies to it, if any. The caller needs the
// permission to create the repository, which a registry policy may give whatever its scope; the role of the template needs it, too.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-creation-templates.html
func (s *Service) create(ctx context.Context, api awsapi.API, sc scope, repository string, why ecrtypes.RCTAppliedFor) error {
	in := &awsecr.CreateRepositoryInput{RegistryId: &sc.Account, RepositoryName: &repository}
	denied := s.may(ctx, "ecr:CreateRepository", sc, repository)
	t := s.templateFor(sc, repository, why)
	if denied != nil || t == nil { // a denied call records why
		_, err := awsapi.Do[awsecr.CreateRepositoryOutput](context.WithValue(ctx, onBehalfKey{}, onBehalf{denied}), api, in)
		return err
	}
	as := awsapi.AsService(ctx, sc.Account, sc.Region, templateRole, s.now())
	encrypted := t.Encryption != string(ecrtypes.EncryptionTypeAes256)
	switch {
	case t.CustomRole != "":
		p, err := s.assume(ctx, t.CustomRole, templateRole.Service)
		if err != nil {
			return errAssume(t.CustomRole)
		}
		as = awsapi.AsRole(ctx, p, sc.Region, templateRole.Service, s.now())
	case encrypted || len(t.Tags) > 0:
		return errTemplateRole(t.Prefix)
	}
	in.ImageTagMutability, in.ImageTagMutabilityExclusionFilters, in.Tags = ecrtypes.ImageTagMutability(t.Mutability), filters(t.Exceptions), tagsOf(t.Tags)
	if encrypted {
		in.EncryptionConfiguration = &ecrtypes.EncryptionConfiguration{EncryptionType: ecrtypes.EncryptionType(t.Encryption), KmsKey: present(t.KMSKey)}
	}
	_, err := awsapi.Do[awsecr.CreateRepositoryOutput](context.WithValue(as, templateKey{}, t), api, in)
	return err
}

// templateKey is the context key of the template from which ECR itself calls CreateRepository. A repository has its policies from the
// beginning, and the role of the template needs no permission to set them.
type templateKey struct{}

// An onBehalf is in the context of what ECR does with the permissions of a caller who pulls or pushes. A registry policy applies to it
// whatever its scope.
type onBehalf struct {
	denied error // why CreateRepository is denied, if it is, even if the policies for a call between services allow it
}

// onBehalfKey is the context key of an onBehalf.
type onBehalfKey struct{}

func isOnBehalf(ctx context.Context) bool {
	_, ok := ctx.Value(onBehalfKey{}).(onBehalf)
	return ok
}

// CreateOnPush creates a repository that the caller of ctx pushes to, if a template says so.
func (s *Service) CreateOnPush(ctx context.Context, api awsapi.API, account, region, repository string) (bool, error) {
	sc := scope{regional.At(account, region)}
	if s.templateFor(sc, repository, ecrtypes.RCTAppliedForCreateOnPush) == nil {
		return false, nil
	}
	err := s.create(ctx, api, sc, repository, ecrtypes.RCTAppliedForCreateOnPush)
	if awserr.CodeOf(err) == "RepositoryAlreadyExistsException" { // another push was faster
		err = nil
	}
	return err == nil, err
}
