package sigv4_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
)

// signedAs signs a GET of url for service with c at a time.
func signedAs(t testing.TB, c aws.Credentials, rawURL, service string, at time.Time) *sigv4.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := v4.NewSigner().SignHTTP(t.Context(), c, req, hash(nil), service, "us-east-1", at); err != nil {
		t.Fatal(err)
	}
	return received(t, req)
}

// declaring is a GET that declares the hash of another body, and is signed with it.
func declaring(t testing.TB, rawURL, hash string) *sigv4.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, rawURL, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Content-Sha256", hash)
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, req, hash, "sts", "us-east-1", now); err != nil {
		t.Fatal(err)
	}
	return received(t, req)
}

func TestChecks(t *testing.T) {
	v := verifierAt(now)
	const u = "http://localhost:4566/?Action=GetCallerIdentity&Version=2011-06-15"
	with := func(edit func(*sigv4.Request)) *sigv4.Request {
		req := signedAs(t, creds, u, "sts", now)
		edit(req)
		return req
	}
	authorization := func(old, new string) *sigv4.Request {
		return with(func(r *sigv4.Request) {
			r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), old, new, 1))
		})
	}
	key := func(id, token string) *sigv4.Request {
		return signedAs(t, aws.Credentials{AccessKeyID: id, SecretAccessKey: "x", SessionToken: token}, u, "sts", now)
	}
	for _, tt := range []struct {
		name string
		req  *sigv4.Request
		kind sigv4.Kind // 0: it verifies
		text string
	}{
		// Time: 15 minutes both ways.
		{"now", signedAs(t, creds, u, "sts", now), 0, ""},
		{"15 minutes old", signedAs(t, creds, u, "sts", now.Add(-15*time.Minute)), 0, ""},
		{"15 minutes ahead", signedAs(t, creds, u, "sts", now.Add(15*time.Minute)), 0, ""},
		{"older", signedAs(t, creds, u, "sts", now.Add(-15*time.Minute-time.Second)), sigv4.Expired,
			"Signature expired: 20260701T114459Z is now earlier than 20260701T114500Z (20260701T120000Z - 15 min.)"},
		{"further ahead", signedAs(t, creds, u, "sts", now.Add(15*time.Minute+time.Second)), sigv4.NotYet,
			"Signature not yet current: 20260701T121501Z is still later than 20260701T121500Z (20260701T120000Z + 15 min.)"},
		// Who.
		{"unknown key", key("AKIANOBODY", ""), sigv4.UnknownKey, ""},
		{"wrong secret", key(creds.AccessKeyID, ""), sigv4.Mismatch, ""},
		{"wrong token", key(creds.AccessKeyID, "other"), sigv4.TokenInvalid, ""},
		{"expired token", key("ASIAEXPIRED", "t"), sigv4.TokenExpired, ""},
		{"an account number, any secret", key("123456789012", ""), 0, ""},
		{"an account number must be in time", signedAs(t, aws.Credentials{AccessKeyID: "123456789012", SecretAccessKey: "x"}, u, "sts", now.Add(-time.Hour)), sigv4.Expired, "Signature expired: 20260701T110000Z is now earlier than 20260701T114500Z (20260701T120000Z - 15 min.)"},
		{"eleven digits are no account", key("12345678901", ""), sigv4.UnknownKey, ""},
		// What for.
		{"another service", signedAs(t, creds, u, "iam", now), sigv4.Scope, "Credential should be scoped to correct service: 'sts'. "},
		{"another region than signed", authorization("us-east-1", "us-east-2"), sigv4.Mismatch, ""},
		{"terminator", authorization("aws4_request", "aws3_request"), sigv4.Scope, "Credential should be scoped with a valid terminator: 'aws4_request', not 'aws3_request'. "},
		{"day", authorization("/20260701/", "/20260702/"), sigv4.Scope, "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '20260702' != '20260701', from '20260701T120000Z'. "},
		{"host not signed", authorization("SignedHeaders=host;", "SignedHeaders="), sigv4.Scope, "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."},
		// Form.
		{"no signature", with(func(r *sigv4.Request) { r.Header.Del("Authorization") }), sigv4.Missing, ""},
		{"no date", with(func(r *sigv4.Request) { r.Header.Del("X-Amz-Date") }), sigv4.Incomplete, "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. (Hashed with SHA-256 and encoded with Base64) Authorization=HASH"},
		{"signature of odd length", authorization("Signature=", "Signature=0"), sigv4.Mismatch, ""},
		{"upper-case signature", with(func(r *sigv4.Request) {
			head, sig, _ := strings.Cut(r.Header.Get("Authorization"), "Signature=")
			r.Header.Set("Authorization", head+"Signature="+strings.ToUpper(sig))
		}), sigv4.Mismatch, ""},
		{"no equal sign", authorization("SignedHeaders=", "SignedHeaders"), sigv4.Incomplete, "Invalid key=value pair (missing equal-sign) in Authorization header (hashed with SHA-256 and encoded with Base64): 'HASH'."},
		{"four fields", authorization("/sts/", "/"), sigv4.Incomplete, "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got 'AKIDEXAMPLE/20260701/us-east-1/aws4_request'"},
		{"blanks between the parts do not count", authorization(", ", ","), 0, ""},
		{"a signed header that is not there", authorization("host;", "absent;host;"), sigv4.Mismatch, ""},
		{"body that is not what its hash says", declaring(t, u, hash([]byte("other"))), sigv4.PayloadHash, ""},
		{"hash declared after signing", with(func(r *sigv4.Request) {
			r.Header.Set("X-Amz-Content-Sha256", hash([]byte("other")))
		}), sigv4.Mismatch, ""},
		{"body added", with(func(r *sigv4.Request) { r.Body = []byte("x") }), sigv4.Mismatch, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := verify(v, tt.req, "sts")
			if tt.kind == 0 {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			got := wantKind(t, err, tt.kind).Message
			if i := strings.Index(tt.text, "HASH"); i >= 0 && len(got) >= i+44 {
				got = got[:i] + "HASH" + got[i+44:]
			}
			if got != tt.text {
				t.Errorf("got %q, want %q", got, tt.text)
			}
		})
	}
	t.Run("a broken lookup is no client's fault", func(t *testing.T) {
		_, err := verify(v, key("BROKEN", ""), "sts")
		if e := (*sigv4.Error)(nil); err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), "store is gone") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTheDateHeaderWillDo(t *testing.T) {
	// Signed by hand: no SDK sends Date any more.
	req := &sigv4.Request{Method: "GET", EscapedPath: "/", Host: "h", Header: http.Header{
		"Date":          {"Wed, 01 Jul 2026 12:00:00 GMT"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=123456789012/20260701/us-east-1/sts/aws4_request, SignedHeaders=date;host, Signature=00"},
	}}
	if _, err := verify(verifierAt(now), req, "sts"); err != nil {
		t.Error(err)
	}
}

// presign is what `aws eks get-token` does.
func presign(t testing.TB, c aws.Credentials, base string, at time.Time) (*url.URL, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/?Action=GetCallerIdentity&Version=2011-06-15&X-Amz-Expires=60", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-k8s-aws-id", "dev")
	signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), c, req, hash(nil), "sts", "eu-west-1", at)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(signed)
	if err != nil {
		t.Fatal(err)
	}
	return u, http.Header{"X-K8s-Aws-Id": {"dev"}}
}

