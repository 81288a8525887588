package why

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// Where a pod's logs are not is said of pods of Fargate only.
func TestWherePodsOfFargateLog(t *testing.T) {
	sends := &node.Step{Name: node.StepLogs, OK: true, Evidence: "logs are sent to /shop"}
	for _, tt := range []struct {
		scheduler, says, runtime string
		sends                    *node.Step
		want                     string
	}{
		{"fargate-scheduler", "LoggingEnabled", "", nil, "LoggingEnabled, but nothing is sent: containers of simulated machines write no logs"},
		{"fargate-scheduler", "LoggingEnabled", "containers", nil, "LoggingEnabled: the log router has not started"},
		{"fargate-scheduler", "LoggingEnabled", "containers", sends, "LoggingEnabled: logs are sent to /shop"},
		{"fargate-scheduler", "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND", "containers", nil, "LoggingDisabled: LOGGING_CONFIGMAP_NOT_FOUND: Fargate's log router"},
		{"fargate-scheduler", "", "", nil, ""},
		{"default-scheduler", "LoggingEnabled", "", nil, ""},
	} {
		c := &podChain{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"Logging": tt.says}}, Spec: corev1.PodSpec{SchedulerName: tt.scheduler}}}
		c.logging(tt.runtime, tt.sends)
		if got := strings.Join(c.Notes, ""); !strings.HasPrefix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s, %q: %q", tt.scheduler, tt.says, got)
		}
	}
}

// What keeps CoreDNS off Fargate, where there are no other nodes, is an annotation: taking it
// away comes before a node group.
func TestAnAnnotationKeepsPodsOffFargate(t *testing.T) {
	c := &podChain{
		facts: &eks.PodFacts{Cluster: "dev", Region: "us-east-1"},
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: "coredns-5d4b-x", Namespace: "kube-system", Labels: map[string]string{"pod-template-hash": "5d4b"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "coredns-5d4b"}},
		}},
	}
	c.fargate(&fargateExplanation{})
	if got := c.moreNodes(); len(got) != 1 || got[0].Sketch == "" {
		t.Errorf("without the annotation: %+v", got)
	}
	c.fargate(&fargateExplanation{ByAnnotation: true})
	const want = `kubectl patch deployment/coredns --namespace kube-system --type json -p '[{"op":"remove","path":"/spec/template/metadata/annotations/eks.amazonaws.com~1compute-type"}]'`
	if got := c.moreNodes(); len(got) != 2 || got[0].Shell() != want || got[0].Sketch != "" {
		t.Errorf("%+v, want %s", got, want)
	}
}
