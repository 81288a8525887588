package sigv4

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	timeLayout = "20060102T150405Z"
	// maxExpires is the longest life of a presigned S3 URL, in seconds.
	maxExpires = 7 * 24 * 60 * 60
)

// An Authorization is what a request says about its own signature.
type Authorization struct {
	AccessKeyID string
	// Date, Region and Service are the credential scope.
	Date, Region, Service string
	SignedHeaders         []string
	// SessionToken is empty for long-term keys.
	SessionToken string
	// Presigned reports that the signature is in the query.
	Presigned bool
	Time      time.Time
	// Expires is a presigned URL's lifetime.
	Expires time.Duration

	amzDate   string // as signed
	signature []byte
}

// Signed reports whether the request carries a signature of any kind.
func Signed(header http.Header, rawQuery string) bool {
	return header.Get("Authorization") != "" || strings.Contains(rawQuery, "X-Amz-Algorithm=") ||
		strings.Contains(rawQuery, "X-Amz-Signature=") || strings.Contains(rawQuery, "X-Amz-Credential=")
}

// ServiceHint returns the service in a signature's credential scope, or "". It works even if Parse fails, because an
// error about a malformed signature should use the words of the service that the request was meant for.
func ServiceHint(header http.Header, rawQuery string) string {
	_, credential, ok := strings.Cut(header.Get("Authorization"), "Credential=")
	if !ok {
		credential = queryValues(rawQuery)["X-Amz-Credential"]
	}
	credential, _, _ = strings.Cut(credential, ",")
	if parts := strings.Split(credential, "/"); len(parts) > 3 {
		return parts[len(parts)-2]
	}
	return ""
}

// Parse reads a request's signature. It only uses header, query and path. If there is no signature, it returns an
// *Error of kind Missing.
func Parse(req *Request) (*Authorization, error) {
	if h := req.Header.Get("Authorization"); h != "" {
		return parseHeader(h, req.Header)
	}
	if Signed(nil, req.RawQuery) {
		return parseQuery(req.RawQuery)
	}
	return nil, &Error{Kind: Missing}
}

func parseHeader(value string, header http.Header) (*Authorization, error) {
	scheme, rest, _ := strings.Cut(value, " ")
	if scheme != algorithm {
		if strings.HasPrefix(scheme, "AWS4-ECDSA") {
			return nil, incomplete("AWS Signature Version 4A is not supported: sign with " + algorithm + ".")
		}
		// https://github.com/aws/chalice/issues/828
		return nil, incomplete(missingParts("", "", "", "") + echo(value))
	}
	var credential, signedHeaders, signature string
	for part := range strings.SplitSeq(rest, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		k, v, ok := strings.Cut(part, "=")
		if !ok {
			// AWS no longer echoes the header itself, only its hash.
			return nil, incomplete("Invalid key=value pair (missing equal-sign) in Authorization header (hashed with SHA-256 and encoded with Base64): '" + hash64(part) + "'.")
		}
		switch k {
		case "Credential":
			credential = v
		case "SignedHeaders":
			signedHeaders = v
		case "Signature":
			signature = v
		}
	}
	date := header.Get("X-Amz-Date")
	if date == "" {
		date = header.Get("Date")
	}
	if credential == "" || signature == "" || signedHeaders == "" || date == "" {
		return nil, incomplete(missingParts(credential, signature, signedHeaders, date) + echo(value))
	}
	a := &Authorization{SessionToken: header.Get("X-Amz-Security-Token")}
	return a, a.fill(credential, signedHeaders, signature, date)
}

func parseQuery(rawQuery string) (*Authorization, error) {
	q := queryValues(rawQuery)
	if alg := q["X-Amz-Algorithm"]; alg != algorithm {
		return nil, incomplete(fmt.Sprintf("AWS query-string parameters must include 'X-Amz-Algorithm' with the value '%s'.", algorithm))
	}
	var missing []string
	for _, name := range []string{"X-Amz-Credential", "X-Amz-Signature", "X-Amz-SignedHeaders", "X-Amz-Date"} {
		if q[name] == "" {
			missing = append(missing, "AWS query-string parameters must include '"+name+"'. ")
		}
	}
	if missing != nil {
		return nil, incomplete(strings.Join(missing, "") + "Re-examine the query-string parameters.")
	}
	a := &Authorization{Presigned: true, SessionToken: q["X-Amz-Security-Token"]}
	if err := a.fill(q["X-Amz-Credential"], q["X-Amz-SignedHeaders"], q["X-Amz-Signature"], q["X-Amz-Date"]); err != nil {
		return nil, err
	}
	if s, ok := q["X-Amz-Expires"]; ok {
		// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-query-string-auth.html
		n, err := strconv.ParseInt(s, 10, 64)
		switch {
		case err != nil:
			return nil, &Error{Kind: PresignLimits, Message: "X-Amz-Expires should be a number"}
		case n < 0:
			return nil, &Error{Kind: PresignLimits, Message: "X-Amz-Expires must be non-negative"}
		case n > maxExpires:
			// https://github.com/bryanjos/aws_auth/issues/31
			return nil, &Error{Kind: PresignLimits, Message: "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds"}
		}
		a.Expires = time.Duration(n) * time.Second
	}
	return a, nil
}

