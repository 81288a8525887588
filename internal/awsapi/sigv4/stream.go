package sigv4

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// A Body is the payload of a request whose signature has been checked except for the payload. Reading it checks the
// rest: the last Read returns an *Error instead of io.EOF if the payload is not what was signed. Nothing may be done
// with the payload before that.
type Body struct {
	// Chunked reports that the body came in S3's own chunks, which Read removes.
	Chunked bool

	announced string
	in        *bufio.Reader
	sum       hash.Hash // of the payload, or of the current chunk
	want      string    // the payload's hash; "" if it is unsigned
	err       error
	trailer   http.Header

	// The rest is for chunks.
	kind      string
	start     bool  // nothing has been read
	left      int64 // bytes of the current chunk
	signature string
	previous  []byte
	auth      *Authorization
	key       []byte // nil if signatures are not checked
}

// Stream is Finish for a body that is read later. The signature has to be Proven.
func (p *Pending) Stream(req *Request, body io.Reader) (*Verified, *Body, error) {
	if !p.Proven {
		return nil, nil, &Error{Kind: Mismatch}
	}
	b := &Body{in: bufio.NewReaderSize(body, 64<<10), trailer: http.Header{}, auth: p.auth, key: p.key, previous: p.auth.signature}
	switch declared := declaredHash(req, p.auth, p.service); {
	case streams(declared):
		b.Chunked, b.kind, b.sum = true, declared, sha256.New()
		b.start, b.announced = true, req.Header.Get("X-Amz-Trailer")
	case declared != unsignedPayload && declared != "": // it is "" only if signatures are not checked
		b.sum, b.want = sha256.New(), declared
	}
	return &Verified{Principal: p.cred.Principal}, b, nil
}

// Unsigned returns the payload of a request without a signature, or nil if it does not come in chunks.
func Unsigned(header http.Header, body io.Reader) *Body {
	if header.Get("X-Amz-Content-Sha256") != streamingUnsignedTrailer {
		return nil
	}
	return &Body{
		Chunked: true, kind: streamingUnsignedTrailer, sum: sha256.New(), start: true, announced: header.Get("X-Amz-Trailer"),
		in: bufio.NewReader(body), trailer: http.Header{},
	}
}

// Announced returns the names of the headers that will follow the chunks, as the client lists them.
func (b *Body) Announced() string { return b.announced }

// Trailer returns the headers that followed the chunks, after Read has returned io.EOF.
func (b *Body) Trailer() http.Header { return b.trailer }

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	if b.err != nil || len(p) == 0 {
		return 0, b.err
	}
	if !b.Chunked {
		n, err := b.in.Read(p)
		if b.sum != nil {
			b.sum.Write(p[:n])
			if errors.Is(err, io.EOF) && hex.EncodeToString(b.sum.Sum(nil)) != b.want {
				err = &Error{Kind: PayloadHash}
			}
		}
		b.err = err
		return n, err
	}
	if b.start {
		b.start = false
		if b.err = b.nextChunk(); b.err != nil {
			return 0, b.err
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.in.Read(p)
	b.left -= int64(n)
	if b.signed() {
		b.sum.Write(p[:n])
	}
	switch {
	case err != nil:
		b.err = unexpected(err)
	case b.left == 0:
		b.err = b.endChunk()
	}
	return n, b.err
}

func (b *Body) signed() bool { return b.kind != streamingUnsignedTrailer && b.key != nil }

// unexpected returns an error of the connection as it is, and the end of the body as a malformed body.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return &Error{Kind: Malformed}
	}
	return err
}

// line reads a line up to CRLF.
func (b *Body) line() (string, error) {
	line, err := b.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return "", &Error{Kind: Malformed}
	}
	if err != nil {
		return "", unexpected(err)
	}
	text, ok := strings.CutSuffix(string(line), "\r\n")
	if !ok || len(text) > 8<<10 {
		return "", &Error{Kind: Malformed}
	}
	return text, nil
}

// nextChunk reads the header of a chunk, and after the last one the trailing headers. It then returns io.EOF.
func (b *Body) nextChunk() error {
	line, err := b.line()
	if err != nil {
		return err
	}
	size, ext, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(size, 16, 40)
	if err != nil {
		return &Error{Kind: Malformed}
	}
	var given bool
	b.signature, given = strings.CutPrefix(ext, "chunk-signature=")
	if !given && b.kind != streamingUnsignedTrailer {
		return &Error{Kind: Malformed}
	}
	b.left = int64(n)
	b.sum.Reset()
	if n > 0 {
		return nil
	}
	if err := b.checkChunk(); err != nil {
		return err
	}
	return b.readTrailer()
}

func (b *Body) endChunk() error {
	if err := b.checkChunk(); err != nil {
		return err
	}
	if end, err := b.line(); err != nil || end != "" {
		return errors.Join(err, &Error{Kind: Malformed})
	}
	return b.nextChunk()
}

func (b *Body) checkChunk() error {
	if !b.signed() {
		return nil
	}
	return b.check(b.signature, algorithm+"-PAYLOAD", emptyHash+"\n"+hex.EncodeToString(b.sum.Sum(nil)))
}

// check compares a signature in the chain of signatures, in which each covers the one before it.
func (b *Body) check(given, kind, tail string) error {
	want := sign(b.key, kind+"\n"+b.auth.amzDate+"\n"+b.auth.scope()+"\n"+hex.EncodeToString(b.previous)+"\n"+tail)
	got, err := hex.DecodeString(given)
	b.previous = want
	if err != nil || !hmac.Equal(got, want) {
		return &Error{Kind: Mismatch}
	}
	return nil
}

// maxTrailers is how many trailing headers a body may have.
const maxTrailers = 16

// readTrailer reads the trailing headers, which end with an empty line or with the body.
func (b *Body) readTrailer() error {
	var canonical strings.Builder
	signature := ""
	for n := 0; ; n++ {
		if _, err := b.in.Peek(1); errors.Is(err, io.EOF) {
			break
		}
		line, err := b.line()
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || n == maxTrailers {
			return &Error{Kind: Malformed}
		}
		value = strings.TrimSpace(value)
		if strings.EqualFold(name, "x-amz-trailer-signature") {
			signature = value
			continue
		}
		b.trailer.Add(name, value)
		canonical.WriteString(strings.ToLower(name) + ":" + value + "\n")
	}
	if b.kind == streamingSignedTrailer {
		if signature == "" {
			return &Error{Kind: Malformed}
		}
		if b.key != nil {
			if err := b.check(signature, algorithm+"-TRAILER", hexHash([]byte(canonical.String()))); err != nil {
				return err
			}
		}
	}
	return io.EOF
}
