package sigv4

import (
	"bytes"
	"crypto/hmac"
	"encoding/hex"
	"strconv"
	"strings"
)

// The values that x-amz-content-sha256 may have instead of a hash.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html
const (
	unsignedPayload          = "UNSIGNED-PAYLOAD"
	streamingSigned          = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	streamingSignedTrailer   = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	streamingUnsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// A payload is a request's body and what the signature says about it.
type payload struct {
	hash   string // as it stands in the canonical request
	body   []byte
	chunks []chunk // of a signed stream
	// trailer is the canonical form of a signed stream's trailing headers.
	trailer          string
	trailerSignature string
}

type chunk struct {
	data      []byte
	signature string
}

// declaredHash returns the payload hash that a request declares, or one of the words above, or "" if it declares
// nothing.
func declaredHash(req *Request, auth *Authorization, service string) string {
	declared := req.Header.Get("X-Amz-Content-Sha256")
	if declared == "" && auth.Presigned {
		declared = queryValues(req.RawQuery)["X-Amz-Content-Sha256"]
		if declared == "" && service == "s3" {
			declared = unsignedPayload
		}
	}
	return declared
}

func readPayload(req *Request, auth *Authorization, service string) (*payload, error) {
	p := &payload{body: req.Body}
	declared := declaredHash(req, auth, service)
	switch declared {
	case unsignedPayload:
		p.hash = declared
		return p, nil
	case streamingSigned, streamingSignedTrailer, streamingUnsignedTrailer:
		p.hash = declared
		return p, p.unchunk(declared)
	}
	p.hash = emptyHash
	if len(req.Body) > 0 {
		p.hash = hexHash(req.Body)
	}
	if declared != "" && declared != p.hash {
		return nil, &Error{Kind: PayloadHash}
	}
	return p, nil
}

// unchunk decodes an aws-chunked body: SIZE[;chunk-signature=SIG]\r\nDATA\r\n … up to a chunk of size 0, then
// trailing headers. https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
func (p *payload) unchunk(kind string) error {
	bad := &Error{Kind: Malformed}
	rest := p.body
	body := make([]byte, 0, len(rest))
	for {
		line, after, ok := bytes.Cut(rest, []byte("\r\n"))
		if !ok || len(line) > 200 {
			return bad
		}
		size, ext, _ := strings.Cut(string(line), ";")
		n, err := strconv.ParseUint(size, 16, 31)
		if err != nil || n > uint64(len(after)) {
			return bad
		}
		data := after[:n]
		sig, signed := strings.CutPrefix(ext, "chunk-signature=")
		if kind != streamingUnsignedTrailer {
			if !signed {
				return bad
			}
			p.chunks = append(p.chunks, chunk{data, sig})
		}
		rest = after[n:]
		if n == 0 {
			break
		}
		body = append(body, data...)
		if !bytes.HasPrefix(rest, []byte("\r\n")) {
			return bad
		}
		rest = rest[2:]
	}
	p.body = body
	var trailer strings.Builder
	for line := range bytes.SplitSeq(rest, []byte("\r\n")) {
		name, value, ok := strings.Cut(string(line), ":")
		switch {
		case len(line) == 0:
		case !ok:
			return bad
		case strings.EqualFold(name, "x-amz-trailer-signature"):
			p.trailerSignature = strings.TrimSpace(value)
		default:
			trailer.WriteString(strings.ToLower(name) + ":" + strings.TrimSpace(value) + "\n")
		}
	}
	p.trailer = trailer.String()
	if kind == streamingSignedTrailer && p.trailerSignature == "" {
		return bad
	}
	return nil
}

// verifyChunks checks a signed stream, in which each chunk's signature covers the previous one.
func (p *payload) verifyChunks(auth *Authorization, key []byte) error {
	previous := auth.signature
	check := func(given, kind, tail string) bool {
		want := sign(key, kind+"\n"+auth.amzDate+"\n"+auth.scope()+"\n"+hex.EncodeToString(previous)+"\n"+tail)
		got, err := hex.DecodeString(given)
		previous = want
		return err == nil && hmac.Equal(got, want)
	}
	for _, c := range p.chunks {
		if !check(c.signature, algorithm+"-PAYLOAD", emptyHash+"\n"+hexHash(c.data)) {
			return &Error{Kind: Mismatch}
		}
	}
	if p.hash == streamingSignedTrailer && !check(p.trailerSignature, algorithm+"-TRAILER", hexHash([]byte(p.trailer))) {
		return &Error{Kind: Mismatch}
	}
	return nil
}