func (a *Authorization) fill(credential, signedHeaders, signature, date string) error {
	// An access key has no slash, but the scope is read from the right anyway, so that a client cannot shift its
	// fields.
	parts := strings.Split(credential, "/")
	if len(parts) != 5 || slices.Contains(parts, "") {
		return incomplete(fmt.Sprintf("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '%s'", credential))
	}
	a.AccessKeyID, a.Date, a.Region, a.Service = parts[0], parts[1], parts[2], parts[3]
	if parts[4] != terminator {
		return &Error{Kind: Scope, Message: fmt.Sprintf("Credential should be scoped with a valid terminator: '%s', not '%s'. ", terminator, parts[4])}
	}
	var err error
	if a.Time, err = parseTime(date); err != nil {
		return incomplete(fmt.Sprintf("Date must be in ISO-8601 'basic format'. Got '%s'. See http://en.wikipedia.org/wiki/ISO_8601", date))
	}
	a.amzDate = format(a.Time)
	if day := a.amzDate[:8]; a.Date != day {
		return &Error{Kind: Scope, Message: fmt.Sprintf("Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', from '%s'. ", a.Date, day, a.amzDate)}
	}
	a.SignedHeaders = strings.Split(signedHeaders, ";")
	if !slices.Contains(a.SignedHeaders, "host") && !slices.Contains(a.SignedHeaders, ":authority") {
		return &Error{Kind: Scope, Message: "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."}
	}
	// A signature of another length or alphabet matches nothing. On AWS it is not a syntax error.
	a.signature, err = hex.DecodeString(signature)
	if err != nil || strings.ToLower(signature) != signature {
		a.signature = nil
	}
	return nil
}

func (a *Authorization) scope() string {
	return a.Date + "/" + a.Region + "/" + a.Service + "/" + terminator
}

func (a *Authorization) stringToSign(canonicalHash string) string {
	return algorithm + "\n" + a.amzDate + "\n" + a.scope() + "\n" + canonicalHash
}

func parseTime(s string) (time.Time, error) {
	t, err := time.Parse(timeLayout, s)
	if err != nil {
		t, err = http.ParseTime(s) // the Date header
	}
	if err == nil && (t.Year() < 1 || t.Year() > 9999) {
		err = strconv.ErrRange
	}
	return t.UTC(), err
}

func format(t time.Time) string { return t.UTC().Format(timeLayout) }

// missingParts lists which parts a signature lacks, in AWS's order and words.
func missingParts(credential, signature, signedHeaders, date string) string {
	var b strings.Builder
	if credential == "" {
		b.WriteString("Authorization header requires 'Credential' parameter. ")
	}
	if signature == "" {
		b.WriteString("Authorization header requires 'Signature' parameter. ")
	}
	if signedHeaders == "" {
		b.WriteString("Authorization header requires 'SignedHeaders' parameter. ")
	}
	if date == "" {
		b.WriteString("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ")
	}
	return b.String()
}

// echo returns the header as AWS shows it: hashed, since it may be a secret.
func echo(header string) string {
	return "(Hashed with SHA-256 and encoded with Base64) Authorization=" + hash64(header)
}

func hash64(s string) string {
	sum := sha256.Sum256([]byte(s))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func incomplete(message string) error { return &Error{Kind: Incomplete, Message: message} }

// queryValues reads the X-Amz- parameters of a query. If one is repeated, the first counts.
func queryValues(rawQuery string) map[string]string {
	out := map[string]string{}
	for pair := range strings.SplitSeq(rawQuery, "&") {
		k, v, _ := strings.Cut(pair, "=")
		if !strings.HasPrefix(k, "X-Amz-") {
			continue
		}
		v, err := url.QueryUnescape(v)
		if _, dup := out[k]; dup || err != nil {
			continue
		}
		out[k] = v
	}
	return out
}
