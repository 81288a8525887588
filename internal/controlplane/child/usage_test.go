package child

import (
	"net/http"
	"net/http/httptest"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// BenchmarkCounting measures what the counter costs per request, with the audit log disabled.
func BenchmarkCounting(b *testing.B) {
	policy, err := auditpolicy.LoadPolicyFromBytes([]byte(auditRules))
	if err != nil {
		b.Fatal(err)
	}
	l := &logs{usage: newUsage(nil)}
	l.enabled.Store(new([]string))
	for name, rules := range map[string]audit.PolicyRuleEvaluator{
		"off": nothing{}, "on": auditEvaluator{auditpolicy.NewPolicyRuleEvaluator(policy), l},
	} {
		b.Run(name, func(b *testing.B) {
			handler := filters.WithAuditInit(filters.WithAudit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusOK) }),
				countingBackend{auditBackend{l}, l}, rules, nil))
			req := httptest.NewRequest(http.MethodPut, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", nil)
			ctx := request.WithUser(req.Context(), &user.DefaultInfo{Name: "system:node:n", Groups: []string{"system:nodes"}})
			req = req.WithContext(request.WithRequestInfo(ctx, &request.RequestInfo{
				IsResourceRequest: true, Verb: "update", APIGroup: "coordination.k8s.io", APIVersion: "v1", Resource: "leases", Namespace: "kube-node-lease", Name: "n",
			}))
			b.ReportAllocs()
			for b.Loop() {
				handler.ServeHTTP(httptest.NewRecorder(), req)
			}
		})
	}
}

type nothing struct{}

func (nothing) EvaluatePolicyRule(authorizer.Attributes) audit.RequestAuditConfig {
	return audit.RequestAuditConfig{Level: auditinternal.LevelNone}
}
