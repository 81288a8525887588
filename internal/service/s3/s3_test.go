package s3_test

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestObjects(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	out := testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{
		Bucket: c.bucket, Key: aws.String("folder/a b+c?ü.txt"), Body: strings.NewReader("hello, world"), ContentType: aws.String("text/plain"),
		CacheControl: aws.String("no-cache"), Metadata: map[string]string{"owner": "me"}, Tagging: aws.String("stage=test"),
	}))(t)
	sum := md5.Sum([]byte("hello, world"))
	if want := `"` + hex.EncodeToString(sum[:]) + `"`; *out.ETag != want || out.ServerSideEncryption != "AES256" || aws.ToString(out.ChecksumCRC32) == "" || out.VersionId != nil {
		t.Errorf("put: %+v", out)
	}
	head := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("folder/a b+c?ü.txt"), ChecksumMode: "ENABLED"}))(t)
	if *head.ContentLength != 12 || *head.ContentType != "text/plain" || *head.CacheControl != "no-cache" || head.Metadata["owner"] != "me" || *head.ETag != *out.ETag ||
		head.LastModified.IsZero() || aws.ToString(head.ChecksumCRC32) != *out.ChecksumCRC32 || head.ChecksumType != "FULL_OBJECT" {
		t.Errorf("head: %+v", head)
	}
	c.want("folder/a b+c?ü.txt", "hello, world")
	c.put("empty", "")
	c.want("empty", "")
	c.put("empty", "no more")
	c.want("empty", "no more")
	if got := c.keys(); got != "empty folder/a b+c?ü.txt" {
		t.Errorf("keys %q", got)
	}
	if got := c.w.blobs.Used(c.account); got != 19 {
		t.Errorf("%d bytes are stored, want 19: replaced contents are removed", got)
	}
	testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("empty")}))(t)
	testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("empty")}))(t)
	_, err := c.get("empty")
	wantError(t, err, "NoSuchKey", "The specified key does not exist.")
	_, err = c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("empty")})
	wantError(t, err, "NotFound", "")
	_, err = c.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: c.bucket})
	wantError(t, err, "BucketNotEmpty", "The bucket you tried to delete is not empty")
	deleted := testkit.Must(c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: c.bucket, Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{
		{Key: aws.String("folder/a b+c?ü.txt")}, {Key: aws.String("none")},
	}}}))(t)
	if len(deleted.Deleted) != 2 || len(deleted.Errors) != 0 || c.w.blobs.Used(c.account) != 0 {
		t.Errorf("deleted: %+v, and %d bytes are left", deleted, c.w.blobs.Used(c.account))
	}
	testkit.Must(c.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: c.bucket}))(t)
	_, err = c.get("x")
	wantError(t, err, "NoSuchBucket", "The specified bucket does not exist")
}

func TestBuckets(t *testing.T) {
	w := newWorld(t, options{})
	c, ctx := w.bucket(t), t.Context()
	for name, want := range map[string]string{"x": "InvalidBucketName", "Upper-case": "InvalidBucketName", "192.168.5.4": "InvalidBucketName", "a..b": "InvalidBucketName"} {
		_, err := c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: &name})
		wantError(t, err, want, "The specified bucket is not valid.")
	}
	testkit.Must(c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: c.bucket}))(t) // us-east-1 accepts it again
	other := w.bucket(t)
	_, err := other.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: c.bucket})
	wantError(t, err, "BucketAlreadyExists", "The requested bucket name is not available.")

	europe := func(o *awss3.Options) { o.Region = "eu-west-1" }
	eu := aws.String("eu-" + *c.bucket)
	_, err = c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: eu}, europe)
	wantError(t, err, "IllegalLocationConstraintException", "The unspecified location constraint is incompatible")
	location := &s3types.CreateBucketConfiguration{LocationConstraint: "eu-west-1"}
	testkit.Must(c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: eu, CreateBucketConfiguration: location}, europe))(t)
	_, err = c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: eu, CreateBucketConfiguration: location}, europe)
	wantError(t, err, "BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded")
	if got := testkit.Must(c.GetBucketLocation(ctx, &awss3.GetBucketLocationInput{Bucket: eu}))(t); got.LocationConstraint != "eu-west-1" {
		t.Errorf("location %q", got.LocationConstraint)
	}
	if got := testkit.Must(c.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: eu}, europe))(t); *got.BucketRegion != "eu-west-1" {
		t.Errorf("region %q", *got.BucketRegion)
	}
	_, err = c.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: eu})
	wantError(t, err, "AuthorizationHeaderMalformed", "the region 'us-east-1' is wrong; expecting 'eu-west-1'")

	list := testkit.Must(c.ListBuckets(ctx, &awss3.ListBucketsInput{MaxBuckets: aws.Int32(1)}))(t)
	if len(list.Buckets) != 1 || *list.Buckets[0].Name != *c.bucket || list.ContinuationToken == nil {
		t.Errorf("first page: %+v", list)
	}
	list = testkit.Must(c.ListBuckets(ctx, &awss3.ListBucketsInput{MaxBuckets: aws.Int32(1), ContinuationToken: list.ContinuationToken}))(t)
	if len(list.Buckets) != 1 || *list.Buckets[0].Name != *eu || list.ContinuationToken != nil {
		t.Errorf("second page: %+v", list)
	}
	_, err = c.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: aws.String("no-such-bucket-here")})
	wantError(t, err, "NotFound", "")
	_, err = c.HeadBucket(ctx, &awss3.HeadBucketInput{Bucket: c.bucket, ExpectedBucketOwner: &other.account})
	if status(err) != http.StatusForbidden {
		t.Errorf("another owner is expected: %v", err)
	}
}

