package ecrpublic_test

import (
	"context"
	"encoding/base64"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	publictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/service/ecr/registry"
	"github.com/drydock-dev/drydock/internal/service/ecrpublic"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM and both ECRs behind it, and the registry.
type world struct {
	*testkit.Server
	images *imagestore.Store
	public *ecrpublic.Service
	clock  *clocktesting.FakeClock
	addr   string // of the registry
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Now())}
	blobs := testkit.Must(blobstore.Open(blobstore.Config{Dir: t.TempDir(), Ephemeral: true}))(t)
	var users *iam.Service
	var private *ecr.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Calling: func(st *store.Store, _ *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			authorizer = authz.New(authz.Config{Services: []awsapi.Service{users.AWS(), new(ecr.Service).AWS(), new(ecrpublic.Service).AWS()}, Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz()}, Store: st})
			w.images = imagestore.New(imagestore.Config{Store: st, Blobs: blobs, Clock: w.clock})
			private = ecr.New(ecr.Config{Store: st, Images: w.images, Clock: w.clock, Log: testkit.Log(t)})
			w.public = ecrpublic.New(ecrpublic.Config{Store: st, Images: w.images, Token: private.Token, Allowed: authorizer.Allowed, Clock: w.clock})
			authorizer.Register("ecr", private.Authz())
			authorizer.Register("ecrpublic", w.public.Module().Resolver)
			return []awsapi.Service{users.AWS(), private.AWS(), w.public.AWS()}
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
	srv := httptest.NewServer(registry.New(registry.Config{API: w.Front, ECR: private, Images: w.images, Public: w.public, Clock: w.clock, Log: testkit.Log(t)}))
	t.Cleanup(srv.Close)
	w.addr = srv.Listener.Addr().String()
	return w
}