func TestVerifyPresigned(t *testing.T) {
	temporary := creds
	temporary.SessionToken = "token/+="
	for _, tt := range []struct {
		name string
		base string
		c    aws.Credentials
		age  time.Duration
		edit func(*url.URL, http.Header)
		kind sigv4.Kind
	}{
		{name: "AWS's host", base: "https://sts.eu-west-1.amazonaws.com", c: creds},
		{name: "an endpoint URL with a port", base: "http://localhost:4566", c: creds},
		{name: "temporary credentials", base: "http://localhost:4566", c: temporary},
		{name: "X-Amz-Expires does not count", base: "http://localhost:4566", c: creds, age: 14 * time.Minute},
		{name: "15 minutes do", base: "http://localhost:4566", c: creds, age: 16 * time.Minute, kind: sigv4.Expired},
		{name: "another cluster", base: "http://localhost:4566", c: creds, edit: func(_ *url.URL, h http.Header) { h.Set("x-k8s-aws-id", "prod") }, kind: sigv4.Mismatch},
		{name: "no cluster", base: "http://localhost:4566", c: creds, edit: func(_ *url.URL, h http.Header) { h.Del("x-k8s-aws-id") }, kind: sigv4.Mismatch},
		{name: "another host", base: "http://localhost:4566", c: creds, edit: func(u *url.URL, _ http.Header) { u.Host = "localhost:4567" }, kind: sigv4.Mismatch},
		{name: "another action", base: "http://localhost:4566", c: creds, edit: func(u *url.URL, _ http.Header) {
			u.RawQuery = strings.Replace(u.RawQuery, "GetCallerIdentity", "GetSessionToken", 1)
		}, kind: sigv4.Mismatch},
		{name: "not presigned", base: "http://localhost:4566", c: creds, edit: func(u *url.URL, _ http.Header) { u.RawQuery = "Action=GetCallerIdentity" }, kind: sigv4.Missing},
		{name: "no date", base: "http://localhost:4566", c: creds, edit: func(u *url.URL, _ http.Header) {
			u.RawQuery = strings.Replace(u.RawQuery, "X-Amz-Date", "X-Amz-Data", 1)
		}, kind: sigv4.Incomplete},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u, h := presign(t, tt.c, tt.base, now.Add(-tt.age))
			if tt.edit != nil {
				tt.edit(u, h)
			}
			p, err := verifierAt(now).VerifyPresigned(t.Context(), u, h, http.MethodGet)
			if tt.kind != 0 {
				wantKind(t, err, tt.kind)
			} else if err != nil || p.ARN != "arn:aws:iam::111122223333:user/u" {
				t.Errorf("%+v, %v", p, err)
			}
		})
	}
}

