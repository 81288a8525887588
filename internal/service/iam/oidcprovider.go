package iam

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	maxClientIDs   = 100
	maxThumbprints = 5
)

// CreateOpenIDConnectProvider registers an issuer of web identities. It does not connect to the
// URL. AWS fetches the thumbprint if the request has none; Drydock stores none.
func (s *Service) CreateOpenIDConnectProvider(ctx context.Context, in *awsiam.CreateOpenIDConnectProviderInput) (*awsiam.CreateOpenIDConnectProviderOutput, error) {
	u, err := url.Parse(*in.Url)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, invalidProviderURL()
	}
	if len(in.ClientIDList) > maxClientIDs {
		return nil, quotaExceeded("ClientIdsPerOpenIdConnectProvider", maxClientIDs)
	}
	if len(in.ThumbprintList) > maxThumbprints {
		return nil, tooManyThumbprints()
	}
	tags, err := newTags(in.Tags)
	if err != nil {
		return nil, err
	}
	acct := awsapi.CallFrom(ctx).Account
	p := oidcProvider{
		URL:       strings.ToLower(u.Hostname()) + strings.TrimSuffix(u.Path, "/"), // like the ARN, it does not include the port
		ClientIDs: slices.Clone(in.ClientIDList), Thumbprints: slices.Clone(in.ThumbprintList), Created: s.now(), Tags: tags,
	}
	if err := belowQuota(s, providers, acct, "OpenIdConnectProviders", 100); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		key := store.Key{Account: acct, ID: p.URL}
		if _, err := providers.Get(tx, key); err == nil {
			return providerExists(p.URL)
		}
		return providers.Create(tx, key, p)
	})
	if err != nil {
		return nil, err
	}
	return &awsiam.CreateOpenIDConnectProviderOutput{
		OpenIDConnectProviderArn: aws.String(providerARN(acct, p.URL)), Tags: outTags(tags),
	}, nil
}

func providerARN(account, url string) string { return arn.IAM(account, "oidc-provider/"+url) }

// providerKey returns the key of a provider in the caller's account.
func providerKey(ctx context.Context, providerARN string) (store.Key, error) {
	a, err := arn.Parse(providerARN)
	url, ok := strings.CutPrefix(a.Resource, "oidc-provider/")
	switch {
	case err != nil || !ok || url == "" || a.Service != "iam":
		return store.Key{}, invalidARN(providerARN)
	case a.Account != awsapi.CallFrom(ctx).Account:
		return store.Key{}, noSuchProvider(providerARN)
	}
	return store.Key{Account: a.Account, ID: url}, nil
}

func (s *Service) provider(ctx context.Context, providerARN string) (oidcProvider, error) {
	key, err := providerKey(ctx, providerARN)
	if err != nil {
		return oidcProvider{}, err
	}
	p, err := providers.Get(s.store, key)
	return p, store.NotFoundAs(err, noSuchProvider(providerARN))
}

func (s *Service) changeProvider(ctx context.Context, providerARN string, fn func(*oidcProvider) error) error {
	key, err := providerKey(ctx, providerARN)
	if err != nil {
		return err
	}
	return store.NotFoundAs(providers.UpdateOne(ctx, s.store, key, fn), noSuchProvider(providerARN))
}

// GetOpenIDConnectProvider describes a provider.
func (s *Service) GetOpenIDConnectProvider(ctx context.Context, in *awsiam.GetOpenIDConnectProviderInput) (*awsiam.GetOpenIDConnectProviderOutput, error) {
	p, err := s.provider(ctx, *in.OpenIDConnectProviderArn)
	if err != nil {
		return nil, err
	}
	return &awsiam.GetOpenIDConnectProviderOutput{
		Url: &p.URL, ClientIDList: p.ClientIDs, ThumbprintList: p.Thumbprints, CreateDate: &p.Created, Tags: outTags(p.Tags),
	}, nil
}