func TestRangesAndConditions(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	etag := c.put("k", "0123456789").ETag
	for asked, want := range map[string]string{
		"bytes=0-3": "0123", "bytes=5-": "56789", "bytes=-2": "89", "bytes=8-100": "89", "bytes=-100": "0123456789",
		"bytes=0-1,3-4": "0123456789", "lines=1-2": "0123456789", "bytes=4-2": "0123456789",
	} {
		if got, err := c.getWith(&awss3.GetObjectInput{Key: aws.String("k"), Range: &asked}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", asked, got, err, want)
		}
	}
	part := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("k"), Range: aws.String("bytes=2-4")}))(t)
	if *part.ContentRange != "bytes 2-4/10" || *part.ContentLength != 3 {
		t.Errorf("a part: %+v", part)
	}
	_, err := c.getWith(&awss3.GetObjectInput{Key: aws.String("k"), Range: aws.String("bytes=10-")})
	wantError(t, err, "InvalidRange", "The requested range is not satisfiable")

	past, future := aws.Time(time.Now().Add(-time.Hour)), aws.Time(time.Now().Add(time.Hour))
	modified := testkit.Must(c.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t).LastModified
	for _, tt := range []struct {
		name string
		in   awss3.GetObjectInput
		want int
	}{
		{"match", awss3.GetObjectInput{IfMatch: etag}, 200},
		{"another match", awss3.GetObjectInput{IfMatch: aws.String(`"x"`)}, 412},
		{"none match", awss3.GetObjectInput{IfNoneMatch: etag}, 304},
		{"another none match", awss3.GetObjectInput{IfNoneMatch: aws.String(`"x"`)}, 200},
		{"modified since", awss3.GetObjectInput{IfModifiedSince: past}, 200},
		{"not modified since", awss3.GetObjectInput{IfModifiedSince: modified}, 304},
		{"modified since a time in the future", awss3.GetObjectInput{IfModifiedSince: future}, 200},
		{"unmodified since", awss3.GetObjectInput{IfUnmodifiedSince: future}, 200},
		{"not unmodified since", awss3.GetObjectInput{IfUnmodifiedSince: past}, 412},
		{"match, but modified", awss3.GetObjectInput{IfMatch: etag, IfUnmodifiedSince: past}, 200},
	} {
		tt.in.Key = aws.String("k")
		_, err := c.getWith(&tt.in)
		if got := status(err); err == nil && tt.want != 200 || err != nil && got != tt.want {
			t.Errorf("%s: %v, want %d", tt.name, err, tt.want)
		}
	}

	// Terraform's S3 backend acquires its lock in this way.
	lock := &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("state.tflock"), Body: strings.NewReader("{}"), IfNoneMatch: aws.String("*")}
	testkit.Must(c.PutObject(ctx, lock))(t)
	lock.Body = strings.NewReader("{}")
	_, err = c.PutObject(ctx, lock)
	wantError(t, err, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
	_, err = c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("x"), IfMatch: aws.String(`"x"`)})
	wantError(t, err, "PreconditionFailed", "")
	_, err = c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("new"), Body: strings.NewReader("x"), IfMatch: etag})
	wantError(t, err, "NoSuchKey", "")
	testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("x"), IfMatch: etag}))(t)
	if got := c.w.blobs.Used(c.account); got != 3 {
		t.Errorf("%d bytes are stored, want 3: refused contents are removed", got)
	}
}

