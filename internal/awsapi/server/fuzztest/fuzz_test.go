package fuzztest_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	_ "github.com/drydock-dev/drydock/internal/testkit/testlog"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

const whoami = "Action=GetCallerIdentity&Version=2011-06-15"

type toySTS struct{}

func (toySTS) GetCallerIdentity(ctx context.Context, _ *awssts.GetCallerIdentityInput) (*awssts.GetCallerIdentityOutput, error) {
	return &awssts.GetCallerIdentityOutput{Arn: &awsapi.CallFrom(ctx).Principal.ARN}, nil
}

func (toySTS) AssumeRoleWithWebIdentity(_ context.Context, in *awssts.AssumeRoleWithWebIdentityInput) (*awssts.AssumeRoleWithWebIdentityOutput, error) {
	return &awssts.AssumeRoleWithWebIdentityOutput{SubjectFromWebIdentityToken: in.WebIdentityToken}, nil
}

type toySSM struct{}

func (toySSM) GetParameter(_ context.Context, in *awsssm.GetParameterInput) (*awsssm.GetParameterOutput, error) {
	return &awsssm.GetParameterOutput{Parameter: &ssmtypes.Parameter{Name: in.Name}}, nil
}

type toyEKS struct{}

func (toyEKS) CreateCluster(_ context.Context, in *awseks.CreateClusterInput) (*awseks.CreateClusterOutput, error) {
	return &awseks.CreateClusterOutput{Cluster: &ekstypes.Cluster{Name: in.Name, RoleArn: in.RoleArn, Tags: in.Tags}}, nil
}

func (toyEKS) DescribeAccessEntry(_ context.Context, in *awseks.DescribeAccessEntryInput) (*awseks.DescribeAccessEntryOutput, error) {
	return &awseks.DescribeAccessEntryOutput{AccessEntry: &ekstypes.AccessEntry{PrincipalArn: in.PrincipalArn}}, nil
}

// newServer returns an AWS API server in which every access key that is an account number is valid, whatever the
// signature, so that the fuzzer gets past it.
func newServer(f *testing.F) *server.Server {
	f.Helper()
	s, err := server.New(server.Config{
		Services: []awsapi.Service{
			{Name: "sts", Handler: toySTS{}, Operations: []awsapi.Operation{
				{Name: "GetCallerIdentity", Exempt: true},
				{Name: "AssumeRoleWithWebIdentity", Unsigned: true, Members: "RoleArn RoleSessionName WebIdentityToken"},
			}},
			{Name: "ssm", Handler: toySSM{}, Operations: []awsapi.Operation{{Name: "GetParameter", Members: "*"}}},
			{Name: "eks", Handler: toyEKS{}, Operations: []awsapi.Operation{{Name: "CreateCluster", Members: "*"}, {Name: "DescribeAccessEntry", Members: "*"}}},
		},
		Lookup: func(_ context.Context, key, _ string) (sigv4.Credential, error) {
			if cred, ok := sigv4.AccountRoot(key); ok {
				return cred, nil
			}
			return sigv4.Credential{}, sigv4.ErrUnknownKey
		},
		Authorize: func(context.Context, *awsapi.Call, any) error { return nil },
		Log:       slog.Default(), // of testlog
		Clock:     clocktesting.NewFakeClock(now),
	})
	if err != nil {
		f.Fatal(err)
	}
	return s
}

// FuzzPipeline: signed or not, routed or not, the answer is AWS's and never a 500.
func FuzzPipeline(f *testing.F) {
	for _, seed := range []struct{ method, uri, service, target, contentType, body string }{
		{"POST", "/", "sts", "", "application/x-www-form-urlencoded", whoami},
		{"GET", "/?" + whoami, "sts", "", "", ""},
		{"POST", "/", "ec2", "", "application/x-www-form-urlencoded", "Action=DescribeVpcs&Version=2016-11-15&Filter.1.Name=a&Filter.1.Value.1=b"},
		{"POST", "/", "ec2", "", "application/x-www-form-urlencoded", "Action=RunInstances&Version=2016-11-15&MinCount=1&MaxCount=1&TagSpecification.1.Tag.1.Key=k"},
		{"POST", "/", "ssm", "AmazonSSM.GetParameter", "application/x-amz-json-1.1", `{"Name":"/a"}`},
		{"POST", "/clusters", "eks", "", "application/json", `{"name":"a","roleArn":"r","resourcesVpcConfig":{"subnetIds":["s"]}}`},
		{"GET", "/clusters/a/access-entries/arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr", "eks", "", "", ""},
		{"PUT", "/bucket/key?x-id=PutObject", "s3", "", "", "data"},
		{"GET", "/2013-04-01/hostedzone", "route53", "", "", ""},
		{"POST", "/", "", "", "application/x-www-form-urlencoded", "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=r&RoleSessionName=s&WebIdentityToken=t"},
		{"POST", "/", "elasticloadbalancing", "", "", "Action=X&Version=2012-06-01"},
	} {
		f.Add(seed.method, seed.uri, seed.service, seed.target, seed.contentType, seed.body)
	}
	s := newServer(f)
	f.Fuzz(func(t *testing.T, method, uri, service, target, contentType, body string) {
		if !strings.HasPrefix(uri, "/") || strings.HasPrefix(uri, server.InternalPrefix) {
			t.Skip()
		}
		req, err := http.NewRequestWithContext(t.Context(), method, "http://localhost:4566"+uri, strings.NewReader(body))
		if err != nil || strings.ContainsAny(target+contentType+service, "\r\n") {
			t.Skip()
		}
		req.RequestURI = uri
		req.Header.Set("X-Amz-Target", target)
		req.Header.Set("Content-Type", contentType)
		if service != "" {
			req.Header.Set("X-Amz-Date", "20260701T120000Z")
			req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=123456789012/20260701/us-east-1/"+service+"/aws4_request, SignedHeaders=host, Signature=00")
		}
		w := httptest.NewRecorder()
		began := time.Now()
		s.ServeHTTP(w, req)
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("took %v", took)
		}
		if w.Code == http.StatusInternalServerError {
			t.Errorf("500: %s", w.Body)
		}
		if w.Header().Get("X-Amzn-Requestid") == "" {
			t.Error("no request ID")
		}
	})
}

// FuzzAuthorization: the parsers of signatures, in header and query.
func FuzzAuthorization(f *testing.F) {
	f.Add("AWS4-HMAC-SHA256 Credential=AKIAALICE/20260701/us-east-1/sts/aws4_request, SignedHeaders=host;x-amz-date, Signature=00", "20260701T120000Z", whoami)
	f.Add("", "", whoami+"&X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAALICE%2F20260701%2Fus-east-1%2Fsts%2Faws4_request&X-Amz-Date=20260701T120000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=00")
	f.Add("Bearer x", "", "")
	f.Add("AWS4-HMAC-SHA256 Credential=//////,=,Signature", "Wed, 01 Jul 2026 12:00:00 GMT", "X-Amz-Signature=%zz")
	s := newServer(f)
	f.Fuzz(func(t *testing.T, authorization, date, query string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost:4566/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.URL.RawQuery = query
		req.RequestURI = "/?" + query
		req.Header.Set("Authorization", authorization)
		req.Header.Set("X-Amz-Date", date)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, req)
		if w.Code < 400 || w.Code == http.StatusInternalServerError {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}
