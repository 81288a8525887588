package app

import (
	"context"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	awseks "github.com/aws/aws-sdk-go-v2/service/eks"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// TestEveryOperationIsAuthorized fails if a handled operation is neither in the authorization reference nor in a row
// of its service. With -v it lists each operation's actions and resources.
func TestEveryOperationIsAuthorized(t *testing.T) {
	a := authz.New(authz.Config{Services: operations(), Policies: func(awsapi.Principal) (policy.Policies, bool) { return policy.Policies{}, false }})
	var b strings.Builder
	for _, svc := range operations() {
		for _, op := range svc.Operations {
			name := authz.Prefix(svc.Name) + ":" + op.Name
			if op.Unsigned {
				continue
			}
			if !a.Mapped(svc.Name, op.Name) {
				t.Errorf("%s is handled, and the authorization reference has no action for it: give it a row in the service's authorization", name)
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

// TestEKSNamesWhatItLists: actions without resources are still checked for an ARN, which policies may name.
func TestEKSNamesWhatItLists(t *testing.T) {
	for op, tt := range map[string]struct {
		in       any
		resource string
	}{
		"ListClusters":            {&awseks.ListClustersInput{}, "arn:aws:eks:us-east-1:111122223333:cluster/*"},
		"DescribeClusterVersions": {&awseks.DescribeClusterVersionsInput{}, "arn:aws:eks:us-east-1:111122223333:*"},
	} {
		t.Run(op, func(t *testing.T) {
			authorize := func(resource string) error {
				doc, err := policy.Parse(policy.Identity, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"eks:`+op+`","Resource":"`+resource+`"}]}`)
				if err != nil {
					t.Fatal(err)
				}
				a := authz.New(authz.Config{Services: operations(), Policies: func(awsapi.Principal) (policy.Policies, bool) {
					return policy.Policies{Identity: []policy.Source{{Name: "inline", Document: doc}}}, false
				}})
				return a.Authorize(t.Context(), &awsapi.Call{
					Service: "eks", Operation: op, Account: "111122223333", Region: "us-east-1",
					Principal: awsapi.Principal{Type: awsapi.IAMUser, Account: "111122223333", Name: "me", ARN: "arn:aws:iam::111122223333:user/me"},
				}, tt.in)
			}
			err := authorize("arn:aws:eks:*:*:cluster/dev")
			if want := "on resource: " + tt.resource + " because no identity-based policy allows the eks:" + op + " action"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
			if err := authorize(tt.resource); err != nil {
				t.Error(err)
			}
		})
	}
}
