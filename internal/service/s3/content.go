package s3

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/blobstore"
)

// maxPut is the maximum size of an object, or of a part, in one request.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html
const maxPut = 5 << 30

// An upload is content that a client sends, with the length and checksums that the client gave for it.
type upload struct {
	body   io.Reader
	length *int64
	md5    *string
	given  checksum // may lack the value, if it follows the body
	// algorithm is the algorithm of the checksum to store.
	algorithm string
}

// A trailed body is followed by headers. It announces their names.
type trailed interface {
	Announced() string
	Trailer() http.Header
}

// newUpload checks what PutObject and UploadPart have in common. algorithm is the algorithm of the checksum to store.
func newUpload(in any, body io.Reader, length *int64, contentMD5 *string, algorithm string) (*upload, error) {
	u := &upload{body: body, length: length, md5: contentMD5, algorithm: algorithm}
	if body == nil {
		u.body = http.NoBody
	}
	if length != nil && *length > maxPut {
		return nil, errTooLarge(*length)
	}
	if contentMD5 != nil {
		if sum, err := base64.StdEncoding.DecodeString(*contentMD5); err != nil || len(sum) != md5.Size {
			return nil, errInvalidDigest(*contentMD5)
		}
	}
	var ok bool
	if u.given, ok = givenChecksum(in); !ok {
		return nil, errChecksumCount()
	}
	if t, ok := body.(trailed); ok && u.given.Algorithm == "" {
		u.given.Algorithm = algorithmOfHeader(t.Announced())
	}
	if u.given.Value != "" {
		sum, err := base64.StdEncoding.DecodeString(u.given.Value)
		if err != nil || len(sum) != hashes[u.given.Algorithm]().Size() {
			return nil, errChecksumValue(u.given.Algorithm)
		}
	}
	return u, nil
}

// store writes the content and returns it with its ETag. The caller removes it if it writes no record that refers to
// it.
func (u *upload) store(blobs *blobstore.Store, place blobstore.Place) (contentRecord, string, error) {
	w, err := blobs.Create(place)
	if err != nil {
		return contentRecord{}, "", full(err)
	}
	defer w.Close()
	etag, sum := md5.New(), hashes[u.algorithm]()
	sinks, check := []io.Writer{w, etag, sum}, sum
	if a := u.given.Algorithm; a != "" && a != u.algorithm {
		check = hashes[a]()
		sinks = append(sinks, check)
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(sinks...)}, struct{ io.Reader }{io.LimitReader(u.body, maxPut+1)}, make([]byte, 256<<10))
	switch {
	case err != nil:
		return contentRecord{}, "", full(err)
	case n > maxPut:
		return contentRecord{}, "", errTooLarge(n)
	case u.length != nil && n != *u.length:
		return contentRecord{}, "", errIncomplete()
	case u.md5 != nil && encode(etag.Sum(nil)) != *u.md5:
		return contentRecord{}, "", errDigest()
	}
	c := contentRecord{Checksum: checksum{Algorithm: u.algorithm, Value: encode(sum.Sum(nil))}}
	if t, ok := u.body.(trailed); ok && u.given.Value == "" && u.given.Algorithm != "" {
		u.given.Value = t.Trailer().Get("X-Amz-Checksum-" + u.given.Algorithm)
	}
	if u.given.Algorithm != "" && u.given.Value != encode(check.Sum(nil)) {
		return contentRecord{}, "", errChecksum(u.given.Algorithm)
	}
	if c.Blob, err = w.Commit(); err != nil {
		return contentRecord{}, "", full(err)
	}
	return c, hex.EncodeToString(etag.Sum(nil)), nil
}

func full(err error) error {
	if errors.Is(err, blobstore.ErrFull) {
		return errFull()
	}
	return err
}

// A span is a range of bytes: length bytes starting at offset.
type span struct{ offset, length int64 }

// open opens a span of the parts.
//
// The first part is opened at once, and each other part when it is reached. AWS deviation: reading an object of several
// parts fails if it is replaced in the meantime.
func (s *Service) open(place blobstore.Place, list []contentRecord, at span) (io.ReadCloser, error) {
	r := &contentReader{s: s, place: place, left: list, at: at}
	if err := r.next(); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return r, nil
}

type contentReader struct {
	s     *Service
	place blobstore.Place
	left  []contentRecord
	at    span
	now   io.ReadCloser // nil at the end
}

// next opens the next part that the span touches, or returns io.EOF.
func (r *contentReader) next() error {
	if err := r.Close(); err != nil {
		return err
	}
	for ; len(r.left) > 0 && r.left[0].Size <= r.at.offset; r.left = r.left[1:] {
		r.at.offset -= r.left[0].Size
	}
	if r.at.length == 0 || len(r.left) == 0 {
		return io.EOF
	}
	p := r.left[0]
	n := min(r.at.length, p.Size-r.at.offset)
	var err error
	if r.now, err = r.s.blobs.Open(r.place, p.Blob, r.at.offset, n); err != nil {
		r.now = nil
		return err
	}
	r.left, r.at = r.left[1:], span{0, r.at.length - n}
	return nil
}

func (r *contentReader) Read(p []byte) (int, error) {
	for r.now != nil {
		n, err := r.now.Read(p)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		if n > 0 || err == nil || !errors.Is(err, io.EOF) {
			return n, err
		}
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	return 0, io.EOF
}

func (r *contentReader) Close() (err error) {
	if r.now != nil {
		err = r.now.Close()
		r.now = nil
	}
	return err
}

// parseRange returns the span that a Range header asks for. ok is false if the header is to be ignored: S3 ignores
// headers with several ranges or with other units.
func parseRange(header string, size int64) (at span, ok bool, err error) {
	spec, found := strings.CutPrefix(strings.TrimSpace(header), "bytes=")
	first, last, dash := strings.Cut(spec, "-")
	if !found || !dash || strings.Contains(spec, ",") {
		return span{}, false, nil
	}
	if first == "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < 0 {
			return span{}, false, nil //nolint:nilerr // the header is ignored
		}
		if n == 0 || size == 0 {
			return span{}, false, errRange(header, size)
		}
		n = min(n, size)
		return span{size - n, n}, true, nil
	}
	from, err := strconv.ParseInt(first, 10, 64)
	if err != nil || from < 0 {
		return span{}, false, nil //nolint:nilerr // the header is ignored
	}
	to := size - 1
	if last != "" {
		if to, err = strconv.ParseInt(last, 10, 64); err != nil || to < from {
			return span{}, false, nil //nolint:nilerr // the header is ignored
		}
		to = min(to, size-1)
	}
	if from >= size {
		return span{}, false, errRange(header, size)
	}
	return span{from, to - from + 1}, true, nil
}

// forget removes blobs that no record refers to any more.
func (s *Service) forget(ctx context.Context, place blobstore.Place, blobs []blobstore.Blob) {
	if err := s.blobs.Delete(place, blobs...); err != nil {
		s.log.ErrorContext(ctx, "cannot remove the content of objects; the next start will", "err", err)
	}
}

// forgetRefused removes the blobs of a failed write, if its record was certainly not written. Only S3's own errors make
// that certain: the outcome of a transaction may also be unknown.
func (s *Service) forgetRefused(ctx context.Context, place blobstore.Place, err error, blobs ...blobstore.Blob) {
	if refused := (smithy.APIError)(nil); errors.As(err, &refused) {
		s.forget(ctx, place, blobs)
	}
}
