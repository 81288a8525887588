// Package wire maps between AWS's wire formats and the request and response
// structs of aws-sdk-go-v2, driven by the API models: ec2query, awsquery,
// restJson1, json 1.0 and 1.1, and restXml, one file per protocol.
//
// It is a pure codec. It opens nothing, logs nothing and knows no service; what
// differs between services beyond their models stands in one table
// (services.go). What Go type belongs to which shape is found by reflection once
// and kept (plan.go); union types, whose members reflection cannot list, stand in
// a generated table (zz_generated_unions.go).
//
// Only the front door (awsapi/server), the node and token webhooks, which build
// presigned requests, and tests import it.
package wire

import (
	"fmt"
	"net/http"
	"reflect"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// A Request is what Decode needs of an HTTP request.
type Request struct {
	Method      string
	EscapedPath string // url.URL.EscapedPath: an escaped slash is part of a label
	RawQuery    string
	Host        string
	Header      http.Header
	Body        []byte
}

// A Response is an encoded answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Decode fills in, a pointer to the SDK's input struct of op, from req. It
// returns the members the request carried, as dotted paths of model member
// names; parameters that the model does not know are among them under their wire
// name, so that the pipeline refuses them. Its errors are AWS's: *awserr.Error.
func Decode(op *model.Operation, req *Request, in any) (awsapi.Members, error) {
	v := reflect.ValueOf(in)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("wire: decode %s: need a pointer to a struct, got %T", op.Name, in)
	}
	return nil, fmt.Errorf("wire: no protocol %q", op.Service.Protocol)
}

// Encode renders out, a pointer to the SDK's output struct of op. accept is the
// request's Accept header: a query service answers in JSON when it asks for that.
func Encode(op *model.Operation, out any, requestID, accept string) (*Response, error) {
	return nil, fmt.Errorf("wire: no protocol %q", op.Service.Protocol)
}

// EncodeError renders err in svc's protocol. op may be nil, when the request
// names no operation the service knows. An error that is no smithy.APIError is
// shown as InternalFailure, without its text.
func EncodeError(svc *model.Service, op *model.Operation, err error, requestID string) *Response {
	return EncodeErrorAs(svc, op, err, requestID, "")
}

// EncodeErrorAs is EncodeError for a request with an Accept header.
func EncodeErrorAs(svc *model.Service, op *model.Operation, err error, requestID, accept string) *Response {
	return &Response{Status: http.StatusInternalServerError, Header: http.Header{}}
}
