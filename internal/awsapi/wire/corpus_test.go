package wire_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"go/build"
	"io"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/model/botocore"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
	"github.com/drydock-dev/drydock/internal/awsapi/wire/shapetype"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// The corpus is AWS's protocol tests in github.com/aws/aws-sdk-go, read from the module cache. They were written for
// clients and are reversed here: a request that a client should make is decoded and must give the client's
// parameters, and a response that a client should understand must be what the encoder writes.

const corpusModule = "github.com/aws/aws-sdk-go"

// A suite is one of the corpus' test suites.
type suite struct {
	Description string                     `json:"description"`
	Metadata    botocore.Metadata          `json:"metadata"`
	Shapes      map[string]*botocore.Shape `json:"shapes"`
	Cases       []corpusCase               `json:"cases"`
}

type corpusCase struct {
	Given botocore.Operation `json:"given"`

	// of input cases
	Params     any `json:"params"`
	Serialized struct {
		Method  string            `json:"method"`
		URI     string            `json:"uri"`
		Host    string            `json:"host"`
		Body    string            `json:"body"`
		Headers map[string]string `json:"headers"`
	} `json:"serialized"`

	// of output cases
	Result   any `json:"result"`
	Response struct {
		StatusCode int               `json:"status_code"`
		Headers    map[string]string `json:"headers"`
		Body       string            `json:"body"`
	} `json:"response"`
}

// corpus returns the suites of a file under models/protocol_tests, or skips.
func corpus(t *testing.T, file string) []suite {
	t.Helper()
	dir := filepath.Join(build.Default.GOPATH, "pkg", "mod", corpusModule+"@v1.44.332")
	if _, err := os.Stat(dir); err != nil {
		out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", corpusModule).Output()
		dir = strings.TrimSpace(string(out))
		if err != nil || dir == "" {
			needs.Missing(t, "module %s is not in the module cache: go mod download %[1]s", corpusModule)
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "models", "protocol_tests", file))
	if err != nil {
		t.Fatal(err)
	}
	var suites []suite
	if err := json.Unmarshal(b, &suites); err != nil {
		t.Fatal(err)
	}
	return suites
}

