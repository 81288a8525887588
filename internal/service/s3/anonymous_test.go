package s3_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// anonymous returns a client without credentials.
func (c *client) anonymous() *client {
	out := *c
	cfg := c.w.AWSConfigWith(aws.AnonymousCredentials{})
	out.Client = awss3.NewFromConfig(cfg, usual)
	return &out
}

func (c *client) setPolicy(statements string) error {
	_, err := c.PutBucketPolicy(c.t.Context(), &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: aws.String(`{"Version":"2012-10-17","Statement":[` + strings.ReplaceAll(statements, "BUCKET", *c.bucket) + `]}`)})
	return err
}

const everyoneReads = `{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::BUCKET/*"}`

// A request without a signature may do what the bucket policy allows everyone, unless public access is blocked.
func TestAnonymousByPolicy(t *testing.T) {
	w := newWorld(t, options{})
	c := w.bucket(t)
	ctx := t.Context()
	a := c.anonymous()
	c.put("k", "x")
	denied := func(what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: allowed", what)
			return
		}
		testkit.WantError(t, err, "AccessDenied", "Access Denied")
	}
	allowed := func(what string) {
		t.Helper()
		if got, err := a.get("k"); err != nil || got != "x" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	_, err := a.get("k")
	denied("without a policy", err)
	block := func(b *s3types.PublicAccessBlockConfiguration) {
		t.Helper()
		testkit.Must(c.PutPublicAccessBlock(ctx, &awss3.PutPublicAccessBlockInput{Bucket: c.bucket, PublicAccessBlockConfiguration: b}))(t)
	}
	block(&s3types.PublicAccessBlockConfiguration{})
	wantNil(t, c.setPolicy(everyoneReads))
	allowed("with a policy")
	wantNil(t, c.setPolicy(strings.ReplaceAll(everyoneReads, `"*",`, `{"AWS":"*"},`)))
	allowed("with a policy for AWS *")
	if out := testkit.Must(a.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t); *out.ContentLength != 1 {
		t.Errorf("head %+v", out)
	}
	// Other operations, other keys and other callers' operations.
	_, err = a.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("y")})
	denied("put", err)
	_, err = a.get("none") // whoever may not list learns nothing about keys
	denied("no key", err)
	_, err = a.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: c.bucket})
	denied("list", err)
	_, err = a.ListBuckets(ctx, &awss3.ListBucketsInput{})
	if err == nil {
		t.Error("the buckets are listed")
	}
	_, err = a.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: c.bucket})
	denied("policy", err)
	_, err = a.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: c.bucket})
	denied("creation", err)

	block(&s3types.PublicAccessBlockConfiguration{RestrictPublicBuckets: aws.Bool(true)})
	_, err = a.get("k")
	denied("restricted", err)
	block(&s3types.PublicAccessBlockConfiguration{BlockPublicPolicy: aws.Bool(true)})
	allowed("with an older policy")
	if err := c.setPolicy(everyoneReads); err == nil || !strings.Contains(err.Error(), "BlockPublicPolicy") {
		t.Error(err)
	}
	block(&s3types.PublicAccessBlockConfiguration{})
	wantNil(t, c.setPolicy(everyoneReads+`,{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":"arn:aws:s3:::BUCKET/*","Condition":{"StringNotEquals":{"aws:PrincipalAccount":"`+c.account+`"}}}`))
	_, err = a.get("k")
	denied("with a deny", err)

	// The policy opens no other bucket, and a missing bucket is denied too.
	other := w.bucket(t)
	other.put("k", "x")
	_, err = other.anonymous().get("k")
	denied("another bucket", err)
}

