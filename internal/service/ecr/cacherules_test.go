package ecr_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-containerregistry/pkg/crane"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// Only the account that owns a rule can see or change it.
func TestCacheRulesOfAnotherAccount(t *testing.T) {
	w := newWorld(t)
	a, other, ctx := w.account(t), w.account(t), t.Context()
	a.rule("quay", "quay.io")
	prefix, id := aws.String("quay"), &a.id
	for operation, call := range map[string]func(*awsecr.Client) error{
		"CreatePullThroughCacheRule": func(c *awsecr.Client) error {
			_, err := c.CreatePullThroughCacheRule(ctx, &awsecr.CreatePullThroughCacheRuleInput{RegistryId: id, EcrRepositoryPrefix: aws.String("k8s"), UpstreamRegistryUrl: aws.String("registry.k8s.io")})
			return err
		},
		"DescribePullThroughCacheRules": func(c *awsecr.Client) error {
			_, err := c.DescribePullThroughCacheRules(ctx, &awsecr.DescribePullThroughCacheRulesInput{RegistryId: id})
			return err
		},
		"UpdatePullThroughCacheRule": func(c *awsecr.Client) error {
			_, err := c.UpdatePullThroughCacheRule(ctx, &awsecr.UpdatePullThroughCacheRuleInput{RegistryId: id, EcrRepositoryPrefix: prefix, CredentialArn: aws.String("arn:aws:secretsmanager:us-east-1:" + other.id + ":secret:ecr-pullthroughcache/x-abcdef")})
			return err
		},
		"DeletePullThroughCacheRule": func(c *awsecr.Client) error {
			_, err := c.DeletePullThroughCacheRule(ctx, &awsecr.DeletePullThroughCacheRuleInput{RegistryId: id, EcrRepositoryPrefix: prefix})
			return err
		},
	} {
		testkit.WantErrorWith(t, call(other.c), "AccessDeniedException", "is not authorized to perform: ecr:"+operation+" on resource: arn:aws:ecr:us-east-1:"+a.id+":*")
	}
	rules := testkit.Must(a.c.DescribePullThroughCacheRules(ctx, &awsecr.DescribePullThroughCacheRulesInput{RegistryId: id}))(t).PullThroughCacheRules
	if len(rules) != 1 || *rules[0].EcrRepositoryPrefix != "quay" || rules[0].CredentialArn != nil {
		t.Errorf("rules %+v", rules)
	}
	testkit.Must(a.c.DeletePullThroughCacheRule(ctx, &awsecr.DeletePullThroughCacheRuleInput{RegistryId: id, EcrRepositoryPrefix: prefix}))(t)
}

// An upstream registry is a host name of a known form, and nothing else.
func TestUpstreamURLs(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	secret := a.secret("ecr-pullthroughcache/azure", "x")
	for url, want := range map[string]ecrtypes.UpstreamRegistry{
		"quay.io":                 ecrtypes.UpstreamRegistryQuay,
		"team1.azurecr.io":        ecrtypes.UpstreamRegistryAzureContainerRegistry,
		"team1-a1b2c3.azurecr.io": ecrtypes.UpstreamRegistryAzureContainerRegistry,
		"012345678901.dkr.ecr.eu-west-1.amazonaws.com":              ecrtypes.UpstreamRegistryEcr,
		"012345678901.dkr.ecr.cn-north-1.amazonaws.com.cn":          ecrtypes.UpstreamRegistryEcr,
		"evil.example:8443/x.azurecr.io":                            "",
		"evil.example/x.azurecr.io":                                 "",
		"x.evil.azurecr.io":                                         "",
		".azurecr.io":                                               "",
		"x.azurecr.io:8443":                                         "",
		"x.azurecr.io\n":                                            "",
		"user@x.azurecr.io":                                         "",
		"evil.example/.dkr.ecr./x.amazonaws.com":                    "",
		"evil.example/012345678901.dkr.ecr.eu-west-1.amazonaws.com": "",
		"012345678901.dkr.ecr.eu-west-1.amazonaws.com.evil.example": "",
		"012345678901.dkr.ecr.eu-west-1.evil.amazonaws.com":         "",
		"0123.dkr.ecr.eu-west-1.amazonaws.com":                      "",
		"quay.io/x":                                                 "",
		"evil.example":                                              "",
	} {
		prefix := aws.String("up")
		in := &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: prefix, UpstreamRegistryUrl: &url}
		switch want {
		case ecrtypes.UpstreamRegistryAzureContainerRegistry:
			in.CredentialArn = &secret
		case ecrtypes.UpstreamRegistryEcr:
			in.CustomRoleArn = aws.String("arn:aws:iam::" + a.id + ":role/cache")
		}
		_, err := a.c.CreatePullThroughCacheRule(t.Context(), in)
		if want == "" {
			testkit.WantErrorWith(t, err, "UnsupportedUpstreamRegistryException", "The upstream registry URL "+url+" is invalid")
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		out := testkit.Must(a.c.DescribePullThroughCacheRules(t.Context(), &awsecr.DescribePullThroughCacheRulesInput{}))(t)
		if got := out.PullThroughCacheRules[0].UpstreamRegistry; got != want {
			t.Errorf("%s is of %s, want %s", url, got, want)
		}
		testkit.Must(a.c.DeletePullThroughCacheRule(t.Context(), &awsecr.DeletePullThroughCacheRuleInput{EcrRepositoryPrefix: prefix}))(t)
	}
}

// A stored rule that would be refused today reaches no registry.
func TestStoredUpstreamURL(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	up := &fakeUpstream{}
	w.upstreamServer(t, up)
	up.image("1", manifestOf("config", "layer"), "config", "layer")
	a.rule("quay", "quay.io")
	rules := store.NewCollection[map[string]any]("ecr", "cacherule", store.Same)
	if err := w.Store.Update(t.Context(), func(tx *store.Tx) error {
		for _, item := range rules.All(tx, store.Scope{}) {
			item.Value["URL"] = "evil.example/x.azurecr.io"
			return rules.Put(tx, item.Key, item.Value)
		}
		t.Fatal("no rule is stored")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	c := login(t, a.c, w.registry(t), a.id)
	_, err := crane.Manifest(c.ref("quay/app:1"), c.options()...)
	wantText(t, err, "The upstream registry URL evil.example/x.azurecr.io is invalid")
	if n := up.count(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}