func TestS3HeedsTheLifetimeOfURLs(t *testing.T) {
	sign := func(expires string, age time.Duration) *sigv4.Request {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:4566/b/k?X-Amz-Expires="+expires, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), creds, req, "UNSIGNED-PAYLOAD", "s3", "us-east-1", now.Add(-age))
		if err != nil {
			t.Fatal(err)
		}
		if req.URL, err = url.Parse(signed); err != nil {
			t.Fatal(err)
		}
		return received(t, req)
	}
	v := verifierAt(now)
	if _, err := verify(v, sign("86400", 23*time.Hour), "s3"); err != nil {
		t.Error(err)
	}
	_, err := verify(v, sign("60", 2*time.Minute), "s3")
	wantKind(t, err, sigv4.URLExpired)
	for _, bad := range []string{"-1", "604801", "soon", "99999999999999999999"} {
		_, err := verify(v, sign(bad, 0), "s3")
		wantKind(t, err, sigv4.PresignLimits)
	}
}

// The example of https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
func TestSignedStream(t *testing.T) {
	v := sigv4.NewVerifier(sigv4.Config{
		Lookup: func(context.Context, string, string) (sigv4.Credential, error) {
			return sigv4.Credential{SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", Principal: awsapi.Principal{ARN: "a"}}, nil
		},
		Clock: clocktesting.NewFakeClock(time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC)),
	})
	body := fmt.Sprintf("10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n%s\r\n"+
		"400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n%s\r\n"+
		"0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n",
		strings.Repeat("a", 65536), strings.Repeat("a", 1024))
	request := func(body string) *sigv4.Request {
		return &sigv4.Request{Method: "PUT", EscapedPath: "/examplebucket/chunkObject.txt", Host: "s3.amazonaws.com", Body: []byte(body), Header: http.Header{
			"X-Amz-Date": {"20130524T000000Z"}, "X-Amz-Storage-Class": {"REDUCED_REDUNDANCY"}, "Content-Encoding": {"aws-chunked"},
			"X-Amz-Content-Sha256": {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}, "X-Amz-Decoded-Content-Length": {"66560"}, "Content-Length": {"66824"},
			"Authorization": {"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;x-amz-decoded-content-length;x-amz-storage-class,Signature=4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"},
		}}
	}
	got, err := verify(v, request(body), "s3")
	if err != nil || string(got.Body) != strings.Repeat("a", 66560) {
		t.Fatalf("%v", err)
	}
	for name, tt := range map[string]struct {
		body string
		kind sigv4.Kind
	}{
		"changed data":         {strings.Replace(body, "aaa", "aab", 1), sigv4.Mismatch},
		"changed signature":    {strings.Replace(body, "=b6c6", "=b6c7", 1), sigv4.Mismatch},
		"no chunk signature":   {"0\r\n\r\n", sigv4.Malformed},
		"cut":                  {body[:60000], sigv4.Malformed},
		"huge size":            {"7fffffff;chunk-signature=00\r\n", sigv4.Malformed},
		"negative size":        {"-1;chunk-signature=00\r\n", sigv4.Malformed},
		"empty":                {"", sigv4.Malformed},
		"no end of chunk line": {"10000;chunk-signature=ad80", sigv4.Malformed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := verify(v, request(tt.body), "s3")
			wantKind(t, err, tt.kind)
		})
	}
}

