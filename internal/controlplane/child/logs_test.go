package child

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditpolicy "k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/drydock-dev/drydock/internal/controlplane/launch"
)

func TestComponentOf(t *testing.T) {
	for want, functions := range map[string][]string{
		launch.Scheduler:              {"k8s.io/klog/v2.InfoS", "k8s.io/client-go/tools/cache.(*Reflector).Run", "k8s.io/kubernetes/pkg/scheduler.New"},
		launch.ControllerManager:      {"k8s.io/klog/v2.InfoS", "k8s.io/kubernetes/pkg/controller/replicaset.(*ReplicaSetController).Run", "main.main"},
		launch.CloudControllerManager: {"k8s.io/klog/v2.Infof", "k8s.io/cloud-provider-aws/pkg/providers/v1.(*Cloud).EnsureLoadBalancer", "k8s.io/cloud-provider/controllers/service.(*Controller).syncService"},
		launch.APIServer:              {"k8s.io/klog/v2.InfoS", "k8s.io/kubernetes/pkg/controlplane.(*Instance).InstallAPIs"},
	} {
		if got := componentOf(functions); got != want {
			t.Errorf("%v: %s, want %s", functions, got, want)
		}
	}
}

// TestAuditRules checks the levels that EKS documents for requests that matter.
func TestAuditRules(t *testing.T) {
	policy, err := auditpolicy.LoadPolicyFromBytes([]byte(auditRules))
	if err != nil {
		t.Fatal(err)
	}
	rules := auditpolicy.NewPolicyRuleEvaluator(policy)
	resource := func(who, verb, group, name, namespace, object string) authorizer.Attributes {
		return authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: who}, Verb: verb, APIGroup: group, Resource: name, Namespace: namespace, Name: object, ResourceRequest: true, APIVersion: "v1",
		}
	}
	for name, tc := range map[string]struct {
		request authorizer.Attributes
		want    auditinternal.Level
	}{
		"a change of aws-auth":  {resource("me", "patch", "", "configmaps", "kube-system", "aws-auth"), auditinternal.LevelRequestResponse},
		"another config map":    {resource("me", "patch", "", "configmaps", "kube-system", "other"), auditinternal.LevelMetadata},
		"a secret":              {resource("me", "create", "", "secrets", "default", "s"), auditinternal.LevelMetadata},
		"a token review":        {resource("me", "create", "authentication.k8s.io", "tokenreviews", "", ""), auditinternal.LevelMetadata},
		"a new pod":             {resource("me", "create", "", "pods", "default", "web"), auditinternal.LevelRequestResponse},
		"a list of deployments": {resource("me", "list", "apps", "deployments", "default", ""), auditinternal.LevelRequest},
		"an event":              {resource("me", "create", "", "events", "default", "e"), auditinternal.LevelNone},
		"a custom resource":     {resource("me", "create", "karpenter.sh", "nodepools", "", "default"), auditinternal.LevelMetadata},
		"kube-proxy's watch":    {resource("system:kube-proxy", "watch", "", "services", "", ""), auditinternal.LevelNone},
		"a health check":        {authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "me"}, Verb: "get", Path: "/healthz"}, auditinternal.LevelNone},
	} {
		if got := rules.EvaluatePolicyRule(tc.request).Level; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// While the audit log is disabled, requests are only observed until their resource is known not to be deprecated.
func TestObserved(t *testing.T) {
	policy, err := auditpolicy.LoadPolicyFromBytes([]byte(auditRules))
	if err != nil {
		t.Fatal(err)
	}
	l := &logs{usage: newUsage(nil)}
	l.enabled.Store(new([]string))
	rules := auditEvaluator{auditpolicy.NewPolicyRuleEvaluator(policy), l}
	for name, tc := range map[string]struct {
		group, resource string
		stage           auditinternal.Stage
		code            int32
		deprecated      string
		later           auditinternal.Level
	}{
		"a built-in resource":   {"apps", "deployments", auditinternal.StageResponseComplete, 201, "", auditinternal.LevelNone},
		"a refused request":     {"apps", "replicasets", auditinternal.StageResponseComplete, 403, "", auditinternal.LevelMetadata},
		"a deprecated resource": {"", "endpoints", auditinternal.StageResponseComplete, 200, "true", auditinternal.LevelMetadata},
		"a watch that began":    {"apps", "daemonsets", auditinternal.StageResponseStarted, 200, "", auditinternal.LevelMetadata},
		"a custom resource":     {"karpenter.sh", "nodepools", auditinternal.StageResponseComplete, 200, "", auditinternal.LevelMetadata},
	} {
		request := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "me"}, ResourceRequest: true, Verb: "create", APIGroup: tc.group, APIVersion: "v1", Resource: tc.resource, Namespace: "default"}
		level := func() auditinternal.Level { return rules.EvaluatePolicyRule(request).Level }
		if got := level(); got != auditinternal.LevelMetadata {
			t.Errorf("%s at first: %s", name, got)
		}
		event := &auditinternal.Event{
			Stage: tc.stage, ObjectRef: &auditinternal.ObjectReference{APIGroup: tc.group, APIVersion: "v1", Resource: tc.resource},
			ResponseStatus: &metav1.Status{Code: tc.code},
		}
		if tc.deprecated != "" {
			event.Annotations = map[string]string{deprecatedAnnotation: tc.deprecated}
		}
		countingBackend{auditBackend{l}, l}.ProcessEvents(event)
		if got := level(); got != tc.later {
			t.Errorf("%s later: %s, want %s", name, got, tc.later)
		}
		l.enabled.Store(&[]string{launch.Audit})
		if got := level(); got == auditinternal.LevelNone {
			t.Errorf("%s is not in the audit log", name)
		}
		l.enabled.Store(new([]string))
	}
}
