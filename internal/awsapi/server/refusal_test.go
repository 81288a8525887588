package server_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/testkit"
)

var (
	testNow = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	alice   = aws.Credentials{AccessKeyID: "AKIAALICE", SecretAccessKey: "alice's secret"}
)

// keys has alice and an expired session of hers.
func keys(_ context.Context, key, token string) (sigv4.Credential, error) {
	switch {
	case key == alice.AccessKeyID && token == "":
		return sigv4.Credential{SecretKey: alice.SecretAccessKey, Principal: awsapi.Principal{
			Type: awsapi.IAMUser, Account: "111122223333", ARN: "arn:aws:iam::111122223333:user/alice", UserID: "AIDAALICE", Name: "alice", AccessKeyID: key,
		}}, nil
	case key == alice.AccessKeyID:
		return sigv4.Credential{}, sigv4.ErrTokenInvalid
	case key == "ASIAEXPIRED":
		return sigv4.Credential{}, sigv4.ErrTokenExpired
	}
	return sigv4.Credential{}, sigv4.ErrUnknownKey
}

// A raw request, before it is signed.
type raw struct {
	method, path string // path with the query
	header       string // lines
	body         string

	service string // the service to sign for; empty means unsigned
	creds   aws.Credentials
	at      time.Time
	presign bool
	spoil   func(*http.Request)
}

func (q raw) build(t testing.TB, base string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), q.method, base+q.path, strings.NewReader(q.body))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(q.header, "\n") {
		if k, v, ok := strings.Cut(line, ": "); ok {
			req.Header.Set(k, v)
		}
	}
	if q.service != "" {
		if q.creds.AccessKeyID == "" {
			q.creds = alice
		}
		if q.at.IsZero() {
			q.at = testNow
		}
		sum := sha256.Sum256([]byte(q.body))
		hash := hex.EncodeToString(sum[:])
		if declared := req.Header.Get("X-Amz-Content-Sha256"); declared != "" {
			hash = declared
		}
		if q.presign {
			signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), q.creds, req, hash, q.service, "us-east-1", q.at)
			if err != nil {
				t.Fatal(err)
			}
			if req.URL, err = url.Parse(signed); err != nil {
				t.Fatal(err)
			}
		} else if err := v4.NewSigner().SignHTTP(t.Context(), q.creds, req, hash, q.service, "us-east-1", q.at); err != nil {
			t.Fatal(err)
		}
	}
	if q.spoil != nil {
		q.spoil(req)
	}
	return req
}

const (
	form      = "Content-Type: application/x-www-form-urlencoded; charset=utf-8"
	json11    = "Content-Type: application/x-amz-json-1.1\nX-Amz-Target: "
	whoami    = "Action=GetCallerIdentity&Version=2011-06-15"
	getUser   = "Action=GetUser&Version=2010-05-08&UserName=u"
	vpcs      = "Action=DescribeVpcs&Version=2016-11-15"
	parameter = json11 + "AmazonSSM.GetParameter"
)

