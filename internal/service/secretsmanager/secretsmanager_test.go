package secretsmanager_test

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/secretsmanager"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, KMS and Secrets Manager behind it, and an account's root user.
type world struct {
	*testkit.Server
	t       *testing.T
	clock   *clocktesting.FakeClock
	account string
	c       *awssm.Client
}

func newWorld(t *testing.T, endpoint string) *world {
	w := &world{t: t, clock: clocktesting.NewFakeClock(time.Now())}
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			keys := kms.New(kms.Config{Store: st, Log: testkit.Log(t)})
			secrets := secretsmanager.New(secretsmanager.Config{Store: st, KMS: awscall.KMS{API: front}, API: front, Clock: w.clock})
			authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), keys.AWS(), secrets.AWS()},
				Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "kms": keys.Authz()}, Store: st,
				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return endpoint, true },
			})
			authorizer.Register("secretsmanager", secrets.Module().Resolver)
			return []awsapi.Service{users.AWS(), keys.AWS(), secrets.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if endpoint == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0"}, netip.MustParseAddr("10.0.0.5")
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	w.account = w.Account(t)
	w.c = awssm.NewFromConfig(w.AWSConfig(w.account))
	return w
}

// user returns a client of a new user with an inline policy.
func (w *world) user(name, policy string) *awssm.Client {
	c := awsiam.NewFromConfig(w.AWSConfig(w.account))
	testkit.Must(c.CreateUser(w.t.Context(), &awsiam.CreateUserInput{UserName: &name}))(w.t)
	testkit.Must(c.PutUserPolicy(w.t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(w.t)
	k := testkit.Must(c.CreateAccessKey(w.t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(w.t).AccessKey
	return awssm.NewFromConfig(w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
}

func (w *world) create(name, value string) *awssm.CreateSecretOutput {
	w.t.Helper()
	in := &awssm.CreateSecretInput{Name: &name}
	if value != "" {
		in.SecretString = &value
	}
	return testkit.Must(w.c.CreateSecret(w.t.Context(), in))(w.t)
}

// want checks the value of the version with a staging label.
func (w *world) want(name, stage, value string) {
	w.t.Helper()
	out, err := w.c.GetSecretValue(w.t.Context(), &awssm.GetSecretValueInput{SecretId: &name, VersionStage: &stage})
	if err != nil || *out.SecretString != value {
		w.t.Errorf("%s of %s: %v, want %s", stage, name, err, value)
	}
}

func TestVersions(t *testing.T) {
	w := newWorld(t, "")
	made := w.create("app/db", "one")
	if parts := strings.Split(*made.ARN, "-"); len(parts[len(parts)-1]) != 6 {
		t.Error(*made.ARN)
	}
	w.want("app/db", "AWSCURRENT", "one")
	name := aws.String("app/db")
	two := testkit.Must(w.c.PutSecretValue(t.Context(), &awssm.PutSecretValueInput{SecretId: made.ARN, SecretString: aws.String("two")}))(t)
	w.want("app/db", "AWSCURRENT", "two")
	w.want(strings.TrimSuffix(*made.ARN, (*made.ARN)[len(*made.ARN)-7:]), "AWSPREVIOUS", "one") // the ARN without its random suffix
	three := testkit.Must(w.c.PutSecretValue(t.Context(), &awssm.PutSecretValueInput{SecretId: name, SecretString: aws.String("three"), VersionStages: []string{"NEXT"}}))(t)
	w.want("app/db", "NEXT", "three")
	w.want("app/db", "AWSCURRENT", "two")

	_, err := w.c.UpdateSecretVersionStage(t.Context(), &awssm.UpdateSecretVersionStageInput{SecretId: name, VersionStage: aws.String("AWSCURRENT"), MoveToVersionId: three.VersionId})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "currently attached to version "+*two.VersionId)
	testkit.Must(w.c.UpdateSecretVersionStage(t.Context(), &awssm.UpdateSecretVersionStageInput{SecretId: name, VersionStage: aws.String("AWSCURRENT"), MoveToVersionId: three.VersionId, RemoveFromVersionId: two.VersionId}))(t)
	w.want("app/db", "AWSCURRENT", "three")
	w.want("app/db", "AWSPREVIOUS", "two")
	four := testkit.Must(w.c.PutSecretValue(t.Context(), &awssm.PutSecretValueInput{SecretId: name, SecretString: aws.String("four"), VersionStages: []string{"AWSPENDING"}}))(t)
	testkit.Must(w.c.UpdateSecretVersionStage(t.Context(), &awssm.UpdateSecretVersionStageInput{SecretId: name, VersionStage: aws.String("AWSCURRENT"), MoveToVersionId: four.VersionId, RemoveFromVersionId: three.VersionId}))(t)
	w.want("app/db", "AWSPENDING", "four") // until another version is current
	testkit.Must(w.c.UpdateSecretVersionStage(t.Context(), &awssm.UpdateSecretVersionStageInput{SecretId: name, VersionStage: aws.String("AWSCURRENT"), MoveToVersionId: three.VersionId, RemoveFromVersionId: four.VersionId}))(t)
	_, err = w.c.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: name, VersionStage: aws.String("AWSPENDING")})
	testkit.WantError(t, err, "ResourceNotFoundException", "Secrets Manager can't find the specified secret value for staging label: AWSPENDING")
	_, err = w.c.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: name, VersionStage: aws.String("GONE")})
	testkit.WantError(t, err, "ResourceNotFoundException", "Secrets Manager can't find the specified secret value for staging label: GONE")
	if got := testkit.Must(w.c.ListSecretVersionIds(t.Context(), &awssm.ListSecretVersionIdsInput{SecretId: name}))(t).Versions; len(got) != 2 {
		t.Errorf("%d versions with staging labels", len(got))
	}
	if got := testkit.Must(w.c.ListSecretVersionIds(t.Context(), &awssm.ListSecretVersionIdsInput{SecretId: name, IncludeDeprecated: aws.Bool(true)}))(t).Versions; len(got) != 4 || *got[0].VersionId != *made.VersionId {
		t.Errorf("%d versions", len(got))
	}

	// The same token with the same value is the same request.
	again := &awssm.PutSecretValueInput{SecretId: name, ClientRequestToken: two.VersionId, SecretString: aws.String("two"), VersionStages: []string{"OLD"}}
	if out := testkit.Must(w.c.PutSecretValue(t.Context(), again))(t); *out.VersionId != *two.VersionId || !slices.Contains(out.VersionStages, "OLD") {
		t.Errorf("%+v", out)
	}
	again.SecretString = aws.String("another")
	_, err = w.c.PutSecretValue(t.Context(), again)
	testkit.WantErrorWith(t, err, "ResourceExistsException", *two.VersionId)
	_, err = w.c.CreateSecret(t.Context(), &awssm.CreateSecretInput{Name: name})
	testkit.WantError(t, err, "ResourceExistsException", "The operation failed because the secret app/db already exists.")

	// A repeated CreateSecret changes nothing, even if there are newer versions.
	create := &awssm.CreateSecretInput{Name: name, ClientRequestToken: made.VersionId, SecretString: aws.String("one")}
	if out := testkit.Must(w.c.CreateSecret(t.Context(), create))(t); *out.VersionId != *made.VersionId || *out.ARN != *made.ARN {
		t.Errorf("%+v", out)
	}
	w.want("app/db", "AWSCURRENT", "three")
	create.SecretString = aws.String("another")
	_, err = w.c.CreateSecret(t.Context(), create)
	testkit.WantError(t, err, "ResourceExistsException", "The operation failed because the secret app/db already exists.")
}

