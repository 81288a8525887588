package wire

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// This file binds the members that the REST protocols send outside the body: path labels, query parameters, headers,
// the status code.

// bindings fills in the members outside the body.
func (d *decoder) bindings(req *Request, p *plan, v reflect.Value) error {
	labels, ok := d.op.PathLabels(req.EscapedPath)
	if !ok {
		return malformed(d.op.Service, "The request path does not match "+d.op.URI+".")
	}
	query, err := url.ParseQuery(req.RawQuery)
	if err != nil {
		return malformed(d.op.Service, "The query string is not URL-encoded.")
	}
	used := map[string]bool{}
	for _, k := range d.op.QueryLiterals() {
		used[k] = true
	}
	for _, f := range p.fields {
		if f.m.Location == model.QueryString && f.m.Shape.Type != model.Map {
			used[f.m.WireName()] = true
		}
	}
	for _, f := range p.fields {
		var err error
		present := false
		switch f.m.Location {
		case model.Label:
			// If the SDK's model places the label elsewhere, nothing can be done.
			if s, ok := labels[f.m.WireName()]; ok {
				present = true
				err = d.text(f, v, s, f.m.WireName())
			}
		case model.QueryString:
			present, err = d.queryString(f, v, query, used)
		case model.Header:
			present, err = d.header(req, f, v, query)
		case model.Headers:
			present = d.prefixHeaders(req, f, v)
		default:
			continue
		}
		if err != nil {
			return err
		}
		if present {
			d.members.Add(f.m.Name)
		}
	}
	for k := range query {
		if !used[k] && !isRequestParam(k) {
			d.unknown("?" + k)
		}
	}
	return nil
}

// text sets a scalar member from its text. If the SDK's type cannot hold the member, text records it as unknown.
func (d *decoder) text(f *field, v reflect.Value, s, param string) error {
	if f.plan == nil || !isScalar(f.plan.kind) {
		d.unknown(param)
		return nil
	}
	if f.m.JSONValue && f.m.Location == model.Header {
		b, err := decodeBase64(s)
		if err != nil {
			return d.invalidText(f.plan, param, s)
		}
		s = string(b)
	}
	if !f.plan.setText(v.Field(f.index), s) {
		return d.invalidText(f.plan, param, s)
	}
	return nil
}

func (d *decoder) queryString(f *field, v reflect.Value, query url.Values, used map[string]bool) (bool, error) {
	if f.plan != nil && f.plan.kind == kindMap {
		return d.queryMapAll(f, v, query, used)
	}
	vals, ok := query[f.m.WireName()]
	if !ok {
		return false, nil
	}
	if f.plan != nil && f.plan.kind == kindList {
		return true, d.texts(f, v, vals, f.m.WireName())
	}
	return true, d.text(f, v, vals[0], f.m.WireName())
}

// texts sets a list of scalars.
func (d *decoder) texts(f *field, v reflect.Value, vals []string, param string) error {
	p := f.plan
	list := reflect.MakeSlice(p.typ, len(vals), len(vals))
	for i, s := range vals {
		if !p.elem.setText(list.Index(i), s) {
			return d.invalidText(p.elem, param, s)
		}
	}
	p.alloc(v.Field(f.index)).Set(list)
	return nil
}

// queryMapAll fills in a map member that takes every query parameter not claimed by another member.
func (d *decoder) queryMapAll(f *field, v reflect.Value, query url.Values, used map[string]bool) (bool, error) {
	p := f.plan
	out := reflect.MakeMap(p.typ)
	for k, vals := range query {
		if used[k] || isRequestParam(k) {
			continue
		}
		elem := reflect.New(p.typ.Elem()).Elem()
		if p.elem.kind == kindList {
			list := reflect.MakeSlice(p.elem.typ, len(vals), len(vals))
			for i, s := range vals {
				if !p.elem.elem.setText(list.Index(i), s) {
					return true, d.invalidText(p.elem.elem, k, s)
				}
			}
			elem.Set(list)
		} else if !p.elem.setText(elem, vals[0]) {
			return true, d.invalidText(p.elem, k, vals[0])
		}
		out.SetMapIndex(reflect.ValueOf(k).Convert(p.typ.Key()), elem)
	}
	for k := range query {
		used[k] = true
	}
	if out.Len() == 0 {
		return false, nil
	}
	p.alloc(v.Field(f.index)).Set(out)
	return true, nil
}

// header sets a member from a header, or from the query parameter that replaces it in a presigned URL.
func (d *decoder) header(req *Request, f *field, v reflect.Value, query url.Values) (bool, error) {
	name := f.m.WireName()
	vals := req.Header.Values(name)
	if len(vals) == 0 && isRequestParam(name) {
		for k, q := range query {
			if strings.EqualFold(k, name) {
				vals = q
			}
		}
	}
	if strings.EqualFold(name, "Host") && req.Host != "" {
		vals = []string{req.Host}
	}
	if len(vals) == 0 {
		return false, nil
	}
	if f.plan != nil && f.plan.kind == kindList {
		return true, d.texts(f, v, splitHeader(vals, f.plan.elem.kind == kindTime), name)
	}
	return true, d.text(f, v, strings.Join(vals, ","), name)
}

