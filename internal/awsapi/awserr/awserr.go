// Package awserr is the error contract between handlers and the AWS API server.
//
// A handler returns one of three kinds of error: an SDK exception type if the service models one, an *Error if
// nothing is modelled (all of EC2), or any other error, which is a bug: the client sees InternalFailure and the cause
// is logged. HTTP status and wire code come from the API model, never from a handler, unless the model does not
// define them.
//
// Messages are a contract: each is built by one constructor in the service's errors.go that names its source.
package awserr

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/smithy-go"
)

// Error is an AWS error without a modelled type. It implements smithy.APIError.
type Error struct {
	Code    string
	Message string
	// Status is the HTTP status. 0 means the model's status, or 400.
	Status int
	// Details are additional elements of S3's error documents, in order.
	Details []Detail
	// Header holds additional response headers.
	Header http.Header
	// Cause is for the log only; clients never see it.
	Cause error
}

// A Detail is an element of an error document.
type Detail struct{ Name, Value string }

var _ smithy.APIError = (*Error)(nil)

// New returns an error with AWS's code and message.
func New(code, message string) *Error { return &Error{Code: code, Message: message} }

// Newf is New with a formatted message.
func Newf(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// With adds an element to S3's error document, and returns e.
func (e *Error) With(name, value string) *Error {
	e.Details = append(e.Details, Detail{name, value})
	return e
}

// WithHeader sets a header of the answer and returns e.
func (e *Error) WithHeader(name, value string) *Error {
	if e.Header == nil {
		e.Header = http.Header{}
	}
	e.Header.Set(name, value)
	return e
}

// WithStatus sets the HTTP status and returns e.
func (e *Error) WithStatus(status int) *Error { e.Status = status; return e }

// WithCause sets the logged cause and returns e.
func (e *Error) WithCause(err error) *Error { e.Cause = err; return e }

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ErrorCode implements smithy.APIError.
func (e *Error) ErrorCode() string { return e.Code }

// ErrorMessage implements smithy.APIError.
func (e *Error) ErrorMessage() string { return e.Message }

// ErrorFault implements smithy.APIError.
func (e *Error) ErrorFault() smithy.ErrorFault {
	if e.Status >= 500 {
		return smithy.FaultServer
	}
	return smithy.FaultClient
}

// CodeNotImplemented is the code of NotImplemented.
const CodeNotImplemented = "NotImplemented"

// NotImplemented is returned for operations and parameters that AWS has but Drydock does not implement. The SDKs'
// default retries cover only 500, 502, 503 and 504, so a client fails at once on 501. The server adds the command that
// shows which parts of the operation are implemented.
func NotImplemented(what string) *Error {
	return &Error{Code: CodeNotImplemented, Message: "Drydock does not implement " + what, Status: 501}
}

// CodeOf returns the code of an AWS error, or "" for any other error.
func CodeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// TextOf returns an AWS error's own text, without its code, and the whole text of any other
// error.
func TextOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorMessage()
	}
	return err.Error()
}