// operation makes the operation of one case.
func (s *suite) operation(t *testing.T, c *corpusCase) *model.Operation {
	t.Helper()
	if c.Given.Name == "" {
		c.Given.Name = "OperationName"
	}
	s.Metadata.ServiceID = "Corpus"
	api := botocore.API{Metadata: s.Metadata, Shapes: s.Shapes, Operations: map[string]*botocore.Operation{c.Given.Name: &c.Given}}
	records, err := api.Records("corpus")
	if err != nil {
		t.Fatal(err)
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	svc, err := model.Parse(lines.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	op := svc.Operations[c.Given.Name]
	if !strings.Contains(c.Response.Body, "<"+op.ResultWrapper+">") {
		op.ResultWrapper = "" // a few old suites have none
	}
	return op
}

var corpusProtocols = []string{"ec2", "query", "json", "rest-json", "rest-xml"}

// inputExceptions are input cases that do not apply to a server, by file/suite/case, with the reason.
var inputExceptions = map[string]string{
	"rest-xml/26/0": "tests that clients trim headers; what they trimmed cannot be decoded",
}

func TestProtocolCorpusInputs(t *testing.T) {
	runCorpus(t, "input", inputExceptions, (*suite).runInput)
}

func runCorpus(t *testing.T, direction string, exceptions map[string]string, run func(*suite, *testing.T, *corpusCase)) {
	ran := 0
	for _, protocol := range corpusProtocols {
		for si, s := range corpus(t, direction+"/"+protocol+".json") {
			for ci := range s.Cases {
				c := &s.Cases[ci]
				name := fmt.Sprintf("%s/%d/%d", protocol, si, ci)
				t.Run(name+" "+s.Description, func(t *testing.T) {
					if why, ok := exceptions[name]; ok {
						t.Skip(why)
					}
					run(&s, t, c)
				})
				ran++
			}
		}
	}
	t.Logf("%d %s cases", ran, direction)
}

func (s *suite) runInput(t *testing.T, c *corpusCase) {
	op := s.operation(t, c)
	if op.Input == nil {
		op.Input = &model.Shape{Type: model.Structure}
	}
	path, query, _ := strings.Cut(c.Serialized.URI, "?")
	req := &wire.Request{
		Method: op.Method, EscapedPath: path, RawQuery: query, Host: c.Serialized.Host,
		Header: http.Header{}, Body: []byte(c.Serialized.Body),
	}
	for k, v := range c.Serialized.Headers {
		req.Header.Set(k, v)
	}
	if strings.HasPrefix(op.Service.Protocol, "rest-") {
		if got, ok := op.Service.MatchREST(op.Method, path, query); !ok || got != op {
			t.Errorf("%s %s is not routed to %s", op.Method, c.Serialized.URI, op.URI)
		}
	}
	in := reflect.New(shapetype.Of(op.Input, 8))
	members, err := wire.Decode(op, req, in.Interface())
	if err != nil {
		t.Fatalf("decode %q: %v", c.Serialized.Body, err)
	}
	for m := range members {
		if strings.ContainsAny(m, "/?") {
			t.Errorf("not decoded: %s", m)
		}
	}
	want := c.Params
	if want == nil {
		want = map[string]any{}
	}
	got := generic(op.Input, nil, in.Elem())
	if diff := cmp.Diff(normalize(op.Input, nil, want), normalize(op.Input, nil, got)); diff != "" {
		t.Errorf("request %s %q\nparameters (-want +got):\n%s", c.Serialized.URI, c.Serialized.Body, diff)
	}
}

// outputExceptions are output cases that a server need not produce.
var outputExceptions = map[string]string{
	"json/3/1":      "null elements: the SDK's lists cannot hold them",
	"json/5/0":      "an unmodelled member, which clients must ignore and servers do not send",
	"json/7/0":      "a body that is no JSON, which clients must ignore",
	"json/7/1":      "a body that is no object, which clients must ignore",
	"rest-json/0/0": "a timestamp as text without a format, which clients accept; AWS sends numbers",
	"rest-json/7/0": "an unmodelled member, which clients must ignore and servers do not send",
	"rest-json/8/0": "a body that is no JSON, which clients must ignore",
}

func TestProtocolCorpusOutputs(t *testing.T) {
	runCorpus(t, "output", outputExceptions, (*suite).runOutput)
}

func (s *suite) runOutput(t *testing.T, c *corpusCase) {
	op := s.operation(t, c)
	if op.Output == nil {
		op.Output = &model.Shape{Type: model.Structure}
	}
	out := reflect.New(shapetype.Of(op.Output, 8))
	result := c.Result
	if result == nil {
		result = map[string]any{}
	}
	fill(t, op.Output, nil, out.Elem(), result)
	r, err := wire.Encode(op, out.Interface(), "request-id", "")
	if err != nil {
		t.Fatal(err)
	}
	if r.Stream != nil {
		if r.Body, err = io.ReadAll(r.Stream); err != nil {
			t.Fatal(err)
		}
	}
	if c.Response.StatusCode != 0 && r.Status != c.Response.StatusCode {
		t.Errorf("status %d, want %d", r.Status, c.Response.StatusCode)
	}
	for k, want := range c.Response.Headers {
		if isMetadataHeader(k) {
			continue
		}
		if got := r.Header.Get(k); !sameHeader(got, want) {
			t.Errorf("header %s: %q, want %q", k, got, want)
		}
	}
	switch {
	case op.Output.Payload != nil && op.Output.Payload.Shape.Type != model.Structure && op.Output.Payload.Shape.Type != model.Document,
		c.Response.Body == "" && len(r.Body) == 0:
		if string(r.Body) != c.Response.Body {
			t.Errorf("body %q, want %q", r.Body, c.Response.Body)
		}
	case strings.Contains(op.Service.Protocol, "json"):
		if diff := cmp.Diff(jsonTree(t, c.Response.Body), jsonTree(t, string(r.Body))); diff != "" {
			t.Errorf("body %s\n(-want +got):\n%s", r.Body, diff)
		}
	default:
		if diff := cmp.Diff(xmlTree(t, c.Response.Body), xmlTree(t, string(r.Body))); diff != "" {
			t.Errorf("body %s\nwant %s\n(-want +got):\n%s", r.Body, c.Response.Body, diff)
		}
	}
}

func isMetadataHeader(k string) bool {
	k = strings.ToLower(k)
	return k == "content-type" || k == "content-length" || strings.HasPrefix(k, "x-amzn-request") || strings.HasPrefix(k, "x-amz-request")
}

// sameHeader compares header values; lists may or may not have a space after the
// comma.
func sameHeader(a, b string) bool {
	return strings.ReplaceAll(a, ", ", ",") == strings.ReplaceAll(b, ", ", ",")
}

func jsonTree(t *testing.T, s string) any {
	t.Helper()
	if strings.TrimSpace(s) == "" {
		return map[string]any{}
	}
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return v
}

// element is an XML element for comparison: children by name, request IDs and
// namespace declarations left out.
type element struct {
	Text  string
	Attrs map[string]string
	Kids  map[string][]element
}

func xmlTree(t *testing.T, s string) element {
	t.Helper()
	if strings.TrimSpace(s) == "" {
		return element{}
	}
	dec := xml.NewDecoder(strings.NewReader(s))
	for {
		tok, err := dec.Token()
		if err != nil {
			t.Fatalf("%q: %v", s, err)
		}
		if start, ok := tok.(xml.StartElement); ok {
			return xmlElement(t, dec, start)
		}
	}
}

func xmlElement(t *testing.T, dec *xml.Decoder, start xml.StartElement) element {
	t.Helper()
	var e element
	for _, a := range start.Attr {
		if a.Name.Space == "xmlns" || a.Name.Local == "xmlns" {
			continue
		}
		if e.Attrs == nil {
			e.Attrs = map[string]string{}
		}
		e.Attrs[a.Name.Local] = a.Value
	}
	for {
		tok, err := dec.Token()
		if err != nil {
			t.Fatal(err)
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			k := xmlElement(t, dec, tok)
			switch tok.Name.Local {
			case "RequestId", "requestId", "ResponseMetadata":
				continue
			}
			if e.Kids == nil {
				e.Kids = map[string][]element{}
			}
			kids := append(e.Kids[tok.Name.Local], k)
			if isMapEntry(k) {
				sort.Slice(kids, func(i, j int) bool { return fmt.Sprint(kids[i]) < fmt.Sprint(kids[j]) })
			}
			e.Kids[tok.Name.Local] = kids
		case xml.CharData:
			e.Text += string(tok)
		case xml.EndElement:
			if e.Kids != nil {
				e.Text = strings.TrimSpace(e.Text)
			}
			// EC2 writes milliseconds even when there are none.
			e.Text = strings.ReplaceAll(e.Text, ".000Z", "Z")
			return e
		}
	}
}

// isMapEntry tells the entries of a map, whose order has no meaning, by their
// two children.
func isMapEntry(e element) bool {
	return len(e.Kids) == 2 && (len(e.Kids["key"]) == 1 || len(e.Kids["foo"]) == 1 || len(e.Kids["K"]) == 1)
}

// generic turns a value into what the corpus writes for it.
func generic(s *model.Shape, m *model.Member, v reflect.Value) any {
	if v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice || v.Kind() == reflect.Map || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return nil
		}
	}
	if v.Kind() == reflect.Pointer && s.Type != model.Document {
		v = v.Elem()
	}
	switch s.Type {
	case model.Structure:
		out := map[string]any{}
		for _, mm := range s.Members {
			f := v.FieldByName(strings.ToUpper(mm.Name[:1]) + mm.Name[1:])
			if f.IsValid() {
				if g := generic(mm.Shape, mm, f); g != nil {
					out[mm.Name] = g
				}
			}
		}
		return out
	case model.List:
		out := []any{}
		for i := range v.Len() {
			out = append(out, generic(s.Elem.Shape, s.Elem, v.Index(i)))
		}
		return out
	case model.Map:
		out := map[string]any{}
		for it := v.MapRange(); it.Next(); {
			out[it.Key().String()] = generic(s.Value.Shape, s.Value, it.Value())
		}
		return out
	case model.Timestamp:
		return float64(v.Interface().(time.Time).UnixMilli()) / 1000
	case model.Blob:
		if r, ok := v.Interface().(io.Reader); ok {
			b, _ := io.ReadAll(r)
			return string(b)
		}
		return string(v.Bytes())
	case model.String:
		if m != nil && m.JSONValue {
			var j any
			if json.Unmarshal([]byte(v.String()), &j) == nil {
				return j
			}
		}
		return v.String()
	default:
		return v.Interface()
	}
}