// Whatever a client sends, the answer has the service's error shape.
func TestRefusalsAreAWSShaped(t *testing.T) {
	s, _ := start(t, testkit.Config{Lookup: keys, Clock: clocktesting.NewFakeClock(testNow), MaxBody: 4096})
	unknown := aws.Credentials{AccessKeyID: "AKIANOBODY", SecretAccessKey: "x"}
	wrong := aws.Credentials{AccessKeyID: alice.AccessKeyID, SecretAccessKey: "wrong"}
	expired := aws.Credentials{AccessKeyID: "ASIAEXPIRED", SecretAccessKey: "x", SessionToken: "t"}
	badToken := aws.Credentials{AccessKeyID: alice.AccessKeyID, SecretAccessKey: alice.SecretAccessKey, SessionToken: "t"}
	services := []struct {
		name string
		raw
	}{
		{"sts", raw{method: "POST", path: "/", header: form, body: whoami, service: "sts"}},
		{"iam", raw{method: "POST", path: "/", header: form, body: getUser, service: "iam"}},
		{"ec2", raw{method: "POST", path: "/", header: form, body: vpcs, service: "ec2"}},
		{"ssm", raw{method: "POST", path: "/", header: parameter, body: `{"Name":"/a"}`, service: "ssm"}},
		{"eks", raw{method: "GET", path: "/clusters/dev", service: "eks"}},
		{"s3", raw{method: "GET", path: "/bucket/key", service: "s3", header: "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD"}},
		{"route53", raw{method: "GET", path: "/2013-04-01/hostedzone", service: "route53"}},
	}
	faults := []struct {
		name  string
		apply func(*raw)
	}{
		{"no signature", func(q *raw) { q.service = "" }},
		{"unknown key", func(q *raw) { q.creds = unknown }},
		{"wrong secret", func(q *raw) { q.creds = wrong }},
		{"expired token", func(q *raw) { q.creds = expired }},
		{"needless token", func(q *raw) { q.creds = badToken }},
		{"signed 16 minutes ago", func(q *raw) { q.at = testNow.Add(-16 * time.Minute) }},
		{"signed 16 minutes ahead", func(q *raw) { q.at = testNow.Add(16 * time.Minute) }},
		{"presigned 16 minutes ago", func(q *raw) { q.at, q.presign = testNow.Add(-16*time.Minute), true }},
		{"garbage authorization", func(q *raw) {
			q.spoil = func(r *http.Request) { r.Header.Set("Authorization", "Bearer abc") }
		}},
		{"half an authorization", func(q *raw) {
			q.spoil = func(r *http.Request) {
				r.Header.Set("Authorization", strings.Split(r.Header.Get("Authorization"), ", Signature")[0])
			}
		}},
		{"short credential", func(q *raw) {
			q.spoil = func(r *http.Request) {
				r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/us-east-1/", "/", 1))
			}
		}},
		{"wrong terminator", func(q *raw) {
			q.spoil = func(r *http.Request) {
				r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "aws4_request", "aws5", 1))
			}
		}},
		{"other day in the scope", func(q *raw) {
			q.spoil = func(r *http.Request) {
				r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/20260701/", "/20260630/", 1))
			}
		}},
		{"bad region", func(q *raw) {
			q.spoil = func(r *http.Request) {
				r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), "/us-east-1/", "/MARS/", 1))
			}
		}},
		{"bad date", func(q *raw) { q.spoil = func(r *http.Request) { r.Header.Set("X-Amz-Date", "yesterday") } }},
		{"body too large", func(q *raw) { q.body = strings.Repeat("x", 5000) }},
	}
	n := testkit.NewNormalizer()
	var got strings.Builder
	for _, svc := range services {
		for _, fault := range faults {
			q := svc.raw
			fault.apply(&q)
			if svc.name == "s3" && fault.name == "presigned 16 minutes ago" {
				q.path += "?X-Amz-Expires=60"
			}
			resp, body := do(t, s, q.build(t, s.URL))
			if resp.StatusCode < 400 || resp.StatusCode >= 500 {
				t.Errorf("%s, %s: status %d", svc.name, fault.name, resp.StatusCode)
			}
			fmt.Fprintf(&got, "== %s: %s\n%s", svc.name, fault.name, show(resp, body))
		}
	}
	testkit.Golden(t, "refusals.txt", n.Replace(got.String()))
}

