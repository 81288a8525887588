package roundtrip_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// A trip is one operation's way through an SDK client: the request is captured,
// decoded and answered by answer.
type trip struct {
	svc    *model.Service
	op     *model.Operation
	answer func(req *wire.Request) (*wire.Response, error)
}

// Do implements aws.HTTPClient.
func (t *trip) Do(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	if r.ContentLength != 0 {
		r.Header.Set("Content-Length", fmt.Sprint(r.ContentLength))
	}
	resp, err := t.answer(&wire.Request{
		Method: r.Method, EscapedPath: r.URL.EscapedPath(), RawQuery: r.URL.RawQuery,
		Host: r.Host, Header: r.Header, Body: body,
	})
	if err != nil {
		return nil, err
	}
	answer, length := resp.Stream, int64(-1)
	if answer == nil {
		answer, length = io.NopCloser(bytes.NewReader(resp.Body)), int64(len(resp.Body))
	}
	return &http.Response{
		StatusCode: resp.Status, Header: resp.Header, Request: r,
		Body: answer, ContentLength: length,
	}, nil
}

func config(client aws.HTTPClient) aws.Config {
	return aws.Config{
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", ""),
		HTTPClient:   client,
		BaseEndpoint: aws.String("http://127.0.0.1:1"),
		Retryer:      func() aws.Retryer { return aws.NopRetryer{} },
		// Checksums that S3 does not require would change the bodies.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}
}

type counts struct{ operations, excluded, requests, lacking int }

func TestEveryOperationThroughTheSDK(t *testing.T) {
	start := time.Now()
	var total counts
	lacking := map[string]bool{}
	for _, name := range model.Names() {
		svc, err := model.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			newClient := clients[name]
			if newClient == nil {
				if why, ok := exclusions[name]; ok {
					total.excluded += len(svc.Operations)
					t.Skip(why)
				}
				t.Fatalf("no client for %s", name)
			}
			var ops []string
			for op := range svc.Operations {
				ops = append(ops, op)
			}
			sort.Strings(ops)
			for _, op := range ops {
				t.Run(op, func(t *testing.T) {
					total.operations++
					if why, ok := exclusions[name+"."+op]; ok {
						total.excluded++
						t.Skip(why)
					}
					for i, density := range []float64{1, 0.7, 0.4, 0.1, 0} {
						through(t, svc.Operations[op], newClient, fmt.Sprintf("%s.%s.%d", name, op, i), density, lacking)
						total.requests++
						if t.Failed() || t.Skipped() {
							return
						}
					}
				})
			}
		})
	}
	for path := range lacking {
		svc, member, _ := strings.Cut(path, ":")
		if lookup(exclusions, &model.Service{Name: svc}, member) == "" {
			t.Errorf("the SDK lacks %s; say so in exclusions", path)
		}
	}
	total.lacking = len(lacking)
	t.Logf("%d operations, %d excluded; %d round trips; %d members the SDK lacks; %v", total.operations, total.excluded, total.requests, total.lacking, time.Since(start).Round(time.Millisecond))
}

// through sends one random request of op and one random answer.
func through(t *testing.T, op *model.Operation, newClient func(aws.Config) any, seed string, density float64, lacking map[string]bool) {
	t.Helper()
	tr := &trip{svc: op.Service, op: op}
	method := reflect.ValueOf(newClient(config(tr))).MethodByName(op.Name)
	if !method.IsValid() {
		t.Errorf("the SDK has no %s.%s; say so in exclusions", op.Service.Name, op.Name)
		return
	}
	skip := func(path string) bool { return lookup(exclusions, op.Service, path) != "" }
	g := newGenerator(seed, density, skip, func(path string) string { return lookup(fixed, op.Service, path) })
	in := reflect.New(method.Type().In(1).Elem())
	if op.Input != nil {
		g.structure(op.Input, in.Elem(), 0)
	}
	paths := g.paths
	out := reflect.New(method.Type().Out(0).Elem())
	g.paths = map[string]bool{}
	if op.Output != nil {
		g.structure(op.Output, out.Elem(), 0)
	}
	for path := range g.lacking {
		lacking[op.Service.Name+":"+path] = true
	}
	wantIn, wantOut := snapshot(in), snapshot(out)

	var decoded reflect.Value
	var members awsapi.Members
	var decodeErr error
	tr.answer = func(req *wire.Request) (*wire.Response, error) {
		decoded = reflect.New(in.Type().Elem())
		if strings.HasPrefix(op.Service.Protocol, "rest-") {
			if got, ok := op.Service.MatchREST(req.Method, req.EscapedPath, req.RawQuery); !ok {
				decodeErr = fmt.Errorf("%s %s?%s matches no operation", req.Method, req.EscapedPath, req.RawQuery)
			} else if got != op && exclusions["route:"+op.Service.Name+"."+op.Name] == "" {
				decodeErr = fmt.Errorf("%s %s?%s is routed to %s", req.Method, req.EscapedPath, req.RawQuery, got.Name)
			}
		}
		if decodeErr == nil {
			members, decodeErr = wire.Decode(op, req, decoded.Interface())
			for m := range members {
				if strings.ContainsAny(m, "/?") && decodeErr == nil {
					decodeErr = fmt.Errorf("unknown parameter %s in %s %s\n%s", m, req.EscapedPath, req.RawQuery, req.Body)
				}
			}
		}
		return wire.Encode(op, out.Interface(), "00000000-0000-4000-8000-000000000000", "")
	}
	res := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), in})
	if decodeErr != nil {
		t.Errorf("decode: %v", decodeErr)
		return
	}
	if err, _ := res[1].Interface().(error); err != nil {
		t.Errorf("client: %v", err)
		return
	}
	for _, shown := range []any{wire.TrailRequest(op, decoded.Interface()), wire.TrailResponse(op, out.Interface(), "id")} {
		if _, err := json.Marshal(shown); err != nil {
			t.Errorf("CloudTrail: %v", err)
		}
	}
	if op.Input != nil {
		sortQueryLists(op.Input, reflect.ValueOf(wantIn.([]any)[0]))
		clearFilled(op, reflect.ValueOf(wantIn.([]any)[0]), decoded)
		if diff := cmp.Diff(paths, presence(op, members, paths)); diff != "" {
			t.Errorf("members (-sent +decoded):\n%s", diff)
		}
		if diff := compare(wantIn, snapshot(decoded)); diff != "" {
			t.Errorf("input (-sent +decoded):\n%s", diff)
		}
	}
	if diff := compare(wantOut, snapshot(res[0])); diff != "" {
		t.Errorf("output (-encoded +received):\n%s", diff)
	}
}

