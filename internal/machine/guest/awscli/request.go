package awscli

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
)

// maxAnswer bounds the size of a service's answer.
const maxAnswer = 8 << 20

// call calls an operation.
func (c *command) call(ctx context.Context, op *model.Operation, in map[string]any) (map[string]any, error) {
	region, err := c.region(ctx)
	if err != nil {
		return nil, err
	}
	base := c.g.endpoint
	if base == "" {
		base = "https://" + host(op.Service, region)
	}
	for _, m := range members(op.Input) {
		if _, ok := in[m.Name]; m.IdempotencyToken && !ok {
			in[m.Name] = token()
		}
	}
	req, err := request(ctx, op, strings.TrimSuffix(base, "/"), in)
	if err != nil {
		return nil, err
	}
	if op.Service.GlobalEndpoint != "" && op.Service.Name != "sts" {
		region = "us-east-1"
	}
	resp, body, err := c.send(ctx, req, op.Service.SigningName, region, op.Unsigned)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		return nil, serviceError(op, resp, body)
	}
	out, err := parse(op, resp, body)
	if text, ok := out["TemplateBody"].(string); ok && op.Service.Name == "cloudformation" {
		// botocore parses templates that are JSON: botocore/handlers.py, json_decode_template_body.
		var template map[string]any
		if json.Unmarshal([]byte(text), &template) == nil {
			out["TemplateBody"] = template
		}
	}
	return out, err
}

// host returns a service's endpoint. For STS it is the regional one, as in version 2.
func host(svc *model.Service, region string) string {
	if svc.GlobalEndpoint != "" && svc.Name != "sts" {
		return svc.GlobalEndpoint
	}
	return svc.EndpointPrefix + "." + region + ".amazonaws.com"
}

