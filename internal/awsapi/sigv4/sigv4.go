// Package sigv4 verifies AWS Signature Version 4, in headers and in presigned URLs, against secrets found by a
// Lookup.
//
// It returns which check failed (Error); awsapi/server words the error for each service. It does no I/O, signs
// nothing and has no special case for any service but S3, whose paths and payloads are canonicalised differently. The
// AWS API server and EKS's token webhook import it.
//
// The algorithm: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
package sigv4

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

// A Credential is what an access key stands for.
type Credential struct {
	// SecretKey is the secret that signatures are checked with.
	SecretKey string
	// SkipSignature accepts any secret. The access key is an account number, which stands for that account's root,
	// and users of local clouds sign with any secret. Everything but the signature is still checked.
	SkipSignature bool
	// Principal is the owner of the key.
	Principal awsapi.Principal
}

// A Lookup finds the credential of an access key. sessionToken is empty if the request carried none. It fails with
// ErrUnknownKey, ErrTokenInvalid (a token is missing, unexpected or wrong) or ErrTokenExpired; any other error is an
// internal failure.
type Lookup func(ctx context.Context, accessKeyID, sessionToken string) (Credential, error)

// The errors of a Lookup.
var (
	ErrUnknownKey   = errors.New("no such access key")
	ErrTokenInvalid = errors.New("invalid session token")
	ErrTokenExpired = errors.New("expired session token")
)

// AccountRoot returns the credential of an access key that is a 12-digit account number: that account's root, with
// any secret. ok is false for other keys. The default credentials test/test are not such a key: their secret is
// checked.
func AccountRoot(accessKeyID string) (cred Credential, ok bool) {
	if len(accessKeyID) != 12 || strings.Trim(accessKeyID, "0123456789") != "" {
		return Credential{}, false
	}
	return Credential{
		SkipSignature: true,
		Principal: awsapi.Principal{
			Type:        awsapi.Root,
			Account:     accessKeyID,
			ARN:         arn.IAM(accessKeyID, "root"),
			UserID:      accessKeyID,
			AccessKeyID: accessKeyID,
		},
	}, true
}

// maxSkew is how far a signature's time may be from now, in either direction.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html
const maxSkew = 15 * time.Minute

// A Request is the signed part of an HTTP request, as it came over the wire.
type Request struct {
	Method      string
	EscapedPath string // as sent, never decoded
	RawQuery    string
	Host        string // including the port, if the client sent one
	Header      http.Header
	Body        []byte
	// Length is the length of a body that has not been read yet.
	Length int64
}

// Config configures a Verifier.
type Config struct {
	Lookup Lookup      // required
	Clock  clock.Clock // nil means the real clock
}

// A Verifier verifies requests. Its methods may be called concurrently.
type Verifier struct {
	lookup Lookup
	clock  clock.Clock
	keys   keyCache
}

// NewVerifier returns a Verifier.
func NewVerifier(cfg Config) *Verifier {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	return &Verifier{lookup: cfg.Lookup, clock: cfg.Clock}
}

// Verified is the outcome of a successful verification.
type Verified struct {
	Principal awsapi.Principal
	// Body is the request's payload: Request.Body, or the decoded content of an aws-chunked body.
	Body []byte
}

// Verify checks that req was signed, as auth says, for the service whose signing name is service. It returns an
// *Error if the client is at fault.
func (v *Verifier) Verify(ctx context.Context, req *Request, auth *Authorization, service string) (*Verified, error) {
	p, err := v.Begin(ctx, req, auth, service)
	if err != nil {
		return nil, err
	}
	return p.Finish(req)
}

// A Pending is a verification that waits for the body.
type Pending struct {
	cred    Credential
	key     []byte // derived; nil if the signature is not checked
	auth    *Authorization
	service string
	// Proven reports that the signature is right for the payload hash that the request declares. Finish still
	// compares the body with that hash.
	Proven bool
}

// Begin checks everything about req that does not need its body, so that a stranger is turned away before memory is
// allocated for the body. If the request declares its payload's hash, as S3's clients do, that is the whole
// signature. Otherwise it is the scope, the time and the access key.
func (v *Verifier) Begin(ctx context.Context, req *Request, auth *Authorization, service string) (*Pending, error) {
	if auth.Service != service {
		// AWS's text has the trailing blank.
		return nil, &Error{Kind: Scope, Message: fmt.Sprintf("Credential should be scoped to correct service: '%s'. ", service)}
	}
	if err := v.checkTime(auth, service); err != nil {
		return nil, err
	}
	cred, err := v.find(ctx, auth)
	if err != nil {
		return nil, err
	}
	p := &Pending{cred: cred, auth: auth, service: service, Proven: cred.SkipSignature}
	if !cred.SkipSignature {
		p.key = v.keys.derive(cred.SecretKey, auth.Date, auth.Region, auth.Service)
		if hash := declaredHash(req, auth, service); hash != "" {
			if p.Proven = matches(req, auth, hash, p.key); !p.Proven {
				return nil, &Error{Kind: Mismatch}
			}
		}
	}
	return p, nil
}

