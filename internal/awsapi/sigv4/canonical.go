package sigv4

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

// A form is one way to canonicalise a request. Signers agree on nearly all of it; canonicalForms lists the ways in
// which they do not.
type form struct {
	path, query, host string
}

func canonicalForms(req *Request, auth *Authorization) []form {
	paths := canonicalPaths(req.EscapedPath, auth.Service)
	hosts := []string{req.Host}
	// Signers drop a default port; an HTTP client may still send it.
	if h, ok := strings.CutSuffix(req.Host, ":443"); ok {
		hosts = append(hosts, h)
	} else if h, ok := strings.CutSuffix(req.Host, ":80"); ok {
		hosts = append(hosts, h)
	}
	query := canonicalQuery(req.RawQuery, auth.Presigned)
	forms := make([]form, 0, len(paths)*len(hosts))
	for _, p := range paths {
		for _, h := range hosts {
			forms = append(forms, form{p, query, h})
		}
	}
	return forms
}

// hash returns the hex SHA-256 of the canonical request.
func (f form) hash(req *Request, auth *Authorization, payloadHash string) string {
	var b strings.Builder
	b.Grow(512)
	b.WriteString(req.Method)
	b.WriteByte('\n')
	b.WriteString(f.path)
	b.WriteByte('\n')
	b.WriteString(f.query)
	b.WriteByte('\n')
	for _, name := range auth.SignedHeaders {
		b.WriteString(name)
		b.WriteByte(':')
		switch name {
		case "host", ":authority":
			b.WriteString(f.host)
		case "content-length":
			// net/http may have removed it from the header.
			if v := req.Header.Get(name); v != "" {
				b.WriteString(v)
			} else {
				b.WriteString(strconv.FormatInt(max(req.Length, int64(len(req.Body))), 10))
			}
		default:
			for i, v := range req.Header.Values(name) {
				if i > 0 {
					b.WriteByte(',')
				}
				writeTrimmed(&b, v)
			}
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	for i, name := range auth.SignedHeaders {
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(name)
	}
	b.WriteByte('\n')
	b.WriteString(payloadHash)
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}

// writeTrimmed writes a header value without surrounding blanks and with each run of blanks reduced to one.
func writeTrimmed(b *strings.Builder, v string) {
	v = strings.Trim(v, " \t")
	if !strings.Contains(v, "  ") {
		b.WriteString(v)
		return
	}
	blank := false
	for i := range len(v) {
		if v[i] == ' ' && blank {
			continue
		}
		blank = v[i] == ' '
		b.WriteByte(v[i])
	}
}

// canonicalPaths returns the canonical forms of a path as sent. S3 signs the path encoded once; every other service
// encodes the sent path a second time. For those, botocore removes dot segments and doubled slashes first, as the
// specification says, and the Go SDK does not.
func canonicalPaths(escaped, service string) []string {
	if escaped == "" {
		escaped = "/"
	}
	if service == "s3" {
		// A client may escape more or less than AWS would.
		paths := []string{escaped}
		if n := escape(unescape(escaped, false), true); n != escaped {
			paths = append(paths, n)
		}
		return paths
	}
	paths := []string{escape(escaped, true)}
	if n := normalizePath(escaped); n != escaped {
		paths = append(paths, escape(n, true))
	}
	return paths
}

// normalizePath removes empty, . and .. segments. A trailing slash stays.
func normalizePath(p string) string {
	if !strings.Contains(p, "//") && !strings.Contains(p, "/.") {
		return p
	}
	var out []string
	for seg := range strings.SplitSeq(p, "/") {
		switch seg {
		case "", ".":
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, seg)
		}
	}
	n := "/" + strings.Join(out, "/")
	if len(n) > 1 && strings.HasSuffix(p, "/") {
		n += "/"
	}
	return n
}

// canonicalQuery sorts the parameters by encoded name and value, without a presigned URL's own signature.
func canonicalQuery(raw string, presigned bool) string {
	if raw == "" {
		return ""
	}
	type param struct{ k, v string }
	params := make([]param, 0, strings.Count(raw, "&")+1)
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		k = escape(unescape(k, true), false)
		if presigned && k == "X-Amz-Signature" {
			continue
		}
		params = append(params, param{k, escape(unescape(v, true), false)})
	}
	slices.SortFunc(params, func(a, b param) int {
		if c := strings.Compare(a.k, b.k); c != 0 {
			return c
		}
		return strings.Compare(a.v, b.v)
	})
	var b strings.Builder
	b.Grow(len(raw) + 16)
	for i, p := range params {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.k)
		b.WriteByte('=')
		b.WriteString(p.v)
	}
	return b.String()
}

const upperHex = "0123456789ABCDEF"

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.' || c == '~'
}

// escape percent-encodes all but RFC 3986's unreserved characters.
func escape(s string, keepSlash bool) string {
	n := 0
	for i := range len(s) {
		if !unreserved(s[i]) && (s[i] != '/' || !keepSlash) {
			n++
		}
	}
	if n == 0 {
		return s
	}
	b := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; unreserved(c) || c == '/' && keepSlash {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(b)
}

// unescape decodes percent-encodings and, in queries, "+". Invalid encodings are left unchanged.
func unescape(s string, plus bool) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '%' && i+2 < len(s) && unhex(s[i+1]) >= 0 && unhex(s[i+2]) >= 0:
			b = append(b, byte(unhex(s[i+1])<<4|unhex(s[i+2])))
			i += 2
		case s[i] == '+' && plus:
			b = append(b, ' ')
		default:
			b = append(b, s[i])
		}
	}
	return string(b)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
