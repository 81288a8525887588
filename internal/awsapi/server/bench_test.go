package server_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
)

// toyServer is an AWS API server without a listener.
func toyServer(t testing.TB) *server.Server {
	t.Helper()
	y := &toys{}
	s, err := server.New(server.Config{
		Services:  y.services(nil),
		Lookup:    keys,
		Authorize: func(context.Context, *awsapi.Call, any) error { return nil },
		Clock:     clocktesting.NewFakeClock(testNow),
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkPipeline is a read through the whole pipeline, signature included,
// without the network.
func BenchmarkPipeline(b *testing.B) {
	s := toyServer(b)
	for _, bb := range []struct {
		name string
		raw
	}{
		{"GetCallerIdentity", raw{method: "POST", path: "/", header: form, body: whoami, service: "sts"}},
		{"DescribeVpcs", raw{method: "POST", path: "/", header: form, body: vpcs, service: "ec2"}},
		{"ListClusters", raw{method: "GET", path: "/clusters", service: "eks"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			req := bb.build(b, "http://localhost:4566")
			req.RequestURI = req.URL.RequestURI()
			b.ReportAllocs()
			for b.Loop() {
				req.Body = io.NopCloser(strings.NewReader(bb.body))
				w := httptest.NewRecorder()
				s.ServeHTTP(w, req)
				if w.Code != http.StatusOK {
					b.Fatalf("%d %s", w.Code, w.Body)
				}
			}
		})
	}
}
