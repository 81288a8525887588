package ecr_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// Nobody but an account itself sees or changes its rules.
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
