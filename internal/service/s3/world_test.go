package s3_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM and S3, connected as in the daemon.
type world struct {
	*testkit.Server
	s3    *s3.Service
	blobs *blobstore.Store
	clock *clocktesting.FakeClock
	// endpoint is the policy of the VPC endpoint through which calls come, or empty if they do not come through one.
	endpoint string
}

type options struct {
	dir   string // folder of the blobs; empty for a new one
	store *store.Store
	room  int64
	log   []string // expected errors
	// changing is called after each request that may have changed something.
	changing func(context.Context, *awsapi.Call)
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Now())}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	var err error
	if w.blobs, err = blobstore.Open(blobstore.Config{Dir: o.dir, Ephemeral: true, Room: o.room}); err != nil {
		t.Fatal(err)
	}
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Store: o.store,
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			authorizer = authz.New(authz.Config{
				Services:       []awsapi.Service{users.AWS(), new(kms.Service).AWS(), new(s3.Service).AWS()},
				Policies:       users.PoliciesOf,
				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return w.endpoint, true },
			})
			keys := kms.New(kms.Config{Store: st, Log: testkit.Log(t)})
			w.s3 = s3.New(s3.Config{Store: st, Blobs: w.blobs, KMS: awscall.KMS{API: front}, Authorize: authorizer.AuthorizeTargets, Clock: w.clock, Log: testkit.Log(t, o.log...)})
			authorizer.Register("iam", users.Authz())
			authorizer.Register("kms", keys.Authz())
			authorizer.Register("s3", w.s3.Authz())
			return []awsapi.Service{users.AWS(), keys.AWS(), w.s3.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if w.endpoint == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0"}, netip.MustParseAddr("10.0.0.5")
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
		Changing:       o.changing,
		Log:            testkit.Log(t, o.log...),
	})
	return w
}

// A client is an S3 client with a bucket.
type client struct {
	*awss3.Client
	t       testing.TB
	w       *world
	account string
	bucket  *string
}

// usual applies the default settings of clients, except that bucket names are in paths.
func usual(o *awss3.Options) {
	o.UsePathStyle = true
	o.RequestChecksumCalculation, o.ResponseChecksumValidation = aws.RequestChecksumCalculationWhenSupported, aws.ResponseChecksumValidationWhenSupported
}

// bucket creates a bucket in a new account, and returns a client of the account's root user.
func (w *world) bucket(t testing.TB) *client {
	t.Helper()
	account := w.Account(t)
	c := &client{awss3.NewFromConfig(w.AWSConfig(account), usual), t, w, account, aws.String("bucket-" + account)}
	testkit.Must(c.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: c.bucket}))(t)
	return c
}

// as returns a client of a new user with the given policy, or without a policy if it is empty.
func (c *client) as(policy string) *client {
	c.t.Helper()
	users := awsiam.NewFromConfig(c.w.AWSConfig(c.account))
	name := aws.String("user")
	if _, err := users.CreateUser(c.t.Context(), &awsiam.CreateUserInput{UserName: name}); err != nil && !strings.Contains(err.Error(), "EntityAlreadyExists") {
		c.t.Fatal(err)
	}
	if policy != "" {
		testkit.Must(users.PutUserPolicy(c.t.Context(), &awsiam.PutUserPolicyInput{UserName: name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(c.t)
	}
	k := testkit.Must(users.CreateAccessKey(c.t.Context(), &awsiam.CreateAccessKeyInput{UserName: name}))(c.t).AccessKey
	out := *c
	out.Client = awss3.NewFromConfig(c.w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")), usual)
	return &out
}

func (c *client) put(key, content string) *awss3.PutObjectOutput {
	c.t.Helper()
	return testkit.Must(c.PutObject(c.t.Context(), &awss3.PutObjectInput{Bucket: c.bucket, Key: &key, Body: strings.NewReader(content)}))(c.t)
}

func (c *client) get(key string) (string, error) {
	return c.getWith(&awss3.GetObjectInput{Key: &key})
}

func (c *client) getWith(in *awss3.GetObjectInput) (string, error) {
	in.Bucket = c.bucket
	out, err := c.GetObject(c.t.Context(), in)
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	return string(b), err
}

func (c *client) want(key, content string) {
	c.t.Helper()
	if got, err := c.get(key); err != nil || got != content {
		c.t.Errorf("%s is %.80q, %v; want %.80q", key, got, err, content)
	}
}

func (c *client) version(on s3types.BucketVersioningStatus) {
	c.t.Helper()
	testkit.Must(c.PutBucketVersioning(c.t.Context(), &awss3.PutBucketVersioningInput{
		Bucket: c.bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: on},
	}))(c.t)
}

// keys returns the keys of the bucket.
func (c *client) keys() string {
	c.t.Helper()
	var out []string
	for _, o := range testkit.Must(c.ListObjectsV2(c.t.Context(), &awss3.ListObjectsV2Input{Bucket: c.bucket}))(c.t).Contents {
		out = append(out, *o.Key)
	}
	return strings.Join(out, " ")
}

// wantError checks an error's code and a part of its text.
func wantError(t testing.TB, err error, code, text string) {
	t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != code || !strings.Contains(api.ErrorMessage(), text) {
		t.Errorf("got %v, want %s: %s", err, code, text)
	}
}

func status(err error) int {
	var r interface{ HTTPStatusCode() int }
	if errors.As(err, &r) {
		return r.HTTPStatusCode()
	}
	return 0
}

// run runs the service until the test ends.
func (w *world) run(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { _ = w.s3.Run(ctx); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
}

// do sends a request that no SDK would send, signed or not, and returns the response and its body.
func do(t testing.TB, c *http.Client, r *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func place(account string) blobstore.Place { return blobstore.Place{Account: account, Kind: "s3"} }