// ListOpenIDConnectProviders lists the account's providers.
func (s *Service) ListOpenIDConnectProviders(ctx context.Context, _ *awsiam.ListOpenIDConnectProvidersInput) (*awsiam.ListOpenIDConnectProvidersOutput, error) {
	acct := awsapi.CallFrom(ctx).Account
	items := providers.All(s.store, within(acct))
	out := &awsiam.ListOpenIDConnectProvidersOutput{OpenIDConnectProviderList: []iamtypes.OpenIDConnectProviderListEntry{}}
	for _, i := range items {
		out.OpenIDConnectProviderList = append(out.OpenIDConnectProviderList,
			iamtypes.OpenIDConnectProviderListEntry{Arn: aws.String(providerARN(acct, i.Value.URL))})
	}
	return out, nil
}

// DeleteOpenIDConnectProvider deletes a provider. It is not an error if the provider does not
// exist.
func (s *Service) DeleteOpenIDConnectProvider(ctx context.Context, in *awsiam.DeleteOpenIDConnectProviderInput) (*awsiam.DeleteOpenIDConnectProviderOutput, error) {
	key, err := providerKey(ctx, *in.OpenIDConnectProviderArn)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := providers.Get(tx, key); err != nil {
			return store.NotFoundAs(err, noSuchProvider(*in.OpenIDConnectProviderArn))
		}
		providers.Delete(tx, key)
		return nil
	})
	return done[awsiam.DeleteOpenIDConnectProviderOutput](err)
}

// UpdateOpenIDConnectProviderThumbprint replaces a provider's thumbprints.
func (s *Service) UpdateOpenIDConnectProviderThumbprint(ctx context.Context, in *awsiam.UpdateOpenIDConnectProviderThumbprintInput) (*awsiam.UpdateOpenIDConnectProviderThumbprintOutput, error) {
	if len(in.ThumbprintList) > maxThumbprints {
		return nil, tooManyThumbprints()
	}
	err := s.changeProvider(ctx, *in.OpenIDConnectProviderArn, func(p *oidcProvider) error {
		p.Thumbprints = slices.Clone(in.ThumbprintList)
		return nil
	})
	return done[awsiam.UpdateOpenIDConnectProviderThumbprintOutput](err)
}

// AddClientIDToOpenIDConnectProvider adds an audience. It is not an error if the provider already
// has it.
func (s *Service) AddClientIDToOpenIDConnectProvider(ctx context.Context, in *awsiam.AddClientIDToOpenIDConnectProviderInput) (*awsiam.AddClientIDToOpenIDConnectProviderOutput, error) {
	err := s.changeProvider(ctx, *in.OpenIDConnectProviderArn, func(p *oidcProvider) error {
		switch {
		case slices.Contains(p.ClientIDs, *in.ClientID):
			return nil
		case len(p.ClientIDs) >= maxClientIDs:
			return quotaExceeded("ClientIdsPerOpenIdConnectProvider", maxClientIDs)
		}
		p.ClientIDs = append(p.ClientIDs, *in.ClientID)
		return nil
	})
	return done[awsiam.AddClientIDToOpenIDConnectProviderOutput](err)
}

// RemoveClientIDFromOpenIDConnectProvider removes an audience. It is not an error if the provider
// does not have it.
func (s *Service) RemoveClientIDFromOpenIDConnectProvider(ctx context.Context, in *awsiam.RemoveClientIDFromOpenIDConnectProviderInput) (*awsiam.RemoveClientIDFromOpenIDConnectProviderOutput, error) {
	err := s.changeProvider(ctx, *in.OpenIDConnectProviderArn, func(p *oidcProvider) error {
		p.ClientIDs = slices.DeleteFunc(p.ClientIDs, func(id string) bool { return id == *in.ClientID })
		return nil
	})
	return done[awsiam.RemoveClientIDFromOpenIDConnectProviderOutput](err)
}
