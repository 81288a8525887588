package server

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// This file has what only S3's protocol needs: bucket names in host names, operations that differ by a header, and
// bodies that are not held in memory.

var (
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/VirtualHosting.html
	s3Host = regexp.MustCompile(`^(?:(.+)\.)?s3(?:\.dualstack)?(?:[.-][a-z]{2}-[a-z-]+-[0-9])?\.amazonaws\.com$`)
	// Clients that are given http://localhost:4566 put the bucket in front of it.
	s3LocalHost = regexp.MustCompile(`^(.+?)(?:\.s3(?:\.[a-z]{2}-[a-z-]+-[0-9])?)?\.localhost$`)
	s3LocalName = regexp.MustCompile(`^s3(?:\.[a-z]{2}-[a-z-]+-[0-9])?$`)
)

// bucketOfHost returns the bucket that a host name begins with, or "". ok reports whether the name is S3's at all.
func bucketOfHost(host string) (bucket string, ok bool) {
	name := strings.ToLower(strings.TrimSuffix(hostname(host), "."))
	if m := s3Host.FindStringSubmatch(name); m != nil {
		return m[1], true
	}
	if m := s3LocalHost.FindStringSubmatch(name); m != nil && !s3LocalName.MatchString(m[1]) {
		return m[1], true
	}
	return "", false
}

// restPath returns the path that names the operation of a REST request. For S3 it begins with the bucket, even if the
// bucket is in the host name.
func (x *exchange) restPath(svc *model.Service) string {
	if svc.Name == "s3" {
		if bucket, _ := bucketOfHost(x.req.Host); bucket != "" {
			return "/" + bucket + x.req.EscapedPath
		}
	}
	return x.req.EscapedPath
}

// routeAnonymous reports whether a request without a signature is one to S3, for which bucket policies and ACLs decide. A host that is
// not S3's own says nothing about the service, so that the path must begin with the name of a bucket.
func (x *exchange) routeAnonymous() bool {
	svc := x.s.registry.service("s3")
	if svc == nil || svc.Anonymous == nil {
		return false
	}
	bucket, ofS3 := bucketOfHost(x.req.Host)
	if bucket == "" {
		bucket, _, _ = strings.Cut(strings.TrimPrefix(x.req.EscapedPath, "/"), "/")
	}
	owner, region, found := svc.Anonymous(bucket)
	if !found && !ofS3 {
		return false
	}
	x.service, x.call.Service, x.call.Region, x.owner = svc.model, svc.model.Package, region, owner
	if !found {
		x.call.Region = regionOfHost(x.req.Host)
	}
	return true
}

// copies are the operations that a header makes of others with the same URL.
var copies = map[string]string{"PutObject": "CopyObject", "UploadPart": "UploadPartCopy"}

// restOperation returns the operation of a REST request, or nil.
func (x *exchange) restOperation(svc *model.Service) *model.Operation {
	op, ok := svc.MatchREST(x.req.Method, x.restPath(svc), x.req.RawQuery)
	if !ok {
		return nil
	}
	if name := copies[op.Name]; svc.Name == "s3" && name != "" && x.req.Header.Get("X-Amz-Copy-Source") != "" {
		return svc.Operations[name]
	}
	return op
}

// streams reports whether the request's body is left to the handler to read: that of an object, from a sender whose
// signature is right.
func (x *exchange) streams() bool {
	if x.auth == nil || x.auth.Service != "s3" || x.pending == nil || !x.pending.Proven {
		return false
	}
	svc, err := model.Get("s3")
	if err != nil {
		return false
	}
	op := x.restOperation(svc)
	return op != nil && wire.Streams(op)
}

// stream gives the handler the body. What is wrong with it shows when the handler reads it.
func (x *exchange) stream() (*sigv4.Verified, error) {
	got, body, err := x.pending.Stream(x.signed(), &patientBody{x: x})
	if err != nil {
		return nil, err
	}
	x.useStream(body)
	return got, nil
}

func (x *exchange) useStream(body *sigv4.Body) {
	x.req.Stream = body
	if body.Chunked {
		x.unchunkHeader()
		if n := x.r.Header.Get("X-Amz-Decoded-Content-Length"); n != "" {
			x.req.Header.Set("Content-Length", n)
		}
	}
}

// unchunkAnonymous takes the chunks from the body of an unsigned request. Such a body is in memory.
func (x *exchange) unchunkAnonymous() {
	if x.service.Name != "s3" {
		return
	}
	if op := x.restOperation(x.service); op != nil && wire.Streams(op) {
		if body := sigv4.Unsigned(x.req.Header, bytes.NewReader(x.req.Body)); body != nil {
			x.useStream(body)
		}
	}
}

// A patientBody reads a request's body for as long as the client sends it.
type patientBody struct{ x *exchange }

func (b *patientBody) Read(p []byte) (int, error) {
	if b.x.r.Body == nil {
		return 0, io.EOF
	}
	b.x.wait()
	n, err := b.x.r.Body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = incompleteBody()
	}
	return n, err
}

// streamTimeout is how long a client may neither send nor take anything of an object.
const streamTimeout = time.Minute

// wait gives the client more time. An error means that the connection has no deadlines.
func (x *exchange) wait() {
	rc, now := http.NewResponseController(x.w), time.Now()
	_ = rc.SetReadDeadline(now.Add(streamTimeout))
	_ = rc.SetWriteDeadline(now.Add(answerTimeout))
}

// send sends an answer whose body is a stream, and reports whether all of it was read.
func (x *exchange) send(body io.ReadCloser) bool {
	defer body.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			x.wait()
			if _, err := x.w.Write(buf[:n]); err != nil {
				return true // the client has disconnected
			}
		}
		if errors.Is(err, io.EOF) {
			return true
		}
		if err != nil {
			x.log(x.r.Context(), slog.LevelError, "an answer ended early", err)
			return false
		}
	}
}
