package eks_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestIdentityProviders(t *testing.T) {
	w := newWorld(t)
	ctx, dev := t.Context(), aws.String("dev")
	cluster := w.cluster("dev", ekstypes.AuthenticationModeApi)
	request := func() *awseks.AssociateIdentityProviderConfigInput {
		return &awseks.AssociateIdentityProviderConfigInput{ClusterName: dev, Tags: map[string]string{"a": "b"}, Oidc: &ekstypes.OidcIdentityProviderConfigRequest{
			IdentityProviderConfigName: aws.String("idp"), IssuerUrl: aws.String("https://idp.example.com/realm"), ClientId: aws.String("kubernetes"),
		}}
	}
	named := &ekstypes.IdentityProviderConfig{Type: aws.String("oidc"), Name: aws.String("idp")}
	describe := func() (*ekstypes.OidcIdentityProviderConfig, error) {
		out, err := w.client.DescribeIdentityProviderConfig(ctx, &awseks.DescribeIdentityProviderConfigInput{ClusterName: dev, IdentityProviderConfig: named})
		if err != nil {
			return nil, err
		}
		return out.IdentityProviderConfig.Oidc, nil
	}
	accepted := w.provider // what the control plane accepts

	for want, change := range map[string]func(*ekstypes.OidcIdentityProviderConfigRequest){
		"The Identity Provider URL cannot be same as OpenID Connect (OIDC) issuer URL": func(o *ekstypes.OidcIdentityProviderConfigRequest) { o.IssuerUrl = cluster.Identity.Oidc.Issuer },
		"IssuerURL must use https:// scheme.": func(o *ekstypes.OidcIdentityProviderConfigRequest) {
			o.IssuerUrl = aws.String("http://idp.example.com")
		},
		"it must have a host and no query parameters": func(o *ekstypes.OidcIdentityProviderConfigRequest) {
			o.IssuerUrl = aws.String("https://idp.example.com?a=b")
		},
		"The prefix system: is reserved for Kubernetes system use": func(o *ekstypes.OidcIdentityProviderConfigRequest) { o.GroupsPrefix = aws.String("system:") },
		"contains invalid characters":                              func(o *ekstypes.OidcIdentityProviderConfigRequest) { o.IdentityProviderConfigName = aws.String("a/b") },
		"clientId cannot be null or empty":                         func(o *ekstypes.OidcIdentityProviderConfigRequest) { o.ClientId = aws.String("") },
	} {
		in := request()
		change(in.Oidc)
		_, err := w.client.AssociateIdentityProviderConfig(ctx, in)
		testkit.WantErrorWith(t, err, "InvalidParameterException", want)
	}
	_, err := describe()
	testkit.WantErrorWith(t, err, "ResourceNotFoundException", "No config found for cluster: dev, config type: oidc, config name: idp")

	made, err := w.client.AssociateIdentityProviderConfig(ctx, request())
	if err != nil {
		t.Fatal(err)
	}
	if made.Update.Type != ekstypes.UpdateTypeAssociateIdentityProviderConfig || made.Tags["a"] != "b" {
		t.Errorf("%+v", made)
	}
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	got := testkit.Must(describe())(t)
	if got.Status != ekstypes.ConfigStatusActive || got.UsernameClaim != nil || got.Tags["a"] != "b" ||
		!strings.HasPrefix(*got.IdentityProviderConfigArn, "arn:aws:eks:us-east-1:"+w.account+":identityproviderconfig/dev/oidc/idp/") {
		t.Errorf("%+v", got)
	}
	w.planes.mu.Lock()
	w.planes.unadopted = true
	w.planes.mu.Unlock()
	if notes := strings.Join(w.updateNotes(), "\n"); !strings.Contains(notes, "users of the identity provider idp cannot log in yet: the API server on this machine cannot fetch https://idp.example.com/realm/.well-known/openid-configuration") {
		t.Errorf("drydock why cluster says %q", notes)
	}
	if p := accepted(); p == nil || *p.IssuerUrl != "https://idp.example.com/realm" {
		t.Errorf("the control plane has %+v", p)
	}
	list := testkit.Must(w.client.ListIdentityProviderConfigs(ctx, &awseks.ListIdentityProviderConfigsInput{ClusterName: dev}))(t)
	if len(list.IdentityProviderConfigs) != 1 || *list.IdentityProviderConfigs[0].Name != "idp" || *list.IdentityProviderConfigs[0].Type != "oidc" {
		t.Errorf("%+v", list)
	}
	testkit.Must(w.client.TagResource(ctx, &awseks.TagResourceInput{ResourceArn: got.IdentityProviderConfigArn, Tags: map[string]string{"c": "d"}}))(t)
	if got := testkit.Must(describe())(t); got.Tags["c"] != "d" {
		t.Errorf("%+v", got.Tags)
	}
	second := request()
	second.Oidc.IdentityProviderConfigName = aws.String("second")
	_, err = w.client.AssociateIdentityProviderConfig(ctx, second)
	testkit.WantErrorWith(t, err, "ResourceInUseException", "can have one OIDC identity provider")

	_, err = w.client.DisassociateIdentityProviderConfig(ctx, &awseks.DisassociateIdentityProviderConfigInput{ClusterName: dev, IdentityProviderConfig: &ekstypes.IdentityProviderConfig{Type: aws.String("saml"), Name: aws.String("idp")}})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "saml")
	testkit.Must(w.client.DisassociateIdentityProviderConfig(ctx, &awseks.DisassociateIdentityProviderConfigInput{ClusterName: dev, IdentityProviderConfig: named}))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	_, err = describe()
	testkit.WantErrorWith(t, err, "ResourceNotFoundException", "No config found for cluster: dev, config type: oidc, config name: idp")
	if p := accepted(); p != nil {
		t.Errorf("the control plane still has %+v", p)
	}

	// Nothing is left for a new cluster of the same name.
	testkit.Must(w.client.AssociateIdentityProviderConfig(ctx, request()))(t)
	w.waitCluster("dev", ekstypes.ClusterStatusActive)
	testkit.Must(w.client.DeleteCluster(ctx, &awseks.DeleteClusterInput{Name: dev}))(t)
	w.waitGone("dev")
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	if list := testkit.Must(w.client.ListIdentityProviderConfigs(ctx, &awseks.ListIdentityProviderConfigsInput{ClusterName: dev}))(t); len(list.IdentityProviderConfigs) != 0 {
		t.Errorf("%+v", list)
	}
}
