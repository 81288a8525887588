package wire

import (
	"net/http"
	"reflect"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// The query protocol of IAM, STS, Auto Scaling and others: lists as Names.member.1, maps as Attributes.entry.1.key,
// answers in XML with a result element and ResponseMetadata, or the same in JSON for clients that ask for it
// (aws-iam-authenticator does with STS). https://smithy.io/2.0/aws/protocols/aws-query-protocol.html

func decodeQuery(d *decoder, req *Request, p *plan, v reflect.Value) error {
	root, err := parseForm(d.op.Service, req)
	if err != nil {
		return err
	}
	return d.queryStruct(root, p, v, "")
}

func (d *decoder) queryStruct(n *formNode, p *plan, v reflect.Value, path string) error {
	for _, k := range n.kids {
		f := p.byQuery[k.name]
		if f == nil {
			if f = p.byXML[k.name]; f == nil {
				d.unknown(k.path())
				continue
			}
		}
		at := join(path, f.m.Name)
		d.members.Add(at)
		if f.plan == nil {
			d.unknown(k.path())
			continue
		}
		target := v
		if p.kind == kindStruct {
			target = v.Field(f.index)
		} else {
			target = setUnion(v, f)
		}
		if err := d.queryValue(k, f.m, f.plan, target, at); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) queryValue(n *formNode, m *model.Member, p *plan, v reflect.Value, path string) error {
	switch p.kind {
	case kindStruct, kindUnion:
		return d.queryStruct(n, p, p.alloc(v), path)
	case kindList:
		return d.queryList(n, m, p, v, path)
	case kindMap:
		return d.queryMap(n, m, p, v, path)
	case kindDocument, kindStream:
		d.unknown(n.path())
		return nil
	default:
		for _, k := range n.kids {
			d.unknown(k.path())
		}
		if !p.setText(v, n.value) {
			return d.invalidText(p, n.path(), n.value)
		}
		return nil
	}
}

func (d *decoder) queryList(n *formNode, m *model.Member, p *plan, v reflect.Value, path string) error {
	at := n
	if !m.IsFlattened() {
		name := p.shape.Elem.LocationName
		if name == "" {
			name = "member"
		}
		at = nil
		for _, k := range n.kids {
			if k.name == name || k.name == "member" {
				at = k
			} else {
				d.unknown(k.path())
			}
		}
	}
	var items []*formNode
	if at != nil {
		var stray *formNode
		if items, stray = at.items(); stray != nil {
			d.unknown(stray.path())
			return nil
		}
	}
	list := reflect.MakeSlice(p.typ, len(items), len(items))
	for i, k := range items {
		if err := d.queryValue(k, p.shape.Elem, p.elem, list.Index(i), path); err != nil {
			return err
		}
	}
	p.alloc(v).Set(list)
	return nil
}

func (d *decoder) queryMap(n *formNode, m *model.Member, p *plan, v reflect.Value, path string) error {
	at := n
	if !m.IsFlattened() {
		at = nil
		for _, k := range n.kids {
			if k.name == "entry" {
				at = k
			} else {
				d.unknown(k.path())
			}
		}
	}
	out := reflect.MakeMap(p.typ)
	p.alloc(v).Set(out)
	if at == nil {
		return nil
	}
	items, stray := at.items()
	if stray != nil {
		d.unknown(stray.path())
		return nil
	}
	keyName, valueName := mapNames(p.shape)
	for _, k := range items {
		key, value := reflect.New(p.typ.Key()).Elem(), reflect.New(p.typ.Elem()).Elem()
		for _, kv := range k.kids {
			var err error
			switch kv.name {
			case keyName:
				err = d.queryValue(kv, p.shape.Key, p.key, key, path)
			case valueName:
				err = d.queryValue(kv, p.shape.Value, p.elem, value, path)
			default:
				d.unknown(kv.path())
			}
			if err != nil {
				return err
			}
		}
		out.SetMapIndex(key, value)
	}
	return nil
}

// mapNames returns the names of a map's keys and values in XML and queries.
func mapNames(s *model.Shape) (key, value string) {
	key, value = "key", "value"
	if s.Key.LocationName != "" {
		key = s.Key.LocationName
	}
	if s.Value.LocationName != "" {
		value = s.Value.LocationName
	}
	return key, value
}

func encodeQuery(op *model.Operation, p *plan, v reflect.Value, requestID, accept string, buf []byte) (*Response, error) {
	if wantsJSON(accept) {
		return encodeQueryJSON(op, p, v, requestID, buf)
	}
	w := xmlWriter{b: buf}
	w.open(op.Name+"Response", op.Service.XMLNamespace)
	switch {
	case p == nil:
	case op.ResultWrapper == "":
		w.structure(p, v)
	default:
		w.open(op.ResultWrapper, "")
		w.structure(p, v)
		w.close(op.ResultWrapper)
	}
	w.open("ResponseMetadata", "")
	w.element("RequestId", requestID)
	w.close("ResponseMetadata")
	w.close(op.Name + "Response")
	r := xmlResponse(op.Status, w.b, requestID)
	r.Header["Content-Type"] = []string{"text/xml"}
	return r, nil
}

// wantsJSON reports whether an Accept header asks a query service for JSON.
func wantsJSON(accept string) bool {
	return strings.Contains(accept, "application/json") || strings.Contains(accept, "application/x-amz-json")
}

func encodeQueryJSON(op *model.Operation, p *plan, v reflect.Value, requestID string, buf []byte) (*Response, error) {
	w := jsonWriter{b: buf}
	w.b = append(w.b, '{')
	w.b = appendJSONString(w.b, op.Name+"Response")
	w.b = append(w.b, ":{"...)
	if p != nil {
		w.b = appendJSONString(w.b, op.ResultWrapper)
		w.b = append(w.b, ':')
		if err := w.structure(p, v); err != nil {
			return nil, err
		}
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, `"ResponseMetadata":{"RequestId":`...)
	w.b = appendJSONString(w.b, requestID)
	w.b = append(w.b, "}}}"...)
	h := http.Header{"Content-Type": {"application/json"}}
	setRequestID(h, requestID)
	return &Response{Status: op.Status, Header: h, Body: w.b}, nil
}
