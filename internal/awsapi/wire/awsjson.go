package wire

import (
	"net/http"
	"reflect"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// The JSON protocols 1.0 and 1.1: the operation in X-Amz-Target, everything else
// in the body. https://smithy.io/2.0/aws/protocols/aws-json-1_1-protocol.html

func decodeJSON(d *decoder, req *Request, p *plan, v reflect.Value) error {
	j, err := parseJSON(d.op.Service, req.Body)
	if err != nil {
		return err
	}
	return d.jsonStruct(j, p, v, "", "")
}

func encodeJSON(op *model.Operation, p *plan, v reflect.Value, requestID string, buf []byte) (*Response, error) {
	w := jsonWriter{b: buf}
	if p != nil {
		if err := w.structure(p, v); err != nil {
			return nil, err
		}
	}
	h := http.Header{"Content-Type": {jsonContentType(op.Service)}}
	setRequestID(h, requestID)
	return &Response{Status: op.Status, Header: h, Body: w.b}, nil
}

func jsonContentType(svc *model.Service) string {
	switch svc.Protocol {
	case model.ProtocolRESTJSON:
		return "application/json"
	default:
		version := svc.JSONVersion
		if version == "" {
			version = "1.1"
		}
		return "application/x-amz-json-" + version
	}
}
