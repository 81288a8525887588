package wafv2_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awswaf "github.com/aws/aws-sdk-go-v2/service/wafv2"
	waftypes "github.com/aws/aws-sdk-go-v2/service/wafv2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/wafv2"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// newServer returns an AWS API server with IAM and AWS WAF behind it. Every load balancer whose name begins with "web"
// exists.
func newServer(t *testing.T) *testkit.Server {
	var users *iam.Service
	var authorizer *authz.Authorizer
	return testkit.NewServer(t, testkit.Config{
		Services: func(st *store.Store) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			authorizer = authz.New(authz.Config{Services: []awsapi.Service{users.AWS(), new(wafv2.Service).AWS()}, Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz()}, Store: st})
			waf := wafv2.New(func(account, region, arn string) bool {
				return strings.HasPrefix(arn, "arn:aws:elasticloadbalancing:"+region+":"+account+":loadbalancer/app/web")
			})
			return []awsapi.Service{users.AWS(), waf.Module().Service}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
}

func TestGetWebACLForResource(t *testing.T) {
	srv := newServer(t)
	account := srv.Account(t)
	root := srv.AWSConfig(account)
	c := awswaf.NewFromConfig(root)
	balancer := func(name string) *string {
		return aws.String("arn:aws:elasticloadbalancing:" + testkit.Region + ":" + account + ":loadbalancer/" + name + "/0123456789abcdef")
	}
	get := func(c *awswaf.Client, arn *string) error {
		out, err := c.GetWebACLForResource(t.Context(), &awswaf.GetWebACLForResourceInput{ResourceArn: arn})
		if err == nil && out.WebACL != nil {
			t.Errorf("%s is protected by %s", *arn, *out.WebACL.ARN)
		}
		return err
	}
	if err := get(c, balancer("app/web")); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"app/other", "net/web"} {
		if none, ok := errors.AsType[*waftypes.WAFNonexistentItemException](get(c, balancer(name))); !ok ||
			none.ErrorMessage() != "AWS WAF couldn’t perform the operation because your resource doesn’t exist." {
			t.Errorf("%s: %v", name, none)
		}
	}
	if bad, ok := errors.AsType[*waftypes.WAFInvalidParameterException](get(c, aws.String("loadbalancer/app/web/0123"))); !ok ||
		bad.Field != waftypes.ParameterExceptionFieldResourceArn || aws.ToString(bad.Parameter) != "loadbalancer/app/web/0123" ||
		!strings.HasSuffix(bad.ErrorMessage(), ", field: RESOURCE_ARN, parameter: loadbalancer/app/web/0123") {
		t.Errorf("a malformed ARN: %v", bad)
	}
	_, err := c.AssociateWebACL(t.Context(), &awswaf.AssociateWebACLInput{
		ResourceArn: balancer("app/web"), WebACLArn: aws.String("arn:aws:wafv2:us-east-1:" + account + ":regional/webacl/a/1"),
	})
	if e, ok := errors.AsType[smithy.APIError](err); !ok || e.ErrorCode() != "NotImplemented" {
		t.Errorf("a web ACL can be associated: %v", err)
	}

	// A policy can name the load balancer.
	users := awsiam.NewFromConfig(root)
	testkit.Must(users.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: aws.String("me")}))(t)
	testkit.Must(users.PutUserPolicy(t.Context(), &awsiam.PutUserPolicyInput{
		UserName: aws.String("me"), PolicyName: aws.String("p"),
		PolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"wafv2:GetWebACLForResource","Resource":"` + *balancer("app/web-1") + `"}]}`),
	}))(t)
	key := testkit.Must(users.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: aws.String("me")}))(t).AccessKey
	mine := root.Copy()
	mine.Credentials = credentials.NewStaticCredentialsProvider(*key.AccessKeyId, *key.SecretAccessKey, "")
	if err := get(awswaf.NewFromConfig(mine), balancer("app/web-1")); err != nil {
		t.Error(err)
	}
	want := "User: arn:aws:iam::" + account + ":user/me is not authorized to perform: wafv2:GetWebACLForResource on resource: " + *balancer("app/web-2")
	if err := get(awswaf.NewFromConfig(mine), balancer("app/web-2")); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
