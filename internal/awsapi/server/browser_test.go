package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A daemon on loopback accepts credentials everybody knows, so a web page must
// not reach it: a link is enough for a query API.
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
				resp, err := s.Client().Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusForbidden {
					t.Errorf("%s: %s", path, resp.Status)
				}
			})
		}
	}
}

type dryHandler struct{ calls *int }

func (h dryHandler) DescribeVpcs(context.Context, *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error) {
	*h.calls++
	if *h.calls == 1 {
		return nil, awserr.New("InvalidVpcID.Malformed", "checked first")
	}
	return &awsec2.DescribeVpcsOutput{}, nil
}

// Handlers that know dry runs check the request; one that says yes to it has still
// only been asked.
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
