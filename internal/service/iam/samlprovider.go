package iam

import (
	"context"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/saml"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// maxSAMLProviders is AWS's quota.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html#reference_iam-quotas-entities
	maxSAMLProviders = 100
	// maxSAMLMetadata is what fits into a record. AWS takes ten times as much; metadata of one provider has some ten
	// thousand characters.
	maxSAMLMetadata = 1 << 20
)

// A samlProvider is an identity provider whose responses AssumeRoleWithSAML takes.
type samlProvider struct {
	Name     string
	UUID     string
	Metadata string // the document
	Created  time.Time
	Valid    time.Time `json:",omitzero"` // until when
	Tags     []tag     `json:",omitempty"`
}

func samlProviderARN(account, name string) string { return arn.IAM(account, "saml-provider/"+name) }

// [seen] in Terraform's output about aws_iam_saml_provider
func brokenMetadata() error { return invalidInput("Could not parse metadata") }

// https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_saml.html has the code, the text is from memory.
func expiredMetadata() error { return invalidInput("Metadata document is expired") }

func noSuchSAMLProvider(providerARN string) error {
	return noSuchEntity("Manifest not found for arn %s", providerARN)
}

func samlProviderExists(name string) error {
	return alreadyExists("SAMLProvider with name %s already exists.", name)
}

func (s *Service) checkMetadata(document string) (saml.Metadata, error) {
	if len(document) > maxSAMLMetadata {
		return saml.Metadata{}, awserr.NotImplemented("metadata documents of more than 1 MiB")
	}
	m, err := saml.ParseMetadata(document)
	switch {
	case err != nil:
		return m, brokenMetadata()
	case !m.ValidUntil.IsZero() && !s.now().Before(m.ValidUntil):
		return m, expiredMetadata()
	}
	return m, nil
}

// CreateSAMLProvider registers an identity provider by its metadata.
func (s *Service) CreateSAMLProvider(ctx context.Context, in *awsiam.CreateSAMLProviderInput) (*awsiam.CreateSAMLProviderOutput, error) {
	m, err := s.checkMetadata(*in.SAMLMetadataDocument)
	if err != nil {
		return nil, err
	}
	tags, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	if err := belowQuota(s, samlProviders, acct, "SAMLProviders", maxSAMLProviders); err != nil {
		return nil, err
	}
	p := samlProvider{Name: *in.Name, UUID: ids.UUID(), Metadata: *in.SAMLMetadataDocument, Created: s.now(), Valid: m.ValidUntil, Tags: tags}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		key := store.Key{Account: acct, ID: p.Name}
		if _, err := samlProviders.Get(tx, key); err == nil {
			return samlProviderExists(p.Name)
		}
		return samlProviders.Create(tx, key, p)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateSAMLProviderOutput{SAMLProviderArn: aws.String(samlProviderARN(acct, p.Name)), Tags: outTags(tags)}, nil
}

// samlProviderKey returns the key of a provider in the caller's account.
func samlProviderKey(ctx context.Context, providerARN string) (store.Key, error) {
	a, err := arn.Parse(providerARN)
	name, ok := strings.CutPrefix(a.Resource, "saml-provider/")
	switch {
	case err != nil || !ok || name == "" || a.Service != "iam":
		return store.Key{}, invalidARN(providerARN)
	case a.Account != awsapi.CallFrom(ctx).Account:
		return store.Key{}, noSuchSAMLProvider(providerARN)
	}
	return store.Key{Account: a.Account, ID: name}, nil
}

func (s *Service) changeSAMLProvider(ctx context.Context, providerARN string, fn func(*samlProvider) error) error {
	key, err := samlProviderKey(ctx, providerARN)
	if err != nil {
		return err
	}
	return store.NotFoundAs(samlProviders.UpdateOne(ctx, s.store, key, fn), noSuchSAMLProvider(providerARN))
}

