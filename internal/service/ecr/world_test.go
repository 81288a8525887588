package ecr_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/secretsmanager"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, KMS and ECR behind it, connected as the daemon connects them.
type world struct {
	*testkit.Server
	ecr        *ecr.Service
	blobs      *blobstore.Store
	authorizer *authz.Authorizer
	journal    *journal.Journal
	clock      *clocktesting.FakeClock
	emitting   sync.Mutex // clients push several images at once
	actions    []ecr.Action
	// upstream reaches upstream registries. If it is nil, nothing is pulled through.
	upstream http.RoundTripper
	own      http.RoundTripper // reaches the registries of the world
	syncs    chan ecr.Sync
	log      *slog.Logger // of what ECR does for upstream registries; nil means that of the test
	endpoint atomic.Value // the policy of the VPC endpoint that all calls come through; nil means none
}

func (w *world) emit(a ecr.Action) {
	w.emitting.Lock()
	defer w.emitting.Unlock()
	w.actions = append(w.actions, a)
}

// newWorld returns a world whose server logs the expected errors.
func newWorld(t testing.TB, expected ...string) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Now()), syncs: make(chan ecr.Sync, 1000)}
	var err error
	if w.blobs, err = blobstore.Open(blobstore.Config{Dir: t.TempDir(), Ephemeral: true}); err != nil {
		t.Fatal(err)
	}
	if w.journal, err = journal.Open(t.TempDir(), journal.Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.journal.Close() })
	var users *iam.Service
	w.Server = testkit.NewServer(t, testkit.Config{
		Journal: w.journal,
		Log:     testkit.Log(t, expected...),
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			keys := kms.New(kms.Config{Store: st, Log: testkit.Log(t)})
			secrets := secretsmanager.New(secretsmanager.Config{Store: st, KMS: awscall.KMS{API: front}, API: front, Clock: w.clock})
			sessions := sts.New(sts.Config{Store: st, Directory: users, Log: testkit.Log(t)})
			w.authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), keys.AWS(), secrets.AWS(), new(ecr.Service).AWS()},
				Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "kms": keys.Authz(), "secretsmanager": secrets.Module().Resolver}, Store: st,

				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return w.endpoint.Load().(string), true },
			})
			w.ecr = ecr.New(ecr.Config{
				Store: st, Images: imagestore.New(imagestore.Config{Store: st, Blobs: w.blobs, Clock: w.clock}), KMS: awscall.KMS{API: front},
				Upstream: via{w, false}, Own: via{w, true}, Secrets: awscall.SecretsManager{API: front}, EnsureServiceRole: awscall.IAM{API: front}.EnsureServiceRole,
				Assume: func(ctx context.Context, roleARN, service string) (awsapi.Principal, error) {
					role, err := users.RoleByARN(ctx, roleARN)
					if err != nil || !users.TrustsService(role, service) {
						return awsapi.Principal{}, errors.New("the role does not trust " + service)
					}
					return sessions.RoleSession(ctx, roleARN, "ECR")
				},
				Synced:  func(y ecr.Sync) { w.syncs <- y },
				Allowed: w.authorizer.Allowed, Emit: w.emit, Clock: w.clock, Log: slog.New(ofWorld{testkit.Log(t).Handler(), w}),
			})
			w.authorizer.Register("ecr", w.ecr.Authz())
			return []awsapi.Service{users.AWS(), keys.AWS(), secrets.AWS(), w.ecr.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		Origin: w.origin,
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error {
			return w.authorizer.Authorize(ctx, call, in)
		},
	})
	return w
}

// origin returns the VPC endpoint that all calls come through, if there is one.
func (w *world) origin(string) (awsapi.VPCEndpoint, netip.Addr) {
	if w.endpoint.Load() == nil {
		return awsapi.VPCEndpoint{}, netip.Addr{}
	}
	return awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0"}, netip.MustParseAddr("10.0.0.5")
}

// ofWorld logs as the world says.
type ofWorld struct {
	slog.Handler
	w *world
}

func (l ofWorld) Handle(ctx context.Context, r slog.Record) error {
	if l.w.log != nil {
		return l.w.log.Handler().Handle(ctx, r)
	}
	return l.Handler.Handle(ctx, r)
}

// via reaches upstream registries as the world says.
type via struct {
	w   *world
	own bool
}

func (v via) RoundTrip(r *http.Request) (*http.Response, error) {
	next := v.w.upstream
	if v.own {
		next = v.w.own
	}
	if next == nil {
		return nil, errors.New("there is no internet")
	}
	return next.RoundTrip(r)
}

