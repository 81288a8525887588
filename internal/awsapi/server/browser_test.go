package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A daemon on loopback accepts credentials that everybody knows, so a web page must not reach it: a link is enough
// for a query API.
func TestBrowsersAreRefused(t *testing.T) {
	s, _ := start(t, testkit.Config{})
	for name, set := range map[string]func(http.Header){
		"a cross-origin request": func(h http.Header) { h.Set("Origin", "https://evil.example") },
		"an image":               func(h http.Header) { h.Set("Sec-Fetch-Site", "cross-site") },
		"after DNS rebinding":    func(h http.Header) { h.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64)") },
	} {
		for _, path := range []string{"/?Action=GetCallerIdentity&Version=2011-06-15", "/_drydock/reset"} {
			t.Run(name+" "+path, func(t *testing.T) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				set(req.Header)
				resp, _ := do(t, s, req)
				if resp.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s", path, resp.Status)
				}
			})
		}
	}
}

// A page at http://evil.example:4566 whose name is rebound to loopback is a same-origin
// caller: no Origin, no Sec-Fetch-Site over plain http, and a user agent of its choice.
// Only the Host header still has its name.
func TestHosts(t *testing.T) {
	s := testkit.NewServer(t, testkit.Config{Services: new(toys).services, AllowHosts: []string{"Drydock.corp.example", "*.dev.example"}})
	for _, tt := range []struct {
		host string
		want int
	}{
		// this machine
		{"127.0.0.1:4566", 200}, {"10.0.0.7", 200}, {"[::1]:4566", 200}, {"[::1]", 200}, {"localhost:4566", 200}, {"LOCALHOST.", 200},
		{"bucket.localhost:4566", 200},
		// AWS
		{"sts.eu-west-1.amazonaws.com", 200}, {"sts.amazonaws.com:443", 200}, {"sts.cn-north-1.amazonaws.com.cn", 200},
		{"eks-auth.us-east-1.api.aws", 200}, {"public.ecr.aws", 200},
		{"vpce-0123-abcd.sts.us-east-1.vpce.amazonaws.com", 200},
		// the user's
		{"drydock.corp.example:4566", 200}, {"a.b.dev.example", 200}, {"dev.example", 403},
		// anybody else's
		{"evil.example:4566", 403}, {"127.0.0.1.evil.example", 403}, {"amazonaws.com.evil.example", 403}, {"evilamazonaws.com", 403},
		{"localhost.evil.example:4566", 403}, {"notlocalhost", 403}, {"x.public.ecr.aws", 403}, {"a.drydock.corp.example", 403}, {"127.1", 403},
	} {
		t.Run(tt.host, func(t *testing.T) {
			req := signedLink(t, s, "sts", "POST", "Action=GetCallerIdentity&Version=2011-06-15", tt.host)
			resp, body := do(t, s, req)
			if resp.StatusCode != tt.want {
				t.Errorf("%s: %s", resp.Status, body)
			}
			if name, _, _ := strings.Cut(tt.host, ":"); tt.want == 403 && !strings.Contains(body, "drydock up --allow-host "+name+"\n") {
				t.Errorf("no way out: %s", body)
			}
		})
	}
}

// signedLink is a request with its parameters in the URL, signed with an access key that anybody has: an account
// number, with any secret.
func signedLink(t *testing.T, s *testkit.Server, service, method, query, host string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+"/?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	creds := aws.Credentials{AccessKeyID: s.Account(t), SecretAccessKey: "any"}
	const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	if err := v4.NewSigner().SignHTTP(t.Context(), creds, req, emptyHash, service, testkit.Region, time.Now()); err != nil {
		t.Fatal(err)
	}
	return req
}

// An account number is a key without a secret, so a link could call a query API. Only requests that clients really
// send by GET are accepted by GET.
func TestLinksDoNotCallQueryAPIs(t *testing.T) {
	y := new(toys)
	s, _ := start(t, testkit.Config{Services: y.services})
	for _, tt := range []struct {
		service, method, query string
		want                   int
	}{
		{"ec2", "GET", "Action=DescribeVpcs&Version=2016-11-15", 405},
		{"ec2", "HEAD", "Action=DescribeVpcs&Version=2016-11-15", 405},
		{"ec2", "PUT", "Action=DescribeVpcs&Version=2016-11-15", 405},
		{"ec2", "POST", "Action=DescribeVpcs&Version=2016-11-15", 200},
		{"iam", "GET", "Action=CreateRole&Version=2010-05-08&RoleName=x", 405},
		{"sts", "GET", "Action=GetCallerIdentity&Version=2011-06-15", 405},
		{"cloudformation", "GET", "Action=CreateStack&Version=2010-05-15", 405},
		{"cloudformation", "GET", "Action=SignalResource&Version=2010-05-15", 501},
		{"cloudformation", "GET", "Action=DescribeStackResource&Version=2010-05-15", 501},
		{"cloudformation", "DELETE", "Action=SignalResource&Version=2010-05-15", 405},
	} {
		t.Run(tt.service+" "+tt.method+" "+tt.query, func(t *testing.T) {
			resp, body := do(t, s, signedLink(t, s, tt.service, tt.method, tt.query, ""))
			if resp.StatusCode != tt.want {
				t.Errorf("%s: %s", resp.Status, body)
			}
			if tt.want == 405 && tt.method != "HEAD" && !strings.Contains(body, "docs/compatibility.md") {
				t.Errorf("no reason: %s", body)
			}
		})
	}
	t.Run("unsigned", func(t *testing.T) {
		resp, err := s.Client().Get(s.URL + "/?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn:aws:iam::000000000000:role/r&RoleSessionName=s&WebIdentityToken=t")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != 405 {
			t.Error(resp.Status)
		}
	})
	t.Run("presigned STS", func(t *testing.T) {
		client := awssts.NewPresignClient(awssts.NewFromConfig(s.AWSConfig(s.Account(t))))
		u, err := client.PresignGetCallerIdentity(t.Context(), &awssts.GetCallerIdentityInput{})
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", u.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, _ := do(t, s, req)
		if resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
	})
}

type dryHandler struct{ calls *int }

func (h dryHandler) DescribeVpcs(context.Context, *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	*h.calls++
	if *h.calls == 1 {
		return nil, awserr.New("InvalidVpcID.Malformed", "checked first")
	}
	return &awsec2.DescribeVpcsOutput{}, nil
}

// Handlers that support dry runs check the request. One that would allow it must not have done anything.
func TestDryRunsAreCheckedByHandlersThatCan(t *testing.T) {
	calls := 0
	s := testkit.NewServer(t, testkit.Config{Services: func(*store.Store) []awsapi.Service {
		return []awsapi.Service{{Name: "ec2", Handler: dryHandler{&calls}, HandlesDryRun: true, Operations: []awsapi.Operation{{Name: "DescribeVpcs"}}}}
	}})
	client := awsec2.NewFromConfig(s.AWSConfig(s.Account(t)))
	dry := true
	for _, want := range []string{"InvalidVpcID.Malformed", "DryRunOperation"} {
		_, err := client.DescribeVpcs(t.Context(), &awsec2.DescribeVpcsInput{DryRun: &dry})
		if err == nil || !strings.Contains(code(err), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