// splitHeader splits header lines at commas, except within quotes. RFC 822 dates contain a comma of their own.
func splitHeader(lines []string, dates bool) []string {
	var out []string
	for _, line := range lines {
		for {
			line = strings.TrimLeft(line, " \t")
			if strings.HasPrefix(line, `"`) {
				s, rest, ok := unquoteHeader(line)
				if ok {
					out = append(out, s)
					if rest == "" {
						break
					}
					line = rest[1:]
					continue
				}
			}
			i := strings.IndexByte(line, ',')
			if dates && i == 3 { // "Mon, 16 Dec 2019 …"
				if j := strings.IndexByte(line[i+1:], ','); j >= 0 {
					i += 1 + j
				} else {
					i = -1
				}
			}
			if i < 0 {
				out = append(out, strings.TrimSpace(line))
				break
			}
			out = append(out, strings.TrimSpace(line[:i]))
			line = line[i+1:]
		}
	}
	return out
}

// unquoteHeader reads a quoted element; rest begins with the comma after it.
func unquoteHeader(s string) (value, rest string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			if i++; i < len(s) {
				b.WriteByte(s[i])
			}
		case '"':
			rest = strings.TrimLeft(s[i+1:], " \t")
			return b.String(), rest, rest == "" || rest[0] == ','
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}

// prefixHeaders fills in a map from the headers with a prefix. Header names are case-insensitive; S3 keeps those of
// metadata in lower case.
func (d *decoder) prefixHeaders(req *Request, f *field, v reflect.Value) bool {
	if f.plan == nil || f.plan.kind != kindMap || f.plan.elem.kind != kindString {
		return false
	}
	prefix := http.CanonicalHeaderKey(f.m.LocationName)
	out := reflect.MakeMap(f.plan.typ)
	for k, vals := range req.Header {
		if len(vals) == 0 || len(k) < len(prefix) || !strings.EqualFold(k[:len(prefix)], prefix) {
			continue
		}
		elem := reflect.New(f.plan.typ.Elem()).Elem()
		f.plan.elem.setText(elem, strings.Join(vals, ",")) // a string accepts any text
		out.SetMapIndex(reflect.ValueOf(strings.ToLower(k[len(prefix):])).Convert(f.plan.typ.Key()), elem)
	}
	if out.Len() == 0 {
		return false
	}
	f.plan.alloc(v.Field(f.index)).Set(out)
	return true
}

// responseBindings sets the headers and status from the members of v.
func responseBindings(r *Response, p *plan, v reflect.Value) {
	for _, f := range p.fields {
		if f.plan == nil || f.m.Location == model.Body {
			continue
		}
		val, ok := f.plan.present(v.Field(f.index))
		if !ok || !f.plan.ptr && isScalar(f.plan.kind) && val.IsZero() {
			continue
		}
		switch f.m.Location {
		case model.StatusCode:
			if n := int(val.Int()); n >= 200 && n <= 599 {
				r.Status = n
			}
		case model.Headers:
			for _, k := range sortedMapKeys(val) {
				if e, ok := f.plan.elem.present(val.MapIndex(k)); ok || e.Kind() == reflect.String {
					name := f.m.LocationName + k.String()
					setHeader(r.Header, name, e.String())
					if f.m.LocationName == "x-amz-meta-" { // in lower case, which botocore keeps
						canonical := http.CanonicalHeaderKey(name)
						r.Header[strings.ToLower(name)] = r.Header[canonical]
						delete(r.Header, canonical)
					}
				}
			}
		case model.Header:
			setHeader(r.Header, f.m.WireName(), headerText(f, val))
		}
	}
}

func headerText(f *field, v reflect.Value) string {
	format := f.m.TimestampFormat
	if format == "" {
		format = formatRFC822
	}
	if f.plan.kind == kindList {
		parts := make([]string, 0, v.Len())
		for i := range v.Len() {
			e, _ := f.plan.elem.present(v.Index(i))
			s := string(f.plan.elem.appendText(nil, e, format, false))
			if f.plan.elem.kind == kindString && strings.ContainsAny(s, `,"`) {
				s = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
			}
			parts = append(parts, s)
		}
		return strings.Join(parts, ", ")
	}
	s := string(f.plan.appendText(nil, v, format, false))
	if f.m.JSONValue {
		s = base64.StdEncoding.EncodeToString([]byte(s))
	}
	return s
}

// setHeader sets a header, making sure that its value cannot split the response.
func setHeader(h http.Header, name, value string) {
	value = strings.Map(func(r rune) rune {
		if r == '\r' || r == '\n' || r == 0 {
			return ' '
		}
		return r
	}, value)
	h[http.CanonicalHeaderKey(name)] = []string{value}
}
