package cluster

import (
	"context"
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// oidc is the only type of identity provider.
const oidc = "oidc"

// AssociateIdentityProviderConfig starts to give the users of an OIDC provider access to a cluster.
// The cluster reconciler completes it. A cluster can have one provider.
// https://docs.aws.amazon.com/eks/latest/userguide/authenticate-oidc-identity-provider.html
func (s *Service) AssociateIdentityProviderConfig(ctx context.Context, in *awseks.AssociateIdentityProviderConfigInput) (*awseks.AssociateIdentityProviderConfigOutput, error) {
	key, rec, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	request := record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.AssociateIdentityProviderConfigOutput{Update: done, Tags: base.TagsOrEmpty(in.Tags)}, err
	}
	if err := checkIdentityProvider(key.ID, rec.Plane.Issuer, in.Oidc); err != nil {
		return nil, err
	}
	if err := base.CheckTags(key.ID, in.Tags); err != nil {
		return nil, err
	}
	o := in.Oidc
	config := ekstypes.OidcIdentityProviderConfig{
		IdentityProviderConfigArn:  new(arn.New("eks", key.Region, key.Account, "identityproviderconfig/"+key.ID+"/"+oidc+"/"+*o.IdentityProviderConfigName+"/"+ids.UUID())),
		IdentityProviderConfigName: o.IdentityProviderConfigName, ClusterName: &key.ID, IssuerUrl: o.IssuerUrl, ClientId: o.ClientId,
		UsernameClaim: o.UsernameClaim, UsernamePrefix: o.UsernamePrefix, GroupsClaim: o.GroupsClaim, GroupsPrefix: o.GroupsPrefix,
		RequiredClaims: base.TagsOrEmpty(o.RequiredClaims), Tags: base.TagsOrEmpty(in.Tags), Status: ekstypes.ConfigStatusCreating,
	}
	up := s.NewUpdate(ekstypes.UpdateTypeAssociateIdentityProviderConfig, base.UpdateParam(ekstypes.UpdateParamTypeIdentityProviderConfig, providerParam(*o.IdentityProviderConfigName)))
	up.IdentityProvider, up.Request, up.Token = *o.IdentityProviderConfigName, request, aws.ToString(in.ClientRequestToken)
	err = s.changeProviders(ctx, key, rec.UID, up, func(tx *store.Tx) error {
		if len(record.IdentityProviders.All(tx, key.AllBelow())) > 0 {
			return errProviderExists(key.ID)
		}
		return record.IdentityProviders.Create(tx, record.IdentityProviderKey(key, up.IdentityProvider), record.IdentityProvider{Config: config})
	})
	if err != nil {
		return nil, err
	}
	return &awseks.AssociateIdentityProviderConfigOutput{Update: &up.Update, Tags: config.Tags}, nil
}

// DisassociateIdentityProviderConfig starts to remove an OIDC provider, whose users then lose
// access.
func (s *Service) DisassociateIdentityProviderConfig(ctx context.Context, in *awseks.DisassociateIdentityProviderConfigInput) (*awseks.DisassociateIdentityProviderConfigOutput, error) {
	key, rec, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	request := record.Fingerprint(in)
	if done, err := s.RepeatedUpdate(s.Store, key, in.ClientRequestToken, request); done != nil || err != nil {
		return &awseks.DisassociateIdentityProviderConfigOutput{Update: done}, err
	}
	provider, err := s.provider(key, in.IdentityProviderConfig)
	if err != nil {
		return nil, err
	}
	name := *provider.IdentityProviderConfigName
	up := s.NewUpdate(ekstypes.UpdateTypeDisassociateIdentityProviderConfig, base.UpdateParam(ekstypes.UpdateParamTypeIdentityProviderConfig, providerParam(name)))
	up.IdentityProvider, up.Request, up.Token = name, request, aws.ToString(in.ClientRequestToken)
	err = s.changeProviders(ctx, key, rec.UID, up, func(tx *store.Tx) error {
		err := record.IdentityProviders.Update(tx, record.IdentityProviderKey(key, name), func(r *record.IdentityProvider) error {
			r.Config.Status = ekstypes.ConfigStatusDeleting
			return nil
		})
		return store.NotFoundAs(err, errNoProvider(key.ID, name))
	})
	if err != nil {
		return nil, err
	}
	return &awseks.DisassociateIdentityProviderConfigOutput{Update: &up.Update}, nil
}

// DescribeIdentityProviderConfig describes an identity provider of a cluster.
func (s *Service) DescribeIdentityProviderConfig(ctx context.Context, in *awseks.DescribeIdentityProviderConfigInput) (*awseks.DescribeIdentityProviderConfigOutput, error) {
	key, _, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	provider, err := s.provider(key, in.IdentityProviderConfig)
	return &awseks.DescribeIdentityProviderConfigOutput{IdentityProviderConfig: &ekstypes.IdentityProviderConfigResponse{Oidc: provider}}, err
}