// What the SDKs send to S3 over https.
func TestUnsignedStreamWithTrailer(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost:4566/b/k", nil)
	if err != nil {
		t.Fatal(err)
	}
	const kind = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	req.Header.Set("X-Amz-Content-Sha256", kind)
	req.Header.Set("X-Amz-Trailer", "x-amz-checksum-crc32")
	req.Header.Set("Content-Encoding", "aws-chunked")
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, req, kind, "s3", "us-east-1", now, func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }); err != nil {
		t.Fatal(err)
	}
	got := received(t, req)
	got.Body = []byte("4\r\ndata\r\n0\r\nx-amz-checksum-crc32:rfPwlw==\r\n\r\n")
	out, err := verify(verifierAt(now), got, "s3")
	if err != nil || string(out.Body) != "data" {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestServiceHint(t *testing.T) {
	for header, want := range map[string]string{
		"AWS4-HMAC-SHA256 Credential=a/b/c/ec2/aws4_request": "ec2",
		"AWS4-HMAC-SHA256 Credential=a/b/ec2/aws4, Signed":   "ec2",
		"AWS4-HMAC-SHA256 Credential=a":                      "",
		"Bearer x":                                           "",
	} {
		if got := sigv4.ServiceHint(http.Header{"Authorization": {header}}, ""); got != want {
			t.Errorf("%s: %q", header, got)
		}
	}
	u, _ := presign(t, creds, "http://h", now)
	if got := sigv4.ServiceHint(nil, u.RawQuery); got != "sts" {
		t.Errorf("presigned: %q", got)
	}
}

func BenchmarkVerify(b *testing.B) {
	v := verifierAt(now)
	req := signedAs(b, creds, "http://localhost:4566/?Action=GetCallerIdentity&Version=2011-06-15", "sts", now)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := verify(v, req, "sts"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestManyKeysOverflowTheCache(t *testing.T) {
	v := sigv4.NewVerifier(sigv4.Config{
		Lookup: func(_ context.Context, key, _ string) (sigv4.Credential, error) {
			return sigv4.Credential{SecretKey: "secret of " + key}, nil
		},
		Clock: clocktesting.NewFakeClock(now),
	})
	for i := range 5000 {
		id := fmt.Sprintf("AKIA%d", i%4500)
		req := signedAs(t, aws.Credentials{AccessKeyID: id, SecretAccessKey: "secret of " + id}, "http://h/", "sts", now)
		if _, err := verify(v, req, "sts"); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
}