func TestManyVersions(t *testing.T) {
	w := newWorld(t, "")
	w.create("a", "0")
	for range 104 {
		testkit.Must(w.c.PutSecretValue(t.Context(), &awssm.PutSecretValueInput{SecretId: aws.String("a"), SecretString: aws.String("v")}))(t)
	}
	p := awssm.NewListSecretVersionIdsPaginator(w.c, &awssm.ListSecretVersionIdsInput{SecretId: aws.String("a"), IncludeDeprecated: aws.Bool(true), MaxResults: aws.Int32(30)})
	n := 0
	for p.HasMorePages() {
		n += len(testkit.Must(p.NextPage(t.Context()))(t).Versions)
	}
	if n != 100 {
		t.Errorf("%d versions", n)
	}
}

func TestDeletion(t *testing.T) {
	w := newWorld(t, "")
	name := aws.String("a")
	first := w.create("a", "one")
	_, err := w.c.DeleteSecret(t.Context(), &awssm.DeleteSecretInput{SecretId: name, RecoveryWindowInDays: aws.Int64(6)})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "between 7 and 30 days")
	testkit.Must(w.c.DeleteSecret(t.Context(), &awssm.DeleteSecretInput{SecretId: name, RecoveryWindowInDays: aws.Int64(7)}))(t)
	_, err = w.c.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: name})
	testkit.WantError(t, err, "InvalidRequestException", "You can't perform this operation on the secret because it was marked for deletion.")
	_, err = w.c.CreateSecret(t.Context(), &awssm.CreateSecretInput{Name: name})
	testkit.WantError(t, err, "InvalidRequestException", "You can't create this secret because a secret with this name is already scheduled for deletion.")
	if got := testkit.Must(w.c.ListSecrets(t.Context(), &awssm.ListSecretsInput{}))(t).SecretList; len(got) != 0 {
		t.Errorf("%+v", got)
	}
	testkit.Must(w.c.RestoreSecret(t.Context(), &awssm.RestoreSecretInput{SecretId: name}))(t)
	w.want("a", "AWSCURRENT", "one")

	testkit.Must(w.c.DeleteSecret(t.Context(), &awssm.DeleteSecretInput{SecretId: name, RecoveryWindowInDays: aws.Int64(7)}))(t)
	w.clock.Step(7 * 24 * time.Hour)
	_, err = w.c.DescribeSecret(t.Context(), &awssm.DescribeSecretInput{SecretId: name})
	testkit.WantError(t, err, "ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
	if second := w.create("a", "two"); *second.ARN == *first.ARN {
		t.Error("the new secret has the ARN of the old one")
	}
	_, err = w.c.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: first.ARN})
	testkit.WantErrorWith(t, err, "ResourceNotFoundException", "")
	testkit.Must(w.c.DeleteSecret(t.Context(), &awssm.DeleteSecretInput{SecretId: name, ForceDeleteWithoutRecovery: aws.Bool(true)}))(t)
	testkit.Must(w.c.DeleteSecret(t.Context(), &awssm.DeleteSecretInput{SecretId: name, ForceDeleteWithoutRecovery: aws.Bool(true)}))(t)
	w.create("a", "three")
	w.want("a", "AWSCURRENT", "three")
}