// normalize makes values comparable: numbers are float64, floats have float32
// precision, and tokens that SDKs fill in, empty lists and empty payloads, which
// are not on the wire, are left out.
func normalize(s *model.Shape, m *model.Member, v any) any {
	switch s.Type {
	case model.Structure:
		in, _ := v.(map[string]any)
		out := map[string]any{}
		for _, mm := range s.Members {
			val, ok := in[mm.Name]
			if !ok || val == nil || mm.IdempotencyToken {
				continue
			}
			n := normalize(mm.Shape, mm, val)
			if isEmpty(n) && (mm.Location != model.Body || mm.Streaming || mm == s.Payload) {
				continue
			}
			out[mm.Name] = n
		}
		return out
	case model.List:
		in, _ := v.([]any)
		out := []any{}
		for _, e := range in {
			out = append(out, normalize(s.Elem.Shape, s.Elem, e))
		}
		return out
	case model.Map:
		in, _ := v.(map[string]any)
		out := map[string]any{}
		for k, e := range in {
			if m != nil && m.Location == model.Headers {
				k = http.CanonicalHeaderKey(k) // HTTP does not keep the case
			}
			out[k] = normalize(s.Value.Shape, s.Value, e)
		}
		return out
	}
	rv := reflect.ValueOf(v)
	switch {
	case !rv.IsValid():
		return nil
	case rv.CanInt():
		return float64(rv.Int())
	case rv.CanFloat():
		if f := float32(rv.Float()); s.Type == model.Float || s.Type == model.Double {
			return float64(f)
		}
		return rv.Float()
	}
	return v
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return v == nil
}

