package roundtrip_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go/aws"
	"github.com/aws/aws-sdk-go/aws/credentials"
	"github.com/aws/aws-sdk-go/aws/session"
	oldsqs "github.com/aws/aws-sdk-go/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// SQS still answers the query protocol, which its model no longer describes. The client of aws-sdk-go v1.44, the last
// to use it, checks whether our view of the model is right.
func TestSQSInTheQueryProtocolThroughTheOldSDK(t *testing.T) {
	svc, err := model.Get("sqs")
	if err != nil {
		t.Fatal(err)
	}
	view := svc.Query()
	client := sqs.New(sqs.Options{})
	n := 0
	for name, op := range view.Operations {
		t.Run(name, func(t *testing.T) {
			method, ok := reflect.TypeOf(client).MethodByName(name)
			if !ok {
				t.Fatalf("the SDK has no %s", name)
			}
			newer := func(path string) bool { return path == "ReceiveMessageRequest.MessageSystemAttributeNames" }
			g := newGenerator("query."+name, 1, newer, func(string) string { return "" })
			in := reflect.New(method.Type.In(2).Elem())
			g.structure(op.Input, in.Elem(), 0)
			out := reflect.New(method.Type.Out(0).Elem())
			if op.Output != nil {
				g.structure(op.Output, out.Elem(), 0)
			}

			decoded := reflect.New(in.Type().Elem())
			old := oldsqs.New(session.Must(session.NewSession(&aws.Config{
				Region: aws.String("us-east-1"), Endpoint: aws.String("http://127.0.0.1:1"), MaxRetries: aws.Int(0),
				Credentials:             credentials.NewStaticCredentials("AKIDEXAMPLE", "secret", ""),
				DisableComputeChecksums: aws.Bool(true),
			})), &aws.Config{
				HTTPClient: &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						return nil, err
					}
					if _, err := wire.Decode(op, &wire.Request{Method: r.Method, Header: r.Header, Body: body}, decoded.Interface()); err != nil {
						t.Errorf("decode %s: %v", body, err)
					}
					resp, err := wire.Encode(op, out.Interface(), "rid", "")
					if err != nil {
						return nil, err
					}
					return &http.Response{StatusCode: resp.Status, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(resp.Body)), Request: r}, nil
				})},
			})
			call := reflect.ValueOf(old).MethodByName(name + "WithContext")
			if !call.IsValid() {
				t.Skipf("the old SDK has no %s", name)
			}
			oldIn := reflect.New(call.Type().In(1).Elem())
			convert(t, in.Interface(), oldIn.Interface())
			// The old client also sends requests to a queue's URL.
			if f := oldIn.Elem().FieldByName("QueueUrl"); f.IsValid() {
				f.Set(reflect.ValueOf(aws.String("http://127.0.0.1:1/000000000000/q")))
				in.Elem().FieldByName("QueueUrl").Set(f)
			}
			res := call.Call([]reflect.Value{reflect.ValueOf(context.Background()), oldIn})
			if err, _ := res[1].Interface().(error); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(plain(t, in.Interface()), plain(t, decoded.Interface())); diff != "" {
				t.Errorf("input (-sent +decoded):\n%s", diff)
			}
			if diff := cmp.Diff(plain(t, out.Interface()), plain(t, res[0].Interface())); diff != "" {
				t.Errorf("output (-encoded +received):\n%s", diff)
			}
			n++
		})
	}
	t.Logf("%d operations", n)
}

// convert copies between the SDKs' structs, whose fields have the same names.
func convert(t *testing.T, from, to any) {
	t.Helper()
	b, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, to); err != nil {
		t.Fatal(err)
	}
}

// plain returns a struct as JSON without zero values, so that both SDKs' forms are equal.
func plain(t *testing.T, v any) any {
	t.Helper()
	var out any
	convert(t, v, &out)
	return dropZero(out)
}

func dropZero(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "ResultMetadata")
		for k, e := range v {
			if e = dropZero(e); e == nil {
				delete(v, k)
			} else {
				v[k] = e
			}
		}
		if len(v) == 0 {
			return nil
		}
		return v
	case []any:
		for i := range v {
			v[i] = dropZero(v[i])
		}
		if len(v) == 0 {
			return nil
		}
		return v
	case float64:
		if v == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	case bool:
		if !v {
			return nil
		}
	}
	return v
}