// lookup finds what a table says of a member, or of members of that name in any
// structure.
func lookup(table map[string]string, svc *model.Service, path string) string {
	if s, ok := table[svc.Name+":"+path]; ok {
		return s
	}
	return table[svc.Name+":*"+path[strings.IndexByte(path, '.'):]]
}

// presence is the set of decoded members without those that the SDK filled in.
func presence(op *model.Operation, got awsapi.Members, sent map[string]bool) map[string]bool {
	out := map[string]bool{}
	for m := range got {
		top := op.Input.Member(m)
		if !sent[m] && (top != nil && top.IdempotencyToken || lookup(filled, op.Service, op.Input.Name+"."+m) != "") {
			continue
		}
		out[m] = true
	}
	return out
}

// sortQueryLists sorts lists in the URL's query as the SDK does when it signs.
func sortQueryLists(s *model.Shape, sent reflect.Value) {
	for _, m := range s.Members {
		if m.Location != model.QueryString || m.Shape.Type != model.List {
			continue
		}
		if f, ok := fieldOf(sent.Type().Elem(), m.Name); ok {
			l := sent.Elem().FieldByIndex(f.Index)
			sort.Slice(l.Interface(), func(i, j int) bool { return l.Index(i).String() < l.Index(j).String() })
		}
	}
}

// clearFilled removes the members that the SDK filled in: idempotency tokens, and
// what is listed in filled.
func clearFilled(op *model.Operation, sent, decoded reflect.Value) {
	for _, m := range op.Input.Members {
		if !m.IdempotencyToken && lookup(filled, op.Service, op.Input.Name+"."+m.Name) == "" {
			continue
		}
		f, ok := fieldOf(sent.Type().Elem(), m.Name)
		if ok && sent.Elem().FieldByIndex(f.Index).IsZero() {
			decoded.Elem().FieldByIndex(f.Index).SetZero()
		}
	}
}

// snapshot is a copy of a struct in which streams are read out.
func snapshot(v reflect.Value) any {
	e := v.Elem()
	c := reflect.New(e.Type())
	c.Elem().Set(e)
	streams := map[string]string{}
	for i := range e.NumField() {
		f := c.Elem().Field(i)
		if !f.CanSet() {
			continue
		}
		if e.Type().Field(i).Name == "ResultMetadata" {
			f.SetZero()
			continue
		}
		if f.Kind() != reflect.Interface || f.IsNil() {
			continue
		}
		if r, ok := f.Interface().(io.Reader); ok {
			b, _ := io.ReadAll(r)
			if len(b) > 0 { // the SDK sends no body for an empty stream
				streams[e.Type().Field(i).Name] = string(b)
			}
			f.SetZero()
			// Put it back for the next reader.
			if s, ok := r.(io.Seeker); ok {
				_, _ = s.Seek(0, io.SeekStart)
			} else {
				e.Field(i).Set(reflect.ValueOf(io.NopCloser(bytes.NewReader(b))))
			}
		}
	}
	return []any{c.Interface(), streams}
}

var compareOptions = cmp.Options{
	cmpopts.IgnoreUnexported(),
	cmp.FilterPath(func(p cmp.Path) bool {
		sf, ok := p.Last().(cmp.StructField)
		return ok && !exported(sf.Name())
	}, cmp.Ignore()),
	cmpopts.EquateEmpty(),
}

func exported(name string) bool { return name[0] >= 'A' && name[0] <= 'Z' }

func compare(a, b any) string {
	if reflect.DeepEqual(a, b) {
		return ""
	}
	return cmp.Diff(a, b, compareOptions)
}
