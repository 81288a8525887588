package s3

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"math/bits"
	"reflect"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// A checksum is a checksum of an object or a part, as S3 defines it.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html
type checksum struct {
	Algorithm string // "" if there is none
	Value     string // base64
	Composite bool   `json:",omitempty"` // whether it is the checksum of the parts' checksums
}

const (
	defaultAlgorithm = "CRC64NVME"

	composite  = "COMPOSITE"
	fullObject = "FULL_OBJECT"
)

// nvme is the polynomial of CRC-64/NVME, reversed.
const nvme = 0x9a6c9329ac4bc9b5

var nvmeTable = crc64.MakeTable(nvme)

// hashes maps each algorithm to the constructor of its hash function.
var hashes = map[string]func() hash.Hash{
	"CRC32":     func() hash.Hash { return crc32.NewIEEE() },
	"CRC32C":    func() hash.Hash { return crc32.New(crc32.MakeTable(crc32.Castagnoli)) },
	"CRC64NVME": func() hash.Hash { return crc64.New(nvmeTable) },
	"MD5":       md5.New,
	"SHA1":      sha1.New,
	"SHA256":    sha256.New,
	"SHA512":    sha512.New,
}

// polynomials maps algorithms to their polynomials. It has those algorithms for which the checksums of parts can be
// combined into that of the whole object.
var polynomials = map[string]uint64{"CRC32": crc32.IEEE, "CRC32C": crc32.Castagnoli, "CRC64NVME": nvme}

// typ returns the checksum's type as it appears in responses.
func (c checksum) typ() string {
	switch {
	case c.Algorithm == "":
		return ""
	case c.Composite:
		return composite
	}
	return fullObject
}

// show sets the members of a response that describe the checksum.
func (c checksum) show(out any) {
	if c.Algorithm == "" {
		return
	}
	v := reflect.ValueOf(out).Elem()
	v.FieldByName("Checksum" + c.Algorithm).Set(reflect.ValueOf(&c.Value))
	if f := v.FieldByName("ChecksumType"); f.IsValid() {
		f.SetString(c.typ())
	}
}

// givenChecksum returns the checksum in the members of a request, or of a part in a request. ok is false if there is
// more than one.
func givenChecksum(in any) (c checksum, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(in))
	for name := range hashes {
		if f := v.FieldByName("Checksum" + name); f.IsValid() && !f.IsNil() {
			if c.Algorithm != "" {
				return c, false
			}
			c = checksum{Algorithm: name, Value: f.Elem().String()}
		}
	}
	return c, true
}

// algorithmOfHeader returns the algorithm in the name of a checksum's header, or "".
func algorithmOfHeader(name string) string {
	name, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(name)), "x-amz-checksum-")
	if name = strings.ToUpper(name); !ok || hashes[name] == nil {
		return ""
	}
	return name
}

func encode(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// combine returns the checksum of an object whose parts have the given checksums.
func combine(algorithm string, isComposite bool, list []contentRecord) checksum {
	if len(list) == 0 || algorithm == "" {
		return checksum{}
	}
	for _, p := range list {
		if p.Checksum.Algorithm != algorithm {
			return checksum{}
		}
	}
	if isComposite {
		h := hashes[algorithm]()
		for _, p := range list {
			sum, _ := base64.StdEncoding.DecodeString(p.Checksum.Value) // made by encode
			h.Write(sum)
		}
		return checksum{Algorithm: algorithm, Value: encode(h.Sum(nil)) + "-" + strconv.Itoa(len(list)), Composite: true}
	}
	poly, width := polynomials[algorithm], hashes[algorithm]().Size()
	var whole uint64
	for i, p := range list {
		sum, _ := base64.StdEncoding.DecodeString(p.Checksum.Value)
		crc := binary.BigEndian.Uint64(append(make([]byte, 8-width), sum...))
		if i == 0 {
			whole = crc
		} else {
			whole = combineCRC(poly, width*8, whole, crc, p.Size)
		}
	}
	return checksum{Algorithm: algorithm, Value: encode(binary.BigEndian.AppendUint64(nil, whole)[8-width:])}
}

// combineCRC returns the CRC of two contents in sequence, given the CRC of each and the size of the second. It appends
// zeros to the first by squaring the matrix that appends one bit, as zlib's crc32_combine does.
func combineCRC(poly uint64, width int, first, second uint64, size int64) uint64 {
	var zeros [64]uint64 // how appending one zero bit changes each bit
	zeros[0] = poly
	for i := 1; i < width; i++ {
		zeros[i] = 1 << (i - 1)
	}
	apply := func(m *[64]uint64, v uint64) (out uint64) {
		for ; v != 0; v &= v - 1 {
			out ^= m[bits.TrailingZeros64(v)]
		}
		return out
	}
	for n := uint64(size) * 8; n != 0; n >>= 1 {
		if n&1 != 0 {
			first = apply(&zeros, first)
		}
		var squared [64]uint64
		for i := range width {
			squared[i] = apply(&zeros, zeros[i])
		}
		zeros = squared
	}
	return first ^ second
}

// quoted returns an ETag as it appears in responses.
func quoted(etag string) *string { return aws.String(`"` + etag + `"`) }

func unquoted(etag string) string { return strings.Trim(etag, `"`) }
