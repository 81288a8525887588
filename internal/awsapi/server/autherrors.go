package server

import (
	"net/http"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
)

// A family is a group of services that use the same words for a failed signature.
type family string

const (
	familyEC2      family = "ec2"
	familyQuery    family = "query" // and Route 53
	familyJSON     family = "json"
	familyRESTJSON family = "rest-json"
	familyS3       family = "s3"
)

func familyOf(svc *model.Service) family {
	switch {
	case svc.Protocol == model.ProtocolEC2:
		return familyEC2
	case svc.Name == "s3":
		return familyS3
	case svc.Protocol == model.ProtocolJSON:
		return familyJSON
	case svc.Protocol == model.ProtocolRESTJSON:
		return familyRESTJSON
	}
	return familyQuery
}

// An authText is one family's answer to one failed check. An empty text means the check's own message.
type authText struct {
	code   string
	status int
	text   string
}

const (
	textMismatch     = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
	textInvalidToken = "The security token included in the request is invalid."
	textExpiredToken = "The security token included in the request is expired"
	textEC2Failure   = "AWS was not able to validate the provided access credentials"
	textEC2Expired   = "Request has expired."
)

// authTexts holds each family's words for each failed check. Sources:
//   - query: https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html,
//     https://github.com/aws/aws-cli/issues/6676 (Signature expired),
//     https://github.com/boto/boto3/issues/756 (SignatureDoesNotMatch),
//     https://github.com/cognitect-labs/aws-api/issues/27 (scope)
//   - json: https://github.com/aws/aws-sdk-js/issues/254 (InvalidSignatureException, 400),
//     https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
//   - rest-json: https://github.com/badslug/Paw-AWSSignature4DynamicValue/issues/5
//     (UnrecognizedClientException, 403), https://github.com/aws/chalice/issues/828
//     (IncompleteSignature), https://github.com/cllunsford/aws-signing-proxy/issues/25 (scope)
//   - ec2: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
//     https://github.com/hashicorp/terraform-provider-aws/issues/9597 (AuthFailure, 401),
//     https://github.com/awsdocs/aws-doc-sdk-examples/issues/4026 (no credentials)
//   - s3: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
var authTexts = map[family]map[sigv4.Kind]authText{
	familyQuery: {
		sigv4.Missing:       {"MissingAuthenticationToken", http.StatusForbidden, "Request is missing Authentication Token"},
		sigv4.Incomplete:    {"IncompleteSignature", http.StatusBadRequest, ""},
		sigv4.UnknownKey:    {"InvalidClientTokenId", http.StatusForbidden, textInvalidToken},
		sigv4.TokenInvalid:  {"InvalidClientTokenId", http.StatusForbidden, textInvalidToken},
		sigv4.TokenExpired:  {"ExpiredToken", http.StatusForbidden, textExpiredToken},
		sigv4.Mismatch:      {"SignatureDoesNotMatch", http.StatusForbidden, textMismatch},
		sigv4.Expired:       {"SignatureDoesNotMatch", http.StatusForbidden, ""},
		sigv4.NotYet:        {"SignatureDoesNotMatch", http.StatusForbidden, ""},
		sigv4.Scope:         {"SignatureDoesNotMatch", http.StatusForbidden, ""},
		sigv4.PayloadHash:   {"SignatureDoesNotMatch", http.StatusForbidden, textMismatch},
		sigv4.PresignLimits: {"IncompleteSignature", http.StatusBadRequest, ""},
		sigv4.Malformed:     {"IncompleteSignature", http.StatusBadRequest, "The request's aws-chunked body is malformed."},
	},
	familyJSON:     jsonTexts(http.StatusBadRequest),
	familyRESTJSON: jsonTexts(http.StatusForbidden),
	// EC2 does not distinguish a wrong secret from an unknown key.
	familyEC2: {
		sigv4.Missing:       {"MissingParameter", http.StatusBadRequest, "The request must contain the parameter AWSAccessKeyId"},
		sigv4.Incomplete:    {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
		sigv4.UnknownKey:    {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
		sigv4.TokenInvalid:  {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
		sigv4.TokenExpired:  {"RequestExpired", http.StatusBadRequest, textEC2Expired},
		sigv4.Mismatch:      {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
		sigv4.Expired:       {"RequestExpired", http.StatusBadRequest, textEC2Expired},
		sigv4.NotYet:        {"RequestExpired", http.StatusBadRequest, textEC2Expired},
		sigv4.Scope:         {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
		sigv4.PayloadHash:   {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
		sigv4.PresignLimits: {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
		sigv4.Malformed:     {"AuthFailure", http.StatusUnauthorized, textEC2Failure},
	},
	familyS3: {
		sigv4.Missing:       {"AccessDenied", http.StatusForbidden, "Access Denied"},
		sigv4.Incomplete:    {"AuthorizationHeaderMalformed", http.StatusBadRequest, ""},
		sigv4.UnknownKey:    {"InvalidAccessKeyId", http.StatusForbidden, "The AWS Access Key Id you provided does not exist in our records."},
		sigv4.TokenInvalid:  {"InvalidToken", http.StatusBadRequest, "The provided token is malformed or otherwise invalid."},
		sigv4.TokenExpired:  {"ExpiredToken", http.StatusBadRequest, "The provided token has expired."},
		sigv4.Mismatch:      {"SignatureDoesNotMatch", http.StatusForbidden, "The request signature we calculated does not match the signature you provided. Check your key and signing method."},
		sigv4.Expired:       {"RequestTimeTooSkewed", http.StatusForbidden, "The difference between the request time and the current time is too large."},
		sigv4.NotYet:        {"RequestTimeTooSkewed", http.StatusForbidden, "The difference between the request time and the current time is too large."},
		sigv4.URLExpired:    {"AccessDenied", http.StatusForbidden, "Request has expired"},
		sigv4.Scope:         {"AuthorizationHeaderMalformed", http.StatusBadRequest, ""},
		sigv4.PayloadHash:   {"XAmzContentSHA256Mismatch", http.StatusBadRequest, "The provided 'x-amz-content-sha256' header does not match what was computed."},
		sigv4.PresignLimits: {"AuthorizationQueryParametersError", http.StatusBadRequest, ""},
		sigv4.Malformed:     {"IncompleteBody", http.StatusBadRequest, "The request body terminated unexpectedly"},
	},
}

// jsonTexts returns the texts of the JSON protocols, which differ only in the status.
func jsonTexts(status int) map[sigv4.Kind]authText {
	return map[sigv4.Kind]authText{
		sigv4.Missing:       {"MissingAuthenticationTokenException", status, "Missing Authentication Token"},
		sigv4.Incomplete:    {"IncompleteSignatureException", status, ""},
		sigv4.UnknownKey:    {"UnrecognizedClientException", status, textInvalidToken},
		sigv4.TokenInvalid:  {"UnrecognizedClientException", status, textInvalidToken},
		sigv4.TokenExpired:  {"ExpiredTokenException", status, textExpiredToken},
		sigv4.Mismatch:      {"InvalidSignatureException", status, textMismatch},
		sigv4.Expired:       {"InvalidSignatureException", status, ""},
		sigv4.NotYet:        {"InvalidSignatureException", status, ""},
		sigv4.Scope:         {"InvalidSignatureException", status, ""},
		sigv4.PayloadHash:   {"InvalidSignatureException", status, textMismatch},
		sigv4.PresignLimits: {"IncompleteSignatureException", status, ""},
		sigv4.Malformed:     {"IncompleteSignatureException", status, "The request's aws-chunked body is malformed."},
	}
}

// authError returns svc's error for a failed check.
func authError(svc *model.Service, e *sigv4.Error) error {
	t, ok := authTexts[familyOf(svc)][e.Kind]
	if !ok {
		t = authTexts[familyOf(svc)][sigv4.Mismatch]
	}
	if t.text == "" {
		t.text = e.Message
	}
	return awserr.New(t.code, t.text).WithStatus(t.status)
}
