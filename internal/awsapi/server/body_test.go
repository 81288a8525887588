package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// A countedBody counts what is read of it.
type countedBody struct {
	left, read int
}

func (b *countedBody) Read(p []byte) (int, error) {
	n := min(len(p), b.left)
	if n == 0 {
		return 0, io.EOF
	}
	for i := range n {
		p[i] = 'x'
	}
	b.left -= n
	b.read += n
	return n, nil
}

// Memory is only allocated for a large body if its sender has proven its identity, because anybody can name S3 in a
// signature.
func TestStrangersSendLittle(t *testing.T) {
	s, _ := start(t, testkit.Config{Lookup: keys, Clock: clocktesting.NewFakeClock(testNow)})
	const size = 48 << 20
	object := raw{method: "PUT", path: "/bucket/key", service: "s3", header: "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD"}
	for _, tt := range []struct {
		name   string
		q      raw
		status int
		most   int
	}{
		{"a signature that is right", object, 501, size},
		{"no signature", raw{method: "POST", path: "/", header: form}, 413, 2 << 20},
		{"an unknown key", raw{method: "PUT", path: "/bucket/key", service: "s3", header: object.header, creds: aws.Credentials{AccessKeyID: "AKIANOBODY", SecretAccessKey: "x"}}, 403, 2 << 20},
		{"a wrong secret", raw{method: "PUT", path: "/bucket/key", service: "s3", header: object.header, creds: aws.Credentials{AccessKeyID: alice.AccessKeyID, SecretAccessKey: "x"}}, 403, 2 << 20},
		{"a signature of yesterday", raw{method: "PUT", path: "/bucket/key", service: "s3", header: object.header, at: testNow.AddDate(0, 0, -1)}, 403, 2 << 20},
		{"no hash to prove it by", raw{method: "PUT", path: "/bucket/key", service: "s3"}, 413, 8 << 20},
		{"a malformed signature", raw{method: "PUT", path: "/", header: "Authorization: AWS4-HMAC-SHA256 Credential=x/y/z/s3/aws4_request"}, 400, 2 << 20},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := tt.q.build(t, s.URL)
			body := &countedBody{left: size}
			req.Body, req.ContentLength = io.NopCloser(body), -1 // chunked, so there is no length to refuse
			resp, err := s.Client().Do(req)
			if err != nil {
				// The answer came while the body was still being sent, and the connection ended.
				if tt.most == size || !strings.Contains(err.Error(), "write") && !strings.Contains(err.Error(), "reset") {
					t.Fatal(err)
				}
			} else {
				defer resp.Body.Close()
				if text, _ := io.ReadAll(resp.Body); resp.StatusCode != tt.status {
					t.Errorf("%s %s, want %d %s", resp.Status, text, tt.status, http.StatusText(tt.status))
				}
			}
			// What the kernel and the transport hold of it was not read by the server.
			if body.read > tt.most+12<<20 {
				t.Errorf("%d bytes were taken, want %d at most", body.read, tt.most)
			}
		})
	}
}
