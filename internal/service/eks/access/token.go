package access

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A bearer token of EKS is a presigned sts:GetCallerIdentity URL in disguise.
// The rules are those of aws-iam-authenticator, which EKS runs:
// https://github.com/kubernetes-sigs/aws-iam-authenticator/blob/master/pkg/token/token.go
const (
	tokenPrefix    = "k8s-aws-v1."
	tokenMaxLength = 4096
	tokenLifetime  = 15 * time.Minute
	clusterHeader  = "x-k8s-aws-id"
	amzDateFormat  = "20060102T150405Z"
	maxSignedValid = 900
)

// stsHost matches the STS endpoints of the aws partition: global, regional,
// FIPS and dual-stack.
var stsHost = regexp.MustCompile(`^sts(-fips)?(\.[a-z]{2}(-[a-z]+)+-\d)?\.(amazonaws\.com|api\.aws)$`)

// parseToken decodes a token and checks everything but the signature.
func parseToken(token string, now time.Time, ownHost func(string) bool) (*url.URL, error) {
	if len(token) > tokenMaxLength {
		return nil, fmt.Errorf("token is too large: %d bytes", len(token))
	}
	encoded, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return nil, fmt.Errorf("token is missing expected %q prefix", tokenPrefix)
	}
	// Some clients pad the encoding; the stock server accepts only unpadded tokens.
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return nil, fmt.Errorf("token is not base64: %w", err)
	}
	u, err := url.Parse(string(raw))
	if err != nil {
		return nil, fmt.Errorf("token holds no URL: %w", err)
	}
	switch {
	case u.User != nil || u.Fragment != "" || u.Opaque != "":
		return nil, fmt.Errorf("unexpected parts in pre-signed URL")
	case u.Path != "/" && u.Path != "":
		return nil, fmt.Errorf("unexpected path %q in pre-signed URL", u.Path)
	case stsHost.MatchString(u.Host):
		if u.Scheme != "https" {
			return nil, fmt.Errorf("unexpected scheme %q in pre-signed URL", u.Scheme)
		}
	case !ownHost(u.Host):
		return nil, fmt.Errorf("unexpected hostname %q in pre-signed URL", u.Host)
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("unexpected scheme %q in pre-signed URL", u.Scheme)
	}
	return u, checkTokenQuery(u.RawQuery, now)
}

// tokenParameters are the only query parameters that a token may have.
func tokenParameters() []string {
	return []string{
		"action", "version", "x-amz-algorithm", "x-amz-credential", "x-amz-date", "x-amz-expires",
		"x-amz-security-token", "x-amz-signature", "x-amz-signedheaders",
	}
}

func checkTokenQuery(rawQuery string, now time.Time) error {
	values, err := url.ParseQuery(rawQuery)
	if err != nil {
		return fmt.Errorf("bad query in pre-signed URL: %w", err)
	}
	q := map[string]string{}
	allowed := tokenParameters()
	for k, v := range values {
		lower := strings.ToLower(k)
		if !slices.Contains(allowed, lower) {
			return fmt.Errorf("non-whitelisted query parameter %q", k)
		}
		if _, twice := q[lower]; twice || len(v) != 1 {
			return fmt.Errorf("query parameter %q with multiple values not supported", k)
		}
		q[lower] = v[0]
	}
	if q["action"] != "GetCallerIdentity" {
		return fmt.Errorf("unexpected action %q in pre-signed URL", q["action"])
	}
	if !slices.Contains(strings.Split(strings.ToLower(q["x-amz-signedheaders"]), ";"), clusterHeader) {
		return fmt.Errorf("client did not sign the %s header in the pre-signed URL", clusterHeader)
	}
	expires, err := strconv.Atoi(q["x-amz-expires"])
	if err != nil || expires < 0 || expires > maxSignedValid {
		return fmt.Errorf("invalid X-Amz-Expires parameter in pre-signed URL: %q", q["x-amz-expires"])
	}
	date, err := time.Parse(amzDateFormat, q["x-amz-date"])
	if err != nil {
		return fmt.Errorf("error parsing X-Amz-Date parameter %q: %w", q["x-amz-date"], err)
	}
	if now.After(date.Add(tokenLifetime)) {
		return fmt.Errorf("X-Amz-Date parameter is expired (%.f minute expiration) %s", tokenLifetime.Minutes(), date)
	}
	return nil
}