func TestChecksums(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html; the values are those
	// of the content "123456789" in the catalogue of CRCs.
	for _, tt := range []struct {
		algorithm s3types.ChecksumAlgorithm
		sum       string
	}{{"CRC32", "y/Q5Jg=="}, {"CRC32C", "4waSgw=="}, {"CRC64NVME", "rosUhgp5mIg="}, {"SHA1", "98O8HYCOBHMq32eZZczDTKeuNEE="}, {"SHA256", "FeKw09M/0BHUzKzuLZOpf/ZZpRxwFaVGJYgR2ltJhCU="}} {
		key := aws.String(string(tt.algorithm))
		testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: key, Body: strings.NewReader("123456789"), ChecksumAlgorithm: tt.algorithm}))(t)
		out := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: key, ChecksumMode: "ENABLED"}))(t)
		got := map[s3types.ChecksumAlgorithm]*string{"CRC32": out.ChecksumCRC32, "CRC32C": out.ChecksumCRC32C, "CRC64NVME": out.ChecksumCRC64NVME, "SHA1": out.ChecksumSHA1, "SHA256": out.ChecksumSHA256}
		if v := aws.ToString(got[tt.algorithm]); tt.algorithm[:2] == "CR" && v != tt.sum || v == "" {
			t.Errorf("%s: %s, want %s", tt.algorithm, v, tt.sum)
		}
		if body, err := c.getWith(&awss3.GetObjectInput{Key: key, ChecksumMode: "ENABLED"}); err != nil || body != "123456789" {
			t.Errorf("%s: %q, %v", tt.algorithm, body, err)
		}
	}
	_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("bad"), Body: strings.NewReader("x"), ChecksumCRC32: aws.String("AAAAAA==")})
	wantError(t, err, "BadDigest", "The CRC32 you specified did not match the calculated checksum.")
	_, err = c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("bad"), Body: strings.NewReader("x"), ContentMD5: aws.String("1B2M2Y8AsgTpgAmY7PhCfg==")})
	wantError(t, err, "BadDigest", "The Content-MD5 you specified did not match what we received.")
	if got, want := c.w.blobs.Used(c.account), int64(5*9); got != want {
		t.Errorf("%d bytes are stored, want %d", got, want)
	}
}

