package wire

import (
	"bytes"
	"io"
	"net/http"
	"reflect"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// The restJson1 protocol of EKS: path labels, query parameters and headers according to the model's bindings, and the
// other members in a JSON body. https://smithy.io/2.0/aws/protocols/aws-restjson1-protocol.html

func decodeRESTJSON(d *decoder, req *Request, p *plan, v reflect.Value) error {
	if err := d.bindings(req, p, v); err != nil {
		return err
	}
	pay := p.shape.Payload
	if pay == nil {
		if len(p.body) == 0 && len(bytes.TrimSpace(req.Body)) == 0 {
			return nil
		}
		j, err := parseJSON(d.op.Service, req.Body)
		if err != nil {
			return err
		}
		return d.jsonStruct(j, p, v, "", "")
	}
	f := p.byName[pay.Name]
	if done, err := d.rawPayload(req, f, v); done || err != nil {
		return err
	}
	if len(bytes.TrimSpace(req.Body)) == 0 {
		return nil
	}
	j, err := parseJSON(d.op.Service, req.Body)
	if err != nil {
		return err
	}
	d.members.Add(pay.Name)
	return d.jsonValue(j, pay, f.plan, v.Field(f.index), pay.Name, "")
}

// rawPayload fills in a payload that is the raw body: a stream, bytes or text. done is false if the payload is a
// structure.
func (d *decoder) rawPayload(req *Request, f *field, v reflect.Value) (done bool, err error) {
	if f.plan == nil {
		if len(req.Body) > 0 {
			d.unknown(f.m.Name)
		}
		return true, nil
	}
	target := v.Field(f.index)
	switch f.plan.kind {
	case kindStream:
		if req.Stream != nil {
			target.Set(reflect.ValueOf(req.Stream))
			d.members.Add(f.m.Name)
			return true, nil
		}
		r := io.NopCloser(bytes.NewReader(req.Body))
		if reflect.TypeOf(r).AssignableTo(f.plan.typ) {
			target.Set(reflect.ValueOf(r))
		} else {
			target.Set(reflect.ValueOf(bytes.NewReader(req.Body)))
		}
	case kindBlob:
		if len(req.Body) > 0 {
			f.plan.alloc(target).SetBytes(req.Body)
		}
	case kindString:
		if len(req.Body) > 0 {
			f.plan.setText(target, string(req.Body))
		}
	default:
		return false, nil
	}
	if len(req.Body) > 0 {
		d.members.Add(f.m.Name)
	}
	return true, nil
}

func encodeRESTJSON(op *model.Operation, p *plan, v reflect.Value, requestID string, buf []byte) (*Response, error) {
	r := &Response{Status: op.Status, Header: http.Header{}}
	setRequestID(r.Header, requestID)
	if p == nil {
		return r, nil
	}
	responseBindings(r, p, v)
	w := jsonWriter{b: buf}
	if pay := p.shape.Payload; pay != nil {
		f := p.byName[pay.Name]
		if encodeRawPayload(r, f, v, buf) {
			return r, nil
		}
		if val, ok := f.plan.present(v.Field(f.index)); ok {
			if err := w.value(pay, f.plan, val); err != nil {
				return nil, err
			}
		} else {
			w.b = append(w.b, "{}"...)
		}
	} else if err := w.structure(p, v); err != nil {
		return nil, err
	}
	r.Body = w.b
	contentType(r, "application/json")
	return r, nil
}

// encodeRawPayload writes a payload that is the raw body. It returns false if the payload is a structure.
func encodeRawPayload(r *Response, f *field, v reflect.Value, buf []byte) bool {
	if f.plan == nil {
		return true
	}
	val, ok := f.plan.present(v.Field(f.index))
	switch f.plan.kind {
	case kindStream:
		if ok {
			r.Stream = val.Interface().(io.ReadCloser)
			if r.Header.Get("Content-Type") == "" {
				r.Header["Content-Type"] = []string{"application/octet-stream"}
			}
		}
	case kindBlob:
		if ok {
			r.Body = append(buf, val.Bytes()...)
		}
		contentType(r, "application/octet-stream")
	case kindString:
		if ok {
			r.Body = append(buf, val.String()...)
		}
		contentType(r, "text/plain")
	default:
		return false
	}
	return true
}

// contentType sets the type of a body unless a member bound to that header has set it.
func contentType(r *Response, typ string) {
	if r.Header.Get("Content-Type") == "" && len(r.Body) > 0 {
		r.Header["Content-Type"] = []string{typ}
	}
}