// An account is an AWS account with a client of its root user.
type account struct {
	t  testing.TB
	w  *world
	c  *awsecr.Client
	id string
}

func (w *world) account(t testing.TB) *account {
	id := w.Account(t)
	return &account{t, w, awsecr.NewFromConfig(w.AWSConfig(id)), id}
}

// user creates a user in the account with the given inline policy, or with none if it is empty.
func (a *account) user(name, policy string) *awsecr.Client {
	a.t.Helper()
	c := awsiam.NewFromConfig(a.w.AWSConfig(a.id))
	testkit.Must(c.CreateUser(a.t.Context(), &awsiam.CreateUserInput{UserName: &name}))(a.t)
	if policy != "" {
		testkit.Must(c.PutUserPolicy(a.t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(a.t)
	}
	k := testkit.Must(c.CreateAccessKey(a.t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(a.t).AccessKey
	return awsecr.NewFromConfig(a.w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
}

func (a *account) repository(name string) {
	a.t.Helper()
	testkit.Must(a.c.CreateRepository(a.t.Context(), &awsecr.CreateRepositoryInput{RepositoryName: &name}))(a.t)
}

func digestOf(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// layer uploads a layer in one part, unless the repository has it already, and returns its digest.
func (a *account) layer(repository, content string) string {
	a.t.Helper()
	ctx, digest := a.t.Context(), digestOf(content)
	has := testkit.Must(a.c.BatchCheckLayerAvailability(ctx, &awsecr.BatchCheckLayerAvailabilityInput{RepositoryName: &repository, LayerDigests: []string{digest}}))(a.t)
	if has.Layers[0].LayerAvailability == ecrtypes.LayerAvailabilityAvailable {
		return digest
	}
	up := testkit.Must(a.c.InitiateLayerUpload(ctx, &awsecr.InitiateLayerUploadInput{RepositoryName: &repository}))(a.t)
	testkit.Must(a.c.UploadLayerPart(ctx, &awsecr.UploadLayerPartInput{
		RepositoryName: &repository, UploadId: up.UploadId, PartFirstByte: aws.Int64(0), PartLastByte: aws.Int64(int64(len(content)) - 1), LayerPartBlob: []byte(content),
	}))(a.t)
	done := testkit.Must(a.c.CompleteLayerUpload(ctx, &awsecr.CompleteLayerUploadInput{RepositoryName: &repository, UploadId: up.UploadId, LayerDigests: []string{digest}}))(a.t)
	if *done.LayerDigest != digest {
		a.t.Errorf("completed %s, want %s", *done.LayerDigest, digest)
	}
	return digest
}

const (
	manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
	configType   = "application/vnd.docker.container.image.v1+json"
	layerType    = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

func manifestOf(layers ...string) string {
	part := func(kind, content string) string {
		return fmt.Sprintf(`{"mediaType":%q,"size":%d,"digest":%q}`, kind, len(content), digestOf(content))
	}
	var parts []string
	for _, l := range layers[1:] {
		parts = append(parts, part(layerType, l))
	}
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s]}`, manifestType, part(configType, layers[0]), strings.Join(parts, ","))
}

func indexOf(manifests ...string) string {
	var parts []string
	for _, m := range manifests {
		parts = append(parts, fmt.Sprintf(`{"mediaType":%q,"size":%d,"digest":%q}`, manifestType, len(m), digestOf(m)))
	}
	return fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, indexType, strings.Join(parts, ","))
}

// push uploads an image's configuration and layers and puts its manifest, which it returns.
func (a *account) push(repository, tag string, layers ...string) string {
	a.t.Helper()
	for _, l := range layers {
		a.layer(repository, l)
	}
	m := manifestOf(layers...)
	testkit.Must(a.put(repository, tag, m))(a.t)
	return m
}

func (a *account) put(repository, tag, manifest string) (*awsecr.PutImageOutput, error) {
	in := &awsecr.PutImageInput{RepositoryName: &repository, ImageManifest: &manifest}
	if tag != "" {
		in.ImageTag = &tag
	}
	return a.c.PutImage(a.t.Context(), in)
}

// images returns the images of a repository as NAME:TAG,TAG. names has a name for each digest.
func (a *account) images(repository string, names map[string]string) string {
	a.t.Helper()
	out := testkit.Must(a.c.DescribeImages(a.t.Context(), &awsecr.DescribeImagesInput{RepositoryName: &repository}))(a.t)
	found := map[string]string{}
	for _, d := range out.ImageDetails {
		found[names[*d.ImageDigest]] = strings.Join(d.ImageTags, ",")
	}
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(found), "map["), "]")
}