// SDKs send some bodies in chunks: with a trailing checksum if they cannot be read twice, and signed chunk by chunk.
func TestStreams(t *testing.T) {
	w := newWorld(t, options{})
	c, ctx := w.bucket(t).as(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`), t.Context()
	content := strings.Repeat("0123456789abcdef", 1<<18) // 4 MiB
	stream := io.MultiReader(strings.NewReader(content)) // not a Seeker
	unsigned := awss3.WithAPIOptions(v4.SwapComputePayloadSHA256ForUnsignedPayloadMiddleware)
	for _, tt := range []struct {
		name string
		in   awss3.PutObjectInput
		opts []func(*awss3.Options)
	}{
		{"a trailing checksum over http", awss3.PutObjectInput{Body: strings.NewReader(content)}, nil},
		{"no hash", awss3.PutObjectInput{Body: stream, ContentLength: aws.Int64(int64(len(content)))}, []func(*awss3.Options){unsigned, func(o *awss3.Options) {
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		}}},
	} {
		tt.in.Bucket, tt.in.Key = c.bucket, aws.String(tt.name)
		if _, err := c.PutObject(ctx, &tt.in, tt.opts...); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		c.want(tt.name, content)
	}
}

// Over https, SDKs send chunks without signatures, and a trailing checksum.
func TestUnsignedTrailer(t *testing.T) {
	w := newWorld(t, options{})
	c := w.bucket(t)
	put := func(body, length string) (*http.Response, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.URL+"/"+*c.bucket+"/k", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		const kind = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
		r.Header.Set("X-Amz-Content-Sha256", kind)
		r.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
		r.Header.Set("Content-Encoding", "aws-chunked")
		r.Header.Set("X-Amz-Decoded-Content-Length", length)
		if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: c.account, SecretAccessKey: "any"}, r, kind, "s3", "us-east-1", time.Now()); err != nil {
			t.Fatal(err)
		}
		return do(t, w.Client(), r)
	}
	if resp, text := put("9\r\n123456789\r\n0\r\nx-amz-checksum-crc32:y/Q5Jg==\r\n\r\n", "9"); resp.StatusCode != 200 || resp.Header.Get("X-Amz-Checksum-Crc32") != "y/Q5Jg==" {
		t.Errorf("%s %s", resp.Status, text)
	}
	c.want("k", "123456789")
	if out := testkit.Must(c.HeadObject(t.Context(), &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t); out.ContentEncoding != nil {
		t.Errorf("the framing is part of the object: %s", *out.ContentEncoding)
	}
	for _, tt := range []struct{ name, body, length, want string }{
		{"a wrong checksum", "9\r\n123456780\r\n0\r\nx-amz-checksum-crc32:y/Q5Jg==\r\n\r\n", "9", "BadDigest"},
		{"no checksum", "9\r\n123456789\r\n0\r\n\r\n", "9", "BadDigest"},
		{"another length", "9\r\n123456789\r\n0\r\nx-amz-checksum-crc32:y/Q5Jg==\r\n\r\n", "10", "IncompleteBody"},
		{"no end", "9\r\n123456789\r\n", "9", "IncompleteBody"},
		{"no chunks", "123456789", "9", "IncompleteBody"},
	} {
		if resp, text := put(tt.body, tt.length); resp.StatusCode != 400 || !strings.Contains(text, "<Code>"+tt.want+"</Code>") {
			t.Errorf("%s: %s %s", tt.name, resp.Status, text)
		}
	}
	if got := w.blobs.Used(c.account); got != 9 {
		t.Errorf("%d bytes are stored, want 9", got)
	}
}

// A wrong payload hash is detected after the content has been read, and nothing is stored.
func TestWrongPayloadHash(t *testing.T) {
	w := newWorld(t, options{})
	c := w.bucket(t)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, w.URL+"/"+*c.bucket+"/k", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("other content"))
	hash := hex.EncodeToString(sum[:])
	r.Header.Set("X-Amz-Content-Sha256", hash)
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: c.account, SecretAccessKey: "any"}, r, hash, "s3", "us-east-1", time.Now()); err != nil {
		t.Fatal(err)
	}
	if resp, text := do(t, w.Client(), r); resp.StatusCode != 400 || !strings.Contains(text, "<Code>XAmzContentSHA256Mismatch</Code>") {
		t.Errorf("%s %s", resp.Status, text)
	}
	_, err = c.get("k")
	wantError(t, err, "NoSuchKey", "")
}

func TestPresigned(t *testing.T) {
	w := newWorld(t, options{})
	c, ctx := w.bucket(t).as(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`), t.Context()
	signer := awss3.NewPresignClient(c.Client)
	put := testkit.Must(signer.PresignPutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k")}, func(o *awss3.PresignOptions) {
		o.ClientOptions = append(o.ClientOptions, func(o *awss3.Options) { o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired })
	}))(t)
	r, err := http.NewRequestWithContext(ctx, put.Method, put.URL, strings.NewReader("by link"))
	if err != nil {
		t.Fatal(err)
	}
	if resp, text := do(t, w.Client(), r); resp.StatusCode != 200 {
		t.Errorf("%s %s", resp.Status, text)
	}
	get := testkit.Must(signer.PresignGetObject(ctx, &awss3.GetObjectInput{Bucket: c.bucket, Key: aws.String("k"), ResponseContentType: aws.String("text/x-own")}))(t)
	if r, err = http.NewRequestWithContext(ctx, get.Method, get.URL, nil); err != nil {
		t.Fatal(err)
	}
	if resp, text := do(t, w.Client(), r); resp.StatusCode != 200 || text != "by link" || resp.Header.Get("Content-Type") != "text/x-own" {
		t.Errorf("%s %v %s", resp.Status, resp.Header, text)
	}
	r.URL.RawQuery += "x" // changes the signature
	if resp, text := do(t, w.Client(), r); resp.StatusCode != 403 || !strings.Contains(text, "<Code>SignatureDoesNotMatch</Code>") {
		t.Errorf("%s %s", resp.Status, text)
	}
	if r, err = http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"/"+*c.bucket+"/k", nil); err != nil {
		t.Fatal(err)
	}
	r.Host = "s3.us-east-1.amazonaws.com"
	if resp, text := do(t, w.Client(), r); resp.StatusCode != 403 || !strings.Contains(text, "<Code>AccessDenied</Code>") {
		t.Errorf("without a signature: %s %s", resp.Status, text)
	}
}