// ListIdentityProviderConfigs lists the identity providers of a cluster.
func (s *Service) ListIdentityProviderConfigs(ctx context.Context, in *awseks.ListIdentityProviderConfigsInput) (*awseks.ListIdentityProviderConfigsOutput, error) {
	key, _, err := s.Cluster(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	names, next, err := base.PageBelow(s.Service, record.IdentityProviders, key, func(*record.IdentityProvider) bool { return true },
		func(i store.Item[record.IdentityProvider]) string { return *i.Value.Config.IdentityProviderConfigName }, in.MaxResults, in.NextToken)
	out := &awseks.ListIdentityProviderConfigsOutput{IdentityProviderConfigs: []ekstypes.IdentityProviderConfig{}, NextToken: next}
	for _, name := range names {
		out.IdentityProviderConfigs = append(out.IdentityProviderConfigs, ekstypes.IdentityProviderConfig{Type: new(oidc), Name: &name})
	}
	return out, err
}

// provider returns the identity provider that a request names.
func (s *Service) provider(cluster store.Key, named *ekstypes.IdentityProviderConfig) (*ekstypes.OidcIdentityProviderConfig, error) {
	if named == nil {
		return nil, ekserr.Missing("identityProviderConfig")
	}
	name, typ := aws.ToString(named.Name), aws.ToString(named.Type)
	if typ != oidc {
		return nil, errProviderType(cluster.ID, typ)
	}
	rec, err := record.IdentityProviders.Get(s.Store, record.IdentityProviderKey(cluster, name))
	return &rec.Config, store.NotFoundAs(err, errNoProvider(cluster.ID, name))
}

// changeProviders records an update and makes its cluster UPDATING, together with change.
func (s *Service) changeProviders(ctx context.Context, key store.Key, uid string, up *record.Update, change func(*store.Tx) error) error {
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		now, err := record.Clusters.Get(tx, key)
		switch {
		case err != nil:
			return store.NotFoundAs(err, ekserr.NoCluster(key.ID))
		case now.UID != uid:
			return ekserr.NoCluster(key.ID)
		}
		if err := s.updatable(tx, key, now, up); err != nil {
			return err
		}
		if err := change(tx); err != nil {
			return err
		}
		return s.begin(tx, key, up)
	})
}

// applyIdentityProvider makes the control plane accept the tokens of the provider that up
// associates, or of no provider if up disassociates one.
func (s *Service) applyIdentityProvider(ctx context.Context, key store.Key, planeID string, up record.Update) error {
	if up.Update.Type == ekstypes.UpdateTypeDisassociateIdentityProviderConfig {
		return s.ControlPlanes.SetIdentityProvider(ctx, planeID, nil)
	}
	rec, err := record.IdentityProviders.Get(s.Store, record.IdentityProviderKey(key, up.IdentityProvider))
	if err != nil {
		return err
	}
	return s.ControlPlanes.SetIdentityProvider(ctx, planeID, &rec.Config)
}

// endProviderUpdate records the result of an update. The provider remains if it was associated, or
// could not be disassociated.
func (s *Service) endProviderUpdate(tx *store.Tx, key store.Key, up record.Update, failure error) error {
	id := record.IdentityProviderKey(key, up.IdentityProvider)
	if associating := up.Update.Type == ekstypes.UpdateTypeAssociateIdentityProviderConfig; associating != (failure == nil) {
		record.IdentityProviders.Delete(tx, id)
		return nil
	}
	return record.IdentityProviders.Update(tx, id, func(r *record.IdentityProvider) error {
		r.Config.Status = ekstypes.ConfigStatusActive
		return nil
	})
}

// providerParam returns an identity provider in the format of an update parameter.
func providerParam(name string) string {
	return base.JSON([]any{map[string]string{"type": oidc, "name": name}}) // from memory
}

// checkIdentityProvider checks a provider as EKS and the API server do. issuer is that of the
// cluster itself.
func checkIdentityProvider(cluster, issuer string, in *ekstypes.OidcIdentityProviderConfigRequest) error {
	switch {
	case in == nil:
		return ekserr.Missing("oidc")
	case aws.ToString(in.IdentityProviderConfigName) == "":
		return ekserr.Missing("identityProviderConfigName")
	case aws.ToString(in.IssuerUrl) == "":
		return ekserr.Missing("issuerUrl")
	case aws.ToString(in.ClientId) == "":
		return ekserr.Missing("clientId")
	case *in.IssuerUrl == issuer:
		return errProviderIsCluster(cluster)
	}
	if err := base.CheckName(in.IdentityProviderConfigName, "identityProviderConfigName", "identityProviderConfigName", cluster, 100); err != nil {
		return err
	}
	if !strings.HasPrefix(*in.IssuerUrl, "https://") {
		return errIssuerScheme(cluster)
	}
	u, err := url.Parse(*in.IssuerUrl)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return errIssuerURL(cluster, *in.IssuerUrl)
	}
	for _, prefix := range []*string{in.UsernamePrefix, in.GroupsPrefix} {
		if strings.Contains(aws.ToString(prefix), "system:") {
			return errProviderPrefix(cluster, *prefix)
		}
	}
	return nil
}
