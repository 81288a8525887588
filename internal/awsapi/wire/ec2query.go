package wire

import (
	"net/http"
	"reflect"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// EC2's query protocol: parameters with capitals, lists always flattened
// (Filter.1.Value.1), answers in XML with a requestId and no result element.
// https://smithy.io/2.0/aws/protocols/aws-ec2-query-protocol.html

func decodeEC2(d *decoder, req *Request, p *plan, v reflect.Value) error {
	root, err := parseForm(d.op.Service, req)
	if err != nil {
		return err
	}
	return d.ec2Struct(root, p, v, "")
}

func (d *decoder) ec2Struct(n *formNode, p *plan, v reflect.Value, path string) error {
	for _, k := range n.kids {
		f := p.byEC2[k.name]
		if f == nil {
			return unknownParameter(k.path())
		}
		at := join(path, f.m.Name)
		d.members.Add(at)
		if f.plan == nil {
			d.unknown(k.path())
			continue
		}
		if err := d.ec2Value(k, f.plan, v.Field(f.index), at); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) ec2Value(n *formNode, p *plan, v reflect.Value, path string) error {
	switch p.kind {
	case kindStruct:
		if n.set && n.value != "" {
			return unknownParameter(n.path())
		}
		return d.ec2Struct(n, p, p.alloc(v), path)
	case kindList:
		if n.set && n.value != "" {
			return unknownParameter(n.path())
		}
		items, stray := n.items()
		if stray != nil {
			return unknownParameter(stray.path())
		}
		list := reflect.MakeSlice(p.typ, len(items), len(items))
		for i, k := range items {
			if err := d.ec2Value(k, p.elem, list.Index(i), path); err != nil {
				return err
			}
		}
		p.alloc(v).Set(list)
		return nil
	case kindMap, kindUnion, kindDocument, kindStream:
		d.unknown(n.path()) // EC2 has none in its requests
		return nil
	default:
		if len(n.kids) > 0 {
			return unknownParameter(n.kids[0].path())
		}
		if !p.setText(v, n.value) {
			return d.invalidText(p, n.path(), n.value)
		}
		return nil
	}
}

func encodeEC2(op *model.Operation, p *plan, v reflect.Value, requestID string, buf []byte) *Response {
	w := xmlWriter{b: append(buf, xmlHeader...), millis: true}
	w.open(op.Name+"Response", op.Service.XMLNamespace+"/")
	w.element("requestId", requestID)
	if p == nil || len(p.body) == 0 {
		w.element("return", "true") // the answer of operations without a result
	} else {
		w.structure(p, v)
	}
	w.close(op.Name + "Response")
	return xmlResponse(op.Status, w.b, requestID)
}

const xmlHeader = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

func xmlResponse(status int, body []byte, requestID string) *Response {
	h := http.Header{"Content-Type": {"text/xml;charset=UTF-8"}}
	setRequestID(h, requestID)
	return &Response{Status: status, Header: h, Body: body}
}

// setRequestID sets the header as AWS spells it. Clients ignore case, but some log x-amzn-requestid verbatim.
func setRequestID(h http.Header, id string) {
	if id != "" {
		h["X-Amzn-Requestid"] = []string{id}
	}
}