// Host names can contain bucket names.
func TestVirtualHosts(t *testing.T) {
	w := newWorld(t, options{})
	c := w.bucket(t)
	c.put("a/k", "content")
	for _, host := range []string{"s3.us-east-1.amazonaws.com", "s3.amazonaws.com", "s3.dualstack.us-east-1.amazonaws.com", "s3-us-east-1.amazonaws.com", "localhost:4566"} {
		for _, virtual := range []bool{false, true} {
			path := "/" + *c.bucket + "/a/k"
			if virtual {
				path, host = "/a/k", *c.bucket+"."+host
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			const hash = "UNSIGNED-PAYLOAD"
			r.Header.Set("X-Amz-Content-Sha256", hash)
			if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: c.account, SecretAccessKey: "any"}, r, hash, "s3", "us-east-1", time.Now()); err != nil {
				t.Fatal(err)
			}
			if resp, text := do(t, w.Client(), r); resp.StatusCode != 200 || text != "content" {
				t.Errorf("%s: %s %s", host, resp.Status, text)
			}
		}
	}
}

func TestLists(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	for _, key := range []string{"a/1", "a/2", "a/b/3", "b", "c/4", "c/5", "d e"} {
		c.put(key, key)
	}
	// pages lists in pages of the given size and joins them; common prefixes are in parentheses.
	pages := func(in awss3.ListObjectsV2Input, size int32) string {
		t.Helper()
		var out []string
		for range 20 {
			in.Bucket, in.MaxKeys = c.bucket, &size
			page := testkit.Must(c.ListObjectsV2(ctx, &in))(t)
			var items []string
			for _, o := range page.Contents {
				items = append(items, *o.Key)
			}
			for _, p := range page.CommonPrefixes {
				items = append(items, *p.Prefix)
			}
			if int(*page.KeyCount) != len(items) {
				t.Errorf("KeyCount %d of %d", *page.KeyCount, len(items))
			}
			slices.Sort(items)
			out = append(out, items...)
			if !*page.IsTruncated {
				break
			}
			in.ContinuationToken = page.NextContinuationToken
		}
		return strings.Join(out, " ")
	}
	for _, tt := range []struct {
		name string
		in   awss3.ListObjectsV2Input
		want string
	}{
		{"all", awss3.ListObjectsV2Input{}, "a/1 a/2 a/b/3 b c/4 c/5 d e"},
		{"delimiter", awss3.ListObjectsV2Input{Delimiter: aws.String("/")}, "a/ b c/ d e"},
		{"prefix", awss3.ListObjectsV2Input{Prefix: aws.String("a/"), Delimiter: aws.String("/")}, "a/1 a/2 a/b/"},
		{"start", awss3.ListObjectsV2Input{StartAfter: aws.String("a/2")}, "a/b/3 b c/4 c/5 d e"},
		{"start in a prefix", awss3.ListObjectsV2Input{StartAfter: aws.String("a/2"), Delimiter: aws.String("/")}, "a/ b c/ d e"},
		{"nothing", awss3.ListObjectsV2Input{Prefix: aws.String("z")}, ""},
		{"encoded", awss3.ListObjectsV2Input{Prefix: aws.String("d"), EncodingType: "url"}, "d+e"},
	} {
		for _, size := range []int32{1, 2, 1000} {
			if got := pages(tt.in, size); got != tt.want {
				t.Errorf("%s in pages of %d: %q, want %q", tt.name, size, got, tt.want)
			}
		}
	}
	v1 := testkit.Must(c.ListObjects(ctx, &awss3.ListObjectsInput{Bucket: c.bucket, Delimiter: aws.String("/"), MaxKeys: aws.Int32(2)}))(t)
	if len(v1.CommonPrefixes) != 1 || len(v1.Contents) != 1 || *v1.NextMarker != "b" {
		t.Errorf("version 1: %+v", v1)
	}
	v1 = testkit.Must(c.ListObjects(ctx, &awss3.ListObjectsInput{Bucket: c.bucket, Delimiter: aws.String("/"), Marker: aws.String("a/")}))(t)
	if len(v1.CommonPrefixes) != 1 || len(v1.Contents) != 2 || *v1.IsTruncated {
		t.Errorf("version 1 after a common prefix: %+v", v1)
	}
}

