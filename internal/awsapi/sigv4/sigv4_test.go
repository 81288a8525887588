package sigv4_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
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

var (
	now   = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	creds = aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
)

func lookup(_ context.Context, key, token string) (sigv4.Credential, error) {
	if cred, ok := sigv4.AccountRoot(key); ok {
		return cred, nil
	}
	switch key {
	case creds.AccessKeyID:
		if token != "" && token != "token/+=" {
			return sigv4.Credential{}, sigv4.ErrTokenInvalid
		}
		return sigv4.Credential{SecretKey: creds.SecretAccessKey, Principal: awsapi.Principal{ARN: "arn:aws:iam::111122223333:user/u"}}, nil
	case "ASIAEXPIRED":
		return sigv4.Credential{}, fmt.Errorf("session s: %w", sigv4.ErrTokenExpired)
	case "BROKEN":
		return sigv4.Credential{}, errors.New("store is gone")
	}
	return sigv4.Credential{}, sigv4.ErrUnknownKey
}

func verifierAt(at time.Time) *sigv4.Verifier {
	return sigv4.NewVerifier(sigv4.Config{Lookup: lookup, Clock: clocktesting.NewFakeClock(at)})
}

// received returns r as a server sees it.
func received(t testing.TB, r *http.Request) *sigv4.Request {
	t.Helper()
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			t.Fatal(err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	return &sigv4.Request{Method: r.Method, EscapedPath: path, RawQuery: r.URL.RawQuery, Host: host, Header: r.Header, Body: body}
}

func verify(v *sigv4.Verifier, req *sigv4.Request, service string) (*sigv4.Verified, error) {
	auth, err := sigv4.Parse(req)
	if err != nil {
		return nil, err
	}
	return v.Verify(context.Background(), req, auth, service)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// awkward returns strings of the characters that signers encode differently.
func awkward(r *rand.Rand, alphabet string, n int) string {
	b := make([]byte, r.IntN(n+1))
	for i := range b {
		b[i] = alphabet[r.IntN(len(alphabet))]
	}
	return string(b)
}

func randomRequest(t testing.TB, r *rand.Rand, service string) (*http.Request, []byte) {
	t.Helper()
	const text = "abcXYZ019-_.~ /+=&%:@!$'()*,;?#[]\"<>\\^`{|}\u00e9"
	segments := make([]string, r.IntN(5))
	for i := range segments {
		// The SDK escapes labels like this; dots alone would be cleaned by clients.
		segments[i] = "s" + strings.ReplaceAll(url.QueryEscape(awkward(r, text, 8)), "+", "%20")
	}
	query := url.Values{}
	for range r.IntN(6) {
		query.Add("k"+awkward(r, text, 4), awkward(r, text, 8))
	}
	body := []byte(awkward(r, text, 40))
	if r.IntN(3) == 0 {
		body = nil
	}
	method := []string{"GET", "POST", "PUT", "DELETE"}[r.IntN(4)]
	u := "http://" + []string{"localhost:4566", "sts.us-east-1.amazonaws.com", "127.0.0.1:80", "[::1]:4566"}[r.IntN(4)] + "/" + strings.Join(segments, "/")
	if len(query) > 0 {
		u += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(t.Context(), method, u, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.IntN(4) {
		req.Header.Add(fmt.Sprintf("X-Amz-H%d", i%2), "  "+awkward(r, "ab  ,;", 12)+" ")
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	return req, body
}

// The official signer and the verifier agree on random requests, and any change to a signed part is detected.
func TestVerifyAgreesWithTheOfficialSigner(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	v := verifierAt(now)
	for i := range 2000 {
		service := []string{"sts", "eks", "ec2", "s3"}[i%4]
		region := []string{"us-east-1", "eu-west-1"}[r.IntN(2)]
		c := creds
		if r.IntN(2) == 0 {
			c.SessionToken = "token/+="
		}
		req, body := randomRequest(t, r, service)
		option := func(o *v4.SignerOptions) { o.DisableURIPathEscaping = service == "s3" }
		at := now.Add(time.Duration(r.IntN(29)-14) * time.Minute)
		if i%3 == 0 {
			payload := hash(body)
			if service == "s3" {
				payload = "UNSIGNED-PAYLOAD"
			}
			q := req.URL.Query()
			q.Set("X-Amz-Expires", "3600")
			req.URL.RawQuery = q.Encode()
			signed, headers, err := v4.NewSigner().PresignHTTP(t.Context(), c, req, payload, service, region, at, option)
			if err != nil {
				t.Fatal(err)
			}
			if req.URL, err = url.Parse(signed); err != nil {
				t.Fatal(err)
			}
			host := headers.Get("Host")
			headers.Del("Host")
			req.Header, req.Host = headers, host
		} else {
			if r.IntN(2) == 0 {
				req.Header.Set("X-Amz-Content-Sha256", hash(body))
			}
			if err := v4.NewSigner().SignHTTP(t.Context(), c, req, hash(body), service, region, at, option); err != nil {
				t.Fatal(err)
			}
		}
		got := received(t, req)
		if i%3 == 0 && service == "s3" {
			got.Body = []byte("anything") // not signed
			got.Header.Del("Content-Length")
			if req.ContentLength > 0 {
				continue // the length is signed
			}
		}
		out, err := verify(v, got, service)
		if err != nil {
			t.Fatalf("request %d: %s %s\n%v\n%v", i, got.Method, got.EscapedPath+"?"+got.RawQuery, got.Header, err)
		}
		if out.Principal.ARN == "" {
			t.Fatal("no principal")
		}
		// A single change breaks the signature.
		switch changed := *got; i % 4 {
		case 0:
			changed.EscapedPath += "x"
			mustMismatch(t, v, &changed, service)
		case 1:
			changed.RawQuery = strings.TrimPrefix(changed.RawQuery+"&zz=1", "&")
			mustMismatch(t, v, &changed, service)
		case 2:
			changed.Host = "evil.example"
			mustMismatch(t, v, &changed, service)
		case 3:
			changed.Method = "PATCH"
			mustMismatch(t, v, &changed, service)
		}
	}
}

func mustMismatch(t *testing.T, v *sigv4.Verifier, req *sigv4.Request, service string) {
	t.Helper()
	_, err := verify(v, req, service)
	wantKind(t, err, sigv4.Mismatch)
}

func wantKind(t *testing.T, err error, kind sigv4.Kind) *sigv4.Error {
	t.Helper()
	var e *sigv4.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got %v, want %v", err, kind)
	}
	return e
}

// AWS's published example and test suite.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-examples.html
func TestKnownVectors(t *testing.T) {
	v := verifierAt(time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	// The test suite signs with this secret and the service name "service".
	const scope = "AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"
	suite := sigv4.NewVerifier(sigv4.Config{
		Lookup: func(context.Context, string, string) (sigv4.Credential, error) {
			return sigv4.Credential{SecretKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, nil
		},
		Clock: clocktesting.NewFakeClock(time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)),
	})
	for _, tt := range []struct {
		name, method, path, query string
		header                    http.Header
		body                      string
		signed, signature         string
	}{
		{
			name: "get-vanilla", method: "GET", path: "/",
			signed: "host;x-amz-date", signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		{
			name: "get-vanilla-query-order-key-case", method: "GET", path: "/", query: "Param2=value2&Param1=value1",
			signed: "host;x-amz-date", signature: "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
		},
		{
			name: "get-slashes (normalised)", method: "GET", path: "//example//",
			signed: "host;x-amz-date", signature: "9a624bd73a37c9a373b5312afbebe7a714a789de108f0bdfe846570885f57e84",
		},
		{
			name: "get-relative (normalised)", method: "GET", path: "/example/..",
			signed: "host;x-amz-date", signature: "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
		},
		{
			name: "get-header-value-trim", method: "GET", path: "/",
			header: http.Header{"My-Header1": {" value1"}, "My-Header2": {` "a   b   c"`}},
			signed: "host;my-header1;my-header2;x-amz-date", signature: "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736",
		},
		{
			name: "post-x-www-form-urlencoded", method: "POST", path: "/",
			header: http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, body: "Param1=value1",
			signed: "content-type;host;x-amz-date", signature: "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.header.Clone()
			if h == nil {
				h = http.Header{}
			}
			h.Set("X-Amz-Date", "20150830T123600Z")
			h.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+scope+", SignedHeaders="+tt.signed+", Signature="+tt.signature)
			req := &sigv4.Request{Method: tt.method, EscapedPath: tt.path, RawQuery: tt.query, Host: "example.amazonaws.com", Header: h, Body: []byte(tt.body)}
			if _, err := verify(suite, req, "service"); err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("iam list users", func(t *testing.T) {
		h := http.Header{
			"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}, "X-Amz-Date": {"20150830T123600Z"},
			"Authorization": {"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
		}
		req := &sigv4.Request{Method: "GET", EscapedPath: "/", RawQuery: "Action=ListUsers&Version=2010-05-08", Host: "iam.amazonaws.com", Header: h}
		if _, err := verify(v, req, "iam"); err != nil {
			t.Error(err)
		}
	})
}
