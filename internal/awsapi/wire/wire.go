// Package wire maps between AWS's wire formats and the request and response structs of aws-sdk-go-v2, driven by the
// API models: ec2query, awsquery, restJson1, json 1.0 and 1.1, and restXml, one file per protocol.
//
// It is a pure codec: it does no I/O and no logging, and does not depend on any service. Differences between services
// beyond their models are in one table (services.go). Which Go type belongs to which shape is found once by
// reflection and cached (plan.go). Union types, whose members reflection cannot list, are in a generated table
// (zz_generated_unions.go).
//
// Only the AWS API server (awsapi/server), the node and token webhooks, which build presigned requests, and tests
// import it.
package wire

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

//go:generate go run ../../../tools/modelgen -unions zz_generated_unions.go

// A Request holds the parts of an HTTP request that Decode needs.
type Request struct {
	Method      string
	EscapedPath string // url.URL.EscapedPath, because an escaped slash is part of a label
	RawQuery    string
	Host        string
	Header      http.Header
	Body        []byte
	// Stream replaces Body for an operation whose payload is a stream (Streams).
	Stream io.Reader
}

// A Response is an encoded answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	// Stream, if it is not nil, is the body. The sender closes it.
	Stream io.ReadCloser
}

// Streams reports whether the body of an operation's request is a stream: an object.
func Streams(op *model.Operation) bool {
	return op.Input != nil && op.Input.Payload != nil && op.Input.Payload.Streaming
}

// Decode fills in, a pointer to the SDK's input struct of op, from req. It returns the members that the request
// carried, as dotted paths of model member names. Parameters that the model or the SDK's struct does not have are
// included as paths with slashes ("tags/1/color"). No list of honoured members covers those, so the pipeline refuses
// them. Validate checks whether the values satisfy the model. Errors are AWS's: *awserr.Error.
func Decode(op *model.Operation, req *Request, in any) (awsapi.Members, error) {
	v := reflect.ValueOf(in)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("wire: decode %s: need a pointer to a struct, got %T", op.Name, in)
	}
	v = v.Elem()
	shape := op.Input
	if shape == nil {
		shape = noMembers
	}
	p := planFor(shape, v.Type())
	if p == nil {
		return nil, fmt.Errorf("wire: decode %s: %T cannot hold a %s", op.Name, in, shape.Type)
	}
	d := &decoder{op: op, members: awsapi.Members{}}
	var err error
	switch op.Service.Protocol {
	case model.ProtocolEC2:
		err = decodeEC2(d, req, p, v)
	case model.ProtocolQuery:
		err = decodeQuery(d, req, p, v)
	case model.ProtocolJSON:
		err = decodeJSON(d, req, p, v)
	case model.ProtocolRESTJSON:
		err = decodeRESTJSON(d, req, p, v)
	case model.ProtocolRESTXML:
		err = decodeRESTXML(d, req, p, v)
	default:
		err = fmt.Errorf("wire: no protocol %q", op.Service.Protocol)
	}
	return d.members, err
}

// noMembers stands for the input of operations that have none.
var noMembers = &model.Shape{Type: model.Structure}

// Encode renders out, a pointer to the SDK's output struct of op. accept is the request's Accept header: a query
// service answers in JSON if the client asks for it.
func Encode(op *model.Operation, out any, requestID, accept string) (*Response, error) {
	v := reflect.ValueOf(out)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("wire: encode %s: need a pointer to a struct, got %T", op.Name, out)
	}
	v = v.Elem()
	var p *plan
	if op.Output != nil {
		if p = planFor(op.Output, v.Type()); p == nil {
			return nil, fmt.Errorf("wire: encode %s: %T cannot hold a %s", op.Name, out, op.Output.Type)
		}
	}
	buf := buffers.Get().(*[]byte)
	r, err := encode(op, p, v, requestID, accept, (*buf)[:0])
	if err != nil {
		return nil, err
	}
	if cap(r.Body) <= maxBuffer {
		if r.Body != nil {
			*buf = r.Body
			r.Body = bytes.Clone(r.Body)
		}
		buffers.Put(buf)
	}
	return r, nil
}

// buffers holds reusable encoding buffers, so that each large answer does not grow its own from zero. Buffers larger
// than maxBuffer are dropped.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxBuffer = 8 << 20

// encode renders v in its service's protocol. The body is either appended to buf or has no other owner: Encode reuses
// its memory.
func encode(op *model.Operation, p *plan, v reflect.Value, requestID, accept string, buf []byte) (*Response, error) {
	switch op.Service.Protocol {
	case model.ProtocolEC2:
		return encodeEC2(op, p, v, requestID, buf), nil
	case model.ProtocolQuery:
		return encodeQuery(op, p, v, requestID, accept, buf)
	case model.ProtocolJSON:
		return encodeJSON(op, p, v, requestID, buf)
	case model.ProtocolRESTJSON:
		return encodeRESTJSON(op, p, v, requestID, buf)
	case model.ProtocolRESTXML:
		return encodeRESTXML(op, p, v, requestID, buf)
	default:
		return nil, fmt.Errorf("wire: no protocol %q", op.Service.Protocol)
	}
}
