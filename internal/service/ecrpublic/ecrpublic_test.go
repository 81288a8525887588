package ecrpublic_test

import (
	"context"
	"encoding/base64"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/ecrpublic"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestGetAuthorizationToken(t *testing.T) {
	var users *iam.Service
	var authorizer *authz.Authorizer
	w := testkit.NewServer(t, testkit.Config{
		Services: func(st *store.Store) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			public := ecrpublic.New(ecrpublic.Config{Token: func(context.Context) (string, time.Time, error) { return "secret", time.Unix(2e9, 0), nil }})
			authorizer = authz.New(authz.Config{Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz()}, Store: st})
			authorizer.Register("ecrpublic", public.Module().Resolver)
			return []awsapi.Service{users.AWS(), public.AWS()}
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
	account := w.Account(t)
	ctx, cfg := t.Context(), w.AWSConfig(account)
	data := testkit.Must(awsecrpublic.NewFromConfig(cfg).GetAuthorizationToken(ctx, &awsecrpublic.GetAuthorizationTokenInput{}))(t).AuthorizationData
	if raw, err := base64.StdEncoding.DecodeString(*data.AuthorizationToken); err != nil || string(raw) != "AWS:secret" || data.ExpiresAt.Unix() != 2e9 {
		t.Errorf("%s until %v, %v", raw, data.ExpiresAt, err)
	}
	_, err := awsecrpublic.NewFromConfig(cfg, func(o *awsecrpublic.Options) { o.Region = "eu-west-1" }).GetAuthorizationToken(ctx, &awsecrpublic.GetAuthorizationTokenInput{})
	testkit.WantError(t, err, "UnsupportedCommandException", "GetAuthorizationToken command is only supported in us-east-1.")

	c, name := awsiam.NewFromConfig(cfg), aws.String("reader")
	testkit.Must(c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name}))(t)
	k := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: name}))(t).AccessKey
	reader := awsecrpublic.NewFromConfig(w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
	may := func(actions string) error {
		t.Helper()
		testkit.Must(c.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: name, PolicyName: aws.String("p"), PolicyDocument: aws.String(`{"Statement":{"Effect":"Allow","Action":[` + actions + `],"Resource":"*"}}`)}))(t)
		_, err := reader.GetAuthorizationToken(ctx, &awsecrpublic.GetAuthorizationTokenInput{})
		return err
	}
	testkit.WantErrorWith(t, may(`"ecr-public:GetAuthorizationToken"`), "AccessDeniedException", "sts:GetServiceBearerToken")
	if err := may(`"ecr-public:GetAuthorizationToken","sts:GetServiceBearerToken"`); err != nil {
		t.Error(err)
	}
}