// user creates a user with an inline policy.
func (w *world) user(t testing.TB, account, name, policy string) *awsecrpublic.Client {
	t.Helper()
	c := awsiam.NewFromConfig(w.AWSConfig(account))
	testkit.Must(c.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: &name}))(t)
	testkit.Must(c.PutUserPolicy(t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(t)
	k := testkit.Must(c.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(t).AccessKey
	return awsecrpublic.NewFromConfig(w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
}

// login returns the options with which a registry client acts as the caller of an API client.
func login(t testing.TB, c *awsecrpublic.Client) []crane.Option {
	t.Helper()
	data := testkit.Must(c.GetAuthorizationToken(t.Context(), &awsecrpublic.GetAuthorizationTokenInput{}))(t).AuthorizationData
	user, password, _ := strings.Cut(string(testkit.Must(base64.StdEncoding.DecodeString(*data.AuthorizationToken))(t)), ":")
	return []crane.Option{crane.WithAuth(&authn.Basic{Username: user, Password: password}), crane.WithContext(t.Context())}
}

func anonymous(t testing.TB) []crane.Option {
	return []crane.Option{crane.WithAuth(authn.Anonymous), crane.WithContext(t.Context())}
}

func anImage(t testing.TB) v1.Image { return testkit.Must(random.Image(1000, 2))(t) }

func wantText(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %q", err, text)
	}
}

func TestGetAuthorizationToken(t *testing.T) {
	w := newWorld(t)
	account := w.Account(t)
	ctx, cfg := t.Context(), w.AWSConfig(account)
	data := testkit.Must(awsecrpublic.NewFromConfig(cfg).GetAuthorizationToken(ctx, &awsecrpublic.GetAuthorizationTokenInput{}))(t).AuthorizationData
	if raw, err := base64.StdEncoding.DecodeString(*data.AuthorizationToken); err != nil || !strings.HasPrefix(string(raw), "AWS:") || !data.ExpiresAt.After(w.clock.Now()) {
		t.Errorf("%s until %v, %v", raw, data.ExpiresAt, err)
	}
	elsewhere := awsecrpublic.NewFromConfig(cfg, func(o *awsecrpublic.Options) { o.Region = "eu-west-1" })
	_, err := elsewhere.GetAuthorizationToken(ctx, &awsecrpublic.GetAuthorizationTokenInput{})
	testkit.WantError(t, err, "UnsupportedCommandException", "GetAuthorizationToken command is only supported in us-east-1.")
	_, err = elsewhere.DescribeRepositories(ctx, &awsecrpublic.DescribeRepositoriesInput{})
	testkit.WantError(t, err, "UnsupportedCommandException", "DescribeRepositories command is only supported in us-east-1.")

	_, err = w.user(t, account, "half", `{"Statement":{"Effect":"Allow","Action":"ecr-public:GetAuthorizationToken","Resource":"*"}}`).GetAuthorizationToken(ctx, &awsecrpublic.GetAuthorizationTokenInput{})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "sts:GetServiceBearerToken")
	_, err = w.user(t, account, "whole", `{"Statement":{"Effect":"Allow","Action":["ecr-public:GetAuthorizationToken","sts:GetServiceBearerToken"],"Resource":"*"}}`).GetAuthorizationToken(ctx, &awsecrpublic.GetAuthorizationTokenInput{})
	if err != nil {
		t.Error(err)
	}
}

func TestRepositories(t *testing.T) {
	w := newWorld(t)
	account := w.Account(t)
	ctx, c := t.Context(), awsecrpublic.NewFromConfig(w.AWSConfig(account))
	reg := testkit.Must(c.DescribeRegistries(ctx, &awsecrpublic.DescribeRegistriesInput{}))(t).Registries[0]
	alias := *reg.Aliases[0].Name
	if *reg.RegistryUri != "public.ecr.aws/"+alias || *reg.RegistryArn != "arn:aws:ecr-public::"+account+":registry/"+account || len(alias) != 8 {
		t.Errorf("registry %+v", reg)
	}
	made := testkit.Must(c.CreateRepository(ctx, &awsecrpublic.CreateRepositoryInput{
		RepositoryName: aws.String("team/app"), CatalogData: &publictypes.RepositoryCatalogDataInput{Description: aws.String("An app"), Architectures: []string{"ARM 64"}},
		Tags: []publictypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}},
	}))(t)
	arn := "arn:aws:ecr-public::" + account + ":repository/team/app"
	if r := made.Repository; *r.RepositoryArn != arn || *r.RepositoryUri != "public.ecr.aws/"+alias+"/team/app" || *made.CatalogData.Description != "An app" {
		t.Errorf("created %+v", made)
	}
	_, err := c.CreateRepository(ctx, &awsecrpublic.CreateRepositoryInput{RepositoryName: aws.String("team/app")})
	testkit.WantError(t, err, "RepositoryAlreadyExistsException", "The repository with name 'team/app' already exists in the registry with id '"+account+"'")
	_, err = c.CreateRepository(ctx, &awsecrpublic.CreateRepositoryInput{RepositoryName: aws.String("Team")})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "repositoryName")
	_, err = c.DescribeRepositories(ctx, &awsecrpublic.DescribeRepositoriesInput{RepositoryNames: []string{"none"}})
	testkit.WantError(t, err, "RepositoryNotFoundException", "The repository with name 'none' does not exist in the registry with id '"+account+"'")
	if got := testkit.Must(c.DescribeRepositories(ctx, &awsecrpublic.DescribeRepositoriesInput{RegistryId: &account}))(t).Repositories; len(got) != 1 || *got[0].RepositoryName != "team/app" {
		t.Errorf("repositories %+v", got)
	}

	testkit.Must(c.PutRepositoryCatalogData(ctx, &awsecrpublic.PutRepositoryCatalogDataInput{RepositoryName: aws.String("team/app"), CatalogData: &publictypes.RepositoryCatalogDataInput{UsageText: aws.String("Use it.")}}))(t)
	if d := testkit.Must(c.GetRepositoryCatalogData(ctx, &awsecrpublic.GetRepositoryCatalogDataInput{RepositoryName: aws.String("team/app")}))(t).CatalogData; aws.ToString(d.UsageText) != "Use it." || d.Description != nil {
		t.Errorf("catalog data %+v", d)
	}
	testkit.Must(c.PutRegistryCatalogData(ctx, &awsecrpublic.PutRegistryCatalogDataInput{DisplayName: aws.String("The team")}))(t)
	if d := testkit.Must(c.GetRegistryCatalogData(ctx, &awsecrpublic.GetRegistryCatalogDataInput{}))(t).RegistryCatalogData; *d.DisplayName != "The team" {
		t.Errorf("registry's catalog data %+v", d)
	}

	testkit.Must(c.TagResource(ctx, &awsecrpublic.TagResourceInput{ResourceArn: &arn, Tags: []publictypes.Tag{{Key: aws.String("env"), Value: aws.String("dev")}}}))(t)
	testkit.Must(c.UntagResource(ctx, &awsecrpublic.UntagResourceInput{ResourceArn: &arn, TagKeys: []string{"team"}}))(t)
	if tags := testkit.Must(c.ListTagsForResource(ctx, &awsecrpublic.ListTagsForResourceInput{ResourceArn: &arn}))(t).Tags; len(tags) != 1 || *tags[0].Key != "env" {
		t.Errorf("tags %+v", tags)
	}
	// A policy that uses the repository's tags.
	byTag := w.user(t, account, "bytag", `{"Statement":{"Effect":"Allow","Action":"ecr-public:*","Resource":"`+arn+`","Condition":{"StringEquals":{"aws:ResourceTag/env":"prod"}}}}`)
	_, err = byTag.DeleteRepository(ctx, &awsecrpublic.DeleteRepositoryInput{RepositoryName: aws.String("team/app")})
	testkit.WantErrorWith(t, err, "AccessDeniedException", "ecr-public:DeleteRepository on resource: "+arn)

	_, err = c.GetRepositoryPolicy(ctx, &awsecrpublic.GetRepositoryPolicyInput{RepositoryName: aws.String("team/app")})
	testkit.WantErrorWith(t, err, "RepositoryPolicyNotFoundException", "Repository policy does not exist")
	deny := `{"Statement":{"Effect":"Deny","Principal":"*","Action":"ecr-public:*"}}`
	_, err = c.SetRepositoryPolicy(ctx, &awsecrpublic.SetRepositoryPolicyInput{RepositoryName: aws.String("team/app"), PolicyText: &deny})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "would prevent the calling user")
	_, err = c.SetRepositoryPolicy(ctx, &awsecrpublic.SetRepositoryPolicyInput{RepositoryName: aws.String("team/app"), PolicyText: aws.String("{")})
	testkit.WantErrorWith(t, err, "InvalidParameterException", "Invalid repository policy provided")
	if _, err := c.DeleteRepository(ctx, &awsecrpublic.DeleteRepositoryInput{RepositoryName: aws.String("team/app")}); err != nil {
		t.Error(err)
	}
}