func (s *Service) samlProvider(ctx context.Context, providerARN string) (samlProvider, error) {
	key, err := samlProviderKey(ctx, providerARN)
	if err != nil {
		return samlProvider{}, err
	}
	p, err := samlProviders.Get(s.store, key)
	return p, store.NotFoundAs(err, noSuchSAMLProvider(providerARN))
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// GetSAMLProvider returns a provider's metadata.
func (s *Service) GetSAMLProvider(ctx context.Context, in *awsiam.GetSAMLProviderInput) (*awsiam.GetSAMLProviderOutput, error) {
	p, err := s.samlProvider(ctx, *in.SAMLProviderArn)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetSAMLProviderOutput{
		SAMLMetadataDocument: &p.Metadata, SAMLProviderUUID: &p.UUID, CreateDate: &p.Created, ValidUntil: optionalTime(p.Valid), Tags: outTags(p.Tags),
	}, nil
}

// ListSAMLProviders lists the account's providers.
func (s *Service) ListSAMLProviders(ctx context.Context, _ *awsiam.ListSAMLProvidersInput) (*awsiam.ListSAMLProvidersOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	out := &awsiam.ListSAMLProvidersOutput{SAMLProviderList: []iamtypes.SAMLProviderListEntry{}}
	for _, i := range samlProviders.All(s.store, within(acct)) {
		out.SAMLProviderList = append(out.SAMLProviderList, iamtypes.SAMLProviderListEntry{
			Arn: aws.String(samlProviderARN(acct, i.Value.Name)), CreateDate: &i.Value.Created, ValidUntil: optionalTime(i.Value.Valid),
		})
	}
	return out, nil
}

// UpdateSAMLProvider replaces a provider's metadata.
func (s *Service) UpdateSAMLProvider(ctx context.Context, in *awsiam.UpdateSAMLProviderInput) (*awsiam.UpdateSAMLProviderOutput, error) {
	if in.SAMLMetadataDocument != nil {
		m, err := s.checkMetadata(*in.SAMLMetadataDocument)
		if err != nil {
			return nil, err
		}
		err = s.changeSAMLProvider(ctx, *in.SAMLProviderArn, func(p *samlProvider) error {
			p.Metadata, p.Valid = *in.SAMLMetadataDocument, m.ValidUntil
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return &awsiam.UpdateSAMLProviderOutput{SAMLProviderArn: in.SAMLProviderArn}, nil
}

// DeleteSAMLProvider deletes a provider. Roles may still name it in their trust policies.
func (s *Service) DeleteSAMLProvider(ctx context.Context, in *awsiam.DeleteSAMLProviderInput) (*awsiam.DeleteSAMLProviderOutput, error) {
	key, err := samlProviderKey(ctx, *in.SAMLProviderArn)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := samlProviders.Get(tx, key); err != nil {
			return store.NotFoundAs(err, noSuchSAMLProvider(*in.SAMLProviderArn))
		}
		samlProviders.Delete(tx, key)
		return nil
	})
	return done[awsiam.DeleteSAMLProviderOutput](err)
}

func (s *Service) taggedSAMLProvider(ctx context.Context, providerARN *string) tagged {
	return func(change func(*[]tag) error) error {
		return s.changeSAMLProvider(ctx, *providerARN, func(p *samlProvider) error { return change(&p.Tags) })
	}
}

// TagSAMLProvider adds tags to a provider.
func (s *Service) TagSAMLProvider(ctx context.Context, in *awsiam.TagSAMLProviderInput) (*awsiam.TagSAMLProviderOutput, error) {
	return done[awsiam.TagSAMLProviderOutput](s.taggedSAMLProvider(ctx, in.SAMLProviderArn).add("SAMLProvider", in.Tags))
}

// UntagSAMLProvider removes tags from a provider.
func (s *Service) UntagSAMLProvider(ctx context.Context, in *awsiam.UntagSAMLProviderInput) (*awsiam.UntagSAMLProviderOutput, error) {
	return done[awsiam.UntagSAMLProviderOutput](s.taggedSAMLProvider(ctx, in.SAMLProviderArn).remove(in.TagKeys))
}

// SAMLProvider returns the metadata document of an account's provider.
func (s *Service) SAMLProvider(_ context.Context, account, name string) (metadata string, ok bool) {
	p, err := samlProviders.Get(s.store, store.Key{Account: account, ID: name})
	return p.Metadata, err == nil
}