// Finish checks the body of p's request.
func (p *Pending) Finish(req *Request) (*Verified, error) {
	declared := declaredHash(req, p.auth, p.service)
	if streams(declared) {
		got, b, err := p.Stream(req, bytes.NewReader(req.Body))
		if err == nil {
			got.Body, err = io.ReadAll(b)
		}
		return got, err
	}
	hash, err := payloadHash(req, declared)
	if err != nil {
		return nil, err
	}
	if p.key != nil && !p.Proven && !matches(req, p.auth, hash, p.key) {
		return nil, &Error{Kind: Mismatch}
	}
	return &Verified{Principal: p.cred.Principal, Body: req.Body}, nil
}

// VerifyPresigned checks a presigned STS URL that was handed over rather than called: the one inside an EKS token.
// header holds what the signer signed besides the URL (x-k8s-aws-id), and method is GET. Whatever X-Amz-Expires says,
// the URL is valid for 15 minutes from X-Amz-Date, as in STS itself (https://github.com/aws/aws-sdk-go/issues/2167).
// The caller must check what the URL requests.
func (v *Verifier) VerifyPresigned(ctx context.Context, u *url.URL, header http.Header, method string) (awsapi.Principal, error) {
	req := &Request{Method: method, EscapedPath: u.EscapedPath(), RawQuery: u.RawQuery, Host: u.Host, Header: header}
	if req.EscapedPath == "" {
		req.EscapedPath = "/"
	}
	auth, err := Parse(req)
	if err != nil {
		return awsapi.Principal{}, err
	}
	if !auth.Presigned {
		return awsapi.Principal{}, &Error{Kind: Missing}
	}
	got, err := v.Verify(ctx, req, auth, "sts")
	if err != nil {
		return awsapi.Principal{}, err
	}
	return got.Principal, nil
}

func (v *Verifier) find(ctx context.Context, auth *Authorization) (Credential, error) {
	cred, err := v.lookup(ctx, auth.AccessKeyID, auth.SessionToken)
	switch {
	case err == nil:
		return cred, nil
	case errors.Is(err, ErrUnknownKey):
		return cred, &Error{Kind: UnknownKey}
	case errors.Is(err, ErrTokenInvalid):
		return cred, &Error{Kind: TokenInvalid}
	case errors.Is(err, ErrTokenExpired):
		return cred, &Error{Kind: TokenExpired}
	}
	return cred, fmt.Errorf("looking up access key %s: %w", auth.AccessKeyID, err)
}

func (v *Verifier) checkTime(auth *Authorization, service string) error {
	now := v.clock.Now().UTC()
	// Only S3 uses X-Amz-Expires.
	if auth.Presigned && service == "s3" {
		if now.After(auth.Time.Add(auth.Expires)) {
			return &Error{Kind: URLExpired}
		}
	} else if earliest := now.Add(-maxSkew); auth.Time.Before(earliest) {
		// https://github.com/aws/aws-cli/issues/6676
		return &Error{Kind: Expired, Message: fmt.Sprintf("Signature expired: %s is now earlier than %s (%s - 15 min.)",
			format(auth.Time), format(earliest), format(now))}
	}
	if latest := now.Add(maxSkew); auth.Time.After(latest) {
		// https://github.com/aws/aws-sdk-js/pull/142
		return &Error{Kind: NotYet, Message: fmt.Sprintf("Signature not yet current: %s is still later than %s (%s + 15 min.)",
			format(auth.Time), format(latest), format(now))}
	}
	return nil
}

// matches compares auth's signature in constant time with those of req's canonical forms. There is more than one form
// only where signers disagree.
func matches(req *Request, auth *Authorization, payloadHash string, key []byte) bool {
	for _, form := range canonicalForms(req, auth) {
		if hmac.Equal(auth.signature, sign(key, auth.stringToSign(form.hash(req, auth, payloadHash)))) {
			return true
		}
	}
	return false
}

func sign(key []byte, data string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(data))
	return mac.Sum(nil)
}

func hexHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
