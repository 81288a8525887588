package app

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// TestEndpointPoliciesBindEveryOperation: the policy of the VPC endpoint that a call came through limits each operation
// of each service, even for the account's root user and for operations that need no permission.
func TestEndpointPoliciesBindEveryOperation(t *testing.T) {
	var document string
	a := authz.New(authz.Config{
		Services:       operations(),
		Policies:       func(awsapi.Principal) (policy.Policies, bool) { return policy.Policies{}, true },
		EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return document, true },
	})
	register(t, a)
	for _, svc := range operations() {
		for _, op := range svc.Operations {
			if op.Unsigned || op.Exempt {
				continue // they are authorized while they run, if at all
			}
			in := reflect.New(reflect.ValueOf(svc.Handler).MethodByName(op.Name).Type().In(1).Elem())
			deepSample(in.Elem(), 4)
			call := &awsapi.Call{
				Service: svc.Name, Operation: op.Name, Account: "111122223333", Region: testkit.Region,
				Principal:   awsapi.Principal{Type: awsapi.Root, Account: "111122223333", ARN: "arn:aws:iam::111122223333:root"},
				VPCEndpoint: awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0", Account: "111122223333", Region: testkit.Region},
			}
			document = `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`
			if err := a.Authorize(t.Context(), call, in.Interface()); err != nil {
				t.Errorf("%s:%s with an endpoint policy that allows everything: %v", svc.Name, op.Name, err)
			}
			var actions []string
			for _, c := range a.Checks(t.Context(), call, in.Interface()) {
				actions = append(actions, c.Action)
			}
			slices.Sort(actions)
			for _, action := range slices.Compact(actions) {
				document = `{"Statement":[{"Effect":"Allow","Principal":"*","NotAction":"` + action + `","Resource":"*"}]}`
				want := "because no VPC endpoint policy allows the " + action + " action"
				if err := a.Authorize(t.Context(), call, in.Interface()); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s:%s: %v, want …%s", svc.Name, op.Name, err, want)
				}
			}
			if len(actions) == 0 {
				t.Errorf("%s:%s is not checked", svc.Name, op.Name)
			}
		}
	}
}
