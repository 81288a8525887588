package sigv4

// A Kind says which check a request failed. awsapi/server decides how each service words it.
type Kind int

// The checks.
const (
	Missing       Kind = iota + 1 // no signature at all
	Incomplete                    // the Authorization header or the query is malformed; see Message
	UnknownKey                    // no such access key
	TokenInvalid                  // the session token is missing or wrong
	TokenExpired                  // the session token has expired
	Mismatch                      // the signature is wrong
	Expired                       // signed too long ago; see Message
	NotYet                        // signed in the future; see Message
	URLExpired                    // a presigned S3 URL's X-Amz-Expires has passed
	Scope                         // the credential scope is wrong; see Message
	PayloadHash                   // the body does not match x-amz-content-sha256
	PresignLimits                 // X-Amz-Expires is out of bounds; see Message
	Malformed                     // an aws-chunked body is malformed
)

// An Error is a failed check.
type Error struct {
	Kind Kind
	// Message is AWS's text if it contains details of the request, otherwise empty.
	Message string
}

func (e *Error) Error() string {
	if e.Message != "" {
		return "sigv4: " + e.Message
	}
	return "sigv4: " + e.Kind.String()
}

func (k Kind) String() string {
	switch k {
	case Missing:
		return "no signature"
	case Incomplete:
		return "incomplete signature"
	case UnknownKey:
		return "unknown access key"
	case TokenInvalid:
		return "invalid session token"
	case TokenExpired:
		return "expired session token"
	case Mismatch:
		return "signature does not match"
	case Expired:
		return "signature expired"
	case NotYet:
		return "signature not yet current"
	case URLExpired:
		return "presigned URL expired"
	case Scope:
		return "wrong credential scope"
	case PayloadHash:
		return "payload hash does not match"
	case PresignLimits:
		return "presigned URL's lifetime out of bounds"
	case Malformed:
		return "malformed aws-chunked body"
	}
	return "unknown check"
}