// fill fills v with what the corpus says a client should see.
func fill(t *testing.T, s *model.Shape, m *model.Member, v reflect.Value, from any) {
	t.Helper()
	if from == nil {
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	switch s.Type {
	case model.Structure:
		for name, val := range from.(map[string]any) {
			mm := s.Member(name)
			if mm == nil {
				t.Fatalf("no member %s", name)
			}
			fill(t, mm.Shape, mm, v.FieldByName(strings.ToUpper(name[:1])+name[1:]), val)
		}
	case model.List:
		in := from.([]any)
		v.Set(reflect.MakeSlice(v.Type(), len(in), len(in)))
		for i, e := range in {
			fill(t, s.Elem.Shape, s.Elem, v.Index(i), e)
		}
	case model.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for k, e := range from.(map[string]any) {
			val := reflect.New(v.Type().Elem()).Elem()
			fill(t, s.Value.Shape, s.Value, val, e)
			v.SetMapIndex(reflect.ValueOf(k), val)
		}
	case model.Timestamp:
		ms := int64(math.Round(from.(float64) * 1000))
		v.Set(reflect.ValueOf(time.UnixMilli(ms).UTC()))
	case model.Blob:
		if v.Kind() == reflect.Interface {
			v.Set(reflect.ValueOf(strings.NewReader(from.(string))))
			return
		}
		v.SetBytes([]byte(from.(string)))
	case model.Document:
		v.Set(reflect.ValueOf(from))
	case model.String:
		if m != nil && m.JSONValue {
			b, err := json.Marshal(from)
			if err != nil {
				t.Fatal(err)
			}
			v.SetString(string(b))
			return
		}
		v.SetString(from.(string))
	case model.Boolean:
		v.SetBool(from.(bool))
	case model.Integer, model.Long:
		v.SetInt(int64(from.(float64)))
	case model.Float, model.Double:
		switch f := from.(type) {
		case float64:
			v.SetFloat(f)
		case string: // NaN, Infinity
			v.SetFloat(map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}[f])
		}
	}
}
