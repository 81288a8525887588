package kms_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/smithy-go"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM and KMS, connected as in the daemon.
type world struct {
	*testkit.Server
	iam        *iam.Service
	kms        *kms.Service
	authorizer *authz.Authorizer
	journal    *journal.Journal
}

func newWorld(t testing.TB, clk clock.WithTicker, st *store.Store) *world {
	t.Helper()
	w := &world{}
	var err error
	if w.journal, err = journal.Open(t.TempDir(), journal.Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.journal.Close() })
	w.Server = testkit.NewServer(t, testkit.Config{
		Store:   st,
		Journal: w.journal,
		Services: func(st *store.Store) []awsapi.Service {
			w.iam = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			w.kms = kms.New(kms.Config{
				Store: st, Clock: clk, Log: testkit.Log(t),
				Allowed: func(ctx context.Context, t authz.Target, key authz.Resource) bool {
					return w.authorizer.Allowed(ctx, t, key)
				},
				PrincipalExists: w.principalExists,
			})
			w.authorizer = authz.New(authz.Config{
				Services:  []awsapi.Service{w.iam.AWS(), w.kms.AWS()},
				Policies:  w.iam.PoliciesOf,
				Resolvers: map[string]authz.Resolver{"iam": w.iam.Authz(), "kms": w.kms.Authz()},
				Store:     st,
			})
			return []awsapi.Service{w.iam.AWS(), w.kms.AWS()}
		},
		Lookup: w.lookup,
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error {
			return w.authorizer.Authorize(ctx, call, in)
		},
	})
	return w
}

func (w *world) principalExists(ctx context.Context, name string) bool {
	a, err := arn.Parse(name)
	if err != nil {
		return len(name) == 12
	}
	kind, _, _ := strings.Cut(a.Resource, "/")
	if kind == "root" {
		return true
	}
	_, ok := w.iam.Authz().Resource(ctx, a.Account, "", kind, name)
	return ok
}

func (w *world) lookup(ctx context.Context, key, _ string) (sigv4.Credential, error) {
	secret, p, err := w.iam.LookupAccessKey(ctx, key)
	if err != nil {
		return sigv4.Credential{}, sigv4.ErrUnknownKey
	}
	return sigv4.Credential{SecretKey: secret, Principal: p}, nil
}

// root returns a client of a new account's root.
func (w *world) root(t testing.TB) (*awskms.Client, string) {
	t.Helper()
	account := w.Account(t)
	return awskms.NewFromConfig(w.AWSConfig(account)), account
}

// user creates a user of an account with an inline policy that allows these actions on all
// resources.
func (w *world) user(t testing.TB, account, name string, actions ...string) *awskms.Client {
	t.Helper()
	ctx := t.Context()
	c := awsiam.NewFromConfig(w.AWSConfig(account))
	if _, err := c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}); err != nil {
		t.Fatal(err)
	}
	if len(actions) > 0 {
		policy := `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["` + strings.Join(actions, `","`) + `"],"Resource":"*"}}`
		if _, err := c.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}); err != nil {
			t.Fatal(err)
		}
	}
	k, err := c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name})
	if err != nil {
		t.Fatal(err)
	}
	return awskms.NewFromConfig(w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKey.AccessKeyId, *k.AccessKey.SecretAccessKey, "")))
}

// newKey creates a key and returns its ID and ARN.
func newKey(t testing.TB, c *awskms.Client, edit func(*awskms.CreateKeyInput)) (id, arn string) {
	t.Helper()
	in := &awskms.CreateKeyInput{}
	if edit != nil {
		edit(in)
	}
	out, err := c.CreateKey(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.KeyMetadata.KeyId, *out.KeyMetadata.Arn
}

// wantError fails unless err is CODE: TEXT. A text that ends in … is a prefix.
func wantError(t testing.TB, err error, want string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Errorf("got %v, want %s", err, want)
		return
	}
	got := api.ErrorCode() + ": " + api.ErrorMessage()
	if begin, ok := strings.CutSuffix(want, "…"); got != want && !(ok && strings.HasPrefix(got, begin)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