// send signs a request and sends it.
func (c *command) send(ctx context.Context, req *http.Request, service, region string, unsigned bool) (*http.Response, []byte, error) {
	if !unsigned && !c.g.unsigned {
		creds, err := c.credentials(ctx)
		if err != nil {
			return nil, nil, err
		}
		body := []byte{}
		if req.GetBody != nil {
			r, err := req.GetBody()
			if err != nil {
				return nil, nil, err
			}
			if body, err = io.ReadAll(r); err != nil {
				return nil, nil, err
			}
		}
		sum := sha256.Sum256(body)
		hash := hex.EncodeToString(sum[:])
		if service == "s3" {
			req.Header.Set("X-Amz-Content-Sha256", hash)
		}
		if err := v4.NewSigner().SignHTTP(ctx, creds, req, hash, service, region, c.Now()); err != nil {
			return nil, nil, err
		}
	}
	req.Header.Set("User-Agent", strings.Split(version, " ")[0])
	resp, err := c.HTTP.RoundTrip(req)
	if err != nil {
		return nil, nil, networkError(err, req.URL.String())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil || len(body) > maxAnswer {
		return nil, nil, networkError(err, req.URL.String())
	}
	return resp, body, nil
}

func members(s *model.Shape) []*model.Member {
	if s == nil {
		return nil
	}
	return s.Members
}

// token returns a new client token.
func token() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// request encodes a call in its service's protocol.
func request(ctx context.Context, op *model.Operation, base string, in map[string]any) (*http.Request, error) {
	svc := op.Service
	switch svc.Protocol {
	case model.ProtocolQuery, model.ProtocolEC2:
		form := url.Values{"Action": {op.Name}, "Version": {svc.APIVersion}}
		f := former{form: form, ec2: svc.Protocol == model.ProtocolEC2}
		if op.Input != nil {
			f.structure("", op.Input, in)
		}
		return newRequest(ctx, http.MethodPost, base+"/", []byte(form.Encode()), "application/x-www-form-urlencoded; charset=utf-8")
	case model.ProtocolJSON:
		body, err := json.Marshal(wireJSON(op.Input, in))
		if err != nil {
			return nil, err
		}
		req, err := newRequest(ctx, http.MethodPost, base+"/", body, "application/x-amz-json-"+svc.JSONVersion)
		if err == nil {
			req.Header.Set("X-Amz-Target", svc.TargetPrefix+"."+op.Name)
		}
		return req, err
	case model.ProtocolRESTJSON:
		return restRequest(ctx, op, base, in)
	}
	return nil, unsupported("the protocol of " + svc.Name)
}

func newRequest(ctx context.Context, method, target string, body []byte, contentType string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err == nil && len(body) > 0 {
		req.Header.Set("Content-Type", contentType)
	}
	return req, err
}

// restRequest puts the members where the model says: into the path, the query, headers or the body.
func restRequest(ctx context.Context, op *model.Operation, base string, in map[string]any) (*http.Request, error) {
	uri, literal, _ := strings.Cut(op.URI, "?")
	query, err := url.ParseQuery(literal)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	body := map[string]any{}
	for _, m := range members(op.Input) {
		v, ok := in[m.Name]
		if !ok {
			continue
		}
		switch name := m.WireName(); m.Location {
		case model.Label:
			s := scalar(v)
			if s == "" {
				return nil, &failure{status: statusUsage, text: fmt.Sprintf("\nParameter validation failed:\nInvalid length for parameter %s, value: 0, valid min length: 1", m.Name)}
			}
			uri = strings.ReplaceAll(uri, "{"+name+"+}", strings.ReplaceAll(escape(s), "%2F", "/"))
			uri = strings.ReplaceAll(uri, "{"+name+"}", escape(s))
		case model.QueryString:
			switch v := v.(type) {
			case []any:
				for _, x := range v {
					query.Add(name, scalar(x))
				}
			case map[string]any:
				for _, k := range slices.Sorted(maps.Keys(v)) {
					query.Add(k, scalar(v[k]))
				}
			default:
				query.Set(name, scalar(v))
			}
		case model.Header:
			header.Set(name, scalar(v))
		case model.Headers:
			return nil, unsupported("the parameter " + m.Name)
		default:
			body[name] = wireValue(m, v)
		}
	}
	var raw []byte
	if len(body) > 0 {
		if raw, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	target := base + uri
	if len(query) > 0 {
		target += "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
	}
	method := op.Method
	if method == "" {
		method = http.MethodPost
	}
	req, err := newRequest(ctx, method, target, raw, "application/json")
	if err != nil {
		return nil, err
	}
	for k, v := range header {
		req.Header[k] = v
	}
	return req, nil
}

// escape escapes a label as SDKs do: only unreserved characters stay.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// wireJSON renames members to their names on the wire.
func wireJSON(s *model.Shape, v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, x := range v {
			switch {
			case s != nil && s.Type == model.Map:
				out[k] = wireJSON(s.Value.Shape, x)
			case s != nil && s.Member(k) != nil:
				m := s.Member(k)
				out[m.WireName()] = wireJSON(m.Shape, x)
			default:
				out[k] = x
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = x
			if s != nil && s.Elem != nil {
				out[i] = wireJSON(s.Elem.Shape, x)
			}
		}
		return out
	}
	return v
}

func wireValue(m *model.Member, v any) any { return wireJSON(m.Shape, v) }

// scalar returns a value as text, numbers without an exponent.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}

// former encodes the protocols query and ec2.
type former struct {
	form url.Values
	ec2  bool
}

func (f former) name(m *model.Member) string {
	switch {
	case !f.ec2:
		return m.WireName()
	case m.QueryName != "":
		return m.QueryName
	}
	n := m.WireName()
	return strings.ToUpper(n[:1]) + n[1:]
}

func (f former) structure(prefix string, s *model.Shape, in map[string]any) {
	for _, m := range s.Members {
		v, ok := in[m.Name]
		if !ok {
			continue
		}
		f.value(strings.TrimPrefix(prefix+"."+f.name(m), "."), m, v)
	}
}

func (f former) value(prefix string, m *model.Member, v any) {
	s := m.Shape
	switch v := v.(type) {
	case map[string]any:
		if s.Type != model.Map {
			f.structure(prefix, s, v)
			return
		}
		if !m.IsFlattened() {
			prefix += ".entry"
		}
		key, value := "key", "value"
		if n := s.Key.LocationName; n != "" {
			key = n
		}
		if n := s.Value.LocationName; n != "" {
			value = n
		}
		for i, k := range slices.Sorted(maps.Keys(v)) {
			at := prefix + "." + strconv.Itoa(i+1)
			f.form.Set(at+"."+key, k)
			f.value(at+"."+value, s.Value, v[k])
		}
	case []any:
		if len(v) == 0 && !f.ec2 {
			f.form.Set(prefix, "")
		}
		if !f.ec2 {
			elem := "member"
			if n := s.Elem.LocationName; n != "" {
				elem = n
			}
			switch {
			case !m.IsFlattened():
				prefix += "." + elem
			case s.Elem.LocationName != "":
				prefix = prefix[:strings.LastIndexByte(prefix, '.')+1] + elem
			}
		}
		for i, x := range v {
			f.value(prefix+"."+strconv.Itoa(i+1), s.Elem, x)
		}
	default:
		f.form.Set(prefix, scalar(v))
	}
}