func TestCopy(t *testing.T) {
	w := newWorld(t, options{})
	c, ctx := w.bucket(t), t.Context()
	testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("a b"), Body: strings.NewReader("content"), Metadata: map[string]string{"k": "v"}, Tagging: aws.String("t=1")}))(t)
	source := aws.String(*c.bucket + "/a%20b")
	testkit.Must(c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: aws.String("copy"), CopySource: source}))(t)
	c.want("copy", "content")
	head := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("copy")}))(t)
	tags := testkit.Must(c.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: c.bucket, Key: aws.String("copy")}))(t)
	if head.Metadata["k"] != "v" || len(tags.TagSet) != 1 {
		t.Errorf("the copy has %v and %v", head.Metadata, tags.TagSet)
	}
	_, err := c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: aws.String("a b"), CopySource: source})
	wantError(t, err, "InvalidRequest", "This copy request is illegal")
	testkit.Must(c.CopyObject(ctx, &awss3.CopyObjectInput{
		Bucket: c.bucket, Key: aws.String("a b"), CopySource: source, MetadataDirective: "REPLACE", Metadata: map[string]string{"k": "w"},
	}))(t)
	if head = testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("a b")}))(t); head.Metadata["k"] != "w" {
		t.Errorf("replaced metadata: %v", head.Metadata)
	}
	for _, bad := range []string{"nothing", "/" + *c.bucket + "/", *c.bucket + "/none"} {
		if _, err := c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: aws.String("x"), CopySource: &bad}); status(err) < 400 {
			t.Errorf("copied from %s: %v", bad, err)
		}
	}
	_, err = w.bucket(t).CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: aws.String("x"), CopySource: source})
	wantError(t, err, "AccessDenied", "")
}

func TestVersions(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	c.put("k", "zero")
	c.version("Enabled")
	one, two := c.put("k", "one").VersionId, c.put("k", "two").VersionId
	c.want("k", "two")
	for version, want := range map[string]string{"null": "zero", *one: "one", *two: "two"} {
		if got, err := c.getWith(&awss3.GetObjectInput{Key: aws.String("k"), VersionId: &version}); err != nil || got != want {
			t.Errorf("version %s: %q, %v; want %q", version, got, err, want)
		}
	}
	gone := testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t)
	if !*gone.DeleteMarker || gone.VersionId == nil {
		t.Errorf("deleted: %+v", gone)
	}
	_, err := c.get("k")
	wantError(t, err, "NoSuchKey", "")
	_, err = c.getWith(&awss3.GetObjectInput{Key: aws.String("k"), VersionId: gone.VersionId})
	wantError(t, err, "MethodNotAllowed", "")
	if got := c.keys(); got != "" {
		t.Errorf("keys %q", got)
	}
	// versions lists in pages of the given size: CONTENT, or - for a delete marker, with * for the latest.
	versions := func(size int32) string {
		t.Helper()
		var out []string
		in := &awss3.ListObjectVersionsInput{Bucket: c.bucket, MaxKeys: &size}
		for range 20 {
			page := testkit.Must(c.ListObjectVersions(ctx, in))(t)
			for _, m := range page.DeleteMarkers {
				out = append(out, strings.Repeat("*", map[bool]int{true: 1}[*m.IsLatest])+"-")
			}
			for _, v := range page.Versions {
				content, err := c.getWith(&awss3.GetObjectInput{Key: v.Key, VersionId: v.VersionId})
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, strings.Repeat("*", map[bool]int{true: 1}[*v.IsLatest])+content)
			}
			if !*page.IsTruncated {
				break
			}
			in.KeyMarker, in.VersionIdMarker = page.NextKeyMarker, page.NextVersionIdMarker
		}
		return strings.Join(out, " ")
	}
	for _, size := range []int32{1, 2, 3, 1000} {
		if got := versions(size); got != "*- two one zero" {
			t.Errorf("versions in pages of %d: %s", size, got)
		}
	}
	_, err = c.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: c.bucket})
	wantError(t, err, "BucketNotEmpty", "You must delete all versions in the bucket.")
	// Without the delete marker, the newest version is current again.
	out := testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k"), VersionId: gone.VersionId}))(t)
	if !*out.DeleteMarker {
		t.Errorf("deleted the marker: %+v", out)
	}
	c.want("k", "two")

	c.version("Suspended")
	if v := c.put("k", "null").VersionId; v != nil {
		t.Errorf("version %s while suspended", *v)
	}
	if got := versions(1000); got != "*null two one" {
		t.Errorf("versions while suspended: %s", got)
	}
	testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t)
	if got := versions(1000); got != "*- two one" {
		t.Errorf("versions after deleting while suspended: %s", got)
	}
	unknown := aws.String("HPniJFCxqTsMuIH9KX8K8wEjNUgmABCD") // as long as a version ID
	_, err = c.getWith(&awss3.GetObjectInput{Key: aws.String("k"), VersionId: unknown})
	wantError(t, err, "InvalidArgument", "Invalid version id specified")
	_, err = c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k"), VersionId: unknown})
	wantError(t, err, "InvalidArgument", "Invalid version id specified")
	several := testkit.Must(c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: c.bucket, Delete: &s3types.Delete{
		Objects: []s3types.ObjectIdentifier{{Key: aws.String("k"), VersionId: unknown}},
	}}))(t)
	if len(several.Errors) != 1 || *several.Errors[0].Code != "NoSuchVersion" {
		t.Errorf("deleting an unknown version among others: %+v", several)
	}
	// Deleting it again is not an error in S3.
	testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k"), VersionId: gone.VersionId}))(t)
	for _, id := range []*string{one, two, aws.String("null")} {
		testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k"), VersionId: id}))(t)
	}
	if used := c.w.blobs.Used(c.account); used != 0 {
		t.Errorf("%d bytes are left", used)
	}
	testkit.Must(c.DeleteBucket(ctx, &awss3.DeleteBucketInput{Bucket: c.bucket}))(t)
}

