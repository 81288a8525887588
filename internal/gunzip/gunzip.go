// Package gunzip unpacks gzipped data from others, within a bound.
package gunzip

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
)

// ErrTooLarge is the error of data that unpacks to more than the bound.
var ErrTooLarge = errors.New("it unpacks to more than is allowed")

// Is reports whether data begins as gzipped data does.
func Is(data []byte) bool { return bytes.HasPrefix(data, []byte{0x1f, 0x8b}) }

// Bytes returns what data unpacks to, at most limit bytes.
func Bytes(data []byte, limit int) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err == nil && len(out) > limit {
		err = ErrTooLarge
	}
	return out, err
}
