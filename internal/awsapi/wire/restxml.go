package wire

import (
	"bytes"
	"net/http"
	"reflect"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// The restXml protocol of Route 53 and S3.
// https://smithy.io/2.0/aws/protocols/aws-restxml-protocol.html

func decodeRESTXML(d *decoder, req *Request, p *plan, v reflect.Value) error {
	if err := d.bindings(req, p, v); err != nil {
		return err
	}
	empty := len(bytes.TrimSpace(req.Body)) == 0
	pay := p.shape.Payload
	if pay == nil {
		root := &xmlNode{}
		if !empty && len(p.body) > 0 {
			var err error
			if root, err = parseXML(d.op.Service, req.Body); err != nil {
				return err
			}
		}
		return d.xmlStruct(root, p, v, "", "")
	}
	f := p.byName[pay.Name]
	if done, err := d.rawPayload(req, f, v); done || err != nil {
		return err
	}
	if empty {
		return nil
	}
	root, err := parseXML(d.op.Service, req.Body)
	if err != nil {
		return err
	}
	d.members.Add(pay.Name)
	return d.xmlValue(root, f.plan, v.Field(f.index), pay.Name, pay.Name)
}

func encodeRESTXML(op *model.Operation, p *plan, v reflect.Value, requestID string, buf []byte) (*Response, error) {
	r := &Response{Status: op.Status, Header: http.Header{}}
	setRequestID(r.Header, requestID)
	if op.Service.Name == "s3" && requestID != "" {
		r.Header["X-Amz-Request-Id"] = []string{requestID}
	}
	if op.Service.Name == "s3" && (op.Name == "PutBucketPolicy" || op.Name == "PutBucketTagging") {
		r.Status = http.StatusNoContent // which the model does not say; LocalStack's recordings of AWS do
	}
	if p == nil {
		return r, nil
	}
	responseBindings(r, p, v)
	if op.Service.Name == "s3" && r.Header.Get("Content-Range") != "" {
		r.Status = http.StatusPartialContent // which the model does not say
	}
	w := xmlWriter{b: buf}
	if pay := p.shape.Payload; pay != nil {
		f := p.byName[pay.Name]
		if encodeRawPayload(r, f, v, buf) {
			return r, nil
		}
		val, ok := f.plan.present(v.Field(f.index))
		if !ok {
			return r, nil
		}
		w.b = append(w.b, xmlHeader...)
		w.root(rootName(f), pay, f.plan, val, op.Service.XMLNamespace)
	} else {
		if len(p.body) == 0 {
			return r, nil
		}
		w.b = append(w.b, xmlHeader...)
		w.body(op, p, v)
	}
	r.Body = w.b
	contentType(r, "text/xml")
	return r, nil
}

// rootName returns the element of a payload: the member's wire name, or its structure's.
func rootName(f *field) string {
	switch {
	case f.m.LocationName != "":
		return f.m.LocationName
	case f.m.Shape.Element != "":
		return f.m.Shape.Element
	case f.m.Shape.Name != "":
		return f.m.Shape.Name
	default:
		return f.m.Name
	}
}

// root appends a payload structure as the document's root element.
func (w *xmlWriter) root(name string, m *model.Member, p *plan, v reflect.Value, namespace string) {
	if m.XMLNamespace == "" && namespace != "" {
		c := *m
		c.XMLNamespace = namespace
		m = &c
	}
	w.named(name, m, p, v)
}

// s3Roots are the elements in which S3 wraps its answers, if they are not named after their shape. SDKs ignore them;
// people and other clients do not.
var s3Roots = map[string]string{
	"ListObjects":             "ListBucketResult",
	"ListObjectsV2":           "ListBucketResult",
	"ListObjectVersions":      "ListVersionsResult",
	"ListBuckets":             "ListAllMyBucketsResult",
	"ListParts":               "ListPartsResult",
	"ListMultipartUploads":    "ListMultipartUploadsResult",
	"CreateMultipartUpload":   "InitiateMultipartUploadResult",
	"CompleteMultipartUpload": "CompleteMultipartUploadResult",
	"DeleteObjects":           "DeleteResult",
}

func (w *xmlWriter) body(op *model.Operation, p *plan, v reflect.Value) {
	if op.Service.Name == "s3" && op.Name == "GetBucketLocation" {
		// <LocationConstraint>eu-west-1</LocationConstraint> is the whole answer.
		text := ""
		if f := p.body[0]; f.plan != nil {
			if val, ok := f.plan.present(v.Field(f.index)); ok {
				text = val.String()
			}
		}
		w.open("LocationConstraint", op.Service.XMLNamespace)
		w.b = appendXMLText(w.b, text)
		w.close("LocationConstraint")
		return
	}
	name := p.shape.Element
	if s, ok := s3Roots[op.Name]; ok && op.Service.Name == "s3" {
		name = s
	}
	if name == "" {
		name = p.shape.Name
	}
	w.open(name, op.Service.XMLNamespace)
	w.structure(p, v)
	w.close(name)
}