func TestMultipart(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	first, second := bytes.Repeat([]byte("a"), 5<<20), []byte("the end")
	whole := string(first) + string(second)
	for _, tt := range []struct {
		algorithm s3types.ChecksumAlgorithm
		typ, want s3types.ChecksumType
	}{{"", "", "FULL_OBJECT"}, {"CRC32", "", "COMPOSITE"}, {"CRC32", "FULL_OBJECT", "FULL_OBJECT"}, {"CRC32C", "FULL_OBJECT", "FULL_OBJECT"}, {"CRC64NVME", "", "FULL_OBJECT"}, {"SHA256", "", "COMPOSITE"}} {
		key := aws.String(fmt.Sprint("k", tt.algorithm, tt.typ))
		up := testkit.Must(c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{
			Bucket: c.bucket, Key: key, ChecksumAlgorithm: tt.algorithm, ChecksumType: tt.typ, ContentType: aws.String("text/plain"),
		}))(t)
		var list []s3types.CompletedPart
		for n, content := range map[int32][]byte{1: first, 3: second, 2: []byte("unused")} {
			p := testkit.Must(c.UploadPart(ctx, &awss3.UploadPartInput{
				Bucket: c.bucket, Key: key, UploadId: up.UploadId, PartNumber: aws.Int32(n), Body: bytes.NewReader(content), ChecksumAlgorithm: tt.algorithm,
			}))(t)
			if n != 2 {
				list = append(list, s3types.CompletedPart{PartNumber: aws.Int32(n), ETag: p.ETag, ChecksumCRC32: p.ChecksumCRC32, ChecksumCRC32C: p.ChecksumCRC32C, ChecksumSHA256: p.ChecksumSHA256, ChecksumCRC64NVME: p.ChecksumCRC64NVME})
			}
		}
		slices.SortFunc(list, func(a, b s3types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
		if got := testkit.Must(c.ListParts(ctx, &awss3.ListPartsInput{Bucket: c.bucket, Key: key, UploadId: up.UploadId, MaxParts: aws.Int32(2)}))(t); len(got.Parts) != 2 || *got.NextPartNumberMarker != "2" || !*got.IsTruncated {
			t.Errorf("parts: %+v", got)
		}
		if got := testkit.Must(c.ListMultipartUploads(ctx, &awss3.ListMultipartUploadsInput{Bucket: c.bucket}))(t); len(got.Uploads) != 1 || *got.Uploads[0].Key != *key {
			t.Errorf("uploads: %+v", got)
		}
		done := testkit.Must(c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{
			Bucket: c.bucket, Key: key, UploadId: up.UploadId, MultipartUpload: &s3types.CompletedMultipartUpload{Parts: list},
		}))(t)
		if !strings.HasSuffix(*done.ETag, `-2"`) || done.ChecksumType != tt.want {
			t.Errorf("%s %s: %+v", tt.algorithm, tt.typ, done)
		}
		c.want(*key, whole) // the SDK checks the checksum
		if tt.want == "FULL_OBJECT" {
			algorithm := tt.algorithm
			if algorithm == "" {
				algorithm = "CRC64NVME"
			}
			once := testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("once"), Body: strings.NewReader(whole), ChecksumAlgorithm: algorithm}))(t)
			got := []*string{done.ChecksumCRC32, done.ChecksumCRC32C, done.ChecksumCRC64NVME}
			if diff := cmp.Diff([]*string{once.ChecksumCRC32, once.ChecksumCRC32C, once.ChecksumCRC64NVME}, got); diff != "" {
				t.Errorf("%s of the whole (-in one request +in parts):\n%s", algorithm, diff)
			}
			testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("once")}))(t)
		}
		across := fmt.Sprintf("bytes=%d-%d", len(first)-2, len(first)+2)
		if got, err := c.getWith(&awss3.GetObjectInput{Key: key, Range: &across}); err != nil || got != "aathe" {
			t.Errorf("across parts: %q, %v", got, err)
		}
		part := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: key, PartNumber: aws.Int32(2)}))(t)
		if *part.ContentLength != int64(len(second)) || *part.PartsCount != 2 || *part.ContentType != "text/plain" {
			t.Errorf("second part: %+v", part)
		}
		testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: key}))(t)
		if used := c.w.blobs.Used(c.account); used != 0 {
			t.Errorf("%d bytes are left", used)
		}
	}

	key := aws.String("k")
	up := testkit.Must(c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: key}))(t)
	var list []s3types.CompletedPart
	for n := int32(1); n <= 2; n++ {
		p := testkit.Must(c.UploadPart(ctx, &awss3.UploadPartInput{Bucket: c.bucket, Key: key, UploadId: up.UploadId, PartNumber: &n, Body: strings.NewReader("small")}))(t)
		list = append(list, s3types.CompletedPart{PartNumber: aws.Int32(n), ETag: p.ETag})
	}
	complete := func(parts ...s3types.CompletedPart) error {
		_, err := c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{Bucket: c.bucket, Key: key, UploadId: up.UploadId, MultipartUpload: &s3types.CompletedMultipartUpload{Parts: parts}})
		return err
	}
	wantError(t, complete(list...), "EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size")
	wantError(t, complete(list[1], list[0]), "InvalidPartOrder", "")
	wantError(t, complete(s3types.CompletedPart{PartNumber: aws.Int32(9), ETag: list[0].ETag}), "InvalidPart", "")
	_, err := c.UploadPart(ctx, &awss3.UploadPartInput{Bucket: c.bucket, Key: key, UploadId: up.UploadId, PartNumber: aws.Int32(10001), Body: strings.NewReader("x")})
	wantError(t, err, "InvalidArgument", "Part number must be an integer between 1 and 10000")
	testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("source"), Body: strings.NewReader("copied")}))(t)
	testkit.Must(c.UploadPartCopy(ctx, &awss3.UploadPartCopyInput{
		Bucket: c.bucket, Key: key, UploadId: up.UploadId, PartNumber: aws.Int32(3), CopySource: aws.String(*c.bucket + "/source"), CopySourceRange: aws.String("bytes=0-1"),
	}))(t)
	testkit.Must(c.AbortMultipartUpload(ctx, &awss3.AbortMultipartUploadInput{Bucket: c.bucket, Key: key, UploadId: up.UploadId}))(t)
	wantError(t, complete(list[0]), "NoSuchUpload", "The specified upload does not exist.")
	if used := c.w.blobs.Used(c.account); used != 6 {
		t.Errorf("%d bytes are left, want 6", used)
	}
}

