package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
)

func fakeClock() clock.Clock { return clocktesting.NewFakeClock(testNow) }

func sign(t testing.TB, req *http.Request, service, body string) {
	t.Helper()
	sum := sha256.Sum256([]byte(body))
	err := v4.NewSigner().SignHTTP(t.Context(), alice, req, hex.EncodeToString(sum[:]), service, "us-east-1", testNow)
	if err != nil {
		t.Fatal(err)
	}
}

// BenchmarkPipeline is a read through the whole pipeline, signature included,
// without the network.
func BenchmarkPipeline(b *testing.B) {
	s := toyServer(b, slog.DiscardHandler)
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