func do(t testing.TB, s *testkit.Server, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp, err := s.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func show(resp *http.Response, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d", resp.StatusCode)
	for _, k := range []string{"Content-Type", "X-Amzn-Errortype", "X-Amzn-Query-Error"} {
		if v := resp.Header.Get(k); v != "" {
			fmt.Fprintf(&b, " %s: %s", k, v)
		}
	}
	if resp.Header.Get("X-Amzn-Requestid") == "" {
		b.WriteString(" NO REQUEST ID")
	}
	b.WriteString("\n" + strings.TrimSpace(body) + "\n")
	return b.String()
}

func TestMalformedRequests(t *testing.T) {
	s, _ := start(t, testkit.Config{Lookup: keys, Clock: clocktesting.NewFakeClock(testNow)})
	n := testkit.NewNormalizer()
	var got strings.Builder
	for _, tt := range []struct {
		name string
		raw
	}{
		// Which operation?
		{"a browser at the root", raw{method: "GET", path: "/"}},
		{"sts: unknown action", raw{method: "POST", path: "/", header: form, body: "Action=Nope&Version=2011-06-15", service: "sts"}},
		{"sts: no action", raw{method: "POST", path: "/", header: form, body: "Version=2011-06-15", service: "sts"}},
		{"sts: no version", raw{method: "POST", path: "/", header: form, body: "Action=GetCallerIdentity", service: "sts"}},
		{"sts: empty", raw{method: "POST", path: "/", service: "sts"}},
		{"sts: known, not handled", raw{method: "POST", path: "/", header: form, body: "Action=GetFederationToken&Version=2011-06-15&Name=n", service: "sts"}},
		{"ec2: unknown action", raw{method: "POST", path: "/", header: form, body: "Action=Nope&Version=2016-11-15", service: "ec2"}},
		{"ec2: no action", raw{method: "POST", path: "/", header: form, body: "Version=2016-11-15", service: "ec2"}},
		{"ec2: an old client's version", raw{method: "POST", path: "/", header: form, body: "Action=DescribeVpcs&Version=2014-10-01", service: "ec2"}},
		{"ssm: unknown operation", raw{method: "POST", path: "/", header: json11 + "AmazonSSM.Nope", body: "{}", service: "ssm"}},
		{"ssm: another service's target", raw{method: "POST", path: "/", header: json11 + "TrentService.Decrypt", body: "{}", service: "ssm"}},
		{"ssm: no target", raw{method: "POST", path: "/", body: "{}", service: "ssm"}},
		{"eks: unknown path", raw{method: "GET", path: "/nope/x", service: "eks"}},
		{"eks: wrong method", raw{method: "PATCH", path: "/clusters", service: "eks"}},
		{"eks: known, not handled", raw{method: "DELETE", path: "/clusters/dev", service: "eks"}},
		{"a service nobody knows", raw{method: "POST", path: "/", header: json11 + "X.Y", body: "{}", service: "braket"}},
		{"a service without handlers", raw{method: "POST", path: "/", header: json11 + "TrentService.Decrypt", body: "{}", service: "kms"}},
		{"elb by its version", raw{method: "POST", path: "/", header: form, body: "Action=DescribeLoadBalancers&Version=2012-06-01", service: "elasticloadbalancing"}},
		{"elbv2 by its version", raw{method: "POST", path: "/", header: form, body: "Action=DescribeTargetGroups&Version=2015-12-01", service: "elasticloadbalancing"}},
		// What does it say?
		{"ssm: no JSON", raw{method: "POST", path: "/", header: parameter, body: "{", service: "ssm"}},
		{"ssm: wrong type", raw{method: "POST", path: "/", header: parameter, body: `{"Name":[1]}`, service: "ssm"}},
		{"ssm: required member missing", raw{method: "POST", path: "/", header: parameter, body: `{}`, service: "ssm"}},
		{"eks: no JSON", raw{method: "POST", path: "/clusters", header: "Content-Type: application/json", body: "<xml/>", service: "eks"}},
		{"eks: required members missing", raw{method: "POST", path: "/clusters", header: "Content-Type: application/json", body: "{}", service: "eks"}},
		{"eks: member not honoured", raw{method: "POST", path: "/clusters", header: "Content-Type: application/json", body: `{"name":"a","roleArn":"r","resourcesVpcConfig":{"subnetIds":["s"],"endpointPublicAccess":true},"logging":{"clusterLogging":[{"enabled":true}]}}`, service: "eks"}},
		{"eks: member not honoured, but it says nothing", raw{method: "POST", path: "/clusters", header: "Content-Type: application/json", body: `{"name":"a","roleArn":"r","resourcesVpcConfig":{"subnetIds":["s"],"endpointPrivateAccess":false},"logging":{"clusterLogging":[]},"version":""}`, service: "eks"}},
		{"eks: member not known", raw{method: "POST", path: "/clusters", header: "Content-Type: application/json", body: `{"name":"a","roleArn":"r","resourcesVpcConfig":{},"color":"red"}`, service: "eks"}},
		{"iam: member not known to an operation that honours all", raw{method: "POST", path: "/", header: form, body: "Action=CreateRole&Version=2010-05-08&RoleName=r&AssumeRolePolicyDocument=d&Color=red", service: "iam"}},
		{"sts: bad escapes", raw{method: "POST", path: "/", header: form, body: whoami + "&a=%zz", service: "sts"}},
		{"ec2: parameter not honoured", raw{method: "POST", path: "/", header: form, body: vpcs + "&MaxResults=5", service: "ec2"}},
		{"ec2: parameter not honoured, but it says nothing", raw{method: "POST", path: "/", header: form, body: vpcs + "&MaxResults=0", service: "ec2"}},
		{"ec2: number wanted", raw{method: "POST", path: "/", header: form, body: "Action=RunInstances&Version=2016-11-15&MinCount=x&MaxCount=1", service: "ec2"}},
		{"ec2: dry run", raw{method: "POST", path: "/", header: form, body: "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&DryRun=true", service: "ec2"}},
		// Other entrances
		{"presigned", raw{method: "GET", path: "/?" + whoami + "&X-Amz-Expires=60", service: "sts", presign: true}},
		{"presigned, JSON wanted", raw{method: "GET", path: "/?" + whoami, header: "Accept: application/json", service: "sts", presign: true}},
		{"presigned POST", raw{method: "POST", path: "/", header: form, body: whoami, service: "sts", presign: true}},
		{"presigned, lifetime no number", raw{method: "GET", path: "/?" + whoami + "&X-Amz-Expires=soon", service: "sts", presign: true}},
		{"presigned, signature cut", raw{method: "GET", path: "/?" + whoami, service: "sts", presign: true, spoil: func(r *http.Request) {
			r.URL.RawQuery = r.URL.RawQuery[:len(r.URL.RawQuery)-1]
		}}},
		{"presigned, parameter added", raw{method: "GET", path: "/?" + whoami, service: "sts", presign: true, spoil: func(r *http.Request) { r.URL.RawQuery += "&x=y" }}},
		{"unsigned operation", raw{method: "POST", path: "/", header: form, body: "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::111122223333:role/r&RoleSessionName=pod&WebIdentityToken=a.bad"}},
		{"unsigned call of a signed operation", raw{method: "POST", path: "/", header: form, body: whoami}},
		{"OPTIONS", raw{method: "OPTIONS", path: "/clusters"}},
		{"an internal path nobody serves", raw{method: "GET", path: "/_drydock/status"}},
	} {
		req := tt.build(t, s.URL)
		resp, body := do(t, s, req)
		if tt.path != "/_drydock/status" && resp.StatusCode == http.StatusInternalServerError {
			t.Errorf("%s: status 500", tt.name)
		}
		out := show(resp, body)
		if tt.path == "/_drydock/status" {
			out = strings.Replace(out, " NO REQUEST ID", "", 1)
		}
		fmt.Fprintf(&got, "== %s\n%s", tt.name, out)
	}
	testkit.Golden(t, "malformed.txt", n.Replace(got.String()))
}

func TestABodyThatEndsTooEarly(t *testing.T) {
	s, _ := start(t, testkit.Config{Lookup: keys, Clock: clocktesting.NewFakeClock(testNow)})
	req := raw{method: "POST", path: "/", header: form, body: whoami, service: "sts"}.build(t, s.URL)
	req.Body = io.NopCloser(io.MultiReader(bytes.NewReader([]byte("Action=")), errReader{}))
	req.ContentLength = int64(len(whoami))
	w := httptest.NewRecorder()
	s.Front.ServeHTTP(w, req)
	if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "<Code>IncompleteBody</Code>") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