func TestKMS(t *testing.T) {
	w := newWorld(t, "")
	keys := awskms.NewFromConfig(w.AWSConfig(w.account))
	key := testkit.Must(keys.CreateKey(t.Context(), &awskms.CreateKeyInput{}))(t).KeyMetadata
	w.create("a", "one")
	testkit.Must(w.c.UpdateSecret(t.Context(), &awssm.UpdateSecretInput{SecretId: aws.String("a"), KmsKeyId: key.KeyId}))(t)
	w.want("a", "AWSCURRENT", "one")
	u := w.user("u", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"secretsmanager:*","Resource":"*"}]}`)
	_, err := u.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String("a")})
	testkit.WantError(t, err, "AccessDeniedException", "Access to KMS is not allowed")
	testkit.Must(keys.DisableKey(t.Context(), &awskms.DisableKeyInput{KeyId: key.KeyId}))(t)
	_, err = w.c.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String("a")})
	testkit.WantErrorWith(t, err, "DecryptionFailure", "")
	_, err = w.c.PutSecretValue(t.Context(), &awssm.PutSecretValueInput{SecretId: aws.String("a"), SecretBinary: []byte{1}})
	testkit.WantErrorWith(t, err, "EncryptionFailure", "")
}

func TestPolicies(t *testing.T) {
	w := newWorld(t, "")
	own, other := w.create("app/own", "1"), w.create("other", "2")
	u := w.user("u", `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["secretsmanager:GetSecretValue","secretsmanager:CreateSecret"],"Resource":"arn:aws:secretsmanager:*:*:secret:app/*"},
		{"Effect":"Allow","Action":"secretsmanager:BatchGetSecretValue","Resource":"*"},
		{"Effect":"Deny","Action":"secretsmanager:GetSecretValue","Resource":"*","Condition":{"StringEquals":{"secretsmanager:VersionStage":"AWSPREVIOUS"}}}]}`)
	testkit.Must(u.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String("app/own")}))(t)
	_, err := u.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: own.ARN, VersionStage: aws.String("AWSPREVIOUS")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "with an explicit deny")
	_, err = u.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String("other")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "User: arn:aws:iam::"+w.account+":user/u is not authorized to perform: secretsmanager:GetSecretValue on resource: "+*other.ARN)
	testkit.Must(u.CreateSecret(t.Context(), &awssm.CreateSecretInput{Name: aws.String("app/new")}))(t)
	_, err = u.CreateSecret(t.Context(), &awssm.CreateSecretInput{Name: aws.String("app/tagged"), Tags: []smtypes.Tag{{Key: aws.String("a")}}})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "secretsmanager:TagResource")
	batch := testkit.Must(u.BatchGetSecretValue(t.Context(), &awssm.BatchGetSecretValueInput{SecretIdList: []string{"app/own", "other"}}))(t)
	if len(batch.SecretValues) != 1 || *batch.SecretValues[0].SecretString != "1" || len(batch.Errors) != 1 || *batch.Errors[0].ErrorCode != "AccessDeniedException" {
		t.Errorf("%+v", batch)
	}

	// A resource policy can allow the user. A policy that allows everyone is a public one.
	policy := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + w.account + `:user/u"},"Action":"secretsmanager:GetSecretValue","Resource":"*"}]}`
	testkit.Must(w.c.PutResourcePolicy(t.Context(), &awssm.PutResourcePolicyInput{SecretId: other.ARN, ResourcePolicy: &policy, BlockPublicPolicy: aws.Bool(true)}))(t)
	testkit.Must(u.GetSecretValue(t.Context(), &awssm.GetSecretValueInput{SecretId: aws.String("other")}))(t)
	_, err = w.c.PutResourcePolicy(t.Context(), &awssm.PutResourcePolicyInput{SecretId: other.ARN, BlockPublicPolicy: aws.Bool(true), ResourcePolicy: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"secretsmanager:*","Resource":"*"}]}`)})
	testkit.WantErrorWith(t, err, "PublicPolicyException", "")
}

func TestEndpointPolicy(t *testing.T) {
	w := newWorld(t, `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"secretsmanager:ListSecrets","Resource":"*"}]}`)
	testkit.Must(w.c.ListSecrets(t.Context(), &awssm.ListSecretsInput{}))(t)
	_, err := w.c.CreateSecret(t.Context(), &awssm.CreateSecretInput{Name: aws.String("a")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "no VPC endpoint policy allows")
}

func TestRotationIsStored(t *testing.T) {
	w := newWorld(t, "")
	w.create("a", "1")
	_, err := w.c.RotateSecret(t.Context(), &awssm.RotateSecretInput{SecretId: aws.String("a")})
	testkit.WantError(t, err, "InvalidRequestException", "No Lambda rotation function ARN is associated with this secret.")
	lambda := "arn:aws:lambda:us-east-1:" + w.account + ":function:rotate"
	testkit.Must(w.c.RotateSecret(t.Context(), &awssm.RotateSecretInput{SecretId: aws.String("a"), RotationLambdaARN: &lambda, RotationRules: &smtypes.RotationRulesType{AutomaticallyAfterDays: aws.Int64(30)}}))(t)
	d := testkit.Must(w.c.DescribeSecret(t.Context(), &awssm.DescribeSecretInput{SecretId: aws.String("a")}))(t)
	if !*d.RotationEnabled || *d.RotationLambdaARN != lambda || *d.RotationRules.AutomaticallyAfterDays != 30 || d.NextRotationDate == nil || d.LastRotatedDate != nil {
		t.Errorf("%+v", d)
	}
	testkit.Must(w.c.CancelRotateSecret(t.Context(), &awssm.CancelRotateSecretInput{SecretId: aws.String("a")}))(t)
	if d := testkit.Must(w.c.DescribeSecret(t.Context(), &awssm.DescribeSecretInput{SecretId: aws.String("a")}))(t); *d.RotationEnabled {
		t.Error("rotation is still on")
	}
}

func TestListsAndPasswords(t *testing.T) {
	w := newWorld(t, "")
	w.create("app/one", "1")
	w.create("web/two", "2")
	testkit.Must(w.c.UpdateSecret(t.Context(), &awssm.UpdateSecretInput{SecretId: aws.String("web/two"), Description: aws.String("The Web")}))(t)
	testkit.Must(w.c.TagResource(t.Context(), &awssm.TagResourceInput{SecretId: aws.String("app/one"), Tags: []smtypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}}}))(t)
	for _, c := range []struct {
		key  smtypes.FilterNameStringType
		text string
		want string
	}{
		{"name", "app", "app/one"}, {"name", "!app", "web/two"}, {"description", "web", "web/two"}, {"tag-key", "te", "app/one"}, {"tag-value", "b", ""}, {"all", "two", "web/two"},
	} {
		out := testkit.Must(w.c.ListSecrets(t.Context(), &awssm.ListSecretsInput{Filters: []smtypes.Filter{{Key: c.key, Values: []string{c.text}}}}))(t)
		var got []string
		for _, e := range out.SecretList {
			got = append(got, *e.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s %s: %v, want %s", c.key, c.text, got, c.want)
		}
	}
	p := *testkit.Must(w.c.GetRandomPassword(t.Context(), &awssm.GetRandomPasswordInput{PasswordLength: aws.Int64(3), ExcludePunctuation: aws.Bool(true)}))(t).RandomPassword
	if len(p) != 3 || !strings.ContainsAny(p, "0123456789") || strings.ToLower(p) == p || strings.ToUpper(p) == p {
		t.Error(p)
	}
	_, err := w.c.CreateSecret(t.Context(), &awssm.CreateSecretInput{Name: aws.String("Inv Name")})
	testkit.WantErrorWith(t, err, "ValidationException", "Invalid name.")
}
