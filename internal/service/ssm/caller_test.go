package ssm_test

import (
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/secretsmanager"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// withUsers starts Parameter Store and its neighbours. It returns the owner's configuration, and a function that makes a
// user with permissions and returns the user's configuration.
func withUsers(t *testing.T) (owner aws.Config, user func(name, statements string) aws.Config) {
	t.Helper()
	var users *iam.Service
	var authorizer *authz.Authorizer
	srv := testkit.NewServer(t, testkit.Config{
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st})
			keys := kms.New(kms.Config{Store: st})
			secrets := secretsmanager.New(secretsmanager.Config{Store: st, KMS: awscall.KMS{API: front}}).Module()
			params := ssm.New(ssm.Config{Store: st, KMS: awscall.KMS{API: front}, Secrets: awscall.SecretsManager{API: front}})
			authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), keys.AWS(), params.AWS(), secrets.Service},
				Policies: users.PoliciesOf, Store: st,
				Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "kms": keys.Authz(), "ssm": params.Authz(), "secretsmanager": secrets.Resolver},
			})
			return []awsapi.Service{users.AWS(), keys.AWS(), params.AWS(), secrets.Service}
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
	owner = srv.AWSConfig(srv.Account(t))
	people, ctx := awsiam.NewFromConfig(owner), t.Context()
	return owner, func(name, statements string) aws.Config {
		t.Helper()
		if _, err := people.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}); err != nil {
			t.Fatal(err)
		}
		document := `{"Version":"2012-10-17","Statement":[` + statements + `]}`
		if _, err := people.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &document}); err != nil {
			t.Fatal(err)
		}
		k, err := people.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name})
		if err != nil {
			t.Fatal(err)
		}
		return srv.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKey.AccessKeyId, *k.AccessKey.SecretAccessKey, ""))
	}
}

// TestSecretsOfTheManagedKey checks that whoever may read parameters may decrypt with AWS's key,
// unless a policy denies the use of keys.
// https://docs.aws.amazon.com/kms/latest/developerguide/services-parameter-store.html
func TestSecretsOfTheManagedKey(t *testing.T) {
	_, user := withUsers(t)
	ctx := t.Context()
	const reads = `{"Effect":"Allow","Action":["ssm:GetParameter","ssm:PutParameter"],"Resource":"*"}`
	put := func(c *awsssm.Client) error {
		_, err := c.PutParameter(ctx, &awsssm.PutParameterInput{Name: aws.String("/p"), Value: aws.String("secret"), Type: "SecureString", Overwrite: aws.Bool(true)})
		return err
	}
	get := func(c *awsssm.Client, decrypt bool) error {
		_, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: aws.String("/p"), WithDecryption: &decrypt})
		return err
	}
	plain := awsssm.NewFromConfig(user("plain", reads))
	denied := awsssm.NewFromConfig(user("denied", reads+`,{"Effect":"Deny","Action":["kms:Decrypt","kms:Encrypt"],"Resource":"*"}`))
	for _, err := range []error{put(plain), get(plain, true), get(denied, false)} {
		if err != nil {
			t.Error(err)
		}
	}
	for action, err := range map[string]error{"kms:Decrypt": get(denied, true), "kms:Encrypt": put(denied)} {
		testkit.WantError(t, err, "AccessDeniedException", "")
		if want := "user/denied is not authorized to perform: " + action; err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "(Service: AWSKMS; Status Code: 400; Error Code: AccessDeniedException; Request ID: ") {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}

// TestSecretsFromBeforeKMS checks that values encrypted without KMS can be decrypted with it, and
// are encrypted by it from then on.
func TestSecretsFromBeforeKMS(t *testing.T) {
	var before *ssm.Service
	srv := testkit.NewServer(t, testkit.Config{Services: func(st *store.Store) []awsapi.Service {
		before = ssm.New(ssm.Config{Store: st})
		keys := kms.New(kms.Config{Store: st})
		return []awsapi.Service{keys.AWS(), ssm.New(ssm.Config{Store: st, KMS: keys}).AWS()}
	}})
	account := srv.Account(t)
	c, ctx := awsssm.NewFromConfig(srv.AWSConfig(account)), t.Context()
	in := &awsssm.PutParameterInput{Name: aws.String("/p"), Value: aws.String("old"), Type: "SecureString", Overwrite: aws.Bool(true)}
	if _, err := before.PutParameter(awsapi.WithCall(ctx, &awsapi.Call{Account: account, Region: testkit.Region}), in); err != nil {
		t.Fatal(err)
	}
	in.Value = aws.String("new")
	if _, err := c.PutParameter(ctx, in); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"/p:1": "old", "/p": "new"} {
		out, err := c.GetParameter(ctx, &awsssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
		if err != nil || *out.Parameter.Value != want {
			t.Errorf("%s: %+v %v", name, out, err)
		}
	}
}
