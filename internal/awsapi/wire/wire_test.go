package wire_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

func service(t testing.TB, name string) *model.Service {
	t.Helper()
	svc, err := model.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	return svc
}

// operation finds an operation by its name, "ec2.RunInstances"; "sqs?query" is
// SQS's view in the query protocol.
func operation(t testing.TB, name string) *model.Operation {
	t.Helper()
	svcName, opName, _ := strings.Cut(name, ".")
	svcName, query, isQuery := strings.Cut(svcName, "?")
	svc := service(t, svcName)
	if isQuery && query == "query" {
		svc = svc.Query()
	}
	op := svc.Operations[opName]
	if op == nil {
		t.Fatalf("%s has no operation %s", svcName, opName)
	}
	return op
}

// form is a query request with that body.
func form(body string) *wire.Request {
	return &wire.Request{Method: "POST", EscapedPath: "/", Header: http.Header{}, Body: []byte(body)}
}

// rest is a request with a method, a path with query, and a body.
func rest(method, target, body string, header ...string) *wire.Request {
	path, query, _ := strings.Cut(target, "?")
	r := &wire.Request{Method: method, EscapedPath: path, RawQuery: query, Header: http.Header{}, Body: []byte(body)}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}
