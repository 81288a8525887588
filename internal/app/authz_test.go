package app

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// TestEveryOperationIsAuthorized fails when a handled operation is in no row of the
// authorization reference nor of the overlay. With -v it lists what each operation
// asks for of what resources.
func TestEveryOperationIsAuthorized(t *testing.T) {
	a := authz.New(authz.Config{Policies: func(awsapi.Principal) (policy.Policies, bool) { return policy.Policies{}, false }})
	var b strings.Builder
	for _, svc := range constantServices().services() {
		for _, op := range svc.Operations {
			name := authz.Prefix(svc.Name) + ":" + op.Name
			if op.Unsigned {
				continue
			}
			if !authz.Mapped(svc.Name, op.Name) {
				t.Errorf("%s is handled, and the authorization reference has no action for it: give it a row in internal/authz/overlay.go", name)
				continue
			}
			method := reflect.ValueOf(svc.Handler).MethodByName(op.Name)
			call := &awsapi.Call{
				Service: svc.Name, Operation: op.Name, Account: "111122223333", Region: "us-east-1",
				Time: time.Unix(0, 0), SourceIP: netip.MustParseAddr("203.0.113.10"),
				Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: "111122223333", Name: "me", ARN: "arn:aws:iam::111122223333:user/me"},
			}
			in := reflect.New(method.Type().In(1).Elem())
			sample(in.Elem())
			b.WriteString(name + "\n")
			for _, c := range a.Checks(context.Background(), call, in.Interface()) {
				b.WriteString("\t" + c.Action + " " + c.Resource + "\n")
			}
		}
	}
	t.Log("what operations ask for:\n" + b.String())
}

// sample gives every text and list of texts of an input its own name.
func sample(in reflect.Value) {
	for i := range in.NumField() {
		f, name := in.Field(i), in.Type().Field(i).Name
		switch {
		case f.Type() == reflect.TypeFor[*string]():
			f.Set(reflect.ValueOf(&name))
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{name}))
		}
	}
}