func TestFull(t *testing.T) {
	c, ctx := newWorld(t, options{room: 100}).bucket(t), t.Context()
	c.put("k", strings.Repeat("x", 90))
	_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("l"), Body: strings.NewReader(strings.Repeat("x", 20))})
	wantError(t, err, "InsufficientStorage", "Delete objects or images.")
}

// If the process is killed after it writes a content and before it writes the record, the next start removes the
// content.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	w := newWorld(t, options{dir: dir})
	c := w.bucket(t)
	c.put("k", "kept")
	up := testkit.Must(c.CreateMultipartUpload(t.Context(), &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: aws.String("m")}))(t)
	testkit.Must(c.UploadPart(t.Context(), &awss3.UploadPartInput{Bucket: c.bucket, Key: aws.String("m"), UploadId: up.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("part")}))(t)
	if _, err := w.blobs.Put(place(c.account), strings.NewReader("lost")); err != nil {
		t.Fatal(err)
	}
	again := newWorld(t, options{dir: dir, store: w.Store})
	again.run(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if used := again.blobs.Used(c.account); used != 8 {
			return fmt.Errorf("%d bytes are stored, want 8", used)
		}
		return nil
	})
	after := awss3.NewFromConfig(again.AWSConfigWith(credentials.NewStaticCredentialsProvider(c.account, "any", "")), usual)
	out := testkit.Must(after.GetObject(t.Context(), &awss3.GetObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t)
	defer out.Body.Close()
	if b, err := io.ReadAll(out.Body); err != nil || string(b) != "kept" {
		t.Errorf("%q, %v", b, err)
	}
}
