package wire

import (
	"errors"
	"maps"
	"net/http"
	"reflect"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// ec2Statuses are the statuses of EC2's errors that are not 400. EC2's model defines no errors at all.
// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
var ec2Statuses = map[string]int{
	"AuthFailure":                          http.StatusUnauthorized,
	"UnauthorizedOperation":                http.StatusForbidden,
	"OptInRequired":                        http.StatusForbidden,
	"DryRunOperation":                      http.StatusPreconditionFailed,
	"InternalError":                        http.StatusInternalServerError,
	"InternalFailure":                      http.StatusInternalServerError,
	"InsufficientInstanceCapacity":         http.StatusInternalServerError,
	"InsufficientHostCapacity":             http.StatusInternalServerError,
	"InsufficientAddressCapacity":          http.StatusInternalServerError,
	"InsufficientCapacity":                 http.StatusInternalServerError,
	"InsufficientReservedInstanceCapacity": http.StatusInternalServerError,
	"RequestLimitExceeded":                 http.StatusServiceUnavailable,
	"ServiceUnavailable":                   http.StatusServiceUnavailable,
	"Unavailable":                          http.StatusServiceUnavailable,
}

// commonStatuses are the statuses of errors that every service may return.
// https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html
var commonStatuses = map[string]int{
	"AccessDenied":                http.StatusForbidden,
	"AccessDeniedException":       http.StatusForbidden,
	"ExpiredToken":                http.StatusForbidden,
	"IncompleteSignature":         http.StatusBadRequest,
	"InternalFailure":             http.StatusInternalServerError,
	"InvalidClientTokenId":        http.StatusForbidden,
	"MissingAuthenticationToken":  http.StatusForbidden,
	"NotAuthorized":               http.StatusBadRequest,
	"RequestExpired":              http.StatusBadRequest,
	"ServiceUnavailable":          http.StatusServiceUnavailable,
	"SignatureDoesNotMatch":       http.StatusForbidden,
	"UnknownOperationException":   http.StatusBadRequest,
	"NotImplemented":              http.StatusNotImplemented,
	"InvalidSignatureException":   http.StatusForbidden,
	"UnrecognizedClientException": http.StatusForbidden,
}

// A failure is an error as it is sent on the wire.
type failure struct {
	code    string
	message string
	status  int
	shape   *model.Shape // the modelled exception, or nil
	plan    *plan        // of the SDK's exception type, to render its members
	value   reflect.Value
	details []awserr.Detail
	header  http.Header
}

func newFailure(svc *model.Service, op *model.Operation, err error) *failure {
	var api smithy.APIError
	if !errors.As(err, &api) || isNil(api) {
		code := "InternalFailure"
		if svc != nil && svc.Protocol == model.ProtocolEC2 {
			code = "InternalError"
		}
		return &failure{code: code, message: internalText, status: http.StatusInternalServerError}
	}
	f := &failure{code: api.ErrorCode(), message: api.ErrorMessage()}
	v := reflect.Indirect(reflect.ValueOf(api))
	typeName := ""
	if v.IsValid() && v.Kind() == reflect.Struct {
		typeName = v.Type().Name()
	}
	var plain *awserr.Error
	if errors.As(err, &plain) && error(plain) == error(api) {
		f.status, typeName = plain.Status, ""
		f.details, f.header = plain.Details, plain.Header
	}
	if svc != nil {
		f.shape = errorShape(svc, op, typeName, f.code)
	}
	if f.shape != nil {
		f.code = f.shape.Code
		if f.status == 0 {
			f.status = f.shape.Status
		}
		if strings.EqualFold(typeName, f.shape.Name) {
			if p := planFor(f.shape, v.Type()); p != nil {
				f.plan, f.value = p, v
			}
		}
	}
	if f.status == 0 {
		f.status = defaultStatus(svc, f, api)
	}
	return f
}

// isNil reports whether err is a nil pointer of an exception's type. A handler may return one by mistake, and it must
// not cause a panic.
func isNil(err error) bool {
	v := reflect.ValueOf(err)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

const internalText = "The request processing has failed because of an unknown error, exception or failure."

// errorShape finds the modelled exception for an SDK type or a code. Exceptions that the operation lists come first.
func errorShape(svc *model.Service, op *model.Operation, typeName, code string) *model.Shape {
	if op != nil {
		for _, s := range op.Errors {
			if typeName != "" && upperFirst(s.Name) == typeName {
				return s
			}
		}
		for _, s := range op.Errors {
			if typeName == "" && (s.Code == code || s.Name == code) {
				return s
			}
		}
	}
	if typeName != "" {
		if s := svc.Shapes[typeName]; s != nil && s.Exception {
			return s
		}
	}
	return svc.ErrorShape(code)
}

func defaultStatus(svc *model.Service, f *failure, api smithy.APIError) int {
	if svc != nil && svc.Protocol == model.ProtocolEC2 {
		if s, ok := ec2Statuses[f.code]; ok {
			return s
		}
	}
	switch {
	case f.shape != nil && f.shape.ServerFault:
		return http.StatusInternalServerError
	case f.shape != nil:
		return http.StatusBadRequest
	}
	if s, ok := commonStatuses[f.code]; ok {
		return s
	}
	if api.ErrorFault() == smithy.FaultServer {
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// EncodeError renders err in svc's protocol. op may be nil if the request names no operation that the service has.
// Code and status come from the model's exception. An error that is not a smithy.APIError is rendered as
// InternalFailure, without its text.
func EncodeError(svc *model.Service, op *model.Operation, err error, requestID string) *Response {
	return EncodeErrorAs(svc, op, err, requestID, "")
}

// EncodeErrorAs is EncodeError for a request with an Accept header: a query service answers in JSON if the client
// asks for it.
func EncodeErrorAs(svc *model.Service, op *model.Operation, err error, requestID, accept string) *Response {
	if op != nil {
		svc = op.Service // possibly the query view of a query-compatible service
	}
	f := newFailure(svc, op, err)
	r := &Response{Status: f.status, Header: http.Header{}}
	setRequestID(r.Header, requestID)
	protocol := model.ProtocolRESTJSON
	if svc != nil {
		protocol = svc.Protocol
	}
	switch protocol {
	case model.ProtocolEC2:
		f.ec2(r, requestID)
	case model.ProtocolQuery:
		if wantsJSON(accept) {
			f.queryJSON(r, requestID)
		} else {
			f.query(r, svc, requestID)
		}
	case model.ProtocolRESTXML:
		if svc.Name == "s3" {
			f.s3(r, requestID)
		} else {
			f.query(r, svc, requestID)
		}
	case model.ProtocolJSON:
		f.json(r, svc)
	default:
		f.restJSON(r)
	}
	return r
}

func (f *failure) fault() string {
	if f.status >= 500 {
		return "Receiver"
	}
	return "Sender"
}

func (f *failure) ec2(r *Response, requestID string) {
	w := xmlWriter{millis: true}
	w.b = append(w.b, xmlHeader...)
	w.open("Response", "")
	w.open("Errors", "")
	w.open("Error", "")
	w.element("Code", f.code)
	w.element("Message", f.message)
	w.close("Error")
	w.close("Errors")
	w.element("RequestID", requestID)
	w.close("Response")
	r.Header["Content-Type"] = []string{"text/xml;charset=UTF-8"}
	r.Body = w.b
}

func (f *failure) query(r *Response, svc *model.Service, requestID string) {
	f.code = queryCode(svc, f.code)
	w := xmlWriter{}
	w.open("ErrorResponse", svc.XMLNamespace)
	w.open("Error", "")
	w.element("Type", f.fault())
	w.element("Code", f.code)
	w.element("Message", queryText(svc, f.code, f.message))
	f.membersXML(&w)
	if svc.Name == "sqs" {
		w.element("Detail", "") // [recorded] LocalStack's tests/aws/services/sqs/test_sqs.snapshot.json
	}
	w.close("Error")
	w.element("RequestId", requestID)
	w.close("ErrorResponse")
	r.Header["Content-Type"] = []string{"text/xml"}
	r.Body = w.b
}

func (f *failure) s3(r *Response, requestID string) {
	w := xmlWriter{}
	w.b = append(w.b, xmlHeader...)
	w.open("Error", "")
	w.element("Code", f.code)
	w.element("Message", f.message)
	f.membersXML(&w)
	for _, d := range f.details {
		w.element(d.Name, d.Value)
	}
	w.element("RequestId", requestID)
	w.element("HostId", requestID)
	w.close("Error")
	maps.Copy(r.Header, f.header)
	r.Header["X-Amz-Request-Id"] = []string{requestID}
	if r.Status == http.StatusNotModified {
		return // has no body
	}
	r.Header["Content-Type"] = []string{"application/xml"}
	r.Body = w.b
}

// isMessage reports whether a member holds the message, which has already been rendered.
func isMessage(m *model.Member) bool { return strings.EqualFold(m.Name, "message") }

func (f *failure) membersXML(w *xmlWriter) {
	if f.plan == nil {
		return
	}
	for _, m := range f.plan.body {
		if m.plan != nil && !isMessage(m.m) {
			w.member(m, f.value.Field(m.index))
		}
	}
}

func (f *failure) queryJSON(r *Response, requestID string) {
	w := jsonWriter{}
	w.b = append(w.b, `{"Error":{"Code":`...)
	w.b = appendJSONString(w.b, f.code)
	w.b = append(w.b, `,"Message":`...)
	w.b = appendJSONString(w.b, f.message)
	w.b = append(w.b, `,"Type":`...)
	w.b = appendJSONString(w.b, f.fault())
	w.b = append(w.b, `},"RequestId":`...)
	w.b = appendJSONString(w.b, requestID)
	w.b = append(w.b, '}')
	r.Header["Content-Type"] = []string{"application/json"}
	r.Body = w.b
}

// jsonCode returns the code in JSON: the exception's shape name. A query-compatible service keeps its old codes for
// the x-amzn-query-error header.
func (f *failure) jsonCode() string {
	if f.shape != nil {
		return f.shape.Name
	}
	return f.code
}

func (f *failure) json(r *Response, svc *model.Service) {
	if svc.QueryCompatible {
		setHeader(r.Header, "X-Amzn-Query-Error", queryCode(svc, f.code)+";"+f.fault())
	}
	w := jsonWriter{}
	w.b = append(w.b, `{"__type":`...)
	w.b = appendJSONString(w.b, f.jsonCode())
	f.messageJSON(&w, false)
	r.Header["Content-Type"] = []string{jsonContentType(svc)}
	setHeader(r.Header, "X-Amzn-Errortype", f.jsonCode())
	r.Body = w.b
}

func (f *failure) restJSON(r *Response) {
	w := jsonWriter{}
	w.b = append(w.b, '{')
	f.messageJSON(&w, true)
	if f.plan != nil {
		responseBindings(r, f.plan, f.value)
	}
	r.Header["Content-Type"] = []string{"application/json"}
	setHeader(r.Header, "X-Amzn-Errortype", f.jsonCode())
	r.Body = w.b
}

// messageJSON appends the message and the exception's other members, and closes the object. The message's key is the
// model's: message or Message; clients accept either. first says that nothing precedes it in
// the object. Otherwise, an empty message is left out ([recorded] LocalStack's tests/aws/services/kms/test_kms.snapshot.json,
// test_encrypt_decrypt_encryption_context).
func (f *failure) messageJSON(w *jsonWriter, first bool) {
	key, skip := "message", (*field)(nil)
	if f.shape != nil {
		for _, m := range f.shape.Members {
			if isMessage(m) {
				key = m.WireName()
				if f.plan != nil {
					skip = f.plan.byName[m.Name]
				}
			}
		}
	}
	if f.message != "" || first {
		if !first {
			w.b = append(w.b, ',')
		}
		first = false
		w.b = appendJSONString(w.b, key)
		w.b = append(w.b, ':')
		w.b = appendJSONString(w.b, f.message)
	}
	if f.plan != nil {
		n := len(w.b)
		if err := w.members(f.plan, f.value, first, skip); err != nil {
			w.b = w.b[:n] // a member that cannot be rendered must not hide the error
		}
	}
	w.b = append(w.b, '}')
}
