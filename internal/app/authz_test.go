package app

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// TestEveryOperationIsAuthorized fails if a handled operation is neither in the authorization reference nor in the
// overlay. With -v it lists each operation's actions and resources.
func TestEveryOperationIsAuthorized(t *testing.T) {
	a := authz.New(authz.Config{Policies: func(awsapi.Principal) (policy.Policies, bool) { return policy.Policies{}, false }})
	var b strings.Builder
	for _, svc := range operations() {
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

// sampleARNs are members whose text determines the kind of resource that they name.
var sampleARNs = map[string]string{
	"LoadBalancerArn": "loadbalancer/app/web/0123456789abcdef",
	"TargetGroupArn":  "targetgroup/web/0123456789abcdef",
	"ListenerArn":     "listener/app/web/0123456789abcdef/0123456789abcdef",
	"RuleArn":         "listener-rule/app/web/0123456789abcdef/0123456789abcdef/0123456789abcdef",
	"ResourceArns":    "targetgroup/web/0123456789abcdef",
}

// sample fills every text and list of texts in an input with its own name, or an ARN.
func sample(in reflect.Value) {
	for i := range in.NumField() {
		f, name := in.Field(i), in.Type().Field(i).Name
		if a, ok := sampleARNs[name]; ok && strings.HasPrefix(in.Type().PkgPath(), "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2") {
			name = arn.New("elasticloadbalancing", "us-east-1", "111122223333", a)
		}
		switch {
		case !f.CanSet():
		case f.Type() == reflect.TypeFor[*string]():
			f.Set(reflect.ValueOf(&name))
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{name}))
		}
	}
}
