package roundtrip_test

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/model"
	"github.com/drydock-dev/drydock/internal/awsapi/wire"
)

// Every error that an operation's model lists must reach the client as the SDK's
// exception: named by a handler by its code, and as the exception with all its
// members.
func TestEveryModelledErrorThroughTheSDK(t *testing.T) {
	n := 0
	for _, name := range model.Names() {
		newClient := clients[name]
		if newClient == nil {
			continue
		}
		svc, err := model.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			seen := map[*model.Shape]bool{}
			for _, op := range slices.SortedFunc(maps.Values(svc.Operations), func(a, b *model.Operation) int { return strings.Compare(a.Name, b.Name) }) {
				if exclusions[name+"."+op.Name] != "" {
					continue
				}
				for _, shape := range op.Errors {
					if seen[shape] {
						continue
					}
					seen[shape] = true
					n++
					t.Run(op.Name+"/"+shape.Name, func(t *testing.T) { errorThrough(t, op, shape, newClient) })
				}
			}
		})
	}
	t.Logf("%d exceptions", n)
}

func errorThrough(t *testing.T, op *model.Operation, shape *model.Shape, newClient func(aws.Config) any) {
	t.Helper()
	got := callWithError(t, op, newClient, awserr.New(shape.Code, "It & <that>."))
	typ := reflect.TypeOf(got)
	if typ.Elem().Name() != upperFirst(shape.Name) && exclusions[op.Service.Name+":"+shape.Name] == "" {
		t.Errorf("client sees %T (%v), want %s", got, got, shape.Name)
		return
	}
	if shape.Member("message") == nil && shape.Member("Message") == nil && strings.Contains(op.Service.Protocol, "json") {
		return // the SDK does not read a message that the model does not have
	}
	if got.ErrorMessage() != "It & <that>." {
		t.Errorf("message %q", got.ErrorMessage())
	}
	if typ.Elem().Name() == "GenericAPIError" {
		return
	}
	g := newGenerator(op.Name+shape.Name, 1, func(path string) bool { return strings.HasSuffix(strings.ToLower(path), ".code") }, func(string) string { return "" })
	sent := reflect.New(typ.Elem())
	g.structure(shape, sent.Elem(), 1)
	if f := sent.Elem().FieldByName("Message"); f.IsValid() && f.IsNil() {
		f.Set(reflect.ValueOf(aws.String("It & <that>."))) // some models do not have it
	}
	want := snapshot(sent)
	again := callWithError(t, op, newClient, sent.Interface().(error))
	if f := reflect.ValueOf(again).Elem().FieldByName("ErrorCodeOverride"); f.IsValid() {
		f.SetZero() // the SDK keeps the wire code there
	}
	if diff := compare(want, snapshot(reflect.ValueOf(again))); diff != "" {
		t.Errorf("exception (-sent +received):\n%s", diff)
	}
}

// callWithError calls op with its required members and answers with err; it
// returns the client's error.
func callWithError(t *testing.T, op *model.Operation, newClient func(aws.Config) any, answer error) smithy.APIError {
	t.Helper()
	tr := &trip{svc: op.Service, op: op}
	tr.answer = func(*wire.Request) (*wire.Response, error) {
		return wire.EncodeError(op.Service, op, answer, "00000000-0000-4000-8000-000000000000"), nil
	}
	method := reflect.ValueOf(newClient(config(tr))).MethodByName(op.Name)
	g := newGenerator(op.Name, 0, func(string) bool { return false }, func(path string) string { return lookup(fixed, op.Service, path) })
	in := reflect.New(method.Type().In(1).Elem())
	if op.Input != nil {
		g.structure(op.Input, in.Elem(), 0)
	}
	res := method.Call([]reflect.Value{reflect.ValueOf(context.Background()), in})
	err, _ := res[1].Interface().(error)
	var api smithy.APIError
	if !errors.As(err, &api) {
		t.Fatalf("client's error is %v", err)
	}
	return api
}
