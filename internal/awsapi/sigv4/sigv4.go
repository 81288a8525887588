// Package sigv4 verifies AWS Signature Version 4, in headers and in presigned
// URLs, against secrets found by a Lookup.
//
// It says which check failed (Error) and leaves to awsapi/server in which words
// each service says so. It opens nothing, signs nothing and knows no service
// but S3, whose paths and payloads are canonicalised differently. The front
// door and EKS's token webhook import it.
package sigv4

import (
	"context"
	"errors"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// A Credential is what an access key stands for.
type Credential struct {
	// SecretKey is what the signature is checked with.
	SecretKey string
	// SkipSignature accepts any secret: the access key is an account number,
	// which stands for that account's root, and users of local clouds sign with
	// whatever secret they like. Everything but the signature is still checked.
	SkipSignature bool
	// Principal is who signs with this key.
	Principal awsapi.Principal
}

// A Lookup finds the credential of an access key. sessionToken is empty when
// the request carried none. It fails with ErrUnknownKey, ErrTokenInvalid (a
// token is missing, needless or wrong) or ErrTokenExpired; any other error is
// an internal failure.
type Lookup func(ctx context.Context, accessKeyID, sessionToken string) (Credential, error)

// The errors of a Lookup.
var (
	ErrUnknownKey   = errors.New("no such access key")
	ErrTokenInvalid = errors.New("invalid session token")
	ErrTokenExpired = errors.New("expired session token")
)