// An ACL for AllUsers lets everyone in, unless IgnorePublicAcls says otherwise. AuthenticatedUsers are not everyone.
func TestAnonymousByACL(t *testing.T) {
	w := newWorld(t, options{})
	c := w.bucket(t)
	ctx := t.Context()
	a := c.anonymous()
	c.withACLs()
	c.put("k", "x")
	set := func(acl s3types.ObjectCannedACL) {
		t.Helper()
		testkit.Must(c.PutObjectAcl(ctx, &awss3.PutObjectAclInput{Bucket: c.bucket, Key: aws.String("k"), ACL: acl}))(t)
	}
	set("authenticated-read")
	_, err := a.get("k")
	testkit.WantError(t, err, "AccessDenied", "Access Denied")
	set("public-read")
	if got, err := a.get("k"); err != nil || got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	testkit.Must(c.PutPublicAccessBlock(ctx, &awss3.PutPublicAccessBlockInput{Bucket: c.bucket, PublicAccessBlockConfiguration: &s3types.PublicAccessBlockConfiguration{IgnorePublicAcls: aws.Bool(true)}}))(t)
	_, err = a.get("k")
	testkit.WantError(t, err, "AccessDenied", "Access Denied")
	testkit.Must(c.DeletePublicAccessBlock(ctx, &awss3.DeletePublicAccessBlockInput{Bucket: c.bucket}))(t)

	// Everyone writes, but the objects belong to the owner of the bucket.
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, ACL: "public-read-write"}))(t)
	testkit.Must(a.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("theirs"), Body: strings.NewReader("y")}))(t)
	if got := testkit.Must(a.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: c.bucket}))(t); len(got.Contents) != 2 {
		t.Errorf("contents %+v", got.Contents)
	}
	if got, err := c.get("theirs"); err != nil || got != "y" {
		t.Errorf("%q, %v", got, err)
	}
	out := testkit.Must(a.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: c.bucket, Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{{Key: aws.String("theirs")}}}}))(t)
	if len(out.Errors) != 1 || *out.Errors[0].Message != "Access Denied" {
		t.Errorf("deletion %+v", out)
	}
}

// What a request without a signature writes changes the account of the bucket.
func TestAnonymousChange(t *testing.T) {
	calls := make(chan awsapi.Call, 100)
	w := newWorld(t, options{changing: func(_ context.Context, call *awsapi.Call) { calls <- *call }})
	c := w.bucket(t)
	a := c.anonymous()
	testkit.Must(c.DeletePublicAccessBlock(t.Context(), &awss3.DeletePublicAccessBlockInput{Bucket: c.bucket}))(t)
	wantNil(t, c.setPolicy(`{"Effect":"Allow","Principal":"*","Action":["s3:GetObject","s3:PutObject"],"Resource":"arn:aws:s3:::BUCKET/*"}`))
	testkit.Must(a.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("x")}))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reported := func() (call awsapi.Call) {
		t.Helper()
		select {
		case call = <-calls:
		case <-ctx.Done():
			t.Fatal("the write was not reported")
		}
		return call
	}
	for {
		if call := reported(); call.Principal.Type == awsapi.AnonymousCaller {
			if call.Operation != "PutObject" || call.Account != c.account {
				t.Errorf("%s changes account %s, want %s", call.Operation, call.Account, c.account)
			}
			break
		}
	}
	if got, err := a.get("k"); err != nil || got != "x" {
		t.Errorf("%q, %v", got, err)
	}
	testkit.Must(c.PutObject(t.Context(), &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("last"), Body: strings.NewReader("x")}))(t)
	if call := reported(); call.Operation != "PutObject" || call.Account != c.account {
		t.Errorf("%s changes account %s", call.Operation, call.Account)
	}
}

// A browser uses a plain URL, without an SDK or S3's host name. Requests that do not name a bucket do not go to S3.
func TestAnonymousByURL(t *testing.T) {
	w := newWorld(t, options{})
	c := w.bucket(t)
	testkit.Must(c.DeletePublicAccessBlock(t.Context(), &awss3.DeletePublicAccessBlockInput{Bucket: c.bucket}))(t)
	wantNil(t, c.setPolicy(everyoneReads))
	c.put("a b.txt", "x")
	ask := func(host, path string) (int, string) {
		t.Helper()
		req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+path, nil))(t)
		req.Host = host
		resp := testkit.Must(http.DefaultClient.Do(req))(t)
		defer resp.Body.Close()
		return resp.StatusCode, string(testkit.Must(io.ReadAll(resp.Body))(t))
	}
	for _, tt := range []struct {
		host, path string
		status     int
		want       string
	}{
		{"", "/" + *c.bucket + "/a%20b.txt", 200, "x"},
		{*c.bucket + ".s3.amazonaws.com", "/a%20b.txt", 200, "x"},
		{*c.bucket + ".s3.us-west-2.amazonaws.com", "/a%20b.txt", 200, "x"},
		{"s3.amazonaws.com", "/" + *c.bucket + "/a%20b.txt", 200, "x"},
		{"s3.amazonaws.com", "/" + *c.bucket + "/none", 403, "<Code>AccessDenied</Code><Message>Access Denied</Message>"},
		{"", "/no-such-bucket-here/k", 403, "Missing"},
	} {
		if status, body := ask(tt.host, tt.path); status != tt.status || !strings.Contains(body, tt.want) {
			t.Errorf("%s%s: %d %s, want %d %s", tt.host, tt.path, status, body, tt.status, tt.want)
		}
	}
}