// Anyone may pull. Pushing requires permissions, which a repository policy can give to other
// accounts.
func TestPushAndPull(t *testing.T) {
	w := newWorld(t)
	account, friend := w.Account(t), w.Account(t)
	ctx, c := t.Context(), awsecrpublic.NewFromConfig(w.AWSConfig(account))
	made := testkit.Must(c.CreateRepository(ctx, &awsecrpublic.CreateRepositoryInput{RepositoryName: aws.String("app")}))(t)
	_, alias, _ := strings.Cut(strings.TrimSuffix(*made.Repository.RepositoryUri, "/app"), "/")
	ref := w.addr + "/" + *made.Repository.RepositoryUri

	img := anImage(t)
	wantText(t, crane.Push(img, ref+":1", anonymous(t)...), "401 Unauthorized")
	if err := crane.Push(img, ref+":1", login(t, c)...); err != nil {
		t.Fatal(err)
	}
	digest := testkit.Must(img.Digest())(t).String()
	pulled := testkit.Must(crane.Pull(ref+":1", anonymous(t)...))(t)
	if got := testkit.Must(pulled.Digest())(t).String(); got != digest {
		t.Errorf("pulled %s, want %s", got, digest)
	}
	for _, l := range testkit.Must(pulled.Layers())(t) {
		content := testkit.Must(l.Uncompressed())(t) // which checks the digest
		if err := content.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := crane.Tag(ref+":1", "two", login(t, c)...); err != nil {
		t.Error(err)
	}
	if tags := testkit.Must(crane.ListTags(ref, anonymous(t)...))(t); !slices.Equal(tags, []string{"1", "two"}) {
		t.Errorf("tags %v", tags)
	}
	d := testkit.Must(c.DescribeImages(ctx, &awsecrpublic.DescribeImagesInput{RepositoryName: aws.String("app"), RegistryId: &account}))(t).ImageDetails
	if len(d) != 1 || *d[0].ImageDigest != digest || !slices.Equal(d[0].ImageTags, []string{"1", "two"}) {
		t.Errorf("images %+v", d)
	}
	byTag := testkit.Must(c.DescribeImageTags(ctx, &awsecrpublic.DescribeImageTagsInput{RepositoryName: aws.String("app"), MaxResults: aws.Int32(1)}))(t)
	if len(byTag.ImageTagDetails) != 1 || *byTag.ImageTagDetails[0].ImageTag != "1" || *byTag.ImageTagDetails[0].ImageDetail.ImageDigest != digest || byTag.NextToken == nil {
		t.Errorf("tags %+v", byTag)
	}
	for reference, want := range map[string]bool{"1": true, digest: true, "3": false} {
		if reg, repo, image := w.public.Exists(alias, "app", reference); !reg || !repo || image != want {
			t.Errorf("%s: %v %v %v", reference, reg, repo, image)
		}
	}
	if reg, _, _ := w.public.Exists("amazonlinux", "amazonlinux", "2023"); reg {
		t.Error("the alias of another registry is known")
	}
	_, err := crane.Pull(ref+":3", anonymous(t)...)
	wantText(t, err, "MANIFEST_UNKNOWN: Requested image not found")
	_, err = crane.Pull(w.addr+"/public.ecr.aws/"+alias+"/none:1", anonymous(t)...)
	wantText(t, err, "NAME_UNKNOWN: The repository with name 'none' does not exist in the registry with id '"+account+"'")
	_, err = crane.Pull(w.addr+"/public.ecr.aws/nobody/app:1", anonymous(t)...)
	wantText(t, err, "NAME_UNKNOWN: The registry with id 'nobody' does not exist")

	// The repository's policy lets another account push.
	guest := awsecrpublic.NewFromConfig(w.AWSConfig(friend))
	wantText(t, crane.Push(anImage(t), ref+":theirs", login(t, guest)...), "because no resource-based policy allows the ecr-public:")
	testkit.Must(c.SetRepositoryPolicy(ctx, &awsecrpublic.SetRepositoryPolicyInput{RepositoryName: aws.String("app"), PolicyText: aws.String(`{"Statement":{"Effect":"Allow","Principal":{"AWS":"` + friend + `"},"Action":[
		"ecr-public:BatchCheckLayerAvailability","ecr-public:PutImage","ecr-public:InitiateLayerUpload","ecr-public:UploadLayerPart","ecr-public:CompleteLayerUpload"]}}`)}))(t)
	if err := crane.Push(anImage(t), ref+":theirs", login(t, guest)...); err != nil {
		t.Error(err)
	}
	wantText(t, crane.Delete(ref+":theirs", login(t, guest)...), "ecr-public:BatchDeleteImage")

	// Sweep keeps the contents of public repositories.
	if err := w.images.Sweep(ctx); err != nil {
		t.Error(err)
	}
	_, err = c.DeleteRepository(ctx, &awsecrpublic.DeleteRepositoryInput{RepositoryName: aws.String("app")})
	testkit.WantErrorWith(t, err, "RepositoryNotEmptyException", "cannot be deleted because it still contains images")
	if err := crane.Delete(ref+"@"+digest, login(t, c)...); err != nil {
		t.Error(err)
	}
	out := testkit.Must(c.BatchDeleteImage(ctx, &awsecrpublic.BatchDeleteImageInput{RepositoryName: aws.String("app"), ImageIds: []publictypes.ImageIdentifier{{ImageTag: aws.String("theirs")}, {ImageTag: aws.String("1")}}}))(t)
	if len(out.ImageIds) != 1 || len(out.Failures) != 1 || out.Failures[0].FailureCode != publictypes.ImageFailureCodeImageNotFound {
		t.Errorf("deleted %+v", out)
	}
	if _, err := c.DeleteRepository(ctx, &awsecrpublic.DeleteRepositoryInput{RepositoryName: aws.String("app"), Force: true}); err != nil {
		t.Error(err)
	}
}
