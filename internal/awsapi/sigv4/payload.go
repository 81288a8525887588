package sigv4

// The values that x-amz-content-sha256 may have instead of a hash.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html
const (
	unsignedPayload          = "UNSIGNED-PAYLOAD"
	streamingSigned          = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	streamingSignedTrailer   = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
	streamingUnsignedTrailer = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
)

const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// declaredHash returns the payload hash that a request declares, or one of the words above, or "" if it declares
// nothing.
func declaredHash(req *Request, auth *Authorization, service string) string {
	declared := req.Header.Get("X-Amz-Content-Sha256")
	if declared == "" && auth.Presigned {
		declared = queryValues(req.RawQuery)["X-Amz-Content-Sha256"]
		if declared == "" && service == "s3" {
			declared = unsignedPayload
		}
	}
	return declared
}

// streams reports whether a declared hash stands for a body in S3's own chunks.
func streams(declared string) bool {
	return declared == streamingSigned || declared == streamingSignedTrailer || declared == streamingUnsignedTrailer
}

// payloadHash returns the hash of a request's body as it stands in the canonical request.
func payloadHash(req *Request, declared string) (string, error) {
	if declared == unsignedPayload {
		return declared, nil
	}
	hash := emptyHash
	if len(req.Body) > 0 {
		hash = hexHash(req.Body)
	}
	if declared != "" && declared != hash {
		return "", &Error{Kind: PayloadHash}
	}
	return hash, nil
}
